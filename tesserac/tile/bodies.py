"""Small scalar bodies that every builder needs: what ends a sum, what combines two partial results."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Value
from tesserac.ir.forms import COMBINE
from tesserac.ir.types import ScalarType, TensorType, TileType
from tesserac.tile.dialect import tile_type
from tesserac.types.dtype import FP8_E4M3, DType


def identity_of(kind: str, dtype: DType) -> float | int | bool:
    """What a reduction of nothing gives."""
    if kind in ("sum", "prod"):
        value = 0 if kind == "sum" else 1
        return float(value) if dtype.kind in "fc" else value
    if dtype.kind == "f":
        beyond = dtype.largest if dtype == FP8_E4M3 else float("inf")  # e4m3 has no infinity
        return -beyond if kind == "max" else beyond
    if dtype.kind == "b":
        return kind == "min"
    smallest = 0 if dtype.kind == "u" else -int(dtype.largest) - 1
    return smallest if kind == "max" else int(dtype.largest)


def pairwise(builder: Builder, kind: str, left: Value, right: Value) -> Value:
    """left (op) right, place by place, in the accumulation type."""
    ty = tile_type(left)
    scalar = ScalarType(ty.dtype)
    block = Block([scalar, scalar], ["l", "r"])
    inner = Builder(block, builder.span)
    inner.op("form.yield", (inner.value(COMBINE[kind], block.args, scalar),))
    places = tuple(range(len(ty.shape)))
    return builder.value("tile.map", (left, right), ty, {"maps": (places, places)}, (block,), hint=left.name)


def combine_body(types: Sequence[TileType], kinds: Sequence[str]) -> Block:
    """The second region of a tree: two neighbours become one."""
    block = Block([*types, *types])
    builder = Builder(block)
    count = len(types)
    pairs = zip(kinds, block.args[:count], block.args[count:], strict=True)
    builder.op("tile.yield", [pairwise(builder, kind, left, right) for kind, left, right in pairs])
    return block


def finished(builder: Builder, kind: str, total: Value, result: TensorType) -> Value:
    """The result of a reduction in its own type: a sum ends with `+ (+0)`, and all are rounded once."""
    source = tile_type(total)
    target = TileType(source.shape, result.dtype, result.policy)
    if kind != "sum" and target == source:
        return total
    block = Block([ScalarType(source.dtype)], ["x"])
    inner = Builder(block, builder.span)
    value = block.args[0]
    if kind == "sum":
        zero = {"value": identity_of("sum", source.dtype)}
        plus = inner.value("scalar.constant", (), value.type, zero)
        value = inner.value("scalar.add", (value, plus), value.type)
    inner.op("form.yield", (value,))
    attrs = {"maps": (tuple(range(len(source.shape))),)}
    return builder.value("tile.map", (total,), target, attrs, (block,), hint="total")


def constant_scalar(value: Value) -> float | None:
    """A number in the body of a map that is known while compiling."""
    made = value.defining_op
    number = made.attrs["value"] if made is not None and made.name == "scalar.constant" else None
    return float(number) if isinstance(number, int | float) else None


def is_plus_zero(value: Value) -> bool:
    number = constant_scalar(value)
    return number == 0.0 and copysign(1.0, number) > 0
