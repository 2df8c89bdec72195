"""Tree ensembles of scikit-learn, LightGBM and XGBoost, converted to one data structure of tensors.

Random forests average probabilities or values, so they are read as they predict. Boosted trees add up margins, so
boosted classifiers are called for their margins: class probabilities follow from them, and the margin itself
(``behavior="logit"``) is a sum of leaves. What cannot be converted exactly is refused with a reason, never
approximated. Estimators are recognised by the names of their classes, so that no library has to be imported.
"""

from bivshap_lightning.game.trees.ensemble import LEAF, Tree, TreeEnsemble, UnsupportedTreesError, check_trees
from bivshap_lightning.game.trees.scoring import ScoringMethod, read_trees, scoring_method

__all__ = [
    "LEAF",
    "ScoringMethod",
    "Tree",
    "TreeEnsemble",
    "UnsupportedTreesError",
    "check_trees",
    "read_trees",
    "scoring_method",
]
