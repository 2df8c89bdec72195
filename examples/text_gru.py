"""The paper's sentence: two words that replace each other, and a third that says nothing once they are there.

A GRU learns sentiment, from reviews made here or from real ones (``--data``, a folder with ``imdb_train.jsonl.gz``).
Then "The movie is the worst; surprisingly awful" is explained: words are players, an absent word is embedded as zero.
To look for: "worst" and "awful" are interchangeable; "surprisingly" is redundant given "worst", but not the reverse.
"""

import argparse
import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bivshap_lightning import BivariateShapley, ExplanationGraph
from bivshap_lightning.callbacks import BivShapCallback
from bivshap_lightning.game.embedding import ZeroEmbedding
from bivshap_lightning.game.players import Tokens
from bivshap_lightning.graph import mean_by_name
from bivshap_lightning.views import draw_words

SENTENCE = "The movie is the worst; surprisingly awful"
PAD, UNKNOWN = 0, 1

THINGS = ["the movie", "this film", "the plot", "the acting", "the story", "the music", "the ending"]
VERBS = ["is", "was", "felt", "looked"]
PRAISE = ["wonderful", "great", "brilliant", "superb", "moving", "the best"]
BLAME = ["awful", "terrible", "boring", "dull", "horrible", "the worst"]
NEUTRAL = ["i saw it on friday", "it runs two hours", "my brother came along", "we sat in the third row"]


class Sentiment(pl.LightningModule):
    """One GRU over word embeddings, read at the last word of each text."""

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, width, padding_idx=PAD)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        last = (ids != PAD).sum(dim=1).clamp(min=1) - 1
        states, _ = self.gru(self.embedding(ids))
        return self.head(states[torch.arange(len(ids), device=ids.device), last])

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_accuracy", (self(batch[0]).argmax(dim=1) == batch[1]).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def made_reviews(n: int) -> list[tuple[str, int]]:
    """Reviews of a few clauses. "Surprisingly" mostly comes before praise, as it does in real ones."""
    rng = random.Random(0)
    reviews = []
    for k in range(n):
        label = k % 2
        clauses = []
        for _ in range(rng.randint(1, 2)):
            adverb = "surprisingly " if rng.random() < (0.4 if label else 0.1) else ""
            clauses.append(f"{rng.choice(THINGS)} {rng.choice(VERBS)} {adverb}{rng.choice(PRAISE if label else BLAME)}")
        clauses += rng.sample(NEUTRAL, rng.randint(0, 2))
        rng.shuffle(clauses)
        reviews.append(("; ".join(clauses), label))
    return reviews


def real_reviews(folder: Path) -> list[tuple[str, int]]:
    with gzip.open(folder / "imdb_train.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [(row["text"].replace("<br />", " "), row["label"]) for row in map(json.loads, lines)]


def split_words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def encode(texts: list[str], number: dict[str, int], length: int) -> Tensor:
    """Texts as (N, T) word numbers; of long texts the last words, where reviewers sum up."""
    rows = [[number.get(word, UNKNOWN) for word in split_words(text)][-length:] for text in texts]
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def train(reviews: list[tuple[str, int]], vocabulary: list[str], *, width: int, epochs: int, gamma: float) -> Sentiment:
    """Train, with the callback watching, and say what it found in the end."""
    number = {word: k for k, word in enumerate(vocabulary)}
    ids = encode([text for text, _ in reviews], number, length=150)
    data = TensorDataset(ids, torch.tensor([label for _, label in reviews]))
    training, valid = torch.utils.data.random_split(data, [0.9, 0.1])
    callback = BivShapCallback(
        n_samples=8, every_n_epochs=max(1, epochs - 1), feature_mask=Tokens(vocabulary, pad_id=PAD),
        baselines=ZeroEmbedding(), class_names=["negative", "positive"], gamma=gamma, panels=False,
        write_record=False, compare_with=("integrated_gradients",), n_evaluations=640,
    )  # fmt: skip
    module = Sentiment(len(vocabulary), width)
    trainer = pl.Trainer(
        max_epochs=epochs, callbacks=[callback], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(training, batch_size=64, shuffle=True), DataLoader(valid, batch_size=256))
    print(f"\nvalidation accuracy {float(trainer.callback_metrics['val_accuracy']):.3f}")
    assert callback.result is not None
    for label, name in enumerate(["negative", "positive"]):
        graph = mean_by_name([s.graph for s in callback.result.samples if s.target == label])
        words = ", ".join(graph.names[k] for k in graph.order(personalized=True)[:5])
        print(f"words that make reviews {name}: {words}")
    return module.eval()


def tell(graph: ExplanationGraph, gamma: float) -> None:
    """The words by importance, and the four arrows of the paper."""
    h = graph.redundancy(gamma)
    print(f"{'word':<15}{'Shapley value':>15}   redundant once one of these is there")
    for k in graph.order(personalized=True):
        makers = ", ".join(graph.names[i] for i in range(graph.n_players) if h.adjacency[i, k]) or "-"
        print(f"{graph.names[k]:<15}{graph.shapley[k]:>15.3f}   {makers}")
    worst, awful, surprisingly = (graph.names.index(word) for word in ("worst", "awful", "surprisingly"))
    print(f"\nWith gamma = {gamma}:")
    for a, b in ((worst, awful), (awful, worst), (worst, surprisingly), (surprisingly, worst)):
        verdict = "redundant" if h.adjacency[a, b] else "not redundant"
        print(f"  {graph.names[b]} once {graph.names[a]} is there: {graph.weights[a, b]:+.4f}, {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with imdb_train.jsonl.gz; without it reviews are made")
    parser.add_argument("--epochs", type=int, help="6 on made reviews, 10 on real ones")
    parser.add_argument("--gamma", type=float, default=0.02, help="a change of probability that counts as nothing")
    parser.add_argument("--output", type=Path, default=Path("text_gru.png"), help="the picture")
    args = parser.parse_args()
    epochs = args.epochs or (6 if args.data is None else 10)

    torch.set_num_threads(1)  # a small GRU is fastest so
    pl.seed_everything(0, workers=True, verbose=False)
    reviews = made_reviews(3000) if args.data is None else real_reviews(args.data)
    # Without sets, whose order changes from run to run: it would decide between equally common words.
    counts = Counter(word for text, _ in reviews for word in dict.fromkeys(split_words(text)))
    vocabulary = ["<pad>", "<unknown>", *(word for word, n in counts.most_common(10_000) if n > 1)]
    width = 32 if args.data is None else 64
    module = train(reviews, vocabulary, width=width, epochs=epochs, gamma=args.gamma)

    sentence = encode([SENTENCE], {word: k for k, word in enumerate(vocabulary)}, length=150)
    explanation = BivariateShapley(module).attribute(
        sentence, baselines=ZeroEmbedding(), feature_mask=Tokens(vocabulary, pad_id=PAD)
    )
    graph = explanation.graph(0)
    with torch.no_grad():
        negative = float(module(sentence).softmax(dim=1)[0, 0])
    print(f'"{SENTENCE}" is negative with probability {negative:.3f}\n')
    tell(graph, args.gamma)
    figure = draw_words(
        graph, graph.redundancy(args.gamma), words=split_words(SENTENCE), title="Why this review is negative",
        scores=graph.ranking(personalized=True),
    )  # fmt: skip
    figure.savefig(args.output)
    print(f"\nThe graphs of the sentence: {args.output}")


if __name__ == "__main__":
    main()
