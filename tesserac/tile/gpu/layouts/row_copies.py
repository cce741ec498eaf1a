"""Pass `row_copies`: rows at computed places that products read are copied to stages, as blocks of memory are.

    %g = tile.gather(%mem, %at, %columns) {maps = [[0], [1]], stage};  %t = tile.map(%g) {maps = [[1, 0]]}
    %y = tile.dot(%x, %t, %acc)
  becomes, with %own made as %at was
    %g = tile.gather(%mem, %own, %columns) {maps = [[1], [0]], stage};  %y = tile.dot(%x, %g, %acc)

A gather that keeps its `stage` is staged: threads copy its rows in pieces of 16 bytes, which their registers never see.
They know where: the integers are computed once more for them alone, of memory that the kernel only reads, so that it
does not matter which warps copy, nor how far ahead. Others lose their `stage` and go through registers.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value, clone_op
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import AxisType, TileType
from tesserac.tile.dialect import gather_operands, memref_type, tile_type
from tesserac.tile.gpu.model.layout import LANE_BITS, Layout, bits_between, blocked
from tesserac.tile.gpu.model.shared import CHUNK_BYTES
from tesserac.types.dims import ONE

COMPUTED = ("tile.map", "tile.cast", "tile.iota", "tile.full")
READ = ("tile.load", "tile.gather")
SIDE_BYTES = 64
"""What neighbours copy of a row at once: whole sectors of memory. With more, each thread would have more rows, and a
register for the place of each."""
WRITING = {"tile.store": 1, "tile.scatter": 1}
"""Operations that write an argument, and which operand that is."""


@dataclass(frozen=True)
class Rows:
    """What a staged gather reads: the dims of its result along which integers say where, and along which memory is
    dense; those integers; the axis that is dense."""

    row: int
    column: int
    places: Value
    along: Value

    @property
    def lies_across(self) -> bool:
        return self.row == 1


def stage_rows(kernel: Op) -> None:
    """Changes the kernel in place."""
    gathers = [op for op in kernel.walk() if op.name == "tile.gather" and "stage" in op.attrs]
    written = {op.operands[WRITING[op.name]] for op in kernel.walk() if op.name in WRITING}
    fitting = {op for op in gathers if _is_copied(op, written)}
    own, replaced = _Places(), list[Value]()
    for dot in [op for op in kernel.walk() if op.name == "tile.dot"]:
        for position in (0, 1):
            factor = dot.operands[position]
            made = _gather_of(factor)
            if made is not None and made[0] in fitting:
                dot.set_operand(position, own.staged(*made))
                replaced.append(factor)
    for op in gathers:
        del op.attrs["stage"]
    erase_unread(replaced)


def is_staged_gather(op: Op | None) -> bool:
    """Whether an operation is rows that are copied to a stage."""
    return op is not None and op.name == "tile.gather" and "stage" in op.attrs


def rows_of(gather: Op) -> Rows | None:
    """How a gather reads rows; None where it reads other than whole pieces of rows of one block."""
    (at, _), maps, mem = gather_operands(gather), operand_maps(gather), memref_type(gather.operands[0])
    moving = [(v, dims, n) for v, dims, n in zip(at, maps, mem.strides, strict=True) if dims]
    computed = [(v, dims) for v, dims, _ in moving if isinstance(v.type, TileType)]
    dense = [(v, dims) for v, dims, stride in moving if isinstance(v.type, AxisType) and stride == ONE]
    if len(moving) != 2 or len(computed) != 1 or len(dense) != 1 or len(tile_type(gather.result).shape) != 2:
        return None
    (places, rows), (along, columns) = computed[0], dense[0]
    if len(rows) != 1 or rows[0] is None or columns[0] is None or rows[0] == columns[0]:
        return None
    return Rows(rows[0], columns[0], places, along)


def place_layout(rows: int, row_bytes: int, warps: int) -> Layout:
    """Which threads know which places: neighbours copy pieces of one row, and have the same place; then come rows, and
    what threads are too few for is in registers."""
    side = row_side(row_bytes).bit_length() - 1
    threads = LANE_BITS + warps.bit_length() - 1
    bits = bits_between(0, 1, rows)
    spread = [*[None] * side, *bits[: threads - side]]
    spread += [None] * (threads - len(spread))
    return Layout(tuple(bits[threads - side :]), tuple(spread[:LANE_BITS]), tuple(spread[LANE_BITS:]))


def row_side(row_bytes: int) -> int:
    """How many threads copy pieces of a row side by side."""
    return min(row_bytes, SIDE_BYTES) // CHUNK_BYTES


def staged_rows(gather: Op) -> Rows:
    rows = rows_of(gather)
    assert rows is not None, "a staged gather reads rows"
    return rows


def staged_places(gather: Op, warps: int) -> tuple[Value, Layout]:
    """The integers of a staged gather, and how so many warps hold them that copy its rows."""
    rows, ty = staged_rows(gather), tile_type(gather.result)
    return rows.places, place_layout(ty.shape[rows.row], ty.shape[rows.column] * ty.dtype.bytes, warps)


def held_rows_layout(value: Value, warps: int) -> Layout | None:
    """Rows that are gathered for products alone and go through registers are read in vectors, whatever else a program
    folds."""
    made = value.defining_op
    if made is None or made.name != "tile.gather" or not all(_is_factor(*use) for use in value.uses):
        return None
    along, ty = gather_operands(made)[0][-1], tile_type(value)
    if len(ty.shape) != 2 or not isinstance(along.type, AxisType) or memref_type(made.operands[0]).strides[-1] != ONE:
        return None
    return blocked(ty.shape, ty.dtype.bytes, LANE_BITS, warps.bit_length() - 1, warps)


def _is_factor(user: Op, position: int) -> bool:
    """Whether a use is a factor of a product, or makes nothing but one."""
    if user.name == "tile.dot":
        return position < 2
    return user.name in ("tile.map", "tile.cast") and all(_is_factor(*use) for use in user.result.uses)


def erase_unread(values: Iterable[Value]) -> None:
    """Erases what makes values that nothing reads, and what only that has read."""
    for value in values:
        made = value.defining_op
        if made is not None and made.parent is not None and len(made.results) == 1 and not value.uses:
            operands = made.operands
            made.erase()
            erase_unread(operands)


# ------------------------------------------------------------------------------------------------- which, and of what


def _is_copied(gather: Op, written: set[Value]) -> bool:
    rows, ty = rows_of(gather), tile_type(gather.result)
    if rows is None or gather.operands[0] in written:
        return False
    return ty.shape[rows.column] * ty.dtype.bytes >= CHUNK_BYTES and _is_found_again(rows.places, written)


def _is_found_again(value: Value, written: set[Value]) -> bool:
    """Whether any threads may compute a value, at any time."""
    made = value.defining_op
    if not isinstance(value.type, TileType):
        return True
    if made is None or made.name not in (*COMPUTED, *READ) or (made.name in READ and made.operands[0] in written):
        return False
    return all(_is_found_again(v, written) for v in made.operands)


def _gather_of(operand: Value) -> tuple[Op, bool] | None:
    """The gather whose elements a factor has as they are, and whether it has them with dims exchanged."""
    made, turned = operand.defining_op, False
    while made is not None and made.name == "tile.map" and _moves_only(made):
        turned ^= operand_maps(made)[0] == (1, 0)
        made = made.operands[0].defining_op
    return (made, turned) if made is not None and made.name == "tile.gather" else None


def _moves_only(op: Op) -> bool:
    """Whether a map gives the elements that it reads."""
    if len(op.operands) != 1 or len(op.body.ops) != 1 or operand_maps(op)[0] not in ((0, 1), (1, 0)):
        return False
    source, result = tile_type(op.operands[0]), tile_type(op.result)
    return (source.dtype, source.policy) == (result.dtype, result.policy)


class _Places:
    """Copies of what computes places, one for all rows of the same length."""

    def __init__(self) -> None:
        self.made: dict[tuple[Value, int], Value] = {}

    def staged(self, gather: Op, turned: bool) -> Value:
        rows, ty = staged_rows(gather), tile_type(gather.result)
        places = self.own(rows.places, ty.shape[rows.column] * ty.dtype.bytes)
        maps = tuple(tuple(d if d is None else d ^ turned for d in dims) for dims in operand_maps(gather))
        result = TileType(ty.shape[::-1] if turned else ty.shape, ty.dtype, ty.policy)
        operands = [places if v is rows.places else v for v in gather.operands]
        attrs = gather.attrs | {"maps": maps}
        return Builder.before(gather).value("tile.gather", operands, result, attrs, hint=gather.result.name)

    def own(self, value: Value, length: int) -> Value:
        made = value.defining_op
        if made is None or not isinstance(value.type, TileType):
            return value
        if (value, length) not in self.made:
            known = {v: self.own(v, length) for v in made.operands}
            copy = Builder.before(made).add(clone_op(made, known))
            copy.attrs.pop("stage", None)
            self.made[value, length] = copy.result
        return self.made[value, length]
