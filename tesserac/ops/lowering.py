"""How operators become structural forms: the few shapes that their `lower` methods share.

Enters: a builder, operand values and the type of the result. Leaves: a value of that type, made of forms. A body is
a function from scalars to a scalar, written with `Scalars`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeAlias

from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Value
from tesserac.ir.forms import Broadcast, Permute, Renamed, Reshape, Slice, Window, compute_type, tensor_type
from tesserac.ir.indexed import IN_RUNS
from tesserac.ir.lines import LINES, line_length
from tesserac.ir.types import ScalarType
from tesserac.numerics.order import CONTRACTION, REDUCTION
from tesserac.ops.scalar import PRIMITIVES
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import BOOL, F64, I64, U64, DType, complex_of, component
from tesserac.types.policy import NO_POLICY, compute_dtype
from tesserac.types.ty import TensorType

DimMap: TypeAlias = tuple[int | None, ...]
LARGEST_INDEX = 2**63 - 1
View: TypeAlias = Permute | Reshape | Broadcast | Slice | Window


class Scalars:
    """Writes scalar operations into the body of a map."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def primitive(self, name: str, *args: Value) -> Value:
        dtype = BOOL if PRIMITIVES[name].result == "bool" else scalar_dtype(args[0])
        return self._builder.value(f"scalar.{name}", args, ScalarType(dtype))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        return self._builder.value("scalar.select", (condition, yes, no), yes.type)

    def complex(self, real: Value, imag: Value) -> Value:
        whole = complex_of(scalar_dtype(real))
        assert whole is not None
        return self._builder.value("scalar.complex", (real, imag), ScalarType(whole))

    def parts(self, value: Value) -> tuple[Value, Value]:
        """The real and the imaginary part of a complex number."""
        part = ScalarType(component(scalar_dtype(value)))
        real, imag = (self._builder.value(f"scalar.{name}", (value,), part) for name in ("real", "imag"))
        return real, imag

    def cast(self, value: Value, dtype: DType) -> Value:
        if scalar_dtype(value) == dtype:
            return value
        return self._builder.value("scalar.cast", (value,), ScalarType(dtype), {"dtype": dtype})

    def bitcast(self, value: Value, dtype: DType) -> Value:
        return self._builder.value("scalar.bitcast", (value,), ScalarType(dtype), {"dtype": dtype})

    def round(self, value: Value, stored: TensorType) -> Value:
        attrs: dict[str, Attr] = {"dtype": stored.dtype, "policy": stored.policy}
        return self._builder.value("scalar.round", (value,), value.type, attrs)

    def constant(self, value: bool | int | float, dtype: DType) -> Value:
        return self._builder.value("scalar.constant", (), ScalarType(dtype), {"value": value})

    def index(self, axis: int, dtype: DType) -> Value:
        return self._builder.value("scalar.index", (), ScalarType(dtype), {"axis": axis})

    def dim(self, dim: Dim, dtype: DType) -> Value:
        return self._builder.value("scalar.dim", (), ScalarType(dtype), {"dim": dim})


Body: TypeAlias = Callable[[Scalars, list[Value]], Value]
LineBody: TypeAlias = Callable[[Scalars, list[list[Value]]], Sequence[Value]]


def scalar_dtype(value: Value) -> DType:
    assert isinstance(value.type, ScalarType), f"expected a scalar, not {value.type}"
    return value.type.dtype


def common_dtype(operands: Sequence[Value]) -> DType:
    """The dtype in which operands meet: an operand without a policy takes that of the others. Bools take no part."""
    types = [ty for ty in map(tensor_type, operands) if ty.dtype != BOOL] or [tensor_type(v) for v in operands]
    leader = next((ty for ty in types if ty.policy != NO_POLICY), types[0])
    return compute_dtype(leader.dtype, leader.policy)


def broadcast_map(dims: Sequence[Dim], result: Sequence[Dim]) -> DimMap:
    """Dims lined up from the right; a 1 that meets another size stretches."""
    offset = len(result) - len(dims)
    return tuple(None if d == ONE != result[offset + i] else offset + i for i, d in enumerate(dims))


