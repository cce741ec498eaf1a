"""Distributed register layouts: which thread holds which element of a block, in which register.

A layout says for each bit of a register's number, of a lane's number and of a warp's number how far it moves along
which dim of the block. An element's position is the sum of the moves of the bits that are set. So every layout that
matrix units, vector accesses and butterflies want is a few pairs of numbers, and slicing one is dropping pairs.

    r[1:1 0:8] l[1:2 1:4 0:1 0:2 0:4] w[0:16]      `dim:step`; `-` moves nowhere: threads hold copies

Registers never hold copies; threads may. Blocks are powers of two, but for a dim that `ends` before all its bits are
set: registers that would lie behind it do not exist. `e[1:192]` stands behind such a layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.tile.gpu.model.errors import LoweringError

LANE_BITS = 5
VECTOR_BYTES = 16

Bit = tuple[int, int] | None
"""(dim, step) that a set bit adds, or None where the bit only makes copies."""


@dataclass(frozen=True)
class Layout:
    registers: tuple[Bit, ...]
    lanes: tuple[Bit, ...]
    warps: tuple[Bit, ...]
    ends: tuple[tuple[int, int], ...] = ()
    """(dim, size) of dims that are no power of two, whose highest bits are those of registers, or of so many warps."""

    @property
    def count(self) -> int:
        """Registers of one thread."""
        return len(self.offsets) if self.ends else 1 << len(self.registers)

    @cached_property
    def offsets(self) -> tuple[dict[int, int], ...]:
        """For each register, its position relative to the thread's: dim -> step."""
        every = (_moves(self.registers, number) for number in range(1 << len(self.registers)))
        return tuple(moves for moves in every if all(moves.get(dim, 0) < size for dim, size in self.ends))

    @cached_property
    def place(self) -> dict[tuple[tuple[int, int], ...], int]:
        """The register at a position relative to the thread's."""
        return {_key(offset): number for number, offset in enumerate(self.offsets)}

    def register_at(self, offset: dict[int, int]) -> int:
        return self.place[_key(offset)]

    def project(self, dims: Sequence[int | None]) -> Layout:
        """The layout of an operand whose dim j follows dim `dims[j]` of this block, or stretches over it."""
        return _projected(self, tuple(dims))

    def vector(self, dim: int) -> int:
        """How many neighbouring elements along `dim` the lowest registers hold."""
        width = 1
        for bit in self.registers:
            if bit != (dim, width):
                break
            width *= 2
        return width

    def halved(self, dim: int, step: int) -> Layout:
        """The layout after elements `step` apart along `dim` were folded into one: that bit makes copies."""

        def move(bit: Bit) -> Bit:
            return None if bit == (dim, step) else bit

        if dim in dict(self.ends):
            raise LoweringError(f"a fold of {dict(self.ends)[dim]} elements, which are no power of two")
        kept = (move(bit) for bit in self.registers)
        return Layout(
            tuple(bit for bit in kept if bit is not None), _each(move, self.lanes), _each(move, self.warps), self.ends
        )

    def exchanged(self, folded: tuple[int, int], held: tuple[int, int]) -> Layout:
        """The layout after elements that two lanes hold were folded, and each kept one side of a step that it held."""
        lanes = tuple(held if bit == folded else bit for bit in self.lanes)
        return Layout(tuple(bit for bit in self.registers if bit != held), lanes, self.warps, self.ends)

    def gathered(self, dim: int) -> Layout:
        """The same, but with all of `dim` in the registers of each thread."""

        def move(bit: Bit) -> Bit:
            return None if bit is not None and bit[0] == dim else bit

        bits = (*self.registers, *self.lanes, *self.warps)
        along = sorted(bit for bit in bits if bit is not None and bit[0] == dim)
        others = [bit for bit in self.registers if bit is not None and bit[0] != dim]
        return Layout((*along, *others), _each(move, self.lanes), _each(move, self.warps), self.ends)

    def __str__(self) -> str:
        parts = [("r", self.registers), ("l", self.lanes), ("w", self.warps)]
        parts += [("e", self.ends)] if self.ends else []
        return " ".join(f"{name}[{' '.join(map(_bit_text, bits))}]" for name, bits in parts)


