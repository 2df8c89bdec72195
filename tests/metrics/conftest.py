"""Games whose every value is written down in a table, so that references need no model and no `Game`."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from bivshap_lightning import ExplanationGraph, Game


class TableGame:
    """B samples with up to F players; logits[b, s] are the logits of sample b when coalition s is present.

    Player i is present in coalition s when bit i of s is set. Players that a sample lacks are always present.
    """

    def __init__(self, logits: np.ndarray, counts: Sequence[int] | None = None) -> None:
        self.logits = logits
        self.n_samples, self.n_players = len(logits), logits.shape[1].bit_length() - 1
        self.counts = [self.n_players] * self.n_samples if counts is None else list(counts)

    def game(self, samples: Sequence[int] | None = None, **kwargs: object) -> Game:
        """The game of some of the samples, no wider than it has to be."""
        chosen = list(range(self.n_samples)) if samples is None else list(samples)
        width = max(self.counts[b] for b in chosen)
        players = torch.arange(self.n_players)
        ids = torch.stack([players.where(players < self.counts[b], -1) for b in chosen])
        table, bits = torch.from_numpy(self.logits), 2 ** torch.arange(self.n_players)
        game = Game(
            lambda x, sample: table[sample, (x.long() * bits).sum(dim=1)],
            torch.ones(len(chosen), self.n_players, dtype=torch.float64),
            feature_mask=ids,
            additional_forward_args=(torch.tensor(chosen),),
            link="softmax",
            **kwargs,
        )
        assert game.n_players == width
        return game

    def probabilities(self, sample: int, present: set[int]) -> np.ndarray:
        lacking = range(self.counts[sample], self.n_players)
        logits = self.logits[sample, sum(2**i for i in {*present, *lacking})]
        return np.exp(logits) / np.exp(logits).sum()

    def decision(self, sample: int, present: set[int]) -> int:
        return int(self.probabilities(sample, present).argmax())

    def utility(self, sample: int, present: set[int]) -> float:
        target = self.decision(sample, set(range(self.counts[sample])))
        return float(self.probabilities(sample, present)[target])


@pytest.fixture(scope="session")
def table_game() -> Callable[..., TableGame]:
    """A random game from a seed."""

    def make(seed: int, n_samples: int = 5, n_players: int = 4, *, is_ragged: bool = False) -> TableGame:
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(n_samples, 2**n_players, 3))
        counts = rng.integers(1, n_players + 1, n_samples) if is_ragged else None
        return TableGame(logits, None if counts is None else counts.tolist())

    return make


@pytest.fixture(scope="session")
def random_graphs() -> Callable[..., list[ExplanationGraph]]:
    """Graphs of as many players as each sample has, with many weights of exactly zero."""

    def make(seed: int, counts: Sequence[int], *, noise: float = 0.0) -> list[ExplanationGraph]:
        rng = np.random.default_rng(seed)
        graphs = []
        for count in counts:
            weights = rng.normal(size=(count, count)) * (rng.random((count, count)) < rng.uniform(0.2, 0.9))
            errors = noise * rng.random((count, count))
            for matrix in (weights, errors):
                np.fill_diagonal(matrix, 0)
            graphs.append(ExplanationGraph(weights, shapley=rng.normal(size=count), standard_error=errors))
        return graphs

    return make
