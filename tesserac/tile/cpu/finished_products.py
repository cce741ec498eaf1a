"""Products that are stored as they are: register blocks write the result themselves.

    %c = tile.dot(%a, %b, +0)
    %y = tile.map(%c) { x + (+0) }      ==>    for panel j of %b: for panel i of %a: cpu.finished_block into %memory
    tile.store(%y, %memory, ...)

No sums go to scratch and come back, which takes a third of the time of a product of a few dozen terms.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.types import AxisType
from tesserac.tile.bodies import is_plus_zero
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.tiles import Axis
from tesserac.tile.dialect import memref_type, tile_type
from tesserac.types.dims import ONE


@dataclass(frozen=True)
class Destination:
    """Where a product is stored: its memory, and the coordinates there."""

    memory: Value
    outer: tuple[Value, ...]
    rows: Axis
    columns: Axis


def take_store(ctx: Context, dot: Op) -> Destination | None:
    """Where a product is to be stored and nothing else is done with it; the store is then done."""
    total = _only_user(dot, "tile.map")
    store = None if total is None or not _adds_zero(total) else _only_user(total, "tile.store")
    if store is None or not _takes_blocks(dot, store):
        return None
    ctx.done_stores.add(store)
    memory, *outer, rows, columns = store.operands[1:]
    return Destination(ctx.value(memory), tuple(map(ctx.value, outer)), ctx.axes[rows], ctx.axes[columns])


def _only_user(op: Op, name: str) -> Op | None:
    users = [user for user, _ in op.result.uses]
    return users[0] if len(users) == 1 and users[0].name == name and users[0].parent is op.parent else None


def _adds_zero(op: Op) -> bool:
    """Whether a map ends a sum and does nothing else."""
    *_, add, end = op.body.ops
    [x] = op.body.args if len(op.operands) == 1 else [None]
    ends = add.name == "scalar.add" and end.operands == (add.result,) and len(op.body.ops) == 3
    same = tile_type(op.result) == tile_type(op.operands[0])
    return same and ends and add.operands[0] is x and is_plus_zero(add.operands[1])


def _takes_blocks(dot: Op, store: Op) -> bool:
    """Whether rows of the result are rows of the memory, columns neighbours, and all else is given."""
    memory, at = memref_type(store.operands[1]), store.operands[2:]
    axes = [isinstance(value.type, AxisType) for value in at]
    plain = memory.layout == "strided" and memory.strides[-1] == ONE and memory.dtype == tile_type(dot.result).dtype
    return plain and axes == [False] * (len(at) - 2) + [True, True]