@lru_cache(1024)
def _projected(layout: Layout, dims: tuple[int | None, ...]) -> Layout:
    """Kept for a while: variants of a kernel ask for the same ones."""
    new_dim = {old: new for new, old in enumerate(dims) if old is not None}

    def move(bit: Bit) -> Bit:
        return (new_dim[bit[0]], bit[1]) if bit is not None and bit[0] in new_dim else None

    kept = (move(bit) for bit in layout.registers)
    ends = tuple(sorted((new_dim[dim], size) for dim, size in layout.ends if dim in new_dim))
    registers = tuple(bit for bit in kept if bit is not None)
    return Layout(registers, _each(move, layout.lanes), _each(move, layout.warps), ends)


def _each(move: object, bits: Iterable[Bit]) -> tuple[Bit, ...]:
    assert callable(move)
    return tuple(move(bit) for bit in bits)


def _moves(bits: Sequence[Bit], number: int) -> dict[int, int]:
    moves: dict[int, int] = {}
    for position, bit in enumerate(bits):
        if bit is not None and number >> position & 1:
            moves[bit[0]] = moves.get(bit[0], 0) + bit[1]
    return moves


def _key(offset: dict[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((dim, step) for dim, step in offset.items() if step))


def _bit_text(bit: Bit) -> str:
    return "-" if bit is None else f"{bit[0]}:{bit[1]}"


_TEXT = re.compile(r"r\[([^\]]*)\] l\[([^\]]*)\] w\[([^\]]*)\](?: e\[([^\]]*)\])?")


def parse_layout(text: str) -> Layout:
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a layout: {text!r}")
    registers, lanes, warps, ends = (tuple(map(_parse_bit, (group or "").split())) for group in match.groups())
    return Layout(registers, lanes, warps, tuple(end for end in ends if end is not None))


def _parse_bit(word: str) -> Bit:
    if word == "-":
        return None
    dim, step = word.split(":")
    return int(dim), int(step)


def dim_bits(shape: Sequence[int]) -> list[Bit]:
    """The bits of a block in row-major order, the last dim's first."""
    bits: list[Bit] = []
    for dim in reversed(range(len(shape))):
        bits += bits_between(dim, 1, shape[dim])
    return bits


def bits_between(dim: int, low: int, high: int) -> list[Bit]:
    """Steps low, 2*low, ... below high along one dim."""
    if not is_power_of_two(high):
        raise LoweringError(f"a block of {high} elements is not a power of two")
    return bits_below(dim, low, high)


def bits_below(dim: int, low: int, size: int) -> list[Bit]:
    """The same of any number of blocks of `low`: see `Layout.ends`."""
    return [(dim, low << i) for i in range((size // low - 1).bit_length() if size > low else 0)]


def is_power_of_two(number: int) -> bool:
    return number > 0 and not number & (number - 1)


def ends_of(shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The dims that end before all bits of their size are set."""
    return tuple((dim, size) for dim, size in enumerate(shape) if not is_power_of_two(size))


def blocked(shape: Sequence[int], element_bytes: int, lane_bits: int, warp_bits: int, warps: int) -> Layout:
    """Neighbours in 16-byte vectors, shorter ones where some threads would have none; then over lanes, then over warps;
    what is left repeats in registers.

    `lane_bits` and `warp_bits` say how many threads share a block; the others hold copies.
    """
    bits = dim_bits(shape)
    vector = min(_log2(VECTOR_BYTES // element_bytes), max(0, len(bits) - lane_bits - warp_bits))
    held, rest = bits[:vector], bits[vector:]
    lanes, rest = rest[:lane_bits], rest[lane_bits:]
    spread, rest = rest[:warp_bits], rest[warp_bits:]
    return Layout((*held, *rest), _padded(lanes, LANE_BITS), _padded(spread, _log2(warps) if spread else _bits(warps)))


REDUCE_LANES = 64
TEAM, WHOLE_WARP = 16, 32
"""Threads that fold one reduction block: 16 threads of four lanes each make the 64 lanes of the canonical order, or 32
of two each, where there are warps enough."""


def reduction(shape: Sequence[int], axis: int, warps: int, team: int) -> Layout:
    """A team's layout of a block folded along `axis`: of the 64 lanes a thread has neighbours, their terms in
    registers."""
    vector = REDUCE_LANES // team
    low = bits_between(axis, 1, min(vector, shape[axis]))
    lanes = bits_between(axis, vector, min(REDUCE_LANES, shape[axis]))
    terms = bits_between(axis, REDUCE_LANES, max(REDUCE_LANES, shape[axis]))
    others: list[Bit] = []
    for dim in reversed(range(len(shape))):
        others += bits_between(dim, 1, shape[dim]) if dim != axis else []
    return Layout((*low, *terms, *others), _padded(lanes, LANE_BITS), _padded([], _bits(warps)))


def shared_reduction(shape: Sequence[int], axis: int, warps: int) -> Layout:
    """All threads' layout of a block folded along `axis`: neighbouring lanes hold neighbours of the other dims, as
    memory does; then come lanes of the canonical order, over lanes and warps; its terms are in registers."""
    others: list[Bit] = []
    for dim in reversed(range(len(shape))):
        others += bits_between(dim, 1, shape[dim]) if dim != axis else []
    side, rest = others[:LANE_BITS], others[LANE_BITS:]
    along = bits_between(axis, 1, min(REDUCE_LANES, shape[axis]))
    terms = bits_between(axis, REDUCE_LANES, max(REDUCE_LANES, shape[axis]))
    room, warp_bits = LANE_BITS - len(side), _log2(warps)
    lanes, spread, held = along[:room], along[room : room + warp_bits], along[room + warp_bits :]
    return Layout((*held, *terms, *rest), _padded([*side, *lanes], LANE_BITS), _padded(spread, warp_bits))


def row_reduction(shape: Sequence[int], element_bytes: int, warps: int) -> Layout:
    """All threads' layout of a block of rows folded along the last dim, along which memory runs: a thread has 16 bytes
    of a row, or fewer where some would have none, lanes side by side have the rest of the canonical order's lanes, and
    other lanes and warps have other rows."""
    axis = len(shape) - 1
    along = bits_between(axis, 1, min(REDUCE_LANES, shape[axis]))
    terms = bits_between(axis, REDUCE_LANES, max(REDUCE_LANES, shape[axis]))
    rows = dim_bits(shape[:axis])
    warp_bits = _log2(warps)
    spare = max(0, len(along) + len(rows) - LANE_BITS - warp_bits)
    vector = max(min(_log2(VECTOR_BYTES // element_bytes), spare), len(along) - LANE_BITS)
    lanes = along[vector:]
    room = LANE_BITS - len(lanes)
    side, spread, held = rows[:room], rows[room : room + warp_bits], rows[room + warp_bits :]
    return Layout(
        (*along[:vector], *terms, *held), _padded([*lanes, *side], LANE_BITS), _padded(spread, warp_bits)
    )


def _padded(bits: Sequence[Bit], length: int) -> tuple[Bit, ...]:
    return (*bits, *[None] * (length - len(bits)))


def _bits(warps: int) -> int:
    """Those of the number of a warp: of warps that hold the same, or blocks of their own, there may be three."""
    return (warps - 1).bit_length()


def _log2(number: int) -> int:
    if number < 1 or number & (number - 1):
        raise LoweringError(f"{number} is not a power of two")
    return number.bit_length() - 1


def matrix_layout(
    shape: Sequence[int],
    registers: Sequence[Bit],
    lanes: Sequence[Bit],
    unit: tuple[int, int],
    grid: tuple[int, int],
) -> Layout:
    """An accumulator: `unit` elements as `registers` and `lanes` of one warp say, repeated in registers until a warp's
    part is filled, the parts laid out over a `grid` of warps, rows first."""
    part = (shape[0] // grid[0], shape[1] // grid[1])
    if any(have < need for have, need in zip(part, unit, strict=True)):
        raise LoweringError(f"a block of {list(shape)} is too small for {grid[0] * grid[1]} warps")
    repeat = [*bits_between(1, unit[1], part[1]), *bits_between(0, unit[0], part[0])]
    warps = [*bits_between(0, part[0], shape[0]), *bits_between(1, part[1], shape[1])]
    return Layout((*registers, *repeat), tuple(lanes), tuple(warps))
