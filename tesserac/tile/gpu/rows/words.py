"""Pass `words`: rows of 16-bit numbers are read and written by words, also where they begin in the middle of one.

    %axis = gpu.axis(%start, %stop)  becomes  %axis = gpu.axis(%start, %stop) {words = true}

Enters: a kernel of rows, all else decided. Leaves: axes of rows that teams hold say that what lies along them may be
turned by one place.

Note [Turned rows]
A row of an odd number of bf16 begins in the middle of a word every other time. Its numbers read one by one are twice
as many instructions, and pass the second cache in pieces of 64 bytes that begin anywhere. So each thread takes the
words that it would take if the row began with the word: place p of a block then has element p - 1. Place 0 of each 64
would have an element of the 64 before; it has the last one of its own 64 instead, which is the first half of the
next word of the thread that has place 0, the `seam`. Terms of each of the 64 sums are the same, in the same order. The
tree that joins the sums pairs those 32, 16, ... places apart, round the end: turned by one it has the same pairs, and
an addition does not ask which side comes first. So all bits stay.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.schedule.machine import Machine
from tesserac.schedule.rows.row_lengths import row_parts
from tesserac.tile.gpu.model.layout import REDUCE_LANES, Layout
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment, memory
from tesserac.types.dtype import BF16, F16

WORDS = "words"
"""The attribute of an axis along which rows may be turned."""
NARROW = (BF16, F16)
EVEN = 2
ELEMENTWISE = {"gpu.map", "gpu.cast", "gpu.mask", "gpu.store", "gpu.load", "gpu.choose"}
FOLDS = {"gpu.fold", "gpu.relabel", "gpu.butterfly", "gpu.halve"}


def turn_rows(kernel: Op, machine: Machine) -> None:
    """Changes the kernel in place. Rows that a warp holds in two parts would spill where narrow numbers need more
    registers."""
    if len(row_parts(kernel)) > 1 and not machine.has_async_matrix_unit:
        return
    axes = [op for op in kernel.body.ops if op.name == "gpu.axis"]
    turned = [axis for axis in axes if _is_row(axis, kernel)]
    if turned and len(turned) == len(axes) and all(_is_place_free(op) for op in kernel.walk()):
        for axis in turned:
            axis.attrs[WORDS] = True


def _is_row(axis: Op, kernel: Op) -> bool:
    """Whether an axis is the block of a row that one team reads, and rows may be of an odd number of elements."""
    users = [user for user, _ in axis.result.uses]
    moves = [op for op in users if op.name in ("gpu.load", "gpu.store")]
    if any(op not in moves and op.name != "gpu.mask" for op in users) or not all(map(_moves_narrow, moves)):
        return False
    masked = [fragment(op.result) for op in users if op.name == "gpu.mask"]
    if not all(len(ty.shape) == 1 and _has_whole_sums(ty.layout) for ty in masked):
        return False
    first = row_load(axis)
    if first is None or any(op.parent is not kernel.body for op in moves):
        return False
    length = memory(first.operands[0]).dims[-1].constant
    known = all(value in kernel.body.args for value in first.operands[1:-1])
    return known and (length is None or length % EVEN != 0)


def row_load(axis: Op) -> Op | None:
    """The load of the row by which it is known whether it begins in the middle of a word."""
    loads = [user for user, _ in axis.result.uses if user.name == "gpu.load" and len(user.operands) > EVEN]
    return min(loads, key=lambda op: op.parent.place(op) if op.parent else 0, default=None)


def _moves_narrow(op: Op) -> bool:
    """Whether narrow numbers of one row go to or from memory in which they lie side by side."""
    held, (mem, *_) = (op.result, op.operands) if op.name == "gpu.load" else (op.operands[0], op.operands[1:])
    ty = fragment(held)
    lies = memory(mem).space == "global" and memory(mem).contiguous and memory(mem).dtype == ty.dtype
    return lies and ty.dtype in NARROW and len(ty.shape) == 1 and _has_whole_sums(ty.layout)


def _has_whole_sums(layout: Layout) -> bool:
    """Whether a team has neighbours in each thread, and all 64 sums."""
    low = layout.vector(0)
    lanes = [bit for bit in layout.lanes if bit is not None]
    along = [(0, low << i) for i in range(len(lanes))]
    return low >= EVEN and lanes == along and low << len(lanes) == REDUCE_LANES and not layout.ends


def _is_place_free(op: Op) -> bool:
    """Whether an operation does the same wherever the elements of a block are, or folds them as rows are."""
    values: tuple[Value, ...] = (*op.operands, *op.results)
    if not any(isinstance(value.type, FragmentType) and value.type.shape for value in values):
        return True
    return op.name in ELEMENTWISE or op.name in FOLDS
