"""What a tile program is put together of: where arguments lie, the blocks that are being worked on.

Enters: a kernel over blocks, in forms. Leaves: parts that `programs/build.py` reads.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import Permute, tensor_type
from tesserac.ir.kernels import kernel_blocks, kernel_numbers
from tesserac.ir.types import ScalarType, TensorType, TileType
from tesserac.schedule.model.access import Access
from tesserac.tile.dialect import compute_scalar, tile_type
from tesserac.types.dims import Dim
from tesserac.types.dtype import I8, I32


@dataclass(frozen=True)
class Source:
    """An argument of the region: the launch operand that it is, and how it lies there; `lead` is the stride from one
    index of its own leading dim to the next, `count` how many it has, and `repeats` how many programs share one."""

    operand: int
    lead: Dim
    count: Dim
    repeats: Dim
    access: Access


@dataclass(frozen=True)
class BlockAxis:
    """A block that is being worked on: where it starts, as an index and in terms of sizes, and its axis."""

    block: Dim
    start: Value
    said: Dim
    axis: Value


def varying_symbols(kernel: Op) -> set[str]:
    """Sizes and numbers of blocks, and counters of loops."""
    counters = {str(op.attrs["counter"]) for op in kernel.walk() if op.name == "form.loop"}
    return {*(cut.block.symbol or "" for cut in kernel_blocks(kernel)), *kernel_numbers(kernel), *counters}


def identity(builder: Builder, args: list[Value]) -> Value:
    return args[0]


def transposed(op: Op, value: Value) -> Value:
    """A view of a matrix with its dims exchanged, beside the form that reads it so."""
    ty = tensor_type(value)
    result = TensorType(ty.dims[::-1], ty.dtype, ty.policy)
    return Builder.before(op).value("form.view", (value,), result, {"view": Permute((1, 0))}, hint=value.name)


def multiplied(builder: Builder, left: Value, right: Value, total: Value, hint: str = "") -> Value:
    """The product of two tiles, added to a total. Bytes are widened to what their products are summed in: no program
    gives them to a matrix unit."""
    if tile_type(left).dtype == tile_type(right).dtype == I8:
        left, right = _as_words(builder, left), _as_words(builder, right)
    return builder.value("tile.dot", (left, right, total), total.type, hint=hint)


def _as_words(builder: Builder, tile: Value) -> Value:
    type_ = tile_type(tile)
    block = Block([compute_scalar(type_)])
    inner = Builder(block, builder.span)
    inner.op("form.yield", (inner.value("scalar.cast", block.args, ScalarType(I32), {"dtype": I32}),))
    return builder.value("tile.map", (tile,), TileType(type_.shape, I32), {"maps": ((0, 1),)}, (block,))
