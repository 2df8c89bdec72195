"""What is explained: a black box, its test samples, and how a feature is removed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bivshap_lightning import Game

# Probabilities are clipped to this distance from 0 and 1 before their log-odds are taken.
CLIP = 1e-3


@dataclass(frozen=True)
class Study:
    """A black box and the samples on which the paper's questions are asked.

    Attributes:
        name: of the folder with its results.
        model: the black box.
        inputs: (N, ...) test samples in the order in which they are explained.
        labels: (N,) their true classes.
        accuracy: of the black box on the whole test set.
        n_train: rows it was trained on.
        n_test: rows its accuracy was measured on.
        training: (M, ...) training inputs, from which rivals that learn may learn.
        baselines: what stands in for an absent feature.
        feature_mask: which elements make one feature; None for one each.
        feature_names: of tables.
        batch_size: samples that are explained together.
        notes: what differs from the paper, in sentences.
        trim: cuts a batch of inputs to what it needs, such as texts to the longest one.
    """

    name: str
    model: Any
    inputs: Any
    labels: Any
    accuracy: float
    n_train: int
    n_test: int
    training: Any = None
    baselines: Any = None
    feature_mask: Any = None
    feature_names: tuple[str, ...] | None = None
    batch_size: int = 64
    notes: tuple[str, ...] = ()
    trim: Callable[[Any], Any] = field(default=lambda x: x, repr=False)

    def __len__(self) -> int:
        return len(self.inputs)

    def game(self, rows: slice) -> Game:
        """The probability of the class that the model predicts, as the paper has it."""
        return self._game(rows)

    def log_odds_game(self, rows: slice) -> Game:
        """The log-odds of the same class, of clipped probabilities."""
        probability = self._game(rows)

        def log_odds(scores: Tensor, target: Tensor) -> Tensor:
            return probability.behavior(scores, target).clamp(CLIP, 1 - CLIP).logit()

        return self._game(rows, behavior=log_odds, target=probability.target)

    def first(self, n: int) -> Study:
        """The same study with its first n samples."""
        return replace(self, inputs=self.inputs[:n], labels=self.labels[:n])

    def _game(self, rows: slice, **arguments: Any) -> Game:
        inputs = self.trim(self.inputs[rows])
        return Game(self.model, inputs, baselines=self.baselines, feature_mask=self.feature_mask, **arguments)


@dataclass(frozen=True)
class Options:
    """What a script was asked to do.

    Attributes:
        data: folder of the data sets.
        output: folder of models and results.
        quick: tiny subsets, every step.
        full: as many samples as the paper.
        samples: samples to explain; None for the default of the study.
        orders: of the literal sampling algorithm for each feature; None for the default of the study.
        epochs: of the training of networks; None for the default of the study.
        train: training rows of networks; None for all.
        summary: compute nothing, only sum up what there is.
        gene_sets: a GMT file, for the enrichment of genes.
        annotation: gene symbols of probes, for the same.
    """

    data: Path
    output: Path
    quick: bool = False
    full: bool = False
    samples: int | None = None
    orders: int | None = None
    epochs: int | None = None
    train: int | None = None
    summary: bool = False
    gene_sets: Path | None = None
    annotation: Path | None = None

    def folder(self, name: str) -> Path:
        """Where a study keeps its model and results; those of quick runs are kept apart."""
        folder = self.output / (f"{name}-quick" if self.quick else name)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def parse(description: str, arguments: list[str] | None = None) -> Options:
    """Read the command line that all scripts share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with one folder per data set")
    parser.add_argument("--output", type=Path, default=Path("paper_results"), help="folder for models and results")
    parser.add_argument("--samples", type=int, help="samples to explain")
    parser.add_argument("--orders", type=int, help="random orders per feature of the literal sampling algorithm")
    parser.add_argument("--epochs", type=int, help="epochs of training a network")
    parser.add_argument("--train", type=int, help="training rows of a network")
    parser.add_argument("--gene-sets", type=Path, help="GMT file of gene sets (genes only)")
    parser.add_argument("--annotation", type=Path, help="probe and gene symbol, separated by a tab (genes only)")
    parser.add_argument(
        "--quick", action="store_true", help="a few samples and a short training: every step, no result"
    )
    parser.add_argument("--summary", action="store_true", help="sum up what an unfinished run has computed so far")
    parser.add_argument("--full", action="store_true", help="as many samples as the paper, however long it takes")
    return Options(**vars(parser.parse_args(arguments)))


def data_file(options: Options, path: str, download: str) -> Path:
    """A file of the data folder.

    Raises:
        FileNotFoundError: it is not there; the message says where it comes from.
    """
    found = options.data / path
    if not found.is_file():
        raise FileNotFoundError(
            f"`--data` must be a folder that holds {path}, got {options.data}. Get it from {download} and put it there."
        )
    return found


def as_floats(array: Any) -> Tensor:
    """A tensor of float32."""
    return torch.as_tensor(array, dtype=torch.float32)
