"""Blocks that change their layout where they are turned: read and written by neighbours, and exchanged in between.

    %x = tile.load(%a, %i, %j); %w = tile.map(%x) {maps = [[0, 1]]}; %y = tile.map(%w) {maps = [[1, 0]]}
  becomes
    %x = tile.load(%a, %i, %j); %c = tile.cast(%x)
    %w = tile.map(%c) {maps = [[1, 0]]}; %y = tile.map(%w) {maps = [[0, 1]]}

Enters: a kernel that only maps. Leaves: a cast, behind which a block may have another layout, before each map that
takes a block of two dims turned; the turn goes up to what was loaded, which is narrowest.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import TileType
from tesserac.tile.dialect import tile_type

KEPT_TOGETHER = ("tile.dot", "tile.reduce", "tile.for", "tile.tree", "tile.running", "tile.gather", "tile.scan")
"""Operations whose blocks have layouts of their own."""
PLAIN, TURNED = (0, 1), (1, 0)


def only_maps(kernel: Op) -> bool:
    return not any(op.name in KEPT_TOGETHER for op in kernel.walk())


def cut_operand(user: Op, position: int) -> Op:
    """A cast that changes nothing, behind which the operand may have another layout."""
    value = user.operands[position]
    cast = Builder.before(user).op("tile.cast", (value,), (value.type,), names=(value.name,))
    user.set_operand(position, cast.result)
    return cast


def cut_turned(kernel: Op) -> set[Op]:
    """The casts before maps that take blocks turned. Changes the kernel in place."""
    casts: set[Op] = set()
    waiting = [op for op in kernel.walk() if op.name == "tile.map"] if only_maps(kernel) else []
    while waiting:
        map_ = waiting.pop()
        for position, dims in enumerate(operand_maps(map_)):
            if tuple(dims) != TURNED:
                continue
            above = map_.operands[position].defining_op
            if above is not None and _is_plain(above):
                if above in waiting:
                    waiting.remove(above)
                waiting.append(_turned(map_, position, above))
            else:
                casts.add(cut_operand(map_, position))
    return casts


def _is_plain(op: Op) -> bool:
    """Whether a map takes all its blocks as they lie, and one map takes what it gives."""
    lie = op.name == "tile.map" and op.operands and all(tuple(dims) == PLAIN for dims in operand_maps(op))
    return bool(lie) and len(op.result.uses) == 1


def _turned(user: Op, position: int, above: Op) -> Op:
    """The map above with turned operands, in its place; the user takes what it gives as it lies."""
    ty = tile_type(above.result)
    across = TileType(ty.shape[::-1], ty.dtype, ty.policy)
    maps = tuple(TURNED for _ in above.operands)
    body = above.regions[0].block
    above.regions.clear()
    made = Builder.before(above).value("tile.map", above.operands, across, {"maps": maps}, (body,))
    user.set_operand(position, made)
    user.attrs["maps"] = tuple(PLAIN if i == position else dims for i, dims in enumerate(operand_maps(user)))
    above.erase()
    assert made.defining_op is not None
    return made.defining_op
