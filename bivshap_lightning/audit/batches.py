"""Reads a validation batch: which tensors are inputs of the model, and which are labels.

Recognised without help: a tensor; ``(x, y)`` and ``(x1, x2, ..., y)``; ``((x1, x2), y)``, where a forward with one
argument gets the tuple; a mapping whose keys are
the names of forward's arguments, or common names for inputs and labels, Hugging Face's among them, whose further
tensors are passed to the model by name. The last tensor of a tuple is taken for labels if it holds one number per
sample, or nothing but zeros and ones (several labels), or if forward takes as many arguments as there are tensors
before it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bivshap_lightning.game.players import Tokens, automatic_mask

if TYPE_CHECKING:
    from bivshap_lightning.audit.settings import AuditSettings

INPUT_KEYS = ("input_ids", "pixel_values", "input_values", "inputs_embeds", "x", "input", "inputs", "image", "images",
              "img", "features", "data")  # fmt: skip
HUGGING_FACE_KEYS = INPUT_KEYS[:4]
LABEL_KEYS = ("labels", "label", "y", "target", "targets")

InputFunction = Callable[[Any], Any]
ForwardFunction = Callable[..., Any]


@dataclass(frozen=True)
class Batch:
    """The parts of a batch.

    Attributes:
        inputs: what is explained, tensors with one row per sample.
        labels: one per sample, or None.
        extra: further tensors with one row per sample that the model takes by name.
        by_name: the name under which the model takes the input, or None if by position.
        as_tuple: whether the model takes all inputs as one tuple.
    """

    inputs: tuple[Tensor, ...]
    labels: Tensor | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    by_name: str | None = None
    as_tuple: bool = False

    def __len__(self) -> int:
        return len(self.inputs[0])

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Everything with a row per sample: inputs, extra tensors, labels."""
        return (*self.inputs, *self.extra.values(), *(() if self.labels is None else (self.labels,)))

    def like(self, tensors: Sequence[Tensor]) -> Batch:
        """The same kind of batch with other rows, given as :attr:`tensors` gives them."""
        n_inputs, n_extra = len(self.inputs), len(self.extra)
        extra = dict(zip(self.extra, tensors[n_inputs : n_inputs + n_extra], strict=True))
        labels = None if self.labels is None else tensors[-1]
        return replace(self, inputs=tuple(tensors[:n_inputs]), labels=labels, extra=extra)


def read_batch(batch: Any, input_fn: InputFunction | None = None, forward: Callable[..., Any] | None = None) -> Batch:
    """Find inputs and labels in a batch.

    Args:
        batch: what the validation dataloader yields.
        input_fn: used instead: returns the inputs, or (inputs, labels); inputs are a tensor or a tuple of them.
        forward: of the module; the names and the number of its arguments tell inputs from labels.

    Raises:
        TypeError: nothing fits; the message shows the batch and the line to write.

    Example:
        >>> import torch
        >>> read_batch((torch.zeros(8, 3), torch.zeros(8, dtype=torch.long))).labels.shape
        torch.Size([8])
    """
    if input_fn is not None:
        given = input_fn(batch)
        is_pair = isinstance(given, (tuple, list)) and len(given) == 2 and (given[1] is None or _is_label(given[1]))
        found = _from_parts(*(given if is_pair else (given, None)))
    elif isinstance(batch, Mapping):
        found = _from_mapping(batch, _parameters(forward))
    elif isinstance(batch, (tuple, list)) and batch:
        *inputs, last = batch
        takes_last = bool(inputs) and (_is_label(last) or len(_parameters(forward)) == len(inputs))
        parts = (inputs[0] if len(inputs) == 1 else tuple(inputs)) if takes_last else tuple(batch)
        found = _from_parts(parts, last if takes_last else None)
        is_nested = takes_last and len(inputs) == 1 and isinstance(inputs[0], (tuple, list))
        if found is not None and is_nested and len(found.inputs) > 1 and len(_parameters(forward)) == 1:
            found = replace(found, as_tuple=True)
    else:
        found = _from_parts(batch, None)
    if found is None or len({len(t) for t in found.tensors}) != 1:
        raise TypeError(_cannot_read(batch, _parameters(forward)))
    return found


def batch_tree(value: Any, indent: int = 2) -> str:
    """The structure of a batch as a tree of shapes.

    Example:
        >>> import torch
        >>> print(batch_tree({"image": torch.zeros(4, 3), "names": ["a", "b"]}))
          dict
            image: float32 (4, 3)
            names: list of 2 str
    """
    return "\n".join(" " * indent + line for line in _lines(value, ""))


