"""Tables through the front door: frames with names and categories, groups of columns, typical rows."""

import numpy as np
import pandas as pd
import pytest
import torch
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.game.players import Columns
from bivshap_lightning.game.removal import typical_row
from tests.oracles import enumerate_e2


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, 60),
            "income": rng.normal(30.0, 5.0, 60),
            "job": rng.choice(["clerk", "smith", "nurse"], 60),
            "city": pd.Categorical(rng.choice(["north", "south"], 60), categories=["north", "south", "west"]),
            "member": rng.random(60) > 0.5,
        }
    )


@pytest.fixture
def pipeline(frame):
    wants = (frame["age"] > 38) ^ (frame["job"] == "nurse") | (frame["city"] == "south") & frame["member"]
    columns = make_column_transformer(
        (StandardScaler(), ["age", "income"]), (OneHotEncoder(handle_unknown="error"), ["job", "city", "member"])
    )
    return make_pipeline(columns, LogisticRegression()).fit(frame, wants)


def oracle(pipeline, row, stand_ins, players, target):
    """E2 of one row, coalition by coalition, in pandas."""

    def value(present):
        kept = [column for k, columns in enumerate(players) if k in present for column in columns]
        rows = stand_ins.copy()
        for column in kept:
            rows[column] = [row[column]] * len(rows)
        rows = rows.astype({"job": object})
        return float(pipeline.predict_proba(rows)[:, target].mean())

    return enumerate_e2(value, len(players))


@pytest.mark.parametrize("with_background", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_frames_against_enumeration(frame, pipeline, grouped, with_background):
    groups = {"person": ["age", "member"], "work": ["job", "inc*"]} if grouped else {}
    players = [["age", "member"], ["income", "job"], ["city"]] if grouped else [[c] for c in frame.columns]
    stand_ins = frame.iloc[10:14] if with_background else typical_row(frame)
    how = {"background": stand_ins} if with_background else {"baselines": stand_ins}
    explanation = BivariateShapley(pipeline).attribute(frame.iloc[:2], feature_mask=Columns(groups), **how)
    assert explanation.graph(0).names == (("person", "work", "city") if grouped else tuple(frame.columns))
    for b in range(2):
        expected = oracle(pipeline, frame.iloc[b], stand_ins, players, int(explanation.target[b]))
        np.testing.assert_allclose(explanation.bivariate[b], expected, atol=1e-9)
        assert np.abs(expected).max() > 1e-3


def test_names_are_kept_without_a_word(frame, pipeline):
    explanation = BivariateShapley(pipeline).attribute(frame.iloc[:1], baselines=typical_row(frame))
    assert explanation.graph(0).names == tuple(frame.columns)
    assert list(explanation.mean_graph().to_dataframe()["source"].unique()) == list(frame.columns)


def test_numbers_only_frames_need_no_replacement():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "c"])
    model = LogisticRegression().fit(table, table["a"] > 0)  # warns about missing names if it is given arrays
    explanation = BivariateShapley(model).attribute(table.iloc[:2])
    same = BivariateShapley(lambda x: model.predict_proba(pd.DataFrame(x, columns=table.columns))).attribute(
        table.iloc[:2].to_numpy()
    )
    torch.testing.assert_close(explanation.bivariate, same.bivariate)


def test_a_module_gets_the_numbers_of_a_frame(tmp_path):
    table = pd.DataFrame({"x": [1.0, 2.0], "kind": pd.Categorical(["b", "a"])})
    seen = tmp_path / "seen.pt"  # unlike a list, not part of the model's state, which a game restores

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            if not seen.exists():
                torch.save(x, seen)
            return x @ self.weight

    Game(Net(), table, baselines={"x": 0.0, "kind": "a"}, behavior="output")
    first = torch.load(seen)
    assert first.dtype == torch.float32
    assert first.tolist() == [[1.0, 1.0], [2.0, 0.0]]


def test_types_survive_the_way_to_the_model(frame):
    frame.loc[3, "job"] = None
    seen = []

    def model(rows):
        seen.append(rows)
        return rows["age"].to_numpy() * 1.0

    Game(model, frame, baselines=typical_row(frame, {"age": "median"}), behavior="output")
    got = seen[0]
    assert list(got.columns) == list(frame.columns)
    assert got["city"].dtype == frame["city"].dtype
    assert got["member"].dtype == bool
    assert got["job"].isna().tolist() == frame["job"].isna().tolist()
    assert got["job"].dropna().tolist() == frame["job"].dropna().tolist()
    np.testing.assert_array_equal(got["age"], frame["age"])


