import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from bivshap_lightning import Game
from bivshap_lightning.game.behavior import Behavior, detect_link, resolve_target
from bivshap_lightning.game.coalitions import all_coalitions
from bivshap_lightning.game.some_samples import SomeSamples

SCORES = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]], dtype=torch.float64)
TARGET = torch.tensor([2, 1])
P = SCORES.softmax(dim=1)[range(2), TARGET]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("probability", P),
        ("logit", SCORES[range(2), TARGET]),
        ("log_odds", (P / (1 - P)).log()),
        ("loss", -cross_entropy(SCORES, TARGET, reduction="none")),
        ("output", SCORES[range(2), TARGET]),
    ],
)
def test_softmax(name, expected):
    torch.testing.assert_close(Behavior(name, "softmax")(SCORES, TARGET), expected)


def test_two_classes():
    scores, target = torch.tensor([[0.3, -1.2], [40.0, -60.0]], dtype=torch.float64), torch.tensor([1, 0])
    torch.testing.assert_close(Behavior("probability", "softmax")(scores, target), scores.softmax(1)[range(2), target])


@pytest.mark.parametrize("target", [0, 1])
def test_one_logit(target):
    scores, index = torch.tensor([[1.3], [-0.4]], dtype=torch.float64), torch.full((2,), target)
    p = scores[:, 0].sigmoid() if target else 1 - scores[:, 0].sigmoid()
    loss = binary_cross_entropy_with_logits(scores[:, 0], index.double(), reduction="none")
    expected = {"probability": p, "logit": p.logit(), "log_odds": p.logit(), "loss": -loss, "output": scores[:, 0]}
    for name, value in expected.items():
        torch.testing.assert_close(Behavior(name, "sigmoid")(scores, index), value)


def test_independent_labels():
    p = SCORES.sigmoid()[range(2), TARGET]
    expected = {"probability": p, "logit": p.logit(), "log_odds": p.logit(), "loss": p.log()}
    for name, value in expected.items():
        torch.testing.assert_close(Behavior(name, "sigmoid")(SCORES, TARGET), value)
    behavior = Behavior("probability", "sigmoid")
    decisions = behavior.predict(behavior.probabilities(SCORES), TARGET, independent_labels=True)
    assert decisions.tolist() == [1, 1]


def test_probabilities():
    p = SCORES.softmax(dim=1)
    for name, value in {"probability": P, "logit": P.log(), "log_odds": P.logit(), "loss": P.log()}.items():
        torch.testing.assert_close(Behavior(name, "identity")(p, TARGET), value)
    one = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
    off = torch.zeros(2, dtype=torch.long)
    torch.testing.assert_close(Behavior("probability", "identity")(one, off), 1 - one[:, 0])
    torch.testing.assert_close(Behavior("logit", "identity")(one, off), (1 - one[:, 0]).logit())
    torch.testing.assert_close(Behavior("loss", "identity")(one, off), (1 - one[:, 0]).log())


def test_regression():
    scores, values = torch.tensor([[1.0], [2.0]]), torch.tensor([0.5, 4.0])
    torch.testing.assert_close(Behavior("loss", "sigmoid")(scores, values), torch.tensor([-0.25, -4.0]))
    torch.testing.assert_close(Behavior("output", "sigmoid")(scores, torch.zeros(2).long()), scores[:, 0])


