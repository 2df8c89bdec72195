"""Games of small trained models of several kinds, enumerated: tables of all 2 ** n values with exact answers.

Every maker trains a real model on data of scikit-learn (or on synthetic data with known structure), explains one
sample of it, and returns the values of all coalitions, player k being bit k. Absent players are replaced by the mean
of their column or by zero.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from torch import Tensor, nn

Maker = Callable[[int], np.ndarray]


def coalitions(n: int) -> np.ndarray:
    """All (2 ** n, n) coalitions as bool."""
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1


def table_e2(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E2, Shapley values and null column of a table, from the definition, vectorised over coalitions."""
    n = int(math.log2(len(table)))
    masks = coalitions(n)
    sizes = masks.sum(axis=1)
    weights = np.array([math.factorial(s) * math.factorial(n - s - 1) / math.factorial(n) for s in range(n)] + [0.0])
    e2, shapley, null = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    for i in range(n):
        without = np.flatnonzero(~masks[:, i])
        weighted = (table[without + (1 << i)] - table[without]) * weights[sizes[without]]
        e2[i] = weighted @ masks[without]
        shapley[i] = weighted.sum()
        null[i] = weighted @ ((sizes[without] + 1) / (n + 1))
    np.fill_diagonal(e2, 0)
    return e2, shapley, null


def _mixtures(x: np.ndarray, replacement: np.ndarray) -> np.ndarray:
    return np.where(coalitions(len(x)), x, replacement)


def _standardized(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "digits":
        x = x.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    x = x[:, np.argsort(-x.std(axis=0) / (np.abs(x.mean(axis=0)) + 1), kind="stable")[:n]]
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9), y


