"""Calls any model in one way: torch modules, functions and estimators.

:class:`Model` hides what differs between them, from the types of inputs to the meaning of outputs, and runs them such
that nothing about them, or about the global random number generators, is changed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bivshap_lightning.game.behavior import Link
from bivshap_lightning.game.determinism import first_stochastic_module
from bivshap_lightning.game.evaluation_mode import evaluation_mode
from bivshap_lightning.game.evaluation_mode import global_rngs_kept as global_rngs_kept
from bivshap_lightning.game.inputs import Table
from bivshap_lightning.game.state.modules import preserved
from bivshap_lightning.game.state.process import process_settings_kept
from bivshap_lightning.game.trees import TreeEnsemble, read_trees, scoring_method

Precision = Literal["bf16", "fp16"]
AUTOCAST: dict[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Model:
    """A uniform caller for torch modules, functions and estimators.

    * A ``torch.nn.Module`` gets tensors on its own device and in its own floating point dtype.
    * A plain function gets what the user passed as inputs: tensors for tensors, NumPy arrays for arrays.
    * Boosted trees that classify are called for their margins, and ``link`` is how these become probabilities.
    * Any other object with ``predict_proba``, ``decision_function`` or ``predict`` gets NumPy arrays; the first of
      these methods that it has is used.

    Args:
        model: the model.
        as_arrays: per input, whether it came as an array, so that a plain function expects one.
        tables: per input, the table it came from if it was a data frame, so that the model expects frames.
        precision: run a torch module under autocast in this precision.

    Example:
        >>> Model(torch.nn.Linear(2, 3))((torch.zeros(4, 2),)).shape
        torch.Size([4, 3])
        >>> Model(lambda x: x.sum(axis=1), as_arrays=[True])((torch.ones(4, 2),))
        tensor([[2.],
                [2.],
                [2.],
                [2.]])
    """

    def __init__(
        self,
        model: Any,
        *,
        as_arrays: Sequence[bool] = (),
        tables: Sequence[Table | None] = (),
        precision: Precision | None = None,
    ) -> None:
        self.module = model if isinstance(model, nn.Module) else None
        if precision is not None and (precision not in AUTOCAST or self.module is None):
            kind = type(model).__name__
            raise ValueError(
                f"`precision` must be one of {tuple(AUTOCAST)} and the model a torch module, got {precision!r} and "
                f"{kind}. Leave it out for the model's own precision."
            )
        self._autocast = None if precision is None else AUTOCAST[precision]
        self.class_names = getattr(model, "classes_", None)
        self._model = model
        self._call, self.method, self.link = _find_call(model)
        self._as_arrays, self._tables = as_arrays, tables
        self._is_evaluated = {False: False, True: False}  # by whether gradients are recorded

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
        """The model as a sum of trees; :class:`~bivshap_lightning.game.trees.UnsupportedTreesError` if it is none."""
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
            with self._mixed_precision(inputs[0].device):
                output = self._call(*(inputs if self.module is not None else self._as_given(inputs)), *extra)
        except IndexError as error:
            codes = [x for x in inputs if not x.is_floating_point() and x.numel()]
            if not codes:
                raise
            raise ValueError(
                f"`inputs` must hold codes within the range of the model, and not too many, got codes from "
                f"{min(int(x.min()) for x in codes)} to {max(int(x.max()) for x in codes)} in shapes "
                f"{[tuple(x.shape[1:]) for x in codes]}; the error of the model: {error}. Shorten the text, or map "
                "unseen codes to one within its range."
            ) from error
        return _as_scores(output, inputs[0])

    def _mixed_precision(self, device: torch.device) -> AbstractContextManager[object]:
        return nullcontext() if self._autocast is None else torch.autocast(device.type, self._autocast)

    def _as_given(self, inputs: tuple[Tensor, ...]) -> list[Any]:
        """Inputs in the types that the user passed: tensors, arrays, frames. An estimator gets no tensors."""
        given: list[Any] = []
        for k, x in enumerate(inputs):
            if self.method is None and not (self._as_arrays and self._as_arrays[k]):
                given.append(x)
                continue
            array, table = x.detach().cpu().numpy(), self._tables[k] if self._tables else None
            given.append(array if table is None else table.decode(array))
        return given

    def check_length(self, inputs: tuple[Tensor, ...]) -> None:
        """Refuse texts that are longer than the limit in the configuration of a Hugging Face model."""
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
    def evaluation(self, *, gradients: bool = False) -> Iterator[None]:
        """Within this context the model is in evaluation mode; afterwards everything is as it was before.

        The state of a torch module (see :mod:`bivshap_lightning.game.state.modules`) and the global random number
        generators of torch, NumPy and Python are restored, also after an error. Within such a context another one of
        the same kind does nothing, so that the cost of recording the state can be paid once for many calls.

        Args:
            gradients: record gradients (towards inputs). By default nothing is recorded. Inference mode is left in
                either case, because a tensor that a module makes in it and keeps cannot be used in training.

        Raises:
            ModelStateError: the model changed its parameters (they have been put back), or something that could not
                be put back.
        """
        if self._is_evaluated[gradients]:
            yield
            return
        with ExitStack() as stack:
            # Before CUDA has been used no parameter is on it.
            parameters = () if self.module is None or not torch.cuda.is_initialized() else self.module.parameters()
            stack.enter_context(global_rngs_kept({p.device for p in parameters}))
            stack.enter_context(process_settings_kept())
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.set_grad_enabled(gradients))
            if self.module is not None:
                stack.enter_context(preserved(self.module))
                stack.enter_context(evaluation_mode(self.module))
            self._is_evaluated[gradients] = True
            stack.callback(self._is_evaluated.__setitem__, gradients, False)
            yield

    def find_stochastic_module(self, inputs: tuple[Tensor, ...], extra: tuple[Any, ...] = ()) -> str | None:
        """Name the first submodule that answers equal inputs with different outputs, or None."""
        if self.module is None:
            return None
        return first_stochastic_module(self.module, lambda: self(inputs, extra))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whatever device.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
        (True, False)
    """
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def _find_call(model: Any) -> tuple[Callable[..., Any], str | None, Link | None]:
    """The function that returns scores, the name of an estimator's method, and the link if it is known."""
    if not isinstance(model, nn.Module):
        trees = scoring_method(model)
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
            "Wrap it in a function that returns the scores alone; in a callback, if they come first: "
            "forward_fn=lambda module, *inputs: module(*inputs)[0]"
        )
    if isinstance(output, Tensor) and (output.layout != torch.strided or output.is_nested):
        kind = "nested" if output.is_nested else output.layout
        raise TypeError(f"`model` must return a dense tensor of scores, got a {kind} tensor. Return a dense one.")
    if output.dtype.is_complex if isinstance(output, Tensor) else output.dtype.kind == "c":
        raise TypeError(
            f"`model` must return real scores, got {output.dtype}. Return their absolute value or their real part."
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
