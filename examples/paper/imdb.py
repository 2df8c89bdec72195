"""IMDB reviews: a GRU over word embeddings; every token is a feature, embedded as zero when it is absent."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bivshap_lightning import Tokens, ZeroEmbedding
from examples.paper.figures import save_sentence
from examples.paper.network import BlackBox, accuracy, train
from examples.paper.study import Options, Study, data_file

DOWNLOAD = (
    "https://ai.stanford.edu/~amaas/data/sentiment, written as gzipped lines of JSON with `text` and `label` (1 for "
    "positive)"
)
SENTENCE = "The movie is the worst; surprisingly awful"
PAD, UNKNOWN = 0, 1


class Gru(BlackBox):
    """Embedding, a linear layer, one GRU read at the last token, and one output."""

    def __init__(self, n_words: int, n_embedding: int, n_hidden: int, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.embedding = nn.Embedding(n_words, n_embedding, padding_idx=PAD)
        self.linear = nn.Linear(n_embedding, n_hidden)
        self.gru = nn.GRU(n_hidden, n_hidden, batch_first=True)
        self.head = nn.Linear(n_hidden, 1)

    def forward(self, ids: Tensor) -> Tensor:
        last = (ids != PAD).sum(dim=1).clamp(min=1) - 1
        states, _ = self.gru(self.linear(self.embedding(ids)))
        return self.head(states[torch.arange(len(ids), device=ids.device), last])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def load(options: Options) -> Study:
    """Train the GRU on the reviews at hand."""
    texts, labels = _read(options, "train")
    test_texts, test_labels = _read(options, "test")
    n_embedding, n_hidden, n_tokens, lr, epochs = (300, 500, 400, 1e-4, 15) if options.full else (64, 64, 200, 2e-3, 4)
    texts, labels, epochs = texts[: options.train], labels[: options.train], options.epochs or epochs
    if options.quick:
        texts, labels, test_texts, test_labels = texts[:300], labels[:300], test_texts[:40], test_labels[:40]
        n_embedding, n_hidden, n_tokens, epochs = 8, 8, 24, 1
    words = vocabulary(texts)
    number = {word: k for k, word in enumerate(words)}
    module = Gru(len(words), n_embedding, n_hidden, lr)
    x, x_test = (encode(part, number, n_tokens) for part in (texts, test_texts))
    model = train(module, x, labels, folder=options.folder("imdb"), epochs=epochs, batch_size=64)
    rows = _half_of_each(test_labels, 500)
    notes = (
        f"{len(texts):,} training and {len(test_texts):,} test reviews instead of 25,000 each.",
        f"GRU of {n_hidden} units on embeddings of {n_embedding} numbers, learned here (the paper: 500 units, GloVe of "
        f"300), epochs: {epochs}, with Adam at {lr:g}; the first {n_tokens} tokens of a review, split at all "
        "but letters and apostrophes (the paper: NLTK, 400 tokens).",
    )
    return Study(
        name="imdb", model=model, inputs=x_test[rows], labels=test_labels[rows],
        accuracy=accuracy(model, x_test, test_labels), n_train=len(x), n_test=len(x_test),
        training=x, baselines=ZeroEmbedding(),
        feature_mask=Tokens(words, pad_id=PAD), feature_names=tuple(words), batch_size=1, notes=notes, trim=_trim,
    )  # fmt: skip


def extras(study: Study, options: Options, folder: Path) -> dict[str, Any]:
    """The paper's sentence; a change of probability of 0.02 counts as nothing."""
    return save_sentence(study, sentence(study), split_words(SENTENCE), folder / "figures", 0.02)


def sentence(study: Study) -> Tensor:
    """The paper's sentence as token numbers."""
    assert study.feature_names is not None
    return encode([SENTENCE], {word: k for k, word in enumerate(study.feature_names)}, 20)


def split_words(text: str) -> list[str]:
    """Words in lower case."""
    return re.findall(r"[a-z']+", text.replace("<br />", " ").lower())


def vocabulary(texts: list[str]) -> list[str]:
    """The 10,000 most frequent words that occur twice; those of the sentence are always among them."""
    counts = Counter(word for text in texts for word in split_words(text))
    frequent = [word for word, n in counts.most_common(10_000) if n > 1]
    return list(dict.fromkeys(["<pad>", "<unknown>", *split_words(SENTENCE), *frequent]))


def encode(texts: list[str], number: dict[str, int], length: int) -> Tensor:
    """(N, T) token numbers, padded at the end."""
    rows = [[number.get(word, UNKNOWN) for word in split_words(text)[:length]] for text in texts]
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def _trim(ids: Tensor) -> Tensor:
    return ids[:, : int((ids != PAD).sum(dim=1).max())]


def _half_of_each(labels: Tensor, n: int) -> Tensor:
    """Rows of the first reviews of each class, alternating."""
    n_each = min(n // 2, *(int((labels == k).sum()) for k in (0, 1)))
    rows = [(labels == k).nonzero()[:n_each, 0] for k in (0, 1)]
    return torch.stack(rows, dim=1).flatten()


def _read(options: Options, part: str) -> tuple[list[str], Tensor]:
    with gzip.open(data_file(options, f"imdb/imdb_{part}.jsonl.gz", DOWNLOAD), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["text"] for row in rows], torch.tensor([int(row["label"]) for row in rows])


if __name__ == "__main__":
    from examples.paper.experiment import main

    main("imdb")