def train(model: nn.Module, x: np.ndarray, y: np.ndarray, seed: int, n_steps: int = 150) -> nn.Module:
    """Train a classifier by Adam, the same for the same seed."""
    inputs, labels = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n_steps):
        rows = torch.randint(len(x), (256,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
        optimizer.step()
    return model.eval()


def _network_table(model: nn.Module, x: np.ndarray, y: np.ndarray, seed: int, zero: bool = False) -> np.ndarray:
    model = train(model, x, y, seed)
    sample = x[(37 * (seed + 1)) % len(x)]
    rows = torch.as_tensor(_mixtures(sample, np.zeros_like(sample) if zero else x.mean(axis=0)), dtype=torch.float32)
    with torch.no_grad():
        scores = model(rows).double().softmax(dim=1)
    return scores[:, int(scores[-1].argmax())].numpy()


def _estimator_table(model, x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    model.fit(x, y)
    sample = x[(37 * (seed + 1)) % len(x)]
    scores = model.predict_proba(_mixtures(sample, x.mean(axis=0)))
    return scores[:, int(scores[-1].argmax())]


def mlp(seed: int) -> np.ndarray:
    torch.manual_seed(seed)
    x, y = _standardized(["breast_cancer", "wine", "digits"][seed % 3], 13)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, y.max() + 1))
    return _network_table(model, x, y, seed)


def cnn(seed: int) -> np.ndarray:
    """A convolutional network on digits of 4 x 4 blocks, of which 14 are players."""
    torch.manual_seed(seed)
    x, y = datasets.load_digits(return_X_y=True)
    x = x.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)[:, 1:15] / 8 - 1
    model = nn.Sequential(
        nn.ConstantPad1d(1, 0.0), nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    return _network_table(model, x, y, seed)


class _Gated(nn.Module):
    def __init__(self, n: int, n_classes: int) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(n, 48), nn.Linear(24, 32), nn.Linear(16, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.glu(self.first(x))
        return self.last(nn.functional.glu(self.second(hidden)))


def gated(seed: int) -> np.ndarray:
    torch.manual_seed(seed)
    x, y = _standardized(["digits", "breast_cancer"][seed % 2], 14)
    return _network_table(_Gated(14, y.max() + 1), x, y, seed)


class _Attention(nn.Module):
    def __init__(self, n: int, n_classes: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(n, 16) / 4)
        self.embed, self.mix, self.last = nn.Linear(1, 16), nn.Linear(16, 48), nn.Linear(16, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.mix(self.embed(x[:, :, None]) + self.places).chunk(3, dim=2)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.last(torch.relu(mixed).mean(dim=1))


def attention(seed: int) -> np.ndarray:
    torch.manual_seed(seed)
    x, y = _standardized(["breast_cancer", "digits"][seed % 2], 13)
    return _network_table(_Attention(13, y.max() + 1), x, y, seed)


class _Recurrent(nn.Module):
    """A bidirectional GRU on a text of 14 tokens; absent tokens have embedding zero."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.last = nn.GRU(4, 12, batch_first=True, bidirectional=True), nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor:
        _, state = self.gru(x.unflatten(1, (14, 4)))
        return self.last(state.transpose(0, 1).flatten(1))


def recurrent(seed: int) -> np.ndarray:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    words = rng.normal(size=(30, 4))
    tokens = rng.integers(30, size=(2000, 14))
    mood = rng.normal(size=30)
    negated = np.roll(tokens < 4, 1, axis=1)
    y = ((mood[tokens] * np.where(negated, -1, 1)).sum(axis=1) > 0).astype(int)
    x = words[tokens].reshape(2000, -1)
    model = train(_Recurrent(), x, y, seed, n_steps=120)
    masks = np.repeat(coalitions(14), 4, axis=1)
    with torch.no_grad():
        scores = model(torch.as_tensor(masks * x[seed], dtype=torch.float32)).double().softmax(dim=1)
    return scores[:, int(scores[-1].argmax())].numpy()


def forest(seed: int) -> np.ndarray:
    x, y = _standardized(["breast_cancer", "digits"][seed % 2], 14)
    kind = [RandomForestClassifier, ExtraTreesClassifier][seed // 2 % 2]
    return _estimator_table(kind(n_estimators=40, random_state=seed), x, y, seed)


def boosted(seed: int) -> np.ndarray:
    x, y = _standardized("digits", 14)
    y = (y % [2, 3, 5, 4][seed % 4] == 0).astype(int)
    return _estimator_table(GradientBoostingClassifier(n_estimators=60, max_depth=4, random_state=seed), x, y, seed)


def svm(seed: int) -> np.ndarray:
    x, y = _standardized(["breast_cancer", "digits"][seed % 2], 13 + seed % 2)
    return _estimator_table(CalibratedClassifierCV(SVC(random_state=seed), ensemble=False), x, y, seed)


def neighbors(seed: int) -> np.ndarray:
    x, y = _standardized(["digits", "breast_cancer"][seed % 2], 14)
    return _estimator_table(KNeighborsClassifier(25, weights="distance"), x, y, seed)


def saturating(seed: int) -> np.ndarray:
    """The hyperbolic tangent of a sum of maxima over groups of players."""
    rng = np.random.default_rng(seed)
    masks, weights = coalitions(14), np.abs(rng.normal(size=14)) + 0.3
    groups = np.array_split(rng.permutation(14), 4)
    return np.tanh(sum((masks[:, g] * weights[g]).max(axis=1) for g in groups))


def maximum(seed: int) -> np.ndarray:
    """A maximum of weighted sums over overlapping groups."""
    rng = np.random.default_rng(seed)
    masks = coalitions(14)
    sums = [(masks[:, g] * rng.random(5)).sum(axis=1) for g in (rng.choice(14, 5, replace=False) for _ in range(5))]
    return np.max(sums, axis=0)


def conjunction(seed: int) -> np.ndarray:
    """Rare conjunctions of six players beside single effects."""
    rng = np.random.default_rng(seed)
    masks = coalitions(14)
    value = masks @ rng.normal(size=14) / 4
    for g in (rng.choice(14, 6, replace=False) for _ in range(3)):
        value = value + rng.normal() * masks[:, g].all(axis=1)
    return value


TRAINED: dict[str, Maker] = {
    "mlp": mlp, "cnn": cnn, "gated": gated, "attention": attention, "recurrent": recurrent, "forest": forest,
    "boosted": boosted, "svm": svm, "neighbors": neighbors, "saturating": saturating, "maximum": maximum,
}  # fmt: skip
"""Kinds of games on which estimators are compared; each takes the seed of its data, model and sample."""
