"""Series, several inputs, and every kind of target, against enumeration."""

import numpy as np
import pytest
import torch
from torch import nn

from bivshap_lightning import BivariateShapley, Game
from bivshap_lightning.game.players import Grid, Segments, Superpixels, make_players
from tests.oracles import enumerate_e2


def oracle(read, xs, masks):
    """E2 of one sample whose inputs are zeroed player by player."""
    n = max(int(m.max()) for m in masks) + 1

    def value(present):
        chosen = torch.tensor(sorted(present), dtype=torch.long)
        with torch.no_grad():
            kept = [torch.isin(mask, chosen) for mask in masks]
            return float(read(*(torch.where(keep, x, torch.zeros(())) for x, keep in zip(xs, kept, strict=True))))

    return enumerate_e2(value, n)


@pytest.mark.parametrize(("shape", "dim"), [((2, 9), 1), ((2, 9, 3), 1), ((2, 3, 9), 2)])
def test_stretches_of_a_series(shape, dim):
    torch.manual_seed(0)
    x, weight = torch.randn(shape), torch.randn(shape[1:])

    def model(x):
        return ((x * weight).flatten(1).cumsum(dim=1).tanh()).sum(dim=1)

    maker = Segments(4, dim=dim)
    explanation = BivariateShapley(model, behavior="output").attribute(x, feature_mask=maker)
    expected = oracle(lambda x: model(x), [x[:1]], [maker(x)])
    np.testing.assert_allclose(explanation.bivariate[0], expected, atol=1e-6)
    assert explanation.graph(0).names == ("steps 0-2", "steps 3-4", "steps 5-6", "steps 7-8")


def test_segments_of_single_steps_and_bad_ones():
    assert Segments(5).names(torch.zeros(1, 2)) == [("step 0", "step 1")]
    with pytest.raises(ValueError, match="must have a dimension 2 for time"):
        Segments(3, dim=2)(torch.zeros(1, 5))
    with pytest.raises(ValueError, match="`n` and `dim` must be at least 1"):
        Segments(0)


def test_several_inputs_have_their_own_makers():
    torch.manual_seed(0)
    image, series, table = torch.rand(2, 1, 4, 4), torch.randn(2, 6), torch.randn(2, 2)

    def model(image, series, table):
        return (image.sum(dim=(1, 2, 3)) * series.sum(dim=1).tanh()) + table.prod(dim=1)

    makers = (Grid(2), Segments(2), None)
    explanation = BivariateShapley(model, behavior="output").attribute((image, series, table), feature_mask=makers)
    names = ("r0c0", "r0c1", "r1c0", "r1c1", "steps 0-2", "steps 3-5", "6", "7")
    assert explanation.graph(1).names == names
    masks = [Grid(2)(image), Segments(2)(series) + 4, torch.tensor([[6, 7]])]
    expected = oracle(model, [image[:1], series[:1], table[:1]], masks)
    np.testing.assert_allclose(explanation.bivariate[0], expected, atol=1e-6)


def test_a_player_may_span_inputs():
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
    masks = (torch.tensor([[0, 1]]), torch.tensor([[1]]))

    def model(a, b):
        return a[:, 0] * a[:, 1] + b[:, 0]

    explanation = BivariateShapley(model, behavior="output").attribute((a, b), feature_mask=masks)
    np.testing.assert_allclose(explanation.bivariate[0], oracle(model, [a, b], masks), atol=1e-6)
    by_function = BivariateShapley(model, behavior="output").attribute((a, b), feature_mask=lambda inputs: masks)
    torch.testing.assert_close(by_function.bivariate, explanation.bivariate)


def test_makers_of_differing_counts_are_numbered_sample_by_sample():
    x = torch.zeros(2, 1, 8, 8)
    x[0, :, :, 3:] = 1
    x[1, :, 4, 4] = 1
    counts = [int(m.max()) + 1 for m in Superpixels(5)(x)]
    assert counts[0] != counts[1]
    players, _ = make_players((x, torch.zeros(2, 3)), (Superpixels(5), None))
    assert players.counts.tolist() == [n + 3 for n in counts]


def test_a_tuple_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="must have one mask per input, got 1 masks for 2 inputs"):
        make_players((torch.zeros(1, 2), torch.zeros(1, 2)), (Segments(1),))


SCORES = torch.tensor([[0.3, -1.0, 2.0, 0.5], [1.0, 0.7, -0.4, -2.0], [0.2, 0.1, 0.9, -0.6]])


class Scorer(nn.Module):
    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(SCORES[:n_outputs])

    def forward(self, x):
        scores = (x @ self.weight.T) ** 2 - (x[:, :1] * x[:, 1:2])
        return scores if scores.shape[1] > 1 else scores[:, 0]


X = torch.tensor([[1.0, 2.0, -1.0, 0.5]])
TARGETS = {
    "binary with one logit": (1, {}, lambda s: torch.sigmoid(s)),
    "binary, the other class": (1, {"target": 0}, lambda s: 1 - torch.sigmoid(s)),
    "multi-class": (3, {"target": 2}, lambda s: s.softmax(dim=1)[:, 2]),
    "multi-class logit": (3, {"target": 1, "behavior": "logit"}, lambda s: s[:, 1]),
    "multi-label": (3, {"target": 1, "link": "sigmoid"}, lambda s: torch.sigmoid(s[:, 1])),
    "regression": (1, {"behavior": "output"}, lambda s: s),
    "regression with several outputs": (3, {"behavior": "output", "target": 2}, lambda s: s[:, 2]),
    "loss of a regression": (1, {"behavior": "loss", "target": torch.tensor([1.5])}, lambda s: -((s - 1.5) ** 2)),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_every_kind_of_target(kind):
    n_outputs, options, read = TARGETS[kind]
    model = Scorer(n_outputs)
    game = Game(model, X, **options)
    explanation = BivariateShapley(model).explain(game)
    expected = oracle(lambda x: read(model(x)), [X], [torch.arange(4)[None]])
    np.testing.assert_allclose(explanation.bivariate[0], expected, atol=1e-6)
