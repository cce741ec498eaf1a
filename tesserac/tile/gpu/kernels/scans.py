"""Pass `scans`: running folds go through memory that all threads see; one thread walks each row.

    %s, %t = gpu.scan(%x, %i, %room, %totals) {dim = 0, kind = "sum"}
  becomes
    gpu.store(%x, %room, %0)
    gpu.scan_rows(%room, %totals, %i) {dim = 0, kind = "sum"}
    %s = gpu.load(%room, %0);  %t = gpu.load(%totals)

The order of a fold is ascending within a block, so a row is one chain; the rows of a block are walked side by side.
`barriers` sees the traffic and orders it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.index import dim_value
from tesserac.ir.types import AxisType
from tesserac.tile.gpu.model.values import fragment, memory


def expand_scans(kernel: Op) -> None:
    """Changes the kernel in place."""
    for op in list(kernel.walk()):
        if op.name == "gpu.scan":
            _expand(op)


def _expand(op: Op) -> None:
    source, axis, room, totals = op.operands
    b = Builder.before(op)
    steps, total = (fragment(v) for v in op.results)
    accumulated = replace(steps, layout=fragment(source).layout)
    widened = source if source.type == accumulated else b.value("gpu.cast", (source,), accumulated)
    whole = _whole(b, steps.shape)
    b.op("gpu.store", (widened, room, *whole))
    b.op("gpu.scan_rows", (room, totals, axis), (), {"kind": op.attrs["kind"], "dim": op.attrs["dim"]})
    loaded = [
        b.value("gpu.load", (room, *whole), steps, hint=op.results[0].name),
        b.value("gpu.load", (totals, *_whole(b, total.shape)), total, hint=op.results[1].name),
    ]
    for old, new in zip(op.results, loaded, strict=True):
        old.replace_all_uses(new)
    op.erase()


def _whole(b: Builder, shape: Sequence[int]) -> list[Value]:
    """Axes that cover a block."""
    zero = dim_value(b, 0)
    return [b.value("gpu.axis", (zero, dim_value(b, size)), AxisType(size)) for size in shape]


def room_operands(op: Op) -> tuple[tuple[Value, ...], tuple[Value, ...], Value]:
    """The room and the totals of a `gpu.scan_rows`, each with the program's row in it if it is workspace; the axis."""
    *rooms, axis = op.operands
    places = [i for i, v in enumerate(rooms) if not _is_index(v)]
    return tuple(rooms[: places[1]]), tuple(rooms[places[1] :]), axis


def _is_index(value: Value) -> bool:
    return not hasattr(value.type, "dims")


def room_shape(room: Sequence[Value]) -> tuple[int, ...]:
    """The block that a room holds."""
    sizes = [dim.evaluate({}) for dim in memory(room[0]).dims[len(room) - 1 :]]
    return tuple(sizes)
