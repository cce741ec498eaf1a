"""Decides along which dim a loop nest runs in vectors, and how many elements it takes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add

from tesserac.ir.core import Block, Op
from tesserac.ir.types import MemRefType, ScalarType
from tesserac.numerics.elementary import PROGRAMS
from tesserac.numerics.order import Blocks, Free
from tesserac.tile.cpu.dialect import Shape
from tesserac.tile.cpu.target import CpuTarget
from tesserac.tile.cpu.tiles import Loaded, Places, Stored, Tile, identity, nearest_dim, nearest_stride, parts

LIGHT_BODY = 12
"""Operations up to which four vectors of a body fit any register file."""
LIGHT_SUM = 4
"""Operations up to which a sum takes all lanes of its order at a time, with all accumulators in registers."""
ELEMENTARY_COST = 16
MANY_STORES = 8
"""Stores of one iteration from which its values fill the registers by themselves."""
FEWEST_LANES = 4
"""Elements of a loop from which short vectors pay."""
FEW_STREAMS, MANY_STREAMS = 4, 8
"""Accesses of one iteration up to which four vectors, and two, are taken at a time."""
WHOLE_VOTE = 64
"""What an access that varies along all dims counts beside one that does not."""


def best_dim(tiles: Sequence[Tile], destinations: Sequence[int | None]) -> int:
    """The dim along which most accesses are contiguous; the last one where nothing speaks for another.

    `destinations` are the dims along which results are contiguous where they are stored. What varies along all dims is
    accessed more often than what is the same along some, which counts only where nothing else does.
    """
    rank = max((len(tile.type.shape) for tile in tiles), default=1)
    votes = [0] * rank
    for dim in destinations:
        if dim is not None:
            votes[dim] += WHOLE_VOTE
    known: dict[tuple[Tile, Places], list[int]] = {}
    for tile in tiles:
        votes = list(map(add, votes, _votes(tile, identity(tile), rank, known)))
    return max(range(rank), key=lambda d: (votes[d], d), default=0)


def _votes(tile: Tile, at: Places, rank: int, known: dict[tuple[Tile, Places], list[int]]) -> list[int]:
    """For each dim how often the memory that a tile is computed from is read along it: once for each way from the tile
    to it. `known` are tiles seen before, which others share."""
    found = known.get((tile, at))
    if found is None:
        found = [0] * rank
        if isinstance(tile, Loaded | Stored):
            dim = nearest_dim(tile)
            if dim is not None and (place := at[dim]) is not None:
                found[place] = WHOLE_VOTE if len({p for p in at if p is not None}) == rank else 1
        for part, places in parts(tile):
            inside = at if places is None else tuple(None if p is None else at[p] for p in places)
            found = list(map(add, found, _votes(part, inside, rank, known)))
        known[tile, at] = found
    return found


def loop_shape(target: CpuTarget, body: Block, most: int = 0) -> Shape:
    """Lanes by the narrowest type that computes in the body, parts by its length and the registers there are. A loop
    over a few elements, `most` of them if that is known, has vectors that are no longer."""
    widths = {bits for bits in _widths(body) if bits} or {32}
    bits = max(min(widths), max(widths) // 2)
    lanes = target.lanes(bits)
    if FEWEST_LANES <= most < lanes:
        return Shape(1 << (most.bit_length() - 1), 1)
    return Shape(lanes, _parts(target, body))


def _parts(target: CpuTarget, body: Block) -> int:
    """Vectors at a time. A body that writes much has as many values at once, and enough to do between them; one that
    reads much waits for memory, and its values at once would not hold in registers."""
    names = [op.name for op in _inside(body)]
    stores = names.count("cpu.store")
    if stores >= MANY_STORES:
        return 1
    most = 4 if target.registers >= 32 or _body_cost(body) <= LIGHT_BODY else 2
    streams = stores + names.count("cpu.load")
    return most if streams <= FEW_STREAMS else min(most, 2 if streams <= MANY_STREAMS else 1)


def fold_shape(target: CpuTarget, body: Block, order: Blocks | Free) -> Shape:
    """As a loop that folds nothing, within the lanes of the order; a short sum takes all of them at once."""
    shape = loop_shape(target, body)
    if isinstance(order, Free):
        return shape
    lanes = min(shape.lanes, order.lanes)
    whole = order.lanes // lanes
    return Shape(lanes, whole if _body_cost(body) <= LIGHT_SUM else min(shape.parts, whole))


def _body_cost(body: Block) -> int:
    return sum(operation_cost(op) for op in _inside(body))


def _inside(body: Block) -> Iterator[Op]:
    for op in body.ops:
        yield from op.walk()


def _widths(body: Block) -> Iterator[int]:
    for op in _inside(body):
        for value in (*op.operands, *op.results):
            if isinstance(value.type, ScalarType) and value.type.dtype.kind != "b":
                yield max(value.type.dtype.bits, 32 if value.type.dtype.is_float else 8)


def operation_cost(op: Op) -> int:
    """How many instructions an operation stands for, roughly; what folds into others counts nothing."""
    name = op.name.removeprefix("scalar.")
    if name in PROGRAMS:
        return ELEMENTARY_COST
    return 0 if op.opdef.terminator or op.name == "scalar.constant" or op.opdef.dialect == "index" else 1


def destination_dim(memory: MemRefType, kept: Sequence[int]) -> int | None:
    """The dim of a stored tile whose neighbours are neighbours in the memory it goes to."""
    found = [i for i, dim in enumerate(kept) if memory.strides[dim] == nearest_stride(memory, kept)]
    return found[-1] if found else None