def players_of(batch: Batch, feature_mask: Any = None) -> Any:
    """The feature mask for :func:`~bivshap_lightning.game.players.make_players`: hidden tokens are no players.

    Args:
        batch: the batch; its attention mask, if it has one, hides padding.
        feature_mask: what the user said, or None for automatic players.

    Example:
        >>> import torch
        >>> hidden = Batch((torch.tensor([[5, 6, 0]]),), extra={"attention_mask": torch.tensor([[1, 1, 0]])})
        >>> players_of(hidden)(hidden.inputs[0])
        tensor([[ 0,  1, -1]])
    """
    attention = batch.extra.get("attention_mask")
    x = batch.inputs[0]
    if attention is not None and isinstance(feature_mask, Tokens):
        return replace(feature_mask, attention_mask=attention)
    if attention is None or feature_mask is not None or len(batch.inputs) > 1 or attention.shape != x.shape[:2]:
        return automatic_mask(batch.inputs) if feature_mask is None else feature_mask
    tokens = Tokens(attention_mask=attention)
    return tokens if x.dim() == 2 else tokens(attention.long()).view(*attention.shape, *[1] * (x.dim() - 2))


def labels_as_target(batch: Batch, behavior: Any) -> Tensor | None:
    """The labels as what is explained. Classes may come as floats, as the loss of a single logit wants them.

    Example:
        >>> import torch
        >>> labels_as_target(Batch((torch.zeros(2, 3),), torch.tensor([0.0, 1.0])), "probability")
        tensor([0, 1])
    """
    labels = batch.labels
    if labels is None or not labels.is_floating_point() or behavior in ("loss", "output"):
        return labels
    return labels.long() if bool((labels == labels.round()).all()) else labels


def explained_target(batch: Batch, settings: AuditSettings, places: Sequence[int] = ()) -> Any:
    """What is explained: the user's choice; of independent labels, for each sample one that is on, in turn.

    Args:
        batch: the samples.
        settings: of the audit.
        places: indices of the samples among the chosen ones, by which labels take turns.
    """
    if settings.target == "label" and settings.task != "multilabel":
        return labels_as_target(batch, settings.behavior)
    if settings.target not in (None, "label") or settings.task != "multilabel":
        return settings.target
    if batch.labels is None:
        return None
    labels_on = [row.nonzero()[:, 0].tolist() or list(range(len(row))) for row in batch.labels.cpu()]
    turns = places or range(len(labels_on))
    return torch.tensor([on[place % len(on)] for on, place in zip(labels_on, turns, strict=True)])


def words_of(batch: Batch, feature_mask: Any = None) -> Sequence[list[str] | None]:
    """For each sample the words of its players, if it is a text whose vocabulary is known.

    Example:
        >>> words_of(Batch((torch.zeros(2, 3),)))
        [None, None]
    """
    tokens = players_of(batch, feature_mask)
    if not isinstance(tokens, Tokens) or tokens.vocabulary is None:
        return [None] * len(batch)
    return tokens.words(batch.inputs[0])


def has_two_players(batch: Batch, feature_mask: Any = None) -> list[bool]:
    """Which samples can be explained: a text of fewer than two players, such as an empty one, has no graph.

    Example:
        >>> import torch
        >>> texts = Batch((torch.tensor([[5, 6], [7, 0]]),), extra={"attention_mask": torch.tensor([[1, 1], [1, 0]])})
        >>> has_two_players(texts)
        [True, False]
    """
    maker = players_of(batch, feature_mask)
    if not isinstance(maker, Tokens):
        return [True] * len(batch)
    flags: list[bool] = (maker(batch.inputs[0]).amax(dim=1) > 0).tolist()
    return flags


class Forward(nn.Module):
    """A LightningModule as a function of a batch's tensors, run as its Trainer runs it.

    Args:
        module: the LightningModule.
        batch: tells how its tensors are passed.
        forward_fn: called as ``forward_fn(module, *inputs)`` instead of the module itself.
        context: makes the context of a forward pass (mixed precision).
    """

    def __init__(
        self, module: nn.Module, batch: Batch, forward_fn: ForwardFunction | None, context: Callable[[], Any]
    ) -> None:
        super().__init__()
        self.module = module
        self._names, self._n_inputs, self._by_name = tuple(batch.extra), len(batch.inputs), batch.by_name
        self._as_tuple = batch.as_tuple
        self._forward_fn, self._context = forward_fn, context

    def forward(self, *tensors: Tensor) -> Any:
        """Call the module with inputs, then extra tensors."""
        inputs, extra = tensors[: self._n_inputs], dict(zip(self._names, tensors[self._n_inputs :], strict=True))
        with self._context():
            if self._forward_fn is not None:
                return self._forward_fn(self.module, *inputs, *extra.values())
            if self._by_name is not None:
                return self.module(**{self._by_name: inputs[0]}, **extra)
            return self.module(inputs) if self._as_tuple else self.module(*inputs)


