"""Products that are stored as they are: register blocks write the result themselves.

    %c = tile.dot(%a, %b, +0)
    %y = tile.map(%c) { x + (+0) }      ==>    for panel j of %b: for panel i of %a: cpu.finished_block into %memory
    tile.store(%y, %memory, ...)

No sums go to scratch and come back, which takes a third of the time of a product of a few dozen terms.

Of a product of many terms, blocks of which continue its sums, these stand in the memory of the result meanwhile:

    %c = tile.tree(%count) {                       for each block of terms: ..: cpu.finished_block into %memory,
      tile.for { tile.dot(%a, %b, %sums) } }            or, where segments are to be combined, into scratch
    %y = tile.map(%c) { x + (+0) }      ==>    where there is not one segment: store what scratch has
    tile.store(%y, %memory, ...)

Adding +0 where a block of terms ends changes no result: it makes +0 of a sum that is -0, and that is all +0 does at
the end too.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.types import AxisType
from tesserac.tile.bodies import is_plus_zero
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.target import Micro
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


@dataclass(frozen=True)
class Finished:
    """Where the sums of a product go at once, unless `elsewhere` is not 0 at run time: then they go to scratch."""

    to: Destination
    elsewhere: Value


def offer_store(ctx: Context, tree: Op, dot: Op, micro: Micro) -> None:
    """Lets a product in the blocks of a tree write the result, if that is only stored: where the tree has one block,
    and columns start at the edge of a panel."""
    total = _only_user(tree, "tile.map")
    store = None if total is None or not _adds_zero(total) else _only_user(total, "tile.store")
    if store is None or not _takes_blocks(dot, store):
        return
    memory, *outer, rows, columns = store.operands[1:]
    if not all(value in ctx.values for value in (memory, *outer)) or not {rows, columns} <= ctx.axes.keys():
        return
    to = Destination(ctx.value(memory), tuple(map(ctx.value, outer)), ctx.axes[rows], ctx.axes[columns])
    others = ctx.index("sub", ctx.value(tree.operands[0]), 1)
    elsewhere = ctx.index("add", ctx.index("mul", others, others), ctx.index("rem", to.columns.start, micro.columns))
    ctx.finished[dot], ctx.stores_elsewhere[store] = Finished(to, elsewhere), elsewhere


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
