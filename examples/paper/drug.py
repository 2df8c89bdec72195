"""Drug consumption: a random forest on six yes-or-no questions; a drug that was never used is an absent feature."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from examples.paper.study import Options, Study, as_floats, data_file

DOWNLOAD = "https://archive.ics.uci.edu/ml/machine-learning-databases/00373/drug_consumption.data"
# fmt: off
COLUMNS = [
    "ID", "Age", "Gender", "Education", "Country", "Ethnicity", "Nscore", "Escore", "Oscore", "Ascore", "Cscore",
    "Impulsive", "SS", "Alcohol", "Amphet", "Amyl", "Benzos", "Caff", "Cannabis", "Choc", "Coke", "Crack", "Ecstasy",
    "Heroin", "Ketamine", "Legalh", "LSD", "Meth", "Mushrooms", "Nicotine", "Semer", "VSA",
]
# fmt: on
# Those of the authors' code; the paper's text names cocaine and ecstasy in place of methadone and heroin.
FEATURES = ["Nicotine", "Crack", "Meth", "Heroin", "Cannabis", "Mushrooms"]


def load(options: Options) -> Study:
    """Train the forest with the authors' split: seed 1, a quarter for testing, all features at every split."""
    frame = pd.read_csv(data_file(options, "drug/drug_consumption.data", DOWNLOAD), header=None, names=COLUMNS)
    x, y = (frame[FEATURES] != "CL0").to_numpy(dtype=np.float32), (frame["LSD"] != "CL0").to_numpy(dtype=np.int64)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.25, random_state=1)
    model = RandomForestClassifier(n_estimators=100, max_features=None, random_state=1).fit(x, y)
    return Study(
        name="drug", model=model, inputs=as_floats(x_test), labels=y_test, accuracy=float(model.score(x_test, y_test)),
        n_train=len(x), n_test=len(x_test),
        training=as_floats(x), baselines=0, feature_names=tuple(FEATURES), batch_size=118,
    )  # fmt: skip


if __name__ == "__main__":
    from examples.paper.experiment import main

    main("drug")