def test_a_function_reads_whatever_it_likes():
    def margin(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return scores.amax(dim=1) - scores.amin(dim=1)

    behavior = Behavior(margin, "softmax")
    assert behavior.label == "margin"
    assert behavior(SCORES, TARGET).tolist() == [3.0, 4.0]


def test_extreme_scores_stay_finite():
    scores, target = torch.tensor([[1000.0, -1000.0]]), torch.tensor([1])
    for name in ("probability", "logit", "log_odds", "loss"):
        assert torch.isfinite(Behavior(name, "softmax")(scores, target)).all()


@pytest.mark.parametrize(
    ("scores", "gives_probabilities", "link"),
    [
        ([[0.1, 0.9], [1.0, 0.0]], False, "identity"),
        ([[0.1, 0.9], [0.5, 0.6]], False, "softmax"),
        ([[2.0, -1.0]], True, "softmax"),
        ([[0.3], [0.4]], False, "sigmoid"),
        ([[0.3], [0.4]], True, "identity"),
        ([[0.3], [1.4]], True, "sigmoid"),
    ],
)
def test_the_rule_for_links(scores, gives_probabilities, link):
    assert detect_link(torch.tensor(scores), gives_probabilities=gives_probabilities) == link


def test_targets():
    behavior = Behavior("probability", "softmax")
    assert resolve_target(None, SCORES, behavior).tolist() == [0, 1]
    assert resolve_target(2, SCORES, behavior).tolist() == [2, 2]
    assert resolve_target(torch.tensor([1, 0]), SCORES, behavior).tolist() == [1, 0]
    assert resolve_target(torch.tensor([[1], [0]]), SCORES, behavior).tolist() == [1, 0]
    assert resolve_target([1, 0], SCORES, behavior).tolist() == [1, 0]
    assert resolve_target("dog", SCORES, behavior, ["cat", "dog", "cow"]).tolist() == [1, 1]
    assert resolve_target(["dog", "cat"], SCORES, behavior, ["cat", "dog", "cow"]).tolist() == [1, 0]
    assert resolve_target(lambda s: s.argmin(dim=1), SCORES, behavior).tolist() == [1, 2]
    one = torch.tensor([[0.3], [-0.2]])
    assert resolve_target(None, one, Behavior("probability", "sigmoid")).tolist() == [1, 0]
    assert resolve_target(None, one, Behavior("output", "sigmoid")).tolist() == [0, 0]
    assert resolve_target(torch.tensor([0.5, 1.5]), one, Behavior("loss", "sigmoid")).tolist() == [0.5, 1.5]


def test_bad_targets_are_refused():
    behavior = Behavior("probability", "softmax")
    for target in (3, -1, torch.tensor([0, 3])):
        with pytest.raises(ValueError, match=r"`target` must lie in 0..2, got values from"):
            resolve_target(target, SCORES, behavior)
    with pytest.raises(ValueError, match=r"`target` must be one index or 2 of them, got shape \(3,\)"):
        resolve_target(torch.tensor([0, 1, 2]), SCORES, behavior)
    with pytest.raises(TypeError, match=r"`target` must be integer class indices, got torch.float32"):
        resolve_target(torch.tensor([0.0, 1.0]), SCORES, behavior)
    with pytest.raises(ValueError, match=r"`target` must be one of \['cat', 'dog'\], got 'cow'"):
        resolve_target("cow", SCORES, behavior, ["cat", "dog"])
    with pytest.raises(ValueError, match="because the model does not name its classes, got 'cow'"):
        resolve_target("cow", SCORES, behavior)
    with pytest.raises(ValueError, match=r"`target` must lie in 0..0"):
        resolve_target(1, SCORES[:, :1], Behavior("output", "sigmoid"))


def test_bad_names_are_refused():
    with pytest.raises(ValueError, match=r"`behavior` must be one of .* or a function, got 'certainty'"):
        Behavior("certainty", "softmax")
    with pytest.raises(ValueError, match=r"`link` must be 'auto' or one of .*, got 'probit'"):
        Behavior("probability", "probit")


def test_a_regressor_is_told_what_to_explain():
    values, loss = torch.tensor([[0.3], [0.7]]), Behavior("loss", "identity")
    with pytest.raises(ValueError, match="`target` must say the values of a regression, got None"):
        resolve_target(None, values, loss, is_regressor=True)
    target = resolve_target(torch.tensor([1, 3]), values, loss, is_regressor=True)
    torch.testing.assert_close(loss(values, target), torch.tensor([-(0.7**2), -(2.3**2)]))
    with pytest.raises(ValueError, match=r"which output of a regression is explained, got None .* \(2, 3\)"):
        resolve_target(None, SCORES, Behavior("output", "identity"), is_regressor=True)


class TestExpectedLoss:
    """The negative loss under labels that are drawn from the model's own distribution on the whole input."""

    @pytest.mark.parametrize(
        ("link", "n_outputs"),
        [("softmax", 3), ("softmax", 2), ("sigmoid", 1), ("sigmoid", 3), ("identity", 1), ("identity", 3)],
    )
    def test_it_is_the_mean_loss_over_labels(self, link, n_outputs):
        scores = torch.randn(4, n_outputs, dtype=torch.float64)
        whole = torch.randn(4, n_outputs, dtype=torch.float64)
        if link == "identity":
            scores, whole = (x.sigmoid() if n_outputs == 1 else x.softmax(dim=1) for x in (scores, whole))
        behavior, loss = Behavior("expected_loss", link), Behavior("loss", link)
        (reference,) = behavior.reference(whole)
        found = behavior(scores, torch.zeros(4, dtype=torch.int64), reference)
        if link == "sigmoid" and n_outputs > 1:  # independent labels: each is on or off
            q = scores.sigmoid()
            expected = (reference * q.log() + (1 - reference) * (1 - q).log()).sum(dim=1)
        else:
            n_classes = max(2, n_outputs)
            expected = sum(
                reference[:, c] * loss(scores, torch.full((4,), c, dtype=torch.int64)) for c in range(n_classes)
            )
        torch.testing.assert_close(found, expected)

    def test_of_a_game(self):
        """With all players it is minus the entropy of the model's own distribution, its largest value."""
        torch.manual_seed(0)
        model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
        game = Game(model, x, behavior="expected_loss")
        p = model(x).softmax(dim=1).detach()
        values = game(all_coalitions(4)[None])
        torch.testing.assert_close(values[:, -1], (p * p.log()).sum(dim=1))
        assert values.argmax(dim=1).tolist() == [15, 15]
        masked = (p * model(x * torch.tensor([1.0, 0, 1, 0])).log_softmax(dim=1)).sum(dim=1)
        torch.testing.assert_close(values[:, 5], masked.detach())
        assert game.behavior.label == "expected_loss"

    def test_a_certain_model_has_no_infinite_values(self):
        game = Game(lambda x: torch.stack([x[:, 0], 1 - x[:, 0]], dim=1), torch.tensor([[1.0, 2.0]]), baselines=0.5,
                    behavior="expected_loss")  # fmt: skip
        assert game(all_coalitions(2)[None]).isfinite().all()

    def test_regressions_have_no_distribution(self):
        x = np.array([[0.0, 1.0], [2.0, 1.0]])
        with pytest.raises(ValueError, match="`behavior` must be 'output' or 'loss' for a regressor"):
            Game(LinearRegression().fit(x, [1.0, 2.0]), x, behavior="expected_loss")

    def test_of_some_samples(self):
        model, x = torch.nn.Linear(4, 3), torch.randn(3, 4)
        game = Game(model, x, behavior="expected_loss")
        some = SomeSamples(game, torch.tensor([2, 0]))
        torch.testing.assert_close(some(all_coalitions(4)[None]), game(all_coalitions(4)[None])[[2, 0]])
