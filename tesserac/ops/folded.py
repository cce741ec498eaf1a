"""Folds into places that integers say: the forms of the operators in `accumulate.py`.

Enters: a tensor, the new elements, the places. Leaves: a `form.scatter` that folds. A machine that has none, and what a
fold of parts is not, gets by with a sort (`fold_sorted`):

    order = sort(places)                          equal places become runs, each in index order
    r[j] = fold of v[order[i]] over the run       where j is the last of its run
    x[places[order[j]]] = x[places[order[j]]] + r[j]        in order of j, hence the last of a run stays
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import Permute, Reshape, tensor_type
from tesserac.ops.index import Lookup
from tesserac.ops.lowering import (
    Scalars,
    convert_form,
    gather_form,
    map_form,
    runs_form,
    scan_form,
    scatter_form,
    sort_form,
    view_form,
)
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.dtype import I64
from tesserac.types.policy import compute_dtype
from tesserac.types.ty import TensorType

PRIMITIVES = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""How a kind of fold joins two values."""


def fold_at(builder: Builder, operands: Sequence[Value], result: TensorType, lookup: Lookup, kind: str) -> Value:
    """Operands are the tensor, the new elements and one index per axis that the lookup names."""
    x, v, *indices = operands
    dims, kept = tensor_type(v).dims, result.rank - len(lookup.axes)
    if result.dtype.is_integer:  # no order shows in their folds
        read = lookup.places(result.rank, [tensor_type(index).dims for index in indices], dims)
        return scatter_form(builder, x, v, indices, result, *read, "index", kind)
    new = tuple(range(lookup.at, lookup.at + len(dims) - kept))
    together = tuple(dims[axis] for axis in new)
    elements = convert_form(builder, v, TensorType(dims, result.dtype, result.policy))
    rows, whole, axes = _rows(builder, elements, new), convert_form(builder, x, result), lookup.axes
    if product(together) == ONE:  # one place cannot repeat
        return _join(builder, whole, rows, [_flat(builder, index, together) for index in indices], axes, kind)
    if result.dtype.is_complex and kind != "sum":  # the parts of other folds are no folds of parts
        return fold_sorted(builder, whole, rows, [_flat(builder, index, together) for index in indices], axes, kind)
    places = [_row(builder, index, together) for index in indices]
    read = Lookup(axes).places(result.rank, [tensor_type(place).dims for place in places], tensor_type(rows).dims)
    return scatter_form(builder, whole, rows, places, result, *read, "index", kind)


def fold_sorted(
    builder: Builder,
    x: Value,
    rows: Value,
    places: Sequence[Value],
    axes: tuple[int, ...],
    kind: str,
    in_runs: bool = False,
) -> Value:
    """The fold of rows into places, one i64 per row and axis, by sorting the places. `in_runs`: the machine writes only
    the last row of a run, so that no order is needed."""
    key, order = _sorted(builder, places, [tensor_type(x).dims[axis] for axis in axes])
    ordered, at = _at(builder, key, order), [_at(builder, place, order) for place in places]
    folded = runs_form(builder, rows, order, *_run_ends(builder, ordered), kind)
    return _join(builder, x, folded, at, axes, kind, in_runs)


def set_sorted(
    builder: Builder, x: Value, rows: Value, places: Sequence[Value], axes: tuple[int, ...], operator: str
) -> Value:
    """Rows put at places, one i64 per row and axis, where the last row for a place stays, by sorting the places."""
    _, order = _sorted(builder, places, [tensor_type(x).dims[axis] for axis in axes])
    moved, at = _rows_at(builder, rows, order), [_at(builder, place, order) for place in places]
    ty, dims = tensor_type(x), tensor_type(rows).dims
    source, maps = Lookup(axes).places(ty.rank, [tensor_type(place).dims for place in at], dims)
    return scatter_form(builder, x, moved, at, ty, source, maps, operator, in_runs=True)


def _join(
    builder: Builder,
    x: Value,
    folded: Value,
    places: Sequence[Value],
    axes: tuple[int, ...],
    kind: str,
    in_runs: bool = False,
) -> Value:
    """Reads the old elements, which checks the places, and puts what they become there."""
    ty, dims = tensor_type(x), tensor_type(folded).dims
    source, maps = Lookup(axes).places(ty.rank, [tensor_type(place).dims for place in places], dims)
    old = gather_form(builder, x, places, TensorType(dims, ty.dtype, ty.policy), source, maps, "index")
    accum = compute_dtype(ty.dtype, ty.policy)

    def join(s: Scalars, args: list[Value]) -> Value:
        return s.primitive(PRIMITIVES[kind], *(s.cast(arg, accum) for arg in args))

    joined = map_form(builder, (old, folded), tensor_type(old), join)
    return scatter_form(builder, x, joined, places, ty, source, maps, "index", in_runs=in_runs)


