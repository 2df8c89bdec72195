"""Removes tokens by embedding them as zero vectors.

The inputs of the game become the embeddings of the tokens; a forward hook replaces the output of the model's embedding
layer by them. Zero is then an ordinary baseline, a token whose embedding is zero is a null player, and gradient methods
work on texts. The module itself is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ZeroEmbedding:
    """Remove a token by embedding it as the zero vector, as the paper does; pass it as ``baselines``.

    Args:
        layer: the name of the model's embedding layer. None finds the ``nn.Embedding`` that reads the tokens.

    Example:
        >>> from bivshap_lightning import BivariateShapley
        >>> model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2))
        >>> explanation = BivariateShapley(model).attribute(torch.tensor([[1, 2, 3]]), baselines=ZeroEmbedding())
        >>> explanation.shapley.shape, explanation.removal
        (torch.Size([1, 3]), 'zero embedding')
    """

    layer: str | None = None

    @property
    def description(self) -> str:
        """One phrase for records."""
        return "zero embedding"

    def __call__(self, embeddings: Tensor) -> Tensor:
        """The replacement of embeddings."""
        return torch.zeros_like(embeddings)


@dataclass(frozen=True)
class Reader:
    """An embedding layer that gets the tokens of an input.

    Attributes:
        layer: the layer.
        time_first: it gets them as (T, N).
    """

    layer: nn.Module
    time_first: bool = False

    def arrangement(
        self, position: int, inputs: Mapping[int, Tensor], seen: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """The function that arranges embeddings (N, T, D) as the layer got the tokens (N, T) of an input.

        Unchanged, time first, or flat. None if it got something else, such as another input of equal numbers.
        """
        ids = inputs[position]
        is_itself = seen.data_ptr() == ids.data_ptr()
        if is_itself and seen.shape == ids.shape and seen.stride() == ids.stride():
            return _unchanged
        if not is_itself and any(seen.data_ptr() == other.data_ptr() for other in inputs.values()):
            return None
        fits = seen.shape == ids.shape and torch.equal(seen, ids)
        if seen.dim() == 2 and seen.shape == ids.t().shape and torch.equal(seen, ids.t()):
            # With as many rows as tokens, a symmetric table fits both ways.
            return _unchanged if fits and not (is_itself or self.time_first) else _time_first
        if seen.dim() == 1 and seen.shape == ids.flatten().shape and torch.equal(seen, ids.flatten()):
            return _flat
        return _unchanged if fits else None


class Embedded(nn.Module):
    """A module as a function of embeddings: gets its inputs (tokens embedded), the tokens, then further arguments.

    Args:
        module: the module.
        readers: by position of an input, the layer that embeds it.
        n_inputs: how many inputs the module has.
    """

    def __init__(self, module: nn.Module, readers: Mapping[int, Reader], n_inputs: int) -> None:
        super().__init__()
        self.module = module
        self._readers, self._n_inputs = dict(readers), n_inputs

    def forward(self, *tensors: Any) -> Any:
        """Call the module on the tokens, with the given embeddings in place of its own."""
        extra = tensors[self._n_inputs + len(self._readers) :]
        tokens = dict(zip(self._readers, tensors[self._n_inputs :], strict=False))
        inputs = {k: tokens.get(k, x) for k, x in enumerate(tensors[: self._n_inputs])}
        was_read: set[int] = set()
        hooks = []
        try:
            for position, reader in self._readers.items():
                hook = _replacing(reader, position, inputs, tensors[position], partial(was_read.add, position))
                hooks.append(reader.layer.register_forward_hook(hook, with_kwargs=True))
            output = self.module(*inputs.values(), *extra)
        finally:
            for handle in hooks:
                handle.remove()
        if len(was_read) < len(self._readers):
            raise ValueError(
                "`baselines` must name the layer that embeds the tokens, got one that did not get them as input. Pass "
                "ZeroEmbedding(layer=...), or replace tokens by the padding token."
            )
        return output


def embed(
    module: nn.Module | None,
    inputs: tuple[Tensor, ...],
    specs: Mapping[int, ZeroEmbedding],
    run: Callable[[], Any],
) -> tuple[Embedded, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Make a model and its inputs functions of embeddings.

    Args:
        module: the model.
        inputs: of the model.
        specs: which of them to embed.
        run: runs the model on the inputs, to find the layer that gets them.

    Returns:
        The model of embeddings, its inputs, and the tokens that it takes as well.
    """
    for position in specs:
        if module is None or inputs[position].is_floating_point() or inputs[position].dim() != 2:
            raise ValueError(
                f"`baselines=ZeroEmbedding()` must go with a torch module and integer tokens (B, T), got "
                f"{inputs[position].dtype} of shape {tuple(inputs[position].shape)}"
                f"{' and a model that is no torch module' if module is None else ''}. Pass a replacement instead."
            )
    assert module is not None
    given = dict(enumerate(inputs))
    readers = {k: _find(_candidates(module, spec.layer), given, k, run) for k, spec in specs.items()}
    with torch.no_grad():
        embedded = {k: reader.layer(inputs[k]).clone() for k, reader in readers.items()}
    for position, vectors in embedded.items():
        if vectors.dim() != 3 or vectors.shape[:2] != inputs[position].shape:
            raise ValueError(
                f"`layer` must embed every token of shape {tuple(inputs[position].shape)} by itself, got "
                f"{tuple(vectors.shape)} from {type(readers[position].layer).__name__}. Replace tokens by the padding "
                "token instead."
            )
    tokens = tuple(inputs[position] for position in readers)
    return Embedded(module, readers, len(inputs)), tuple({**given, **embedded}.values()), tokens


