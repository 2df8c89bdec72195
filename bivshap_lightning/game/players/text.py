"""Players of texts: the real tokens, or the words that several tokens make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from bivshap_lightning.game.players.partition import NO_PLAYER

CONTINUES = "##"  # WordPiece marks tokens that continue a word,
STARTS = ("\u0120", "\u2581")  # byte-level BPE and SentencePiece mark those that start one
SPACE = "\u2423"  # the name of a token that is such a mark and nothing else


@dataclass(frozen=True)
class Tokens:
    """Tokens of texts as players; padding and special tokens never are.

    Padding is what an attention mask hides. Without an attention mask it is a run of ``pad_id`` at
    either end of a text; the same id in between is an ordinary token.

    Args:
        vocabulary: the words of ids: a tokenizer of Hugging Face's kind (which also has ``pad_id`` and
            ``special_ids``), a sequence or mapping from ids to words, or a function of an id. Without it players carry
            numbers.
        pad_id: the padding token.
        special_ids: tokens that never belong to a player. Those of a tokenizer are all its special tokens
            except padding and the unknown token, which replaces a word.
        whole_words: tokens that continue a word belong to it.
        continues: a function of a token's text, whether it continues the previous word. By default by the marks of the
            vocabulary: "##" of WordPiece, the word starts of byte-level BPE and SentencePiece.
        attention_mask: (B, T), zero where a token of these very texts is padding. The callback finds it in the batch.

    Example:
        >>> tokens = Tokens(["[PAD]", "[CLS]", "sur", "##prising", "end"], pad_id=0, special_ids=[1], whole_words=True)
        >>> texts = torch.tensor([[1, 2, 3, 4], [1, 4, 0, 0]])
        >>> tokens(texts)
        tensor([[-1,  0,  0,  1],
                [-1,  0, -1, -1]])
        >>> tokens.names(texts)
        [('surprising', 'end'), ('end',)]
    """

    vocabulary: Any = field(default=None, repr=False)
    pad_id: int | None = None
    special_ids: Collection[int] | None = None
    whole_words: bool = False
    continues: Callable[[str], bool] | None = field(default=None, repr=False)
    attention_mask: Tensor | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.whole_words and self.vocabulary is None:
            raise ValueError("`vocabulary` must be given to join tokens to words, got None. Pass the tokenizer.")
        if hasattr(self.vocabulary, "id_to_token"):  # a class without special tokens
            raise TypeError(
                "`vocabulary` must be a tokenizer of transformers, got one of tokenizers. Wrap it: "
                "PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=...)."
            )

    def __call__(self, ids: Tensor) -> Tensor:
        """The feature mask (B, T) of integer tokens (B, T)."""
        if ids.dim() != 2 or ids.is_floating_point():
            raise ValueError(
                f"`inputs` must be (B, T) integer tokens for Tokens, got {tuple(ids.shape)} of {ids.dtype}. Pass "
                "integer ids as `feature_mask` for other inputs."
            )
        attention = self.attention_mask
        is_player = self._is_text(ids) if attention is None else attention.to(ids.device).bool()
        if is_player.shape != ids.shape:
            raise ValueError(
                f"`attention_mask` must have the shape of the tokens, {tuple(ids.shape)}, got {tuple(is_player.shape)}."
            )
        special = torch.tensor(sorted(self._special), dtype=ids.dtype, device=ids.device)
        is_player = is_player & ~torch.isin(ids, special)
        starts = is_player
        if self.whole_words:
            goes_on = torch.zeros_like(is_player)
            goes_on[:, 1:] = is_player[:, :-1]
            starts = is_player & ~(goes_on & self._continuing(ids))
        return (starts.long().cumsum(dim=1) - 1).masked_fill(~is_player, NO_PLAYER)

    def names(self, ids: Tensor) -> list[tuple[str, ...]] | None:
        """The word of each player, one tuple per text; a word that occurs again gets a number."""
        return None if self.vocabulary is None else [_distinct(words) for words in self.words(ids)]

    def words(self, ids: Tensor) -> list[list[str]]:
        """The word of each player as it is in its text."""
        texts = []
        for tokens, players in zip(ids.tolist(), self(ids).tolist(), strict=True):
            parts: list[list[str]] = []
            for token, player in zip(tokens, players, strict=True):
                if player == len(parts):
                    parts.append([])
                if player != NO_PLAYER:
                    parts[player].append(self._text(token))
            texts.append([self._word(part) or SPACE for part in parts])
        return texts

    def _word(self, tokens: list[str]) -> str:
        """Tokens as one word. Tokens that encode bytes, as for accents, can only be decoded by their tokenizer."""
        word = "".join(token.removeprefix(CONTINUES).lstrip("".join(STARTS)) for token in tokens)
        if word.isascii() or not hasattr(self.vocabulary, "convert_tokens_to_string"):
            return word
        read = str(self.vocabulary.convert_tokens_to_string(tokens)).strip()
        return word if not read or " " in read else read

    def _is_text(self, ids: Tensor) -> Tensor:
        """(B, T) bool: between the first and the last token that is not padding."""
        pad_id = self.pad_id if self.pad_id is not None else getattr(self.vocabulary, "pad_token_id", None)
        if pad_id is None:
            return torch.ones_like(ids, dtype=torch.bool)
        other = (ids != pad_id).long()
        return (other.cumsum(dim=1) > 0) & (other.flip(1).cumsum(dim=1).flip(1) > 0)

    @property
    def _special(self) -> set[int]:
        if self.special_ids is not None:
            return set(self.special_ids)
        words = {getattr(self.vocabulary, name, None) for name in ("pad_token_id", "unk_token_id")}
        return set(getattr(self.vocabulary, "all_special_ids", ())) - words

    def _text(self, token: int) -> str:
        if hasattr(self.vocabulary, "convert_ids_to_tokens"):
            return str(self.vocabulary.convert_ids_to_tokens(token))
        try:
            return str(self.vocabulary(token) if callable(self.vocabulary) else self.vocabulary[token])
        except LookupError:
            raise ValueError(f"`vocabulary` must know every token, got none for id {token}.") from None

    def _continuing(self, ids: Tensor) -> Tensor:
        """(B, T) bool: tokens that continue a word."""
        known, place = torch.unique(ids, return_inverse=True)
        continues = self.continues or self._marked_as_continuing
        flags = [bool(continues(self._text(token))) for token in known.tolist()]
        return torch.tensor(flags, dtype=torch.bool, device=ids.device)[place]

    def _marked_as_continuing(self, token: str) -> bool:
        if self._start_mark is None:
            return token.startswith(CONTINUES)
        return not token.startswith(self._start_mark)

    @cached_property
    def _start_mark(self) -> str | None:
        """The mark with which words start in this vocabulary, if it is of that kind."""
        vocabulary = self.vocabulary
        if hasattr(vocabulary, "get_vocab"):
            texts: Collection[str] = vocabulary.get_vocab()
        else:
            texts = vocabulary.values() if isinstance(vocabulary, Mapping) else vocabulary
        if not isinstance(texts, (Sequence, Collection)):
            return None
        # By the most frequent mark, because each is also a letter or a word that other vocabularies may hold.
        counts = {mark: sum(str(text).startswith(mark) for text in texts) for mark in (CONTINUES, *STARTS)}
        commonest = max(counts, key=lambda mark: counts[mark])
        return commonest if commonest in STARTS else None


def _distinct(words: Sequence[str]) -> tuple[str, ...]:
    """Words as names: one that occurs again gets a number."""
    seen: dict[str, int] = {}
    names = []
    for word in words:
        seen[word] = seen.get(word, 0) + 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    return tuple(names)
