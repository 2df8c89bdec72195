"""Accuracy of "auto" with few model rows on networks that people audit, against "sampling" with the paper's number.

Run with ``python -m benchmarks.bench_networks --mnist FOLDER --imdb FOLDER`` (about ten minutes on one core), where the
folders hold the IDX files of MNIST and ``imdb_train.jsonl.gz``. Each seed trains a network of its own: a CNN on MNIST,
explained by 64 patches, and a GRU on reviews, explained by 60 to 100 tokens. The truth is "kernel" with 65,536 rows,
whose own error is a few hundredths. Printed for each seed and as means: relative RMSE of E2 of "auto" with an eighth
(images) or a quarter (texts) of the rows over that of "sampling" with all of them, coverage of 95 % intervals, and for
images the model rows of an explanation at the defaults with its error over the same.
"""

import argparse
import gzip
import json
import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.bench_callback import mnist
from bivshap_lightning import Explanation, Game
from bivshap_lightning.explainers import default_coalitions, find_explainer
from bivshap_lightning.explainers.auto import Auto
from bivshap_lightning.game.embedding import ZeroEmbedding
from bivshap_lightning.game.players import Grid
from tests.oracles import relative_error

REFERENCE = 65_536


class Reader(nn.Module):
    """A GRU over embeddings, its states averaged."""

    def __init__(self, n_words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, 32)
        self.gru, self.head = nn.GRU(32, 32, batch_first=True, bidirectional=True), nn.Linear(64, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.gru(self.embedding(tokens))[0].mean(dim=1))
        return scores


def trained(network: nn.Module, x: Tensor, y: Tensor, n_steps: int, seed: int) -> nn.Module:
    optimizer, generator = torch.optim.Adam(network.parameters(), lr=2e-3), torch.Generator().manual_seed(seed)
    for _ in range(n_steps):
        rows = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
        optimizer.step()
    return network.eval()


def image_games(folder: Path, seed: int, n_samples: int) -> list[Game]:
    torch.manual_seed(seed)
    network, data = mnist(folder)
    x, y = data.tensors
    x = (x - 0.1307) / 0.3081
    network = trained(network, x[1000:], y[1000:], 500, seed)
    start = 100 * seed
    return [Game(network, x[start : start + n_samples], feature_mask=Grid(8))]


def text_games(folder: Path, seed: int, n_samples: int) -> list[Game]:
    with gzip.open(folder / "imdb_train.jsonl.gz", "rt", encoding="utf-8") as lines:
        reviews = [json.loads(line) for line in lines]
    texts = [re.findall(r"[a-z']+", r["text"].replace("<br />", " ").lower()) for r in reviews]
    counts = Counter(word for text in texts for word in text)
    number = {word: k + 1 for k, (word, _) in enumerate(sorted(counts.items(), key=lambda c: (-c[1], c[0]))[:5000])}
    torch.manual_seed(seed)
    tokens = torch.tensor([([number.get(w, 0) for w in text] + [0] * 100)[:100] for text in texts])
    labels = torch.tensor([int(r["label"]) for r in reviews])
    network = trained(Reader(5001), tokens[500:], labels[500:], 500, seed)
    lengths = (60, 80, 100)
    return [
        Game(network, tokens[20 * seed + k : 20 * seed + k + 1, : lengths[k % 3]], baselines=ZeroEmbedding())
        for k in range(n_samples)
    ]


def squares(explanation: Explanation, truth: Explanation) -> list[float]:
    assert explanation.bivariate is not None
    assert truth.bivariate is not None
    pairs = zip(explanation.bivariate, truth.bivariate, strict=True)
    return [relative_error(a, b.numpy()) ** 2 for a, b in pairs]


def covered(explanation: Explanation, truth: Explanation) -> float:
    assert explanation.bivariate is not None
    assert truth.bivariate is not None
    assert explanation.standard_error is not None
    off = ~torch.eye(explanation.bivariate.shape[1], dtype=torch.bool)
    gap = (explanation.bivariate - truth.bivariate).abs()[:, off]
    return float((gap <= 1.96 * explanation.standard_error[:, off]).double().mean())


def measure(name: str, games: list[Game], share: int, seed: int) -> tuple[float, float, float, float]:
    """Ratio and coverage with a share of the rows; ratio and rows per sample at the defaults."""
    found: dict[str, list[float]] = {"sampling": [], "auto": [], "default": [], "covered": [], "rows": []}
    for game in games:
        rows = default_coalitions(game.n_players)
        truth = find_explainer("kernel").explain(game, REFERENCE, 10_000 + seed)
        few = Auto().explain(game, rows // share, seed)
        usual = Auto().explain(game, None, seed)
        found["sampling"] += squares(find_explainer("sampling").explain(game, rows, seed), truth)
        found["auto"] += squares(few, truth)
        found["default"] += squares(usual, truth)
        found["covered"].append(covered(few, truth))
        found["rows"] += usual.n_evaluations.double().tolist()
    means = {key: float(np.mean(values)) for key, values in found.items()}
    ratio, default = ((means[key] / means["sampling"]) ** 0.5 for key in ("auto", "default"))
    print(
        f"  {name}, seed {seed}: sampling {means['sampling'] ** 0.5:.3f}, auto at 1/{share} ({few.method}) "
        f"{means['auto'] ** 0.5:.3f}: {ratio:.2f}, covered {means['covered']:.3f}; "
        f"at the defaults {default:.2f} with {means['rows']:.0f} rows per sample",
        flush=True,
    )
    return ratio, means["covered"], default, means["rows"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--imdb", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[2, 3, 4])
    parser.add_argument("--samples", type=int, default=3)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name, folder, make, share in (
        ("CNN, 64 patches", options.mnist, image_games, 8), ("GRU, 60 to 100 tokens", options.imdb, text_games, 4)
    ):  # fmt: skip
        if folder is not None:
            results = [measure(name, make(folder, s, options.samples), share, s) for s in options.seeds]
            mean, spread = np.mean(results, axis=0), np.std(results, axis=0)
            parts = [f"{m:.3f} +- {s:.3f}" for m, s in zip(mean, spread, strict=True)]
            print(f"{name}: ratio {parts[0]}, covered {parts[1]}, at the defaults {parts[2]} with {parts[3]} rows")


if __name__ == "__main__":
    main()