def map_form(
    builder: Builder, operands: Sequence[Value], result: TensorType, body: Body, maps: Sequence[DimMap] | None = None
) -> Value:
    """One map over the dims of `result`; operands broadcast from the right unless `maps` says where dims go.

    The body gets each operand in its own accumulation type and yields a scalar of the result's.
    """
    places = maps or [broadcast_map(tensor_type(v).dims, result.dims) for v in operands]
    block = Block([compute_type(v) for v in operands])
    with builder.at(block):
        scalars = Scalars(builder)
        yielded = scalars.cast(body(scalars, list(block.args)), compute_dtype(result.dtype, result.policy))
        builder.op("form.yield", (yielded,))
    return builder.value("form.map", operands, result, {"maps": tuple(places)}, (block,))


def lines_form(
    builder: Builder, operands: Sequence[Value], maps: Sequence[DimMap], result: TensorType, out: DimMap, body: LineBody
) -> Value:
    """One computation on whole short lines: the body gets the elements of each operand, and gives the result's."""
    lengths = [line_length(tensor_type(v), dim_map) for v, dim_map in zip(operands, maps, strict=True)]
    block = Block([compute_type(v) for v, length in zip(operands, lengths, strict=True) for _ in range(length)])
    args = iter(block.args)
    with builder.at(block):
        builder.op("form.yield", body(Scalars(builder), [list(islice(args, length)) for length in lengths]))
    return builder.value(LINES, operands, result, {"maps": tuple(maps), "out": out}, (block,))


def pointwise(builder: Builder, operands: Sequence[Value], result: TensorType, body: Body) -> Value:
    """A map whose body computes in the dtype in which the operands meet."""
    dtype = common_dtype(operands)

    def in_common_dtype(s: Scalars, args: list[Value]) -> Value:
        return body(s, [a if scalar_dtype(a) == BOOL else s.cast(a, dtype) for a in args])

    return map_form(builder, operands, result, in_common_dtype)


def convert_form(builder: Builder, operand: Value, result: TensorType) -> Value:
    """The same values as another element type, rounded once; nothing if it is that type already."""
    source = tensor_type(operand)
    if source == result:
        return operand
    wider = compute_dtype(source.dtype, source.policy)
    target = compute_dtype(result.dtype, result.policy)
    narrows = wider.is_float and target.is_float and wider.significand > target.significand
    rounds_twice = narrows and target != result.dtype
    saturates = result.policy.saturate and target == result.dtype

    def body(s: Scalars, args: list[Value]) -> Value:
        value = args[0]
        if saturates and not wider.is_float:  # whatever f64 does not hold exactly is beyond what saturates
            value = s.cast(value, F64)
        return s.cast(s.round(value, result) if rounds_twice or saturates else value, target)

    return map_form(builder, (operand,), result, body)


def widen(builder: Builder, operand: Value) -> Value:
    """The operand in its accumulation type, without a policy."""
    ty = tensor_type(operand)
    return convert_form(builder, operand, TensorType(ty.dims, compute_dtype(ty.dtype, ty.policy)))


def view_form(builder: Builder, operand: Value, result: TensorType, view: View) -> Value:
    return builder.value("form.view", (operand,), result, {"view": view})


def seen_as(builder: Builder, operand: Value, dims: Sequence[Dim]) -> Value:
    """The operand under other names of its dims, where a fact makes them equal."""
    ty = tensor_type(operand)
    if tuple(dims) == ty.dims:
        return operand
    return view_form(builder, operand, TensorType(tuple(dims), ty.dtype, ty.policy), Renamed())


def assemble_form(builder: Builder, parts: Sequence[Value], result: TensorType, boxes: Sequence[Slice]) -> Value:
    """A tensor made of boxes, later ones over earlier; parts take on the result's policy first. Parts without elements
    are left out, and one part that is all of it is the tensor."""
    kept = [(part, box) for part, box in zip(parts, boxes, strict=True) if ZERO not in tensor_type(part).dims]
    chosen = kept or [(parts[0], boxes[0])]
    operands = [
        convert_form(builder, part, TensorType(tensor_type(part).dims, result.dtype, result.policy))
        for part, _ in chosen
    ]
    if len(operands) == 1 and operands[0].type == result:
        return operands[0]
    return builder.value("form.assemble", operands, result, {"boxes": tuple(box for _, box in chosen)})


