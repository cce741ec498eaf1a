"""Products of many complex numbers, spelled out by forms that take a complex number apart.

Enters: a reduce, a scan or a fold of runs whose kind is `prod` and whose numbers are complex; the parts of a product
mix, so that no fold of each part alone gives it. Leaves: a loop of maps. Every such fold is a product over a range of
rows, low to high. The loop doubles: in iteration k it knows the products of 2^k neighbours from every row on, and each
range takes the next one if its length has bit k:

    s = 1; at = low; power = rows
    while s <= N:
        if (high - low) & s:  total = total * power[at]; at += s        # the first one taken is not multiplied by 1
        power[i] = power[i] * power[i + s]                              # where both are rows
        s = s * 2

This order is the canonical one of complex products: a range is cut from its start at lengths 2^k, rising, and each cut
is halved down to single factors. It depends on nothing but the length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import Permute, Reshape, tensor_type
from tesserac.ir.types import TensorType
from tesserac.ops.lowering import (
    DimMap,
    Scalars,
    convert_form,
    drop_unit_dims,
    fill,
    gather_form,
    map_form,
    view_form,
)
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.dtype import BOOL, I64, DType

COUNT = TensorType((), I64)


def is_complex_product(op: Op) -> bool:
    return op.attrs.get("kind") == "prod" and op.name in _ROWS and tensor_type(op.result).dtype.is_complex


def spell_out(op: Op) -> None:
    """Puts the loop in place of the fold."""
    builder = Builder.before(op)
    op.result.replace_all_uses(_ROWS[op.name](builder, op))
    op.erase()


def _reduce(builder: Builder, op: Op) -> Value:
    """All rows are one range."""
    axes, result = op.attrs["axes"], tensor_type(op.result)
    assert isinstance(axes, tuple)
    x = _wide(builder, op)
    ty = tensor_type(x)
    order = (*axes, *(axis for axis in range(ty.rank) if axis not in axes))
    dims = tuple(ty.dims[axis] for axis in order)
    turned = view_form(builder, x, TensorType(dims, ty.dtype), Permute(order))
    size = product(dims[: len(axes)])
    rows = view_form(builder, turned, TensorType((size, *dims[len(axes) :]), ty.dtype), Reshape())
    ends = TensorType((ONE,), I64)
    low, high = fill(builder, ends, 0), map_form(builder, (), ends, lambda s, _: s.dim(size, I64))
    total = _Ranges(rows, low, high).product(builder)
    return convert_form(builder, drop_unit_dims(builder, total, (0,)), result)


def _scan(builder: Builder, op: Op) -> Value:
    """A range up to every row."""
    axis, result = op.attrs["axis"], tensor_type(op.result)
    assert isinstance(axis, int)
    x = _wide(builder, op)
    ty = tensor_type(x)
    order = (axis, *(other for other in range(ty.rank) if other != axis))
    dims = tuple(ty.dims[other] for other in order)
    rows = view_form(builder, x, TensorType(dims, ty.dtype), Permute(order))
    ends = TensorType(dims[:1], I64)
    low = fill(builder, ends, 0)
    high = map_form(builder, (), ends, lambda s, _: _plus(s, s.index(0, I64), s.constant(1, I64)))
    total = _Ranges(rows, low, high).product(builder)
    back = tuple(order.index(other) for other in range(ty.rank))
    return convert_form(builder, view_form(builder, total, TensorType(ty.dims, ty.dtype), Permute(back)), result)


def _runs(builder: Builder, op: Op) -> Value:
    """Ranges of rows that are read in an order first."""
    _, order, low, high = op.operands
    x = _wide(builder, op)
    dims = (*tensor_type(order).dims, *tensor_type(x).dims[1:])
    rows = _rows_at(builder, x, order, dims)
    return convert_form(builder, _Ranges(rows, low, high).product(builder), tensor_type(op.result))


_ROWS: dict[str, Callable[[Builder, Op], Value]] = {"form.reduce": _reduce, "form.scan": _scan, "form.runs": _runs}


class _Ranges:
    """Products of `rows` over ranges from `low` to `high`; one of no rows is 1."""

    def __init__(self, rows: Value, low: Value, high: Value) -> None:
        self.rows, self.low, self.high = rows, low, high
        self.size = tensor_type(rows).dims[0]
        self.ends = tensor_type(low)
        rest = tensor_type(rows).dims[1:]
        self.result = TensorType((*self.ends.dims, *rest), tensor_type(rows).dtype)

    def product(self, builder: Builder) -> Value:
        start = [fill(builder, COUNT, 1), self.low, self.rows, fill(builder, self.result, 1)]
        blocks = [Block([v.type for v in start]) for _ in range(2)]
        with builder.at(blocks[0]):
            builder.op("form.yield", (self._goes_on(builder, blocks[0].args[0]),))
        with builder.at(blocks[1]):
            builder.op("form.yield", self._iteration(builder, *blocks[1].args))
        return builder.op("form.while", start, [v.type for v in start], None, blocks).results[3]

    def _goes_on(self, builder: Builder, length: Value) -> Value:
        size = self.size
        return map_form(
            builder, (length,), TensorType((), BOOL), lambda s, args: s.primitive("le", args[0], s.dim(size, I64))
        )

    def _iteration(
        self, builder: Builder, length: Value, at: Value, power: Value, total: Value
    ) -> tuple[Value, Value, Value, Value]:
        span = map_form(builder, (self.low, self.high, length), self.ends, _taken_length)
        doubled = map_form(builder, (length,), COUNT, lambda s, args: _plus(s, args[0], args[0]))
        moved = map_form(builder, (at, span), self.ends, lambda s, args: _plus(s, *args))
        return doubled, moved, self._double(builder, length, power), self._take(builder, at, span, power, total)

    def _take(self, builder: Builder, at: Value, span: Value, power: Value, total: Value) -> Value:
        """Totals times the product from `at` on, where one of this length belongs to the range."""
        place = map_form(builder, (at,), self.ends, lambda s, args: self._in_range(s, args[0]))
        found = _rows_at(builder, power, place, self.result.dims)

        def join(s: Scalars, args: list[Value]) -> Value:
            start, here, length, one, whole = args
            first, none = s.primitive("eq", start, here), s.primitive("eq", length, s.constant(0, I64))
            return s.select(none, whole, s.select(first, one, s.primitive("mul", whole, one)))

        return _over_rows(builder, (self.low, at, span), (found, total), self.result, join)

    def _double(self, builder: Builder, length: Value, power: Value) -> Value:
        """Products of twice as many neighbours; what would reach behind the last row is never taken."""
        ty = tensor_type(power)
        places = TensorType(ty.dims[:1], I64)
        here = map_form(builder, (length,), places, lambda s, args: _plus(s, s.index(0, I64), args[0]))
        ahead = map_form(builder, (here,), places, lambda s, args: self._in_range(s, args[0]))
        others = _rows_at(builder, power, ahead, ty.dims)

        def join(s: Scalars, args: list[Value]) -> Value:
            wanted, there, one, other = args
            return s.select(s.primitive("eq", wanted, there), s.primitive("mul", one, other), one)

        return _over_rows(builder, (here, ahead), (power, others), ty, join)

    def _in_range(self, s: Scalars, place: Value) -> Value:
        return s.primitive("min", place, s.dim(self.size - 1, I64))


def _taken_length(s: Scalars, args: list[Value]) -> Value:
    """The bit `length` of how many rows a range has."""
    low, high, length = args
    return s.primitive("and", s.primitive("sub", high, low), length)


def _plus(s: Scalars, a: Value, b: Value) -> Value:
    return s.primitive("add", a, b)


def _over_rows(
    builder: Builder,
    numbers: Sequence[Value],
    rows: Sequence[Value],
    result: TensorType,
    body: Callable[[Scalars, list[Value]], Value],
) -> Value:
    """A map over rows beside numbers, one per row."""
    whole: DimMap = tuple(range(result.rank))
    maps: list[DimMap] = [*((0,) for _ in numbers), *(whole for _ in rows)]
    return map_form(builder, (*numbers, *rows), result, body, maps)


def _rows_at(builder: Builder, rows: Value, places: Value, dims: tuple[Dim, ...]) -> Value:
    """Rows at places that are in range."""
    source: DimMap = (None, *range(1, len(dims)))
    ty = TensorType(dims, tensor_type(rows).dtype)
    return gather_form(builder, rows, (places,), ty, source, [(0,)], "index", "known")


def _wide(builder: Builder, op: Op) -> Value:
    """The numbers in the accumulation type."""
    x, accum = op.operands[0], op.attrs["accum"]
    assert isinstance(accum, DType)
    return convert_form(builder, x, TensorType(tensor_type(x).dims, accum))
