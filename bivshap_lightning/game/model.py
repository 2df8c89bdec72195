"""The model as a guest: called on its own terms and left exactly as it was found.

Everything that differs between a torch module, a plain function and an estimator, and everything that protects
the caller's training run (evaluation mode, random number generators, buffers), is settled here, once.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bivshap_lightning.game.behavior import Link
from bivshap_lightning.game.inputs import Table
from bivshap_lightning.game.trees import TreeEnsemble, entrance_of, read_trees

_Step = tuple[str, list[Tensor], list[Tensor]]


class Model:
    """A uniform caller for torch modules, functions and estimators.

    * A ``torch.nn.Module`` gets tensors on its own device and in its own floating point dtype.
    * A plain function gets what the user passed as inputs: tensors for tensors, NumPy arrays for arrays.
    * Boosted trees that classify are asked for their margins, and ``link`` says how these become probabilities.
    * Any other object with ``predict_proba``, ``decision_function`` or ``predict`` gets NumPy arrays; the first of
      these methods that it has is used.

    Args:
        model: the model.
        as_arrays: per input, whether it came as an array, so that a plain function expects one.
        tables: per input, the table it came from if it was a data frame, so that the model expects frames.

    Example:
        >>> Model(torch.nn.Linear(2, 3))((torch.zeros(4, 2),)).shape
        torch.Size([4, 3])
        >>> Model(lambda x: x.sum(axis=1), as_arrays=[True])((torch.ones(4, 2),))
        tensor([[2.],
                [2.],
                [2.],
                [2.]])
    """

    def __init__(self, model: Any, *, as_arrays: Sequence[bool] = (), tables: Sequence[Table | None] = ()) -> None:
        self.module = model if isinstance(model, nn.Module) else None
        self.class_names = getattr(model, "classes_", None)
        self._model = model
        self._call, self.method, self.link = _entrance(model)
        self._as_arrays, self._tables = as_arrays, tables
        # What the first visit sees a module do, so that later ones need not guard against everything.
        self._mutable: list[tuple[nn.Module, str]] | None = None
        self._draws_outside_torch: bool | None = None

    @property
    def is_regressor(self) -> bool:
        """An estimator that can only ``predict``: its output is a value, not a class score."""
        return self.method == "predict"

    @property
    def gives_probabilities(self) -> bool:
        """A single output in [0, 1] is a probability: black boxes but for margins, modules that end in a sigmoid."""
        if self.module is None:
            return self.method != "decision_function"
        return isinstance(list(self.module.modules())[-1], nn.Sigmoid)

    def read_trees(self) -> TreeEnsemble:
        """The model as a sum of trees; :class:`~bivshap_lightning.game.trees.TreesRefused` if it is none."""
        columns = [c for t in self._tables if t is not None for c in zip(t.categories, t.dtypes, strict=True)]
        return read_trees(self._model, [list(x) for x, dtype in columns if x is not None and dtype.kind != "b"])

    def place(self, x: Tensor) -> Tensor:
        """Bring an input to the model's device and, if it is floating point, to the model's dtype."""
        if self.module is None:
            return x
        tensors = [*self.module.parameters(), *self.module.buffers()]
        device = tensors[0].device if tensors else x.device
        dtypes = [t.dtype for t in tensors if t.is_floating_point()]
        return x.to(device, dtypes[0] if dtypes and x.is_floating_point() else x.dtype)

    def __call__(self, inputs: tuple[Tensor, ...], extra: tuple[Any, ...] = ()) -> Tensor:
        """Run the model on rows.

        Args:
            inputs: tensors of shape (N, ...).
            extra: further positional arguments.

        Returns:
            (N, C) scores, float32 at least.
        """
        try:
            output = self._call(*(inputs if self.module is not None else self._as_given(inputs)), *extra)
        except IndexError as error:
            codes = [x for x in inputs if not x.is_floating_point() and x.numel()]
            if not codes:
                raise
            raise ValueError(
                f"`inputs` must hold codes that the model knows, no more of them than it can read, got codes from "
                f"{min(int(x.min()) for x in codes)} to {max(int(x.max()) for x in codes)} in shapes "
                f"{[tuple(x.shape[1:]) for x in codes]}; the model says: {error}. Shorten the text, or map unseen "
                "codes to one that it knows."
            ) from error
        return _as_scores(output, inputs[0])

    def _as_given(self, inputs: tuple[Tensor, ...]) -> list[Any]:
        """Inputs as the caller of a black box passed them: tensors, arrays, frames. An estimator gets no tensors."""
        given: list[Any] = []
        for k, x in enumerate(inputs):
            if self.method is None and not (self._as_arrays and self._as_arrays[k]):
                given.append(x)
                continue
            array, table = x.detach().cpu().numpy(), self._tables[k] if self._tables else None
            given.append(array if table is None else table.decode(array))
        return given

    def check_length(self, inputs: tuple[Tensor, ...]) -> None:
        """Refuse texts that are longer than a model of Hugging Face's kind can read."""
        configs = [getattr(m, "config", None) for m in ([] if self.module is None else self.module.modules())]
        limits = [getattr(config, "max_position_embeddings", None) for config in configs]
        limit = min((n for n in limits if isinstance(n, int) and n > 0), default=None)
        for x in inputs:
            if limit is not None and x.dim() == 2 and not x.is_floating_point() and x.shape[1] > limit:
                raise ValueError(
                    f"`inputs` must be texts of at most {limit} tokens, the model's limit, got {x.shape[1]}. Shorten "
                    "them, e.g. tokenizer(..., truncation=True)."
                )

    @contextmanager
    def visit(self, *, gradients: bool = False) -> Iterator[None]:
        """Within this context the model is in evaluation mode; afterwards no trace of the visit is left.

        The ``training`` flag of every submodule, every buffer, and the global random number generators of torch,
        NumPy and Python are put back as they were, also after an error. Two things are settled by the first visit:
        which buffers of a module can change, and whether it draws from NumPy's or Python's generator, whose states
        take longer to keep than a small network takes to run. Whoever must not rely on that puts
        :func:`global_rngs_kept` around all visits, as explainers and the callback do.

        Args:
            gradients: record gradients (towards inputs), even inside somebody else's inference mode. By default
                nothing is recorded.
        """
        with ExitStack() as stack:
            # Before CUDA has been used no parameter is on it, and looking through all of them takes its time.
            parameters = () if self.module is None or not torch.cuda.is_initialized() else self.module.parameters()
            devices = {p.device for p in parameters}
            is_touched = None
            if self._draws_outside_torch is False:
                stack.enter_context(_torch_rngs_kept(devices))
            else:
                is_touched = stack.enter_context(global_rngs_kept(devices))
            stack.enter_context(torch.inference_mode(not gradients))
            stack.enter_context(torch.set_grad_enabled(gradients))
            if self.module is not None:
                stack.enter_context(_evaluation_mode(self.module))
                stack.enter_context(self._buffers_kept(self.module))
                stack.enter_context(_norms_kept(self.module))
            yield
            if self.module is not None and self._draws_outside_torch is None and is_touched is not None:
                self._draws_outside_torch = is_touched()

    @contextmanager
    def _buffers_kept(self, module: nn.Module) -> Iterator[None]:
        """Put buffers back that a forward pass changes.

        The first visit watches all buffers; later ones copy only those that the first one saw change, so that an
        ordinary model pays nothing.
        """
        owners = self._mutable if self._mutable is not None else _buffer_owners(module)
        before = [(m, name, m._buffers[name]) for m, name in owners]
        copies = [None if b is None else b.clone() for _, _, b in before]
        try:
            yield
        finally:
            changed = []
            for (m, name, buffer), copy in zip(before, copies, strict=True):
                replaced = name not in m._buffers or m._buffers[name] is not buffer
                if replaced:
                    m._buffers[name] = buffer
                if buffer is not None and copy is not None and not _same(buffer, copy):
                    buffer.copy_(copy)
                    replaced = True
                if replaced:
                    changed.append((m, name))
            if self._mutable is None:
                self._mutable = changed

    def find_stochastic_module(self, inputs: tuple[Tensor, ...], extra: tuple[Any, ...] = ()) -> str | None:
        """Name the first submodule that answers equal inputs with different outputs, or None."""
        if self.module is None:
            return None
        first, second = (self._trace(self.module, inputs, extra) for _ in range(2))
        for (name, seen, made), (_, seen_again, made_again) in zip(first, second, strict=False):
            if _same_all(seen, seen_again) and not _same_all(made, made_again):
                return name
        return None

    def _trace(self, module: nn.Module, inputs: tuple[Tensor, ...], extra: tuple[Any, ...]) -> list[_Step]:
        """What every submodule saw and made in one forward pass, in the order in which they finished."""
        steps: list[_Step] = []
        hooks = [m.register_forward_hook(_recorder(steps, name, m)) for name, m in module.named_modules()]
        try:
            self(inputs, extra)
        finally:
            for hook in hooks:
                hook.remove()
        return steps


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whatever device.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
        (True, False)
    """
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def _entrance(model: Any) -> tuple[Callable[..., Any], str | None, Link | None]:
    """How to call a model, by which method when it is an estimator, and what its scores mean if that is known."""
    if not isinstance(model, nn.Module):
        trees = entrance_of(model)
        if trees is not None:
            return trees.call, trees.method, trees.link
        for method in ("predict_proba", "decision_function", "predict"):
            if callable(getattr(model, method, None)):
                return getattr(model, method), method, None
    if callable(model):
        return model, None, None
    raise TypeError(
        f"`model` must be a torch module, a function, or an estimator with `predict_proba` or `predict`, got "
        f"{type(model).__name__}. Wrap it in a function from inputs to scores."
    )


def _as_scores(output: Any, like: Tensor) -> Tensor:
    """Model output as (N, C) floating point scores on the device of the inputs."""
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    if not isinstance(output, (Tensor, np.ndarray)):
        raise TypeError(
            f"`model` must return a tensor or an array of scores, got {type(output).__name__}. "
            "Wrap it in a function that returns the scores alone."
        )
    if isinstance(output, np.ndarray) and output.dtype.kind not in "biuf":
        raise TypeError(
            f"`model` must return numbers, got an array of {output.dtype}. A classifier must have `predict_proba` or "
            "`decision_function`; wrap another one in a function from inputs to scores."
        )
    scores = torch.as_tensor(output, device=like.device)
    if scores.dim() == 1:
        scores = scores[:, None]
    if scores.dim() != 2 or scores.shape[0] != like.shape[0]:
        raise ValueError(
            f"`model` must return one row of scores per input row, (N,) or (N, C), got {tuple(scores.shape)} for "
            f"{like.shape[0]} rows. Wrap it in a function that returns (N, C)."
        )
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


@contextmanager
def global_rngs_kept(devices: Iterable[torch.device] = ()) -> Iterator[Callable[[], bool]]:
    """Within this context anybody may draw random numbers; afterwards nobody can tell.

    Args:
        devices: whose generators are kept, besides the CPU's and those of NumPy and Python.

    Yields:
        A function that says whether NumPy's or Python's generator has been used in the meantime.

    Example:
        >>> with global_rngs_kept() as is_touched:
        ...     first = torch.rand(1)
        ...     is_touched()
        False
        >>> bool(first == torch.rand(1))
        True
    """
    numpy_state, python_state = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002

    def is_touched() -> bool:
        numpy_now = np.random.get_state(legacy=False)  # noqa: NPY002
        return random.getstate() != python_state or pickle.dumps(numpy_now) != pickle.dumps(numpy_state)

    try:
        with _torch_rngs_kept(devices):
            yield is_touched
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _torch_rngs_kept(devices: Iterable[torch.device]) -> AbstractContextManager[None]:
    return torch.random.fork_rng(devices=sorted({d.index for d in devices if d.type == "cuda"}))


@contextmanager
def _evaluation_mode(module: nn.Module) -> Iterator[None]:
    # The flag is set directly: `eval()` may be overridden, and a frozen layer must stay as its owner left it.
    training = [m for m in module.modules() if m.training]
    for m in training:
        m.training = False
    try:
        yield
    finally:
        for m in training:
            m.training = True


@contextmanager
def _norms_kept(module: nn.Module) -> Iterator[None]:
    """Put back weights that an embedding with ``max_norm`` shortens whenever it is asked for them."""
    limited = [m for m in module.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag)) and m.max_norm is not None]
    weights = [m.weight for m in limited]
    copies = [weight.detach().clone() for weight in weights]
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, copy in zip(weights, copies, strict=True):
                if not torch.equal(weight, copy):
                    weight.copy_(copy)


def _buffer_owners(module: nn.Module) -> list[tuple[nn.Module, str]]:
    # By keys: the buffers of a scripted module cannot be iterated over.
    return [(m, name) for m in module.modules() for name in m._buffers.keys()]  # noqa: SIM118


def _recorder(steps: list[_Step], name: str, module: nn.Module) -> Callable[..., None]:
    label = f"module {name!r} ({type(module).__name__})" if name else "the model's own forward"

    def record(_: nn.Module, args: Any, output: Any) -> None:
        steps.append((label, _tensors(args), _tensors(output)))

    return record


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value.clone()]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a, b) or (a.is_floating_point() and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))


def _same_all(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(x.shape == y.shape and torch.allclose(x.float(), y.float(), rtol=1e-4, atol=1e-5, equal_nan=True)
               for x, y in zip(a, b, strict=False))  # fmt: skip