def gather_form(
    builder: Builder,
    table: Value,
    indices: Sequence[Value],
    result: TensorType,
    source: DimMap,
    maps: Sequence[DimMap],
    operator: str,
    bounds: str = "wrap",
) -> Value:
    """A tensor read at places that indices say; one out of range ends the call with the operator's name."""
    attrs: dict[str, Attr] = {"source": source, "maps": tuple(maps), "bounds": bounds, "operator": operator}
    return builder.value("form.gather", (table, *_positions(builder, indices)), result, attrs)


def scatter_form(
    builder: Builder,
    x: Value,
    new: Value,
    indices: Sequence[Value],
    result: TensorType,
    source: DimMap,
    maps: Sequence[DimMap],
    operator: str,
    kind: str = "set",
    in_runs: bool = False,
) -> Value:
    """`x` with elements replaced at places that indices say, in their order, or folded into what stands there."""
    elements = convert_form(builder, new, TensorType(tensor_type(new).dims, result.dtype, result.policy))
    attrs: dict[str, Attr] = {"source": source, "maps": tuple(maps), "bounds": "wrap", "operator": operator}
    attrs["kind"] = kind
    if in_runs:
        attrs[IN_RUNS] = True
    return builder.value("form.scatter", (x, elements, *_positions(builder, indices)), result, attrs)


def _positions(builder: Builder, indices: Sequence[Value]) -> list[Value]:
    """Indices that stay what they are as i64: a u64 of 2^63 and more must not count from the end."""
    return [_position(builder, index) if tensor_type(index).dtype == U64 else index for index in indices]


def _position(builder: Builder, index: Value) -> Value:
    type_ = tensor_type(index)

    def lowered(s: Scalars, args: list[Value]) -> Value:
        return position_of(s, args[0])

    return map_form(builder, (index,), TensorType(type_.dims, I64), lowered, [tuple(range(type_.rank))])


def position_of(s: Scalars, index: Value) -> Value:
    """A scalar index as i64; the largest where that does not hold it."""
    if scalar_dtype(index) == U64:
        index = s.primitive("min", index, s.constant(LARGEST_INDEX, U64))
    return s.cast(index, I64)


def sort_form(
    builder: Builder, operand: Value, result: TensorType, axis: int, descending: bool, below: Dim | None = None
) -> Value:
    """The places of the elements in order along an axis; `below`: nobody asks for the order of other integers than
    those from 0 up to it."""
    attrs: dict[str, Attr] = {"axis": axis, "descending": descending}
    if below is not None:
        attrs["below"] = below
    return builder.value("form.sort", (operand,), result, attrs)


def runs_form(builder: Builder, v: Value, order: Value, low: Value, high: Value, kind: str) -> Value:
    """Folds of v[order[i]] for i from low[j] to high[j], in the accumulation type."""
    ty = tensor_type(v)
    accum = compute_dtype(ty.dtype, ty.policy)
    result = TensorType((*tensor_type(low).dims, *ty.dims[1:]), accum)
    return builder.value("form.runs", (v, order, low, high), result, {"kind": kind, "accum": accum})


def reduce_form(builder: Builder, operand: Value, result: TensorType, kind: str, axes: tuple[int, ...]) -> Value:
    """A fold that drops its axes, in the canonical order. Integers accumulate in the dtype of the result."""
    ty = tensor_type(operand)
    accum = compute_dtype(ty.dtype, ty.policy) if ty.dtype.kind in "fc" else result.dtype
    attrs: dict[str, Attr] = {"kind": kind, "axes": axes, "order": REDUCTION, "accum": accum}
    return builder.value("form.reduce", (operand,), result, attrs)


def scan_form(builder: Builder, operand: Value, result: TensorType, kind: str, axis: int) -> Value:
    """Running folds along an axis, in the canonical order. Integers accumulate in the dtype of the result."""
    ty = tensor_type(operand)
    accum = compute_dtype(ty.dtype, ty.policy) if ty.dtype.kind in "fc" else result.dtype
    attrs: dict[str, Attr] = {"kind": kind, "axis": axis, "order": REDUCTION, "accum": accum}
    return builder.value("form.scan", (operand,), result, attrs)