def _candidates(module: nn.Module, name: str | None) -> dict[str, nn.Module]:
    """Layers that may embed tokens, by name: the named one, or all ``nn.Embedding``."""
    layers = dict(module.named_modules())
    embeddings: dict[str, nn.Module] = {key: m for key, m in layers.items() if isinstance(m, nn.Embedding)}
    if name is None:
        return embeddings
    if name not in layers:
        raise ValueError(
            f"`layer` must name a submodule of the model, got {name!r}; embeddings are {list(embeddings)}."
        )
    return {name: layers[name]}


def _find(
    layers: Mapping[str, nn.Module], inputs: Mapping[int, Tensor], position: int, run: Callable[[], Any]
) -> Reader:
    """The layer that gets the tokens of an input."""
    names = {layer: name for name, layer in layers.items()}
    themselves: dict[nn.Module, Reader] = {}
    equals: dict[nn.Module, Reader] = {}
    late: list[nn.Module] = []

    def note(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        seen = _argument(args, kwargs)
        arrange = Reader(layer).arrangement(position, inputs, seen)
        if arrange is not None and (len(layers) == 1 or _looks_up(layer, args, kwargs, output)):
            same = seen.data_ptr() == inputs[position].data_ptr()
            (themselves if same else equals)[layer] = Reader(layer, time_first=arrange is _time_first)
        elif _is_shifted(inputs[position], seen) and all(seen.data_ptr() != x.data_ptr() for x in inputs.values()):
            late.append(layer)

    hooks = [layer.register_forward_hook(note, with_kwargs=True) for layer in layers.values()]
    try:
        run()
    finally:
        for handle in hooks:
            handle.remove()
    found = themselves or equals  # other integers, such as positions, may equal the tokens by chance
    if not found:
        known = f"only {sorted(layers)}, which read something else" if layers else "none"
        raise ValueError(
            f"`baselines=ZeroEmbedding()` must find an nn.Embedding layer that reads input {position}, got {known}. "
            "Name it: ZeroEmbedding(layer=...), or replace tokens by the padding token."
        )
    reader = next(iter(found.values()))
    decoders = [layer for layer in late if getattr(layer, "weight", layer) is getattr(reader.layer, "weight", None)]
    if len(found) > 1 or decoders:
        raise ValueError(
            f"`baselines=ZeroEmbedding()` must find one layer that reads input {position}, once, got "
            f"{[names[layer] for layer in (*found, *decoders)]}: tokens removed from one would still be seen by the "
            "other. Replace tokens by the padding token, or name the one to zero: ZeroEmbedding(layer=...)."
        )
    return reader


def _replacing(
    reader: Reader, position: int, inputs: Mapping[int, Tensor], embeddings: Tensor, note: Callable[[], None]
) -> Callable[..., Tensor | None]:
    """A hook that replaces the output for the tokens of an input by the given embeddings, and no other output."""

    def hook(_: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor | None:
        arrange = reader.arrangement(position, inputs, _argument(args, kwargs))
        if arrange is None:
            return None
        note()
        return arrange(embeddings).to(output.dtype)

    return hook


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    value: Tensor = args[0] if args else kwargs["input"]
    return value


def _looks_up(layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Tensor) -> bool:
    """Whether a layer's output follows its tokens: layers of positions may get tokens and read only their shape."""
    seen = _argument(args, kwargs)
    others = seen.flatten().roll(1).view_as(seen)  # no new ones: `max_norm` changes the vectors that are looked up
    if torch.equal(others, seen):
        return True  # the same token everywhere: nothing can be told
    again = layer.forward(others, *args[1:], **kwargs) if args else layer.forward(**{**kwargs, "input": others})
    return not torch.equal(again, output)


def _unchanged(embeddings: Tensor) -> Tensor:
    return embeddings


def _time_first(embeddings: Tensor) -> Tensor:
    return embeddings.transpose(0, 1)


def _flat(embeddings: Tensor) -> Tensor:
    return embeddings.flatten(0, 1)


def _is_shifted(ids: Tensor, seen: Tensor) -> bool:
    """Whether a layer got the tokens one step later, as the decoder of an encoder-decoder classifier does."""
    return seen.shape == ids.shape and ids.shape[1] > 1 and torch.equal(seen[:, 1:], ids[:, :-1])
