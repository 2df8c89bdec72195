"""Trees: the ensembles of scikit-learn, LightGBM and XGBoost as one plain data structure, and how they are entered.

Random forests average probabilities or values, so they are read as they predict. Boosted trees add up margins, so
boosted classifiers are entered in margin space: class probabilities are the same numbers, and the margin itself
(``behavior="logit"``) is a sum of leaves. What cannot be read exactly is refused with a reason, never approximated. No
library is imported for the sake of a look: estimators are known by the names of their classes.
"""

from bivshap_lightning.game.trees.ensemble import LEAF, Tree, TreeEnsemble, TreesRefused, check_trees
from bivshap_lightning.game.trees.scoring import Entrance, entrance_of, read_trees

__all__ = ["LEAF", "Entrance", "Tree", "TreeEnsemble", "TreesRefused", "check_trees", "entrance_of", "read_trees"]
