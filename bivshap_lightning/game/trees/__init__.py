"""Tree ensembles of scikit-learn, LightGBM and XGBoost, converted to one data structure of tensors.

The output of a random forest, a mean of probabilities or values, is a sum over its leaves. Of a boosted classifier only
the margin is (``behavior="logit"`` explains it); class probabilities are derived from it. Models that cannot be
converted exactly are refused with a reason, never approximated. Estimators are recognised by the names of their
classes, so that no library has to be imported.
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
