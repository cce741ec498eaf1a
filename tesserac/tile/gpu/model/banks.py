"""Bank conflicts, counted from layouts: how often a warp must ask for what it could have had at once.

Enters: a `gpu.kernel`. Leaves: for each access of shared memory that layouts describe how many passes its worst group
of lanes takes; 1 is none too many. A pass moves 128 bytes, a word from each of 32 banks, so lanes go in groups that
want as much: of vectors of 16 bytes eight, of words all 32. Reads of tensor copies and of wgmma go by descriptors of
the same swizzle, of which eight rows lie in different banks by its making: they are counted as ldmatrix is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.tile.gpu.model.layout import LANE_BITS, VECTOR_BYTES, Bit
from tesserac.tile.gpu.model.matrix import FMA
from tesserac.tile.gpu.model.shared import CHUNK_BYTES, SharedLayout
from tesserac.tile.gpu.model.types import FragmentType, StagesType
from tesserac.tile.gpu.model.values import matrix_unit_of

BANKS, WORD_BYTES = 32, 4
MATRIX_ROWS = 8
"""Rows that ldmatrix reads at once, 16 bytes of each."""
FMA_VECTOR = 4


@dataclass(frozen=True)
class Access:
    """What is done, and the passes of the worst group of lanes."""

    what: str
    passes: int


def accesses(kernel: Op) -> Iterator[Access]:
    """All that layouts describe, each kind once for an operation."""
    for op in kernel.walk():
        if op.name == "gpu.multiply":
            yield from _multiply(op)
        elif op.name == "gpu.multiply_held":
            yield Access("read of a right operand", matrix_passes(_stages(op, 1)))
        elif op.name == "gpu.put":
            yield Access("store of a computed operand", put_passes(op))


def passes(places: Sequence[int], width: int) -> int:
    """Of one access, `width` bytes of each lane at these places."""
    group = max(1, BANKS * WORD_BYTES // max(width, WORD_BYTES))
    return max(_group_passes(places[start : start + group], width) for start in range(0, len(places), group))


def _group_passes(places: Sequence[int], width: int) -> int:
    words = {(place + step) // WORD_BYTES for place in places for step in range(0, max(width, 1), WORD_BYTES)}
    banks = [word % BANKS for word in words]
    return max(banks.count(bank) for bank in set(banks))


def matrix_passes(layout: SharedLayout) -> int:
    """Of ldmatrix: eight rows of one column of chunks, at every chunk of a panel."""
    stored = layout.stored
    chunk = CHUNK_BYTES // stored.element
    rows = range(min(MATRIX_ROWS, stored.shape[0]))
    columns = range(0, min(stored.panel, stored.shape[1]), chunk)
    return max(passes([stored.offset(row, column) for row in rows], CHUNK_BYTES) for column in columns)


def _multiply(op: Op) -> Iterator[Access]:
    left, right = _stages(op, 0), _stages(op, 2)
    if matrix_unit_of(op).name != FMA:
        yield Access("read of a left operand", matrix_passes(left))
        yield Access("read of a right operand", matrix_passes(right))
        return
    acc = op.operands[4].type
    assert isinstance(acc, FragmentType)
    lanes = _lane_places(acc.layout.lanes)
    width = min(FMA_VECTOR, VECTOR_BYTES // left.element)
    yield Access("read of a left operand", passes([left.offset(row, 0) for row, _ in lanes], width * left.element))
    yield Access("read of a right operand", passes([right.offset(0, at) for _, at in lanes], width * right.element))


def put_passes(op: Op) -> int:
    fragment = op.operands[0].type
    assert isinstance(fragment, FragmentType)
    layout = _stages(op, 1)
    width = min(fragment.layout.vector(0 if layout.transposed else 1), VECTOR_BYTES // layout.element)
    lanes = _lane_places(fragment.layout.lanes)
    return passes([layout.offset(row, column) for row, column in lanes], width * layout.element)


def _stages(op: Op, position: int) -> SharedLayout:
    ty = op.operands[position].type
    assert isinstance(ty, StagesType)
    return ty.layout


def _lane_places(bits: Sequence[Bit]) -> list[tuple[int, int]]:
    """Row and column of each lane's first element."""
    places = []
    for lane in range(1 << LANE_BITS):
        steps = [bit for number, bit in enumerate(bits) if bit is not None and lane >> number & 1]
        places.append((sum(s for dim, s in steps if dim == 0), sum(s for dim, s in steps if dim == 1)))
    return places
