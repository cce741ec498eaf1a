"""What a tile is while a kernel is lowered: a recipe for its elements, a scalar, or scratch memory.

A recipe is followed where an element is needed (`elements.py`), so chains of maps fuse by themselves and nothing is
stored between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps
from tesserac.ir.interleaved import TWO
from tesserac.ir.types import MemRefType, ScalarType, TileType
from tesserac.tile.dialect import memref_type, tile_type
from tesserac.types.dims import ONE, Dim
from tesserac.types.policy import compute_dtype


class LoweringError(Exception):
    """Neutral IR of a shape that this lowering does not take. A fault of the compiler, never of the user."""

    def __init__(self, message: str, op: Op | None = None) -> None:
        super().__init__(f"{op.name}: {message}" if op is not None else message)


@dataclass(frozen=True, eq=False)
class Axis:
    """A lowered axis: where it starts, how many indices it has at run time, and at most how many."""

    start: Value
    extent: Value
    block: int


Axes = tuple[Axis | None, ...]
"""One axis per dim of a tile; none where every element of the dim is present."""


@dataclass(frozen=True, eq=False)
class Scalar:
    """A tile of rank 0: a value in the computing type, already rounded to the element type."""

    type: TileType
    value: Value
    axes: Axes = ()


@dataclass(frozen=True, eq=False)
class Filled:
    type: TileType
    value: bool | int | float
    axes: Axes


@dataclass(frozen=True, eq=False)
class Counted:
    """The indices of an axis."""

    type: TileType
    axes: Axes


@dataclass(frozen=True, eq=False)
class Loaded:
    """A block of memory, read where it is used. `version` tells whether the memory was written since."""

    type: TileType
    memory: Value
    at: tuple[Value | Axis, ...]
    axes: Axes
    version: int


@dataclass(frozen=True, eq=False)
class Grouped:
    """A block of memory of which a coordinate counts through several dims, `groups` of them: an operand of a product,
    which is packed before it is used."""

    type: TileType
    memory: Value
    at: tuple[Value | Axis, ...]
    groups: tuple[int, ...]
    axes: Axes


@dataclass(frozen=True, eq=False)
class Gathered:
    """Memory read at computed places: a coordinate is an index, an axis or a tile of integers, and `maps` are the dims
    of this tile that each follows. Bad integers are told to `status`, if there is one; `wraps`: negative ones count
    from the end."""

    type: TileType
    memory: Value
    at: tuple[Value | Axis | Tile, ...]
    maps: tuple[tuple[int | None, ...], ...]
    status: Value | None
    wraps: bool
    axes: Axes
    version: int

    @property
    def indices(self) -> list[tuple[Tile, tuple[int | None, ...]]]:
        """The tiles of integers, each with the dims that it follows."""
        pairs = zip(self.at, self.maps, strict=True)
        return [(place, dims) for place, dims in pairs if not isinstance(place, Value | Axis)]


@dataclass(frozen=True, eq=False)
class Mapped:
    type: TileType
    op: Op
    operands: tuple[Tile, ...]
    axes: Axes


@dataclass(frozen=True, eq=False)
class Converted:
    """A tile rounded to another element type."""

    type: TileType
    source: Tile
    axes: Axes


@dataclass(frozen=True, eq=False)
class Stored:
    """A tile in scratch memory: element (i, ...) stands at (prefix..., i + offset, ...)."""

    type: TileType
    memory: Value
    offsets: tuple[Value | None, ...]
    axes: Axes
    prefix: tuple[Value, ...] = ()


@dataclass(frozen=True, eq=False)
class Held:
    """A tile of which each element is carried in a register through a loop (`steps.py`)."""

    type: TileType
    axes: Axes


@dataclass(frozen=True, eq=False)
class Accumulator(Stored):
    """Scratch that products add to. Where `done` is 0 at run time it counts as +0 everywhere, whatever it holds."""

    done: Value = field(kw_only=True)

    def finished(self) -> Stored:
        """The scratch once it holds a product and can be read."""
        return Stored(self.type, self.memory, self.offsets, self.axes, self.prefix)


Block = Loaded | Stored
"""What lies in memory."""
Places = tuple[int | None, ...]
"""Which dim of another tile each dim follows, if any."""
Tile = Scalar | Filled | Counted | Loaded | Grouped | Gathered | Mapped | Converted | Stored | Held


def mapped_axes(op: Op, operands: Sequence[Tile]) -> Axes:
    """The axes of a map's result: each dim takes its axis from an operand that follows it."""
    axes: list[Axis | None] = [None] * len(tile_type(op.result).shape)
    for tile, places in zip(operands, operand_maps(op), strict=True):
        for axis, place in zip(tile.axes, places, strict=True):
            if place is not None and axes[place] is None:
                axes[place] = axis
    return tuple(axes)