def contract_form(
    builder: Builder, left: Value, right: Value, result: TensorType, lhs: Sequence[int], rhs: Sequence[int]
) -> Value:
    """A contraction whose result has indices 0, 1, ...; operands take on the result's policy first. Where a fact makes
    two sizes equal, the right operand takes the left one's."""
    ty = tensor_type(left)
    sizes = dict(zip(lhs, ty.dims, strict=True))
    right = seen_as(builder, right, [sizes.get(i, dim) for i, dim in zip(rhs, tensor_type(right).dims, strict=True)])
    accum = compute_dtype(ty.dtype, result.policy) if ty.dtype.kind in "fc" else result.dtype
    operands = [
        convert_form(builder, v, TensorType(tensor_type(v).dims, tensor_type(v).dtype, result.policy))
        for v in (left, right)
    ]
    attrs: dict[str, Attr] = {
        "lhs": tuple(lhs),
        "rhs": tuple(rhs),
        "out": tuple(range(result.rank)),
        "order": CONTRACTION,
        "accum": accum,
    }
    return builder.value("form.contract", operands, result, attrs)


def without_axes(dims: Sequence[Dim], axes: Sequence[int]) -> tuple[Dim, ...]:
    return tuple(dim for axis, dim in enumerate(dims) if axis not in axes)


def drop_unit_dims(builder: Builder, operand: Value, axes: Sequence[int]) -> Value:
    """The operand without some dims that are the literal 1."""
    if not axes:
        return operand
    ty = tensor_type(operand)
    kept = [axis for axis in range(ty.rank) if axis not in axes]
    result = TensorType(without_axes(ty.dims, axes), ty.dtype, ty.policy)
    dims = tuple(kept.index(axis) if axis in kept else None for axis in range(ty.rank))
    return view_form(builder, operand, result, Broadcast(dims))


def sum_of_products(builder: Builder, x: Value, y: Value, result: TensorType, axes: tuple[int, ...]) -> Value:
    """`narrow(sum(wide(x) * wide(y)))` of two tensors of the same dims: with no dim that one of them has alone to
    vectorise over, a chain would be one long wait."""
    wide = [widen(builder, v) for v in (x, y)]
    dtype = result.dtype if result.dtype.is_integer else tensor_type(wide[0]).dtype
    dims = tensor_type(x).dims
    products = pointwise(
        builder,
        wide,
        TensorType(dims, dtype),
        lambda s, args: s.primitive("mul", *(s.cast(a, dtype) for a in args)),
    )
    total = reduce_form(builder, products, TensorType(without_axes(dims, axes), dtype), "sum", axes)
    return convert_form(builder, total, result)


def fill(builder: Builder, result: TensorType, value: int | float) -> Value:
    """One number everywhere."""
    dtype = compute_dtype(result.dtype, result.policy)
    return map_form(builder, (), result, lambda s, args: s.constant(value, dtype))


def side_by_side(builder: Builder, parts: Sequence[Value], axis: int) -> Value:
    """Tensors of one type side by side in a new dim, which is `axis` of the result."""
    ty = tensor_type(parts[0])
    places = tuple(place + (place >= axis) for place in range(ty.rank))
    thin = TensorType((*ty.dims[:axis], ONE, *ty.dims[axis:]), ty.dtype, ty.policy)
    columns = [view_form(builder, part, thin, Broadcast(places)) for part in parts]
    starts = [tuple(Dim.const(n) if a == axis else ZERO for a in range(thin.rank)) for n in range(len(parts))]
    whole = TensorType((*ty.dims[:axis], Dim.const(len(parts)), *ty.dims[axis:]), ty.dtype, ty.policy)
    return assemble_form(builder, columns, whole, [Slice(start, (1,) * thin.rank) for start in starts])


def one_of(builder: Builder, whole: Value, axis: int, number: int) -> Value:
    """One of the tensors that stand side by side in a dim."""
    ty = tensor_type(whole)
    starts = tuple(Dim.const(number) if a == axis else ZERO for a in range(ty.rank))
    thin = TensorType((*ty.dims[:axis], ONE, *ty.dims[axis + 1 :]), ty.dtype, ty.policy)
    cut = view_form(builder, whole, thin, Slice(starts, (1,) * ty.rank))
    return drop_unit_dims(builder, cut, (axis,))
