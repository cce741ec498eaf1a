"""Pass `gathers`: a read at computed places learns which of its elements exist.

    %g = gpu.gather(%mem, %i, %columns) {maps = [[0], [1]]}         with %i = gpu.load(%index, %rows)
  becomes
    %g = gpu.gather(%mem, %i, %columns, %rows, %columns) {maps = [[0], [1]], bounded = [0, 1]}

and so does a `gpu.stage` with `maps`, whose rows are copied.

An index beyond the end of its block is whatever stands there: it must neither be read at nor told of. The axes that cut
the result are those of what the coordinates were computed from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import indices, operand_maps
from tesserac.ir.types import AxisType
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import memory

Axes = dict[int, Value]
"""For dims of a block, the axis that cuts them."""


def cut_gathers(kernel: Op) -> None:
    """Changes the kernel in place."""
    known: dict[Value, Axes] = {}
    for op in kernel.walk():
        if op.name == "gpu.gather" or copies_rows(op):
            cut = axes_of(op.result, known)
            op.attrs["bounded"] = tuple(cut)
            op.set_operands([*op.operands, *cut.values()])


def copies_rows(op: Op) -> bool:
    """Whether a staged block is rows at computed places."""
    return op.name == "gpu.stage" and "maps" in op.attrs


def places_of(load: Op) -> set[Op]:
    """All that computes the places of rows which are copied."""
    found, waiting = set[Op](), [load]
    for op in waiting:
        makers = [v.defining_op for v in op.operands if isinstance(v.type, FragmentType)]
        new = {made for made in makers if made is not None} - found
        found |= new
        waiting += new
    return found


def row_places(kernel: Op) -> set[Op]:
    """The same of all such rows of a kernel: it belongs to those who copy."""
    return {op for load in kernel.walk() if copies_rows(load) for op in places_of(load)}


def cut_axes(op: Op) -> Axes:
    """The axes that cut a gathered block, once they are known."""
    dims = indices(op, "bounded")
    return dict(zip(dims, op.operands[len(op.operands) - len(dims) :], strict=True))


def axes_of(value: Value, known: dict[Value, Axes]) -> Axes:
    """The axes that cut a block; dims along which it has no end of its own are absent."""
    if value not in known:
        found: Axes = {}
        for axes in _sources(value, known):
            for dim, axis in axes.items():
                found.setdefault(dim, axis)
        known[value] = dict(sorted(found.items()))
    return known[value]


def _sources(value: Value, known: dict[Value, Axes]) -> Iterator[Axes]:
    """What each operand says of the axes of a result."""
    op = value.defining_op
    if op is None:
        return
    match op.name:
        case "gpu.load":
            yield dict(enumerate(v for v in op.operands[1:] if isinstance(v.type, AxisType)))
        case "gpu.iota":
            yield {0: op.operands[0]}
        case "gpu.cast" | "gpu.convert" | "gpu.scan":
            yield axes_of(op.operands[0], known)
        case "gpu.map":
            for operand, dims in zip(op.operands, operand_maps(op), strict=True):
                yield _followed(axes_of(operand, known), dims)
        case "gpu.gather" | "gpu.stage":
            for coordinate, dims in zip(coordinates(op), operand_maps(op), strict=True):
                own = {0: coordinate} if isinstance(coordinate.type, AxisType) else axes_of(coordinate, known)
                yield _followed(own, dims)
        case "gpu.reduce":
            kept = [d for d in range(_rank(op.operands[0])) if d not in indices(op, "axes")]
            yield {kept.index(d): axis for d, axis in axes_of(op.operands[0], known).items() if d in kept}


def _rank(value: Value) -> int:
    assert isinstance(value.type, FragmentType)
    return len(value.type.shape)


def _followed(axes: Axes, dims: Sequence[int | None]) -> Axes:
    """The axes of an operand as those of the dims that it follows."""
    places = ((dims[d], axis) for d, axis in axes.items())
    return {place: axis for place, axis in places if place is not None}


def coordinates(op: Op) -> tuple[Value, ...]:
    """The coordinates of a gather, one per dim of its memory."""
    first = read_memory(op) + 1
    return op.operands[first : first + len(memory(op.operands[first - 1]).dims)]


def read_memory(op: Op) -> int:
    """Which operand of a gather is the memory: a copy of rows has its stage first."""
    return 2 if op.name == "gpu.copy_rows" else 0