def parts(tile: Tile) -> Iterable[tuple[Tile, Places | None]]:
    """The tiles that a tile is computed from, each with the dims of this one that it follows; None: the same."""
    match tile:
        case Gathered():
            return tile.indices
        case Mapped():
            return zip(tile.operands, operand_maps(tile.op), strict=True)
        case Converted():
            return ((tile.source, None),)
        case _:
            return ()


def leaves(tile: Tile, at: Places, seen: set[tuple[Tile, Places]] | None = None) -> Iterator[tuple[Block, Places]]:
    """The memory that a tile is computed from, and which dim of the outermost tile each of its dims follows, each once.
    Tables that it reads anywhere are not among them: no kernel writes those."""
    seen = set() if seen is None else seen
    if (tile, at) in seen:
        return
    seen.add((tile, at))
    if isinstance(tile, Loaded | Stored):
        yield tile, at
    for part, places in parts(tile):
        yield from leaves(part, at if places is None else tuple(None if p is None else at[p] for p in places), seen)


def memories(tile: Tile, known: dict[Tile, frozenset[Value]]) -> frozenset[Value]:
    """The memory that a tile is computed from. Tiles share what they are computed from: `known` are those seen."""
    if tile not in known:
        own = [tile.memory] if isinstance(tile, Loaded | Stored) else []
        known[tile] = frozenset(own).union(*(memories(part, known) for part, _ in parts(tile)))
    return known[tile]


def identity(tile: Tile) -> tuple[int, ...]:
    return tuple(range(len(tile.type.shape)))


def compute_type(memory: MemRefType) -> ScalarType:
    """The type in which an element of the memory takes part in computation."""
    return ScalarType(compute_dtype(memory.dtype, memory.policy))


def is_transposed(memory: MemRefType) -> bool:
    """Whether rows of a block lie side by side in memory, and not its columns."""
    return memory.layout == "strided" and len(memory.dims) == 2 and ONE == memory.strides[0] != memory.strides[1]


def contiguous_dim(tile: Loaded | Stored) -> int | None:
    """The dim of the tile whose neighbours are neighbours in memory."""
    return _dim_of_stride(tile, ONE)


def nearest_dim(tile: Loaded | Stored) -> int | None:
    """The same, or in memory of pairs the dim whose neighbours are the next pairs."""
    return _dim_of_stride(tile, nearest_stride(memref_type(tile.memory), _dims_kept(tile)))


def nearest_stride(memory: MemRefType, kept: Sequence[int]) -> Dim:
    """Between neighbours of a tile that has the dims `kept`: 1, or 2 where a first dim numbers the two of a pair."""
    first = (memory.dims[0], memory.strides[0]) if memory.dims and 0 not in kept else None
    return TWO if first == (TWO, ONE) and TWO in memory.strides else ONE


def _dim_of_stride(tile: Loaded | Stored, stride: Dim) -> int | None:
    memory = memref_type(tile.memory)
    found = [i for i, d in enumerate(_dims_kept(tile)) if memory.strides[d] == stride and memory.dims[d] != ONE]
    return found[-1] if found else None


def _dims_kept(tile: Loaded | Stored) -> Sequence[int]:
    return range(len(tile.prefix), len(memref_type(tile.memory).dims)) if isinstance(tile, Stored) else _kept(tile)


def _kept(tile: Loaded) -> Sequence[int]:
    return [dim for dim, place in enumerate(tile.at) if isinstance(place, Axis)]
