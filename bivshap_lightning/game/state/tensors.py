"""Copies of tensors and arrays, to be put back in place if a forward pass changes them."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# Attributes that are neither parameters nor buffers, such as a data set, are copied up to this size. Larger ones are
# only watched for changes.
LARGEST_COPY = 2**26

# Elements by which an array of a data set is compared if it is not copied.
N_SAMPLED = 4096

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class TensorCopy:
    """A tensor with its data, flags and gradient as they were when this was made.

    The gradient is detached until :meth:`restore`, so that a backward pass within ``forward`` cannot add to it.

    Args:
        tensor: the tensor.
        is_copied: copy the data, so that it can be put back. Otherwise it is only watched for changes.

    Attributes:
        is_lost: the data were changed and had not been copied.

    Example:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> copy = TensorCopy(weight)
        >>> weight.data.mul_(2)
        tensor([2., 2.])
        >>> copy.restore(), weight.tolist()
        (True, [1.0, 1.0])
    """

    __slots__ = ("_alias", "_copy", "_grad_fn", "_n_bytes", "_requires_grad", "_version", "grad", "is_lost", "tensor")

    def __init__(self, tensor: Tensor, *, is_copied: bool = True) -> None:
        self.tensor, self.is_lost = tensor, False
        self._grad_fn, self._requires_grad = tensor.grad_fn, tensor.requires_grad
        self._version = _version(tensor)
        self.grad = tensor.grad if tensor.is_leaf else None
        self._alias: Tensor | None = None
        self._copy: Tensor | None = None
        self._n_bytes = 0
        if _has_data(tensor):
            # A detached tensor shares its memory, except for the index of a sparse one.
            self._alias = _plain(tensor).detach() if tensor.layout == torch.strided else tensor
            self._n_bytes = _n_bytes(self._alias)
            if is_copied:
                self._copy = _copy(self._alias.detach())
        if self.grad is not None:
            tensor.grad = None

    def restore(self) -> bool:
        """Put the tensor back; returns whether its data had been changed."""
        is_changed = self._alias is not None and self._restore_data(self._alias)
        tensor = self.tensor
        if tensor.grad_fn is not self._grad_fn:  # of an operation in place, e.g. while gradients are followed
            if self._grad_fn is None:
                if tensor._is_view():
                    raise RuntimeError("a view that was written to while gradients were followed keeps their graph")
                tensor.detach_()
            else:
                self.is_lost = True
        if tensor.is_leaf:
            if tensor.requires_grad != self._requires_grad:
                tensor.requires_grad_(self._requires_grad)
            if tensor.grad is not self.grad:
                tensor.grad = self.grad
        return is_changed

    def _restore_data(self, alias: Tensor) -> bool:
        tensor, is_changed = self.tensor, False
        if _n_bytes(alias) < self._n_bytes:  # its memory was freed, and reading it would end the process
            alias.untyped_storage().resize_(self._n_bytes)
            is_changed, self.is_lost = True, self._copy is None
        if not _is_same_memory(tensor, alias):
            tensor.data, is_changed = alias, True
        if self._copy is None:
            self.is_lost |= _version(tensor) != self._version
        elif alias.shape != self._copy.shape:  # a sparse tensor, which is its own alias
            tensor.data, is_changed = self._copy.clone(), True
        elif not _is_equal(alias, self._copy):
            is_changed = True
            with torch.inference_mode(alias.is_inference()), torch.no_grad():
                _once(alias, alias).copy_(_once(self._copy, alias))
        return is_changed


class ArrayCopy:
    """A NumPy array with its data as they were when this was made.

    Args:
        array: the array.
        is_sampled: do not copy it, and compare some of its elements only.

    Example:
        >>> import numpy as np
        >>> array = np.zeros(2)
        >>> copy = ArrayCopy(array)
        >>> array += 1
        >>> copy.restore(), array.tolist()
        (True, [0.0, 0.0])
    """

    __slots__ = ("_checksum", "_copy", "_is_sampled", "_is_writeable", "array")

    def __init__(self, array: Any, *, is_sampled: bool = False) -> None:
        self.array, self._is_sampled, self._is_writeable = array, is_sampled, array.flags.writeable
        self._copy = array.copy() if array.nbytes <= LARGEST_COPY and not is_sampled else None
        self._checksum = None if self._copy is not None else _checksum(array, is_sampled)

    def restore(self) -> bool:
        """Put the array back; returns whether it is as it was: a large array that was changed is not.

        Raises:
            ValueError: it cannot be written to any more.
        """
        array, copy = self.array, self._copy
        if copy is None:
            return _checksum(array, self._is_sampled) == self._checksum
        is_alike = array.dtype == copy.dtype and array.shape == copy.shape
        if is_alike and not array.flags.writeable and array.tobytes() == copy.tobytes():
            array.flags.writeable = self._is_writeable
            return True
        array.flags.writeable = True
        if array.dtype != copy.dtype:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # there is no other way to do it in place
                array.dtype = copy.dtype
        if array.shape != copy.shape:
            array.resize(copy.shape, refcheck=False)
        array[...] = copy
        array.flags.writeable = self._is_writeable
        return True


def is_too_large(tensor: Tensor) -> bool:
    """Whether a tensor is larger than what is copied of attributes that are neither parameters nor buffers."""
    return tensor.layout == torch.strided and tensor.nbytes > LARGEST_COPY


def _checksum(array: Any, is_sampled: bool) -> int:
    if not array.flags.c_contiguous or array.dtype.hasobject:
        return 0
    return zlib.crc32(array.reshape(-1)[:: max(1, array.size // N_SAMPLED)].copy() if is_sampled else array)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _has_data(tensor: Tensor) -> bool:
    """Whether a tensor has memory that can be copied: not so sharded, fake and freed ones."""
    if tensor.is_meta or tensor.is_nested or is_traceable_wrapper_subclass(tensor) or isinstance(tensor, FakeTensor):
        return False
    if tensor.layout != torch.strided:
        return True
    last = tensor.storage_offset() + sum((n - 1) * k for n, k in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.numel() == 0 or tensor.untyped_storage().nbytes() >= (last + 1) * tensor.element_size()


def _n_bytes(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() if tensor.layout == torch.strided else 0


def _plain(tensor: Tensor) -> Tensor:
    """The tensor itself, without the methods of a subclass."""
    return tensor if type(tensor) in (Tensor, nn.Parameter) else tensor.detach().as_subclass(Tensor)


def _once(tensor: Tensor, like: Tensor) -> Tensor:
    """The part of a tensor that holds every element once, where another one was expanded."""
    for axis, stride in enumerate(like.stride() if like.layout == torch.strided else ()):
        if stride == 0 and like.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def _copy(tensor: Tensor) -> Tensor:
    """A copy on the same device or, where memory does not suffice, on the CPU."""
    try:
        return tensor.clone()
    except torch.OutOfMemoryError:
        return tensor.cpu()


def _is_same_memory(a: Tensor, b: Tensor) -> bool:
    if a.layout != torch.strided:
        return True
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


def _is_equal(a: Tensor, b: Tensor) -> bool:
    """Bit by bit, so that NaN equals itself and zero differs from negative zero."""
    if a.layout != torch.strided:
        return torch.equal(a.detach().to_dense(), b.to_dense().to(a.device))
    if a.is_quantized:
        a, b = a.int_repr(), b.int_repr()
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    if a.is_floating_point() and a.element_size() in _BITS:
        a, b = a.view(_BITS[a.element_size()]), b.view(_BITS[b.element_size()])
    return torch.equal(a, b.to(a.device))
