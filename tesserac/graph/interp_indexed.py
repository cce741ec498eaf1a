"""The oracle's rules for the forms of `ir/indexed.py`.

Enters: an operation, its operands as arrays, the sizes of symbols. Leaves: the array of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tesserac.graph.interp_scalar import InterpreterError
from tesserac.ir.core import Op
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.indexed import assembled_boxes, gather_source, is_ordered_fold, sorted_axis
from tesserac.numerics.exact import Array
from tesserac.numerics.narrow import convert, storage
from tesserac.numerics.order import SCANNED, run_fold
from tesserac.types.dtype import F32
from tesserac.types.policy import compute_dtype

Sizes = Mapping[str, int]


class BadIndex(InterpreterError):
    """An index out of range: what a compiled call says by its status."""

    def __init__(self, operator: str, index: int, size: int) -> None:
        super().__init__(f"{operator}: index {index} is out of range for a dim of size {size}")
        self.index, self.size = index, size


def follow(x: Array, dim_map: tuple[int | None, ...], rank: int) -> Array:
    """`x` with its dims where the map puts them in a space of `rank` dims, and 1 elsewhere. Two dims that follow one
    are its diagonal."""
    while (twice := _repeated(dim_map)) is not None:
        first, second = twice
        x = np.diagonal(x, axis1=first, axis2=second)
        kept = [place for axis, place in enumerate(dim_map) if axis not in twice]
        dim_map = (*kept, dim_map[first])
    places = [p for p in dim_map if p is not None]
    x = x.reshape([size for size, p in zip(x.shape, dim_map, strict=True) if p is not None])
    x = x.transpose(sorted(range(len(places)), key=places.__getitem__))
    shape = [1] * rank
    for size, place in zip(x.shape, sorted(places), strict=True):
        shape[place] = size
    return x.reshape(shape)


def _repeated(dim_map: tuple[int | None, ...]) -> tuple[int, int] | None:
    """Two dims that follow the same one."""
    for second, place in enumerate(dim_map):
        first = dim_map.index(place)
        if place is not None and first != second:
            return first, second
    return None


def _assemble(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    ty = tensor_type(op.result)
    whole = np.zeros([dim.evaluate(sizes) for dim in ty.dims], storage(ty.dtype))
    for part, box in zip(operands, assembled_boxes(op), strict=True):
        starts = [start.evaluate(sizes) for start in box.starts]
        rows = [s + np.arange(n) * t for s, n, t in zip(starts, part.shape, box.steps, strict=True)]
        whole[np.ix_(*rows)] = part
    return whole


def _gather(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    table, *indices = operands
    shape = tuple(dim.evaluate(sizes) for dim in tensor_type(op.result).dims)
    return np.broadcast_to(table[_places(op, table, indices, shape)], shape)


def _scatter(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    """NumPy leaves open which of several values a repeated place gets, so each place gets its last one only."""
    table, new, *indices = operands
    if is_ordered_fold(op):
        return _folded_rows(op, table, new, indices)
    places = np.broadcast_arrays(*_places(op, table, indices, new.shape), new)[:-1]
    result, kind = np.array(table).ravel(), str(op.attrs["kind"])
    if new.size:
        flat = np.ravel_multi_index([place.ravel() for place in places], table.shape)
        if kind != "set":
            _INTEGER_FOLDS[kind].at(result, flat, new.ravel())
            return result.reshape(table.shape)
        unique, from_the_end = np.unique(flat[::-1], return_index=True)
        result[unique] = new.ravel()[::-1][from_the_end]
    return result.reshape(table.shape)


def _folded_rows(op: Op, table: Array, rows: Array, indices: list[Array]) -> Array:
    """Rows that name one place are folded in their order, and what stands there is joined with the fold."""
    ty, kind = tensor_type(op.result), str(op.attrs["kind"])
    accum = compute_dtype(ty.dtype, ty.policy)
    axes = [axis for axis, place in enumerate(gather_source(op)) if place is None]
    sizes = [table.shape[axis] for axis in axes]
    places = [_checked(op, index.astype(np.int64), size) for index, size in zip(indices, sizes, strict=True)]
    flat = np.ravel_multi_index(places, sizes) if len(rows) else np.zeros(0, np.int64)
    result = np.array(np.moveaxis(table, axes, range(len(axes))))
    wide = convert(rows, accum)
    for place in np.unique(flat):
        at = np.unravel_index(place, sizes)
        fold = run_fold(wide[flat == place], kind)
        with np.errstate(all="ignore"):
            joined = SCANNED[kind][0](convert(result[at], accum), fold)
        result[at] = convert(joined, ty.dtype, saturate=ty.policy.saturate)
    return np.moveaxis(result, range(len(axes)), axes)


_INTEGER_FOLDS: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _places(op: Op, table: Array, indices: list[Array], shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The coordinates in the table that belong to each point of a shape."""
    computed = iter(zip(indices, operand_maps(op), strict=True))
    places: list[Array] = []
    for size, place in zip(table.shape, gather_source(op), strict=True):
        if place is None:
            index, dim_map = next(computed)
            places.append(_checked(op, follow(index, dim_map, len(shape)).astype(np.int64), size))
        else:
            places.append(follow(np.arange(size), (place,), len(shape)))
    return tuple(places)


def _checked(op: Op, index: Array, size: int) -> Array:
    """The index counted from the start."""
    bad = (index < (-size if op.attrs["bounds"] == "wrap" else 0)) | (index >= size)
    if bad.any():
        raise BadIndex(str(op.attrs["operator"]), int(index[bad][0]), size)
    return np.where(index < 0, index + size, index)


def _sort(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    ty = tensor_type(op.operands[0])
    x = convert(operands[0], F32) if ty.dtype.is_float and ty.dtype.bits < 32 else operands[0]
    rows = np.moveaxis(x, sorted_axis(op), -1)
    places = stable_order(rows, descending=op.attrs["descending"] is True)
    return np.moveaxis(places, -1, sorted_axis(op))


def stable_order(rows: Array, descending: bool) -> Array:
    """The places of the elements of each row in order. Descending is ascending from the end, where equal elements meet
    in reverse; NaN, which is first then, goes last."""
    if not descending:
        return np.argsort(rows, axis=-1, kind="stable").astype(np.int64)
    backwards = np.argsort(rows[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    places = rows.shape[-1] - 1 - backwards
    unordered = np.take_along_axis(rows != rows, places, -1)
    return np.take_along_axis(places, np.argsort(unordered, axis=-1, kind="stable"), -1).astype(np.int64)


def _runs(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    v, order, low, high = operands
    result = tensor_type(op.result)
    rows = convert(v, result.dtype)
    whole = np.empty([dim.evaluate(sizes) for dim in result.dims], storage(result.dtype))
    for place, (first, last) in enumerate(zip(low, high, strict=True)):
        whole[place] = run_fold(rows[order[first:last]], str(op.attrs["kind"]))
    return whole


INDEXED_FORMS: dict[str, Callable[[Op, list[Array], Sizes], Array]] = {
    "form.assemble": _assemble,
    "form.gather": _gather,
    "form.scatter": _scatter,
    "form.sort": _sort,
    "form.runs": _runs,
}