@pytest.mark.parametrize("kind", ["frame", "column", "mapping"])
def test_strings_that_only_the_replacement_knows_get_through(frame, pipeline, kind):
    row = typical_row(frame, {"job": "nurse"})
    few = frame[frame["job"] != "nurse"].iloc[:1]
    baselines = {"frame": row, "column": row.iloc[0], "mapping": row.iloc[0].to_dict()}[kind]
    explanation = BivariateShapley(pipeline).attribute(few, baselines=baselines)
    players = [[c] for c in frame.columns]
    expected = oracle(pipeline, few.iloc[0], row, players, int(explanation.target[0]))
    np.testing.assert_allclose(explanation.bivariate[0], expected, atol=1e-9)


def test_an_unseen_category_is_refused(frame, pipeline):
    row = typical_row(frame)
    row["city"] = "east"
    with pytest.raises(ValueError, match=r"`baselines` must hold categories of the inputs, got 'east' in 'city'"):
        Game(pipeline, frame, baselines=row)
    old = frame.assign(age="old")
    kind = old["age"].dtype  # str, before pandas 3 object
    with pytest.raises(ValueError, match=f"must hold numbers in 'age' as the inputs do, got {kind}: could not convert"):
        Game(pipeline, frame, background=old)


def test_a_category_needs_a_replacement(frame, pipeline):
    with pytest.raises(ValueError, match=r"with values for the categories, got None .* \['job', 'city', 'member'\]"):
        Game(pipeline, frame)
    with pytest.raises(ValueError, match=r"must be a row with values for the categories, got 0\.5"):
        Game(pipeline, frame, baselines=0.5)
    with pytest.raises(ValueError, match=r"`baselines` must have all columns of the inputs, got none for \['member'\]"):
        Game(pipeline, frame, baselines=typical_row(frame).drop(columns="member"))
    dated = frame.assign(day=pd.Timestamp("2026-01-01"))
    with pytest.raises(TypeError, match="columns of numbers, strings, truth values or categories, got datetime"):
        Game(pipeline, dated)


def test_typical_rows():
    table = torch.tensor([[0.0, 1.0], [4.0, 1.0], [5.0, 7.0]])
    assert typical_row(table).tolist() == [3.0, 3.0]
    assert typical_row(table, "mode").tolist() == [0.0, 1.0]
    codes = torch.tensor([[2, 3], [2, 1], [0, 3]])
    assert typical_row(codes, "mode").tolist() == [2, 3]
    assert typical_row(codes, "median").tolist() == [2.0, 3.0]
    frame = pd.DataFrame({"n": [1, 2, 9], "kind": ["b", "b", "a"], "other": [1.0, 2.0, 3.0]})
    row = typical_row(frame, {"n": "median", "other": 7.0})
    assert row.iloc[0].tolist() == [2.0, "b", 7.0]
    assert typical_row(frame, "mode")["n"].item() == 1
    with pytest.raises(ValueError, match=r"`how` must be one of \('mean', 'median', 'mode'\)"):
        typical_row(table, "typical")
    with pytest.raises(ValueError, match=r"`how` must name columns of the data, got \['m'\]"):
        typical_row(frame, {"m": "mean"})
    with pytest.raises(TypeError, match="for data that is no frame"):
        typical_row(table, {0: "mean"})
    with pytest.raises(ValueError, match="`data` must hold at least one row"):
        typical_row(table[:0])


def test_categorical_codes_are_replaced_by_codes():
    codes = torch.tensor([[2, 0, 1]])
    model = torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Flatten(), torch.nn.Linear(6, 2))
    game = Game(model, codes, baselines=typical_row(torch.tensor([[1, 0, 1], [1, 2, 1], [0, 2, 2]]), "mode"))
    assert game.removal.rows[0].tolist() == [[[1, 2, 1]]]
    with pytest.raises(ValueError, match="`baselines` must be whole numbers for integer inputs, got fractions"):
        Game(model, codes, baselines=typical_row(torch.tensor([[1, 0, 1], [0, 2, 2]])))


def test_columns_of_arrays_are_grouped_by_the_names_they_are_given():
    columns = Columns({"colour": "colour_*"}, ["age", "colour_red", "colour_blue", "income"])
    x = torch.tensor([[1.0, 0.0, 1.0, 2.0]])
    explanation = BivariateShapley(lambda x: x.prod(dim=1) + x.sum(dim=1), behavior="output").attribute(
        x, feature_mask=columns
    )
    assert explanation.graph(0).names == ("age", "colour", "income")


