"""Graphs that the tests of the views share, and what their figures hold."""

from itertools import permutations

import numpy as np

from bivshap_lightning.graph import ExplanationGraph
from bivshap_lightning.views.figures.text import TextLine

SENTENCE = ("The", "movie", "is", "the", "worst", ";", "surprisingly", "awful")
NASTY_NAMES = (
    "a $\\frac{1}{2}$ b",
    "x_1^2 \\alpha $",
    "größe_der_schilddrüse_in_zentimetern_links",
    "größe_der_schilddrüse_in_zentimetern_rechts",
    "<script>alert(1)</script>",
    "日本語の特徴",
    "emoji 🎉",
    "line\nbreak\ttab\x07",
    "|pipe| `tick` **bold** _it_ ~~no~~",
    "[link](http://evil.example)",
    "![pixel](http://evil.example/x.png)",
    "lone \ud800 surrogate & <b>",
)


def random_graph(n_players, *, seed=0, share_zero=0.3, names=None):
    """Weights of both signs, of which some share is zero."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0.05, 0.1, (n_players, n_players))
    weights[rng.random(weights.shape) < share_zero] = 0
    np.fill_diagonal(weights, 0)
    return ExplanationGraph(weights, names=names, shapley=weights.mean(axis=0))


def grouped_graph(sizes, *, arrows=(), names=None, seed=0):
    """Groups of the given sizes (1 for a single player); group a makes group b redundant for each arrow (a, b)."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    weights = np.random.default_rng(seed).uniform(0.1, 0.3, (len(labels),) * 2)
    weights[labels[:, None] == labels] = 0
    for a, b in arrows:
        weights[np.ix_(labels == a, labels == b)] = 0
    return ExplanationGraph(weights, names=names, shapley=weights.mean(axis=0))


def sentence_graph():
    """`worst` and `awful` make each other redundant; most other words say nothing."""
    weights = np.zeros((8, 8))
    weights[:, 4], weights[:, 7], weights[:, 6], weights[:, 1] = 0.3, 0.28, 0.05, 0.02
    weights[4, 7] = weights[7, 4] = 0
    weights[4, 6] = -0.04
    np.fill_diagonal(weights, 0)
    return ExplanationGraph(weights, names=SENTENCE, shapley=weights.mean(axis=0))


def enumerated(game, n_players=3, names=None):
    """G and Shapley values of a game over all orders of its players."""
    bivariate, shapley = np.zeros((n_players, n_players)), np.zeros(n_players)
    orders = list(permutations(range(n_players)))
    for order in orders:
        for place, i in enumerate(order):
            before = set(order[:place])
            gain = game(before | {i}) - game(before)
            shapley[i] += gain / len(orders)
            for j in before:
                bivariate[i, j] += gain / len(orders)
    return ExplanationGraph(bivariate.T, names=names, shapley=shapley)


def texts_of(figure):
    """All text of a figure, in one string."""
    return "\n".join(line.get_text() for line in lines_in(figure))


def lines_in(figure):
    """All lines of text of a figure."""
    return [artist for artist in figure.artists if isinstance(artist, TextLine)]


def marks_of(figure, kind):
    """The marks of a kind, such as "node", by the rest of their group identifier."""
    marks = [(artist.get_gid() or "", artist) for artist in figure.artists]
    return {gid.removeprefix(f"{kind}:"): artist for gid, artist in marks if gid.startswith(f"{kind}:")}


def gids_of(figure, kind):
    """The group identifiers of a kind of mark, without the kind."""
    return list(marks_of(figure, kind))


def lines_of(figure, gid):
    """The lines of text with a group identifier, joined by spaces."""
    return " ".join(line.get_text() for line in lines_in(figure) if line.get_gid() == gid)


def picture_of(figure, name):
    """(H, W, 3) of a picture in a figure, from 0 to 1."""
    return np.asarray(marks_of(figure, "picture")[name].get_array(), dtype=float)[..., :3] / 255