def _from_parts(inputs: Any, labels: Any) -> Batch | None:
    parts = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if not parts or not all(isinstance(p, Tensor) and p.dim() > 0 for p in parts):
        return None
    return Batch(parts, labels if isinstance(labels, Tensor) else None)


def _parameters(forward: Callable[..., Any] | None) -> tuple[str, ...]:
    """The names of the positional arguments of a module's forward; none if it takes any number of them."""
    if forward is None:
        return ()
    parameters = list(inspect.signature(forward).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _from_mapping(batch: Mapping[str, Any], parameters: Sequence[str]) -> Batch | None:
    labels = next((batch[k] for k in LABEL_KEYS if isinstance(batch.get(k), Tensor)), None)
    named = [name for name in parameters if isinstance(batch.get(name), Tensor) and name not in LABEL_KEYS]
    key = next((k for k in INPUT_KEYS if isinstance(batch.get(k), Tensor)), None)
    if named and key not in HUGGING_FACE_KEYS:
        # In the order of forward's arguments, all of them inputs; the first that is missing ends the list.
        present = tuple(takewhile(lambda name: name in named, parameters))
        return Batch(tuple(batch[name] for name in present), labels) if present else None
    if key is None:
        return None
    if key not in HUGGING_FACE_KEYS:
        return Batch((batch[key],), labels)
    extra = {k: v for k, v in batch.items()
             if k != key and k not in LABEL_KEYS and isinstance(v, Tensor) and v.dim() > 0}  # fmt: skip
    return Batch((batch[key],), labels, extra, key)


def _is_label(value: Any) -> bool:
    """One number per sample (a class, or the value of a regression), or zeros and ones: labels that are off or on."""
    if not isinstance(value, Tensor) or value.dim() not in (1, 2):
        return False
    return value.dim() == 1 or value.shape[1] == 1 or bool(((value == 0) | (value == 1)).all())


def _lines(value: Any, prefix: str) -> list[str]:
    if isinstance(value, Tensor):
        return [f"{prefix}{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"]
    if isinstance(value, Mapping):
        parts = [f"  {line}" for key, item in value.items() for line in _lines(item, f"{key}: ")]
        return [f"{prefix}{type(value).__name__}", *parts]
    if isinstance(value, (tuple, list)):
        if value and not isinstance(value[0], (Tensor, Mapping, tuple, list)):
            return [f"{prefix}{type(value).__name__} of {len(value)} {type(value[0]).__name__}"]
        parts = [f"  {line}" for position, item in enumerate(value) for line in _lines(item, f"{position}: ")]
        return [f"{prefix}{type(value).__name__}", *parts]
    return [f"{prefix}{type(value).__name__}"]


_ONE_PATH = "input_fn is the import path of such a function"


def _cannot_read(batch: Any, parameters: Sequence[str]) -> str:
    names = [name for name in batch if isinstance(batch[name], Tensor)] if isinstance(batch, Mapping) else []
    labels = next((name for name in names if name in LABEL_KEYS), None)
    inputs = ", ".join(f"batch[{name!r}]" for name in names if name != labels) or "batch[...]"
    target = f"batch[{labels!r}]" if labels else "labels_or_None"
    called = f" forward takes {', '.join(parameters)}." if parameters else ""
    keys = ", ".join(repr(name) for name in names if name != labels)
    takes_mapping = len(parameters) == 1 and "," in keys
    arguments = f"dict(zip(({keys}), inputs))" if takes_mapping else "*inputs"
    also = " --audit.forward_fn package.module.call" if takes_mapping else ""
    return (
        "`batch` must hold input tensors where BivShapCallback can find them, got\n"
        f"{batch_tree(batch)}\n"
        f"Write where they are:{called}\n"
        f"  BivShapCallback(input_fn=lambda batch: (({inputs}), {target}),\n"
        f"                  forward_fn=lambda module, *inputs: module({arguments}))\n"
        f"On the command line and in YAML {'they are import paths of such functions' if also else _ONE_PATH}: "
        f"--audit.input_fn package.module.find_inputs{also}"
    )
