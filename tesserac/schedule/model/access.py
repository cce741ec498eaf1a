"""Where the elements of a tensor lie in memory: an offset and one stride per dim, through any chain of views.

Enters: memory and the `form.view` operations over it. Leaves: an `Access`, or None where no strides describe the view
(a reshape that merges dims which are not neighbours in memory), so that the tensor must be copied first.

    x: memref<[M, K]>          offset 0, strides [K, 1]
    permute (1, 0)             offset 0, strides [1, K]
    slice starts (2, 0)        offset 2*K, strides [K, 1]
    window (axis 1)            offset 0, strides [K, 1, 1]
    reshape to [M*K]           offset 0, strides [1]; of the permuted one: None
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Broadcast, Permute, Renamed, Reshape, Slice, Window, tensor_type
from tesserac.ir.types import row_major
from tesserac.types.dims import ONE, ZERO, Dim, product

Dims = tuple[Dim, ...]
Digits = tuple[tuple[Dim, Dim], ...]
"""Size and stride of each of several dims that are walked as one index, the last one fastest."""


@dataclass(frozen=True)
class Access:
    """Element [i, j, ...] lies at `offset + i * strides[0] + j * strides[1] + ...`, counted in elements."""

    offset: Dim
    strides: Dims


def contiguous(dims: Dims) -> Access:
    return Access(ZERO, row_major(dims))


def is_view(op: Op | None) -> bool:
    return op is not None and op.name == "form.view"


def view_source(value: Value) -> tuple[Value, list[Op]]:
    """The value that a chain of views reads, and the views, the innermost first."""
    views: list[Op] = []
    while (op := value.defining_op) is not None and is_view(op):
        views.append(op)
        value = op.operands[0]
    return value, views[::-1]


def access_through(views: Sequence[Op], base: Value) -> Access | None:
    """How the result of the last view lies in the memory of `base`, which is contiguous."""
    access: Access | None = contiguous(tensor_type(base).dims)
    for view in views:
        if access is None:
            return None
        access = view_access(view, access)
    return access


def has_strides(value: Value) -> bool:
    base, views = view_source(value)
    return access_through(views, base) is not None


def view_access(op: Op, access: Access) -> Access | None:
    """One view applied to where its operand lies."""
    view = op.attrs["view"]
    source, result = tensor_type(op.operands[0]).dims, tensor_type(op.result).dims
    match view:
        case Permute(order):
            return Access(access.offset, tuple(access.strides[i] for i in order))
        case Broadcast(places):
            strides = [ZERO] * len(result)
            for place, stride, dim in zip(places, access.strides, source, strict=True):
                if place is not None and dim != ONE:
                    strides[place] = stride
            return Access(access.offset, tuple(strides))
        case Slice(starts, steps):
            moved = sum((a * s for a, s in zip(starts, access.strides, strict=True)), access.offset)
            scaled = tuple(s * step for s, step in zip(access.strides, steps, strict=True))
            return Access(moved, scaled)
        case Window(axis, stride, dilation):
            along = access.strides[axis]
            counted = (*access.strides[:axis], along * stride, *access.strides[axis + 1 :])
            return Access(access.offset, (*counted, along * dilation))
        case Renamed():
            return access
        case Reshape():
            strides_or_none = _reshaped(source, access.strides, result)
            return None if strides_or_none is None else Access(access.offset, strides_or_none)
    raise AssertionError(f"no rule for the view {view}")


def grouped_access(value: Value) -> tuple[Dim, tuple[Digits, ...]] | None:
    """The offset, and for each dim those that a reshape made it of, where that reshape merges dims which are no run in
    memory; None where what it reshapes has no strides, or where it splits dims."""
    base, views = view_source(value)
    if not views or not isinstance(views[-1].attrs["view"], Reshape):
        return None
    source, result = tensor_type(views[-1].operands[0]).dims, tensor_type(value).dims
    access, runs = access_through(views[:-1], base), reshape_runs(source, result)
    if access is None or runs is None or any(len(given) != 1 for _, given in runs):
        return None
    groups: list[Digits] = [((ONE, ZERO),)] * len(result)
    for taken, (place,) in runs:
        groups[place] = _joined([(source[i], access.strides[i]) for i in taken])
    return access.offset, tuple(groups)


def _joined(digits: Sequence[tuple[Dim, Dim]]) -> Digits:
    """Neighbours that are one run in memory are one dim."""
    found: list[tuple[Dim, Dim]] = []
    for size, stride in digits:
        if found and found[-1][1] == size * stride:
            size = found.pop()[0] * size
        found.append((size, stride))
    return tuple(found)


def keeps_memory(view: Op) -> bool:
    """The elements are the same, in the same order: only dims are named otherwise."""
    kind = view.attrs["view"]
    same_size = product(tensor_type(view.operands[0]).dims) == product(tensor_type(view.result).dims)
    in_order = isinstance(kind, Broadcast) and [d for d in kind.dims if d is not None] == sorted(
        d for d in kind.dims if d is not None
    )
    return isinstance(kind, Reshape) or (in_order and same_size)


def can_reshape(value: Value, dims: Dims) -> bool:
    """Whether a reshape of a value can be read from memory without a copy."""
    base, views = view_source(value)
    access = access_through(views, base)
    return access is not None and _reshaped(tensor_type(value).dims, access.strides, dims) is not None


def _reshaped(source: Dims, strides: Dims, result: Dims) -> Dims | None:
    if strides == row_major(source):
        return row_major(result)
    runs = reshape_runs(source, result)
    if runs is None:
        return None
    new = [ONE] * len(result)
    for taken, given in runs:
        stride = merged_stride([source[i] for i in taken], [strides[i] for i in taken])
        if stride is None:
            return None
        for place, step in zip(given, row_major(tuple(result[i] for i in given)), strict=True):
            new[place] = step * stride
    return tuple(new)


def reshape_runs(source: Dims, result: Dims) -> list[tuple[list[int], list[int]]] | None:
    """The shortest runs of neighbouring dims with equal products, in order; None if the dims do not pair up so.

    Dims of literal 1 belong to no run: they neither hold nor need anything.
    """
    left = [i for i, d in enumerate(source) if d != ONE]
    right = [i for i, d in enumerate(result) if d != ONE]
    runs: list[tuple[list[int], list[int]]] = []
    while left or right:
        cut = _first_run([source[i] for i in left], [result[i] for i in right])
        if cut is None:
            return None
        runs.append((left[: cut[0]], right[: cut[1]]))
        left, right = left[cut[0] :], right[cut[1] :]
    return runs


def _first_run(left: list[Dim], right: list[Dim]) -> tuple[int, int] | None:
    for length in range(2, len(left) + len(right) + 1):
        for taken in range(1, length):
            if taken > len(left) or length - taken > len(right):
                continue
            if product(left[:taken]) == product(right[: length - taken]):
                return taken, length - taken
    return None


def merged_stride(dims: Sequence[Dim], strides: Sequence[Dim]) -> Dim | None:
    """The stride of neighbouring dims walked as one index; None if they are not one run in memory."""
    kept = [(d, s) for d, s in zip(dims, strides, strict=True) if d != ONE]
    if not kept:
        return ZERO
    for (_, outer), (size, inner) in pairwise(kept):
        if outer != inner * size:
            return None
    return kept[-1][1]
