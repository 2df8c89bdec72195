"""Texts removed in the space of embeddings: the model reads tokens as ever, but absent ones are embedded as zero.

The inputs of the game become the embeddings of the tokens, which a hook puts in the place of what the model's own
embedding layer returns. Everything else follows: zero is an ordinary replacement, a token whose embedding is zero is a
null player, and methods that follow gradients work on texts. The module itself is left as it is.
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
    """Remove a token by embedding it as the zero vector, as the paper does; goes wherever ``baselines`` go.

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


class Embedded(nn.Module):
    """A module as a function of embeddings: takes its inputs (tokens embedded), the tokens, then further arguments.

    Args:
        module: the module.
        layers: by position of an input, the layer that embeds it.
        n_inputs: how many inputs the module has.
    """

    def __init__(self, module: nn.Module, layers: Mapping[int, nn.Module], n_inputs: int) -> None:
        super().__init__()
        self.module = module
        self._layers, self._n_inputs = dict(layers), n_inputs

    def forward(self, *tensors: Any) -> Any:
        """Call the module on the tokens, with the given embeddings in place of its own."""
        inputs, extra = list(tensors[: self._n_inputs]), tensors[self._n_inputs + len(self._layers) :]
        tokens = tensors[self._n_inputs :][: len(self._layers)]
        was_read: set[int] = set()
        hooks = []
        try:
            for (position, layer), ids in zip(self._layers.items(), tokens, strict=True):
                hook = _replacing(ids, inputs[position], partial(was_read.add, position))
                hooks.append(layer.register_forward_hook(hook, with_kwargs=True))
                inputs[position] = ids
            output = self.module(*inputs, *extra)
        finally:
            for handle in hooks:
                handle.remove()
        if len(was_read) < len(self._layers):
            raise ValueError(
                "`baselines` must name the layer that embeds the tokens, got one that did not read them. Pass "
                "ZeroEmbedding(layer=...), or replace tokens by the padding token."
            )
        return output


def embed(
    module: nn.Module | None,
    inputs: tuple[Tensor, ...],
    specs: Mapping[int, ZeroEmbedding],
    run: Callable[[], Any],
) -> tuple[Embedded, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Move a model and its inputs to the space of embeddings.

    Args:
        module: the model.
        inputs: of the model.
        specs: which of them to embed.
        run: runs the model on the inputs, so that the layer which reads them can be seen.

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
    layers = {
        position: _find(_candidates(module, spec.layer), inputs[position], position, run)
        for position, spec in specs.items()
    }
    with torch.no_grad():
        embedded = tuple(layers[k](x).clone() if k in layers else x for k, x in enumerate(inputs))
    return Embedded(module, layers, len(inputs)), embedded, tuple(inputs[position] for position in layers)


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


def _find(layers: Mapping[str, nn.Module], ids: Tensor, position: int, run: Callable[[], Any]) -> nn.Module:
    """The layer that reads the tokens."""
    found: list[nn.Module] = []

    def note(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        if _arrangement(ids, _argument(args, kwargs)) is not None:
            found.append(layer)

    hooks = [layer.register_forward_hook(note, with_kwargs=True) for layer in layers.values()]
    try:
        run()
    finally:
        for handle in hooks:
            handle.remove()
    if not found:
        known = f"only {sorted(layers)}, which read something else" if layers else "none"
        raise ValueError(
            f"`baselines=ZeroEmbedding()` must find an nn.Embedding layer that reads input {position}, got {known}. "
            "Name it: ZeroEmbedding(layer=...), or replace tokens by the padding token."
        )
    return found[0]


def _replacing(ids: Tensor, embeddings: Tensor, note: Callable[[], None]) -> Callable[..., Tensor | None]:
    """A hook that answers the tokens with the given embeddings and leaves other calls of the layer alone."""

    def hook(_: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor | None:
        arrange = _arrangement(ids, _argument(args, kwargs))
        if arrange is None:
            return None
        note()
        return arrange(embeddings).to(output.dtype)

    return hook


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    value: Tensor = args[0] if args else kwargs["input"]
    return value


def _arrangement(ids: Tensor, seen: Tensor) -> Callable[[Tensor], Tensor] | None:
    """How embeddings (N, T, D) are arranged where a layer saw the tokens (N, T): as they are, time first, or flat."""
    if seen.shape == ids.shape and (seen.data_ptr() == ids.data_ptr() or torch.equal(seen, ids)):
        return lambda embeddings: embeddings
    if seen.dim() == 2 and seen.shape == ids.t().shape and torch.equal(seen, ids.t()):
        return lambda embeddings: embeddings.transpose(0, 1)
    if seen.dim() == 1 and seen.shape == ids.flatten().shape and torch.equal(seen, ids.flatten()):
        return lambda embeddings: embeddings.flatten(0, 1)
    return None