@pytest.mark.parametrize(
    ("groups", "columns", "message"),
    [
        ({"g": "z*"}, ["a", "b"], r"must name columns of the table, got 'z\*'; it has \['a', 'b'\]"),
        ({"g": ["a"], "h": ["a", "b"]}, ["a", "b"], "must not share columns, got 'a' in 'g' and 'h'"),
        ({"b": ["a"]}, ["a", "b"], r"must not be named like a column outside them, got \['b'\]"),
        ({}, ["a"], "must name every column of a table"),
        ({}, None, "must name the columns of a table that is no data frame"),
    ],
)
def test_bad_groups_are_refused(groups, columns, message):
    with pytest.raises(ValueError, match=message):
        Columns(groups, columns)(torch.zeros(3, 2))


def test_boosted_trees_split_by_the_categories_of_a_frame(frame):
    wants = ((frame["age"] > 38) & (frame["city"] == "south") | (frame["income"] > 32)).astype(int)
    columns = ["age", "income", "city"]
    model = LGBMClassifier(n_estimators=20, min_child_samples=5, verbosity=-1).fit(frame[columns], wants)
    options = {"inputs": frame[columns].iloc[:4], "baselines": typical_row(frame[columns])}
    trees = BivariateShapley(model, behavior="logit").attribute(**options)
    exact = BivariateShapley(model, method="exact", behavior="logit").attribute(**options)
    assert trees.method == "trees"
    torch.testing.assert_close(trees.bivariate, exact.bivariate, atol=1e-9, rtol=0)
    assert float(trees.bivariate[:, 2].abs().max()) > 0.01


def test_truth_values_are_zero_and_one_whatever_was_seen(frame, pipeline):
    members = frame[frame["member"]].iloc[:2]
    as_numbers = typical_row(frame).assign(member=0)
    by_name = typical_row(frame).assign(member=False)
    game = Game(pipeline, members, baselines=as_numbers)
    assert game.inputs[0][:, 4].tolist() == [1, 1]
    assert game.removal.rows[0][0, 0, 4] == 0
    masks = torch.eye(5, dtype=torch.bool)[None]
    torch.testing.assert_close(game(masks), Game(pipeline, members, baselines=by_name)(masks), rtol=0, atol=0)


def test_categories_keep_their_order(frame):
    sizes = pd.Categorical(["small", "large", "small"], categories=["small", "large"], ordered=True)
    inputs = pd.DataFrame({"size": sizes, "age": [1.0, 2.0, 3.0]})
    values = Game(
        lambda x: (x["size"] > "small").to_numpy(dtype=float), inputs, baselines=inputs.iloc[[1]], behavior="output"
    )
    everybody_nobody = torch.tensor([[[True, True], [False, False]]])
    assert values(everybody_nobody).tolist() == [[0, 1], [1, 1], [0, 1]]


def test_columns_of_one_name_are_refused():
    twice = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "b"])
    with pytest.raises(ValueError, match="`inputs` must name every column once, got several columns called 'a'"):
        Game(lambda x: x.to_numpy().sum(axis=1), twice)
    with pytest.raises(ValueError, match="`columns` must all have different names, got '1' twice"):
        Columns(columns=[1, "1"])(torch.zeros(1, 2))


def test_columns_with_numbers_for_names_are_grouped():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]])
    game = Game(lambda x: x.to_numpy().sum(axis=1), frame, feature_mask=Columns({"ends": [0, 2]}), behavior="output")
    assert game.player_names == (("ends", "1"),)


def test_a_column_without_a_value_has_no_typical_one(frame):
    with pytest.raises(ValueError, match="`data` must hold a value in every column, got only missing ones in 'job'"):
        typical_row(frame.assign(job=None))


def test_a_function_gets_frames_for_frames_and_tensors_for_tensors(frame):
    seen = []

    def model(table, x):
        seen.append((type(table), type(x)))
        return torch.tensor(table["age"].to_numpy()) + x[:, 0]

    game = Game(model, (frame[["age", "income"]], torch.ones(60, 1)), behavior="output")
    assert set(seen) == {(pd.DataFrame, torch.Tensor)}
    assert game.n_players == 3


def test_classes_by_the_names_in_an_array_or_a_column(frame, pipeline):
    few, row = frame.iloc[:2], typical_row(frame)
    named = make_pipeline(*(step for _, step in pipeline.steps)).fit(frame, np.where(frame["age"] > 40, "yes", "no"))
    for target in (["yes", "no"], np.array(["yes", "no"]), pd.Series(["yes", "no"], index=[7, 3])):
        assert Game(named, few, baselines=row, target=target).target.tolist() == [1, 0]