def _rows_at(builder: Builder, rows: Value, places: Value) -> Value:
    """The rows at places that are in range."""
    ty = tensor_type(rows)
    source = (None, *range(1, ty.rank))
    return gather_form(builder, rows, (places,), ty, source, [(0,)], "index", "known")


def _rows(builder: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """The axes as one first dim."""
    ty = tensor_type(x)
    order = (*axes, *(axis for axis in range(ty.rank) if axis not in axes))
    dims = tuple(ty.dims[axis] for axis in order)
    if order != tuple(range(ty.rank)):
        x = view_form(builder, x, TensorType(dims, ty.dtype, ty.policy), Permute(order))
    merged = (product(dims[: len(axes)]), *dims[len(axes) :])
    return x if merged == dims else view_form(builder, x, TensorType(merged, ty.dtype, ty.policy), Reshape())


def _row(builder: Builder, index: Value, together: tuple[Dim, ...]) -> Value:
    """An index for every new element, in a row: as it stands, where it has one for each."""
    whole = tensor_type(index).dims == together
    return _rows(builder, index, tuple(range(len(together)))) if whole else _flat(builder, index, together)


def _flat(builder: Builder, index: Value, together: tuple[Dim, ...]) -> Value:
    """An index for every new element, in a row."""
    whole = map_form(builder, (index,), TensorType(together, I64), lambda s, args: s.cast(args[0], I64))
    return _rows(builder, whole, tuple(range(len(together))))


def _sorted(builder: Builder, places: Sequence[Value], sizes: Sequence[Dim]) -> tuple[Value, Value]:
    """The numbers of places, and their order. Those of places that are not there end the call, wherever they stand."""
    key = _key(builder, places, sizes)
    return key, sort_form(builder, key, tensor_type(key), 0, descending=False, below=product(sizes))


def _key(builder: Builder, places: Sequence[Value], sizes: Sequence[Dim]) -> Value:
    """One number per place, counted from the start."""

    def counted(s: Scalars, index: Value, size: Dim) -> Value:
        below = s.primitive("lt", index, s.constant(0, I64))
        return s.select(below, s.primitive("add", index, s.dim(size, I64)), index)

    def number(s: Scalars, args: list[Value]) -> Value:
        total = s.constant(0, I64)
        for index, size in zip(args, sizes, strict=True):
            total = s.primitive("add", s.primitive("mul", total, s.dim(size, I64)), counted(s, index, size))
        return total

    return map_form(builder, places, tensor_type(places[0]), number)


def _at(builder: Builder, row: Value, places: Value) -> Value:
    """The elements of a row at places that are in range."""
    return gather_form(builder, row, (places,), tensor_type(row), (None,), [(0,)], "index", "known")


def _run_ends(builder: Builder, ordered: Value) -> tuple[Value, Value]:
    """Where the run that ends at each place begins, and the end; a place at which none ends has an empty one."""
    ty = tensor_type(ordered)
    last = ty.dims[0] - 1

    def beside(step: int) -> Value:
        def place(s: Scalars, _: list[Value]) -> Value:
            moved = s.primitive("add", s.index(0, I64), s.constant(step, I64))
            return s.primitive("max", s.constant(0, I64), s.primitive("min", moved, s.dim(last, I64)))

        return _at(builder, ordered, map_form(builder, (), ty, place))

    def begin(s: Scalars, args: list[Value]) -> Value:
        return s.select(s.primitive("eq", *args), s.constant(0, I64), s.index(0, I64))

    def behind(s: Scalars) -> Value:
        return s.primitive("add", s.index(0, I64), s.constant(1, I64))

    def low(s: Scalars, args: list[Value]) -> Value:
        here, after, start = args
        ends = s.primitive("eq", s.index(0, I64), s.dim(last, I64))
        ends = s.primitive("or", ends, s.primitive("not", s.primitive("eq", here, after)))
        return s.select(ends, start, behind(s))

    begins = scan_form(builder, map_form(builder, (ordered, beside(-1)), ty, begin), ty, "max", 0)
    lows = map_form(builder, (ordered, beside(1), begins), ty, low)
    return lows, map_form(builder, (), ty, lambda s, _: behind(s))
