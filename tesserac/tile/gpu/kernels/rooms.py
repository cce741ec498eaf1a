"""Pass `rooms`: scans and sorts get the scratch in which threads work together.

    %s, %t = tile.scan(%x, %i)             becomes    %room = tile.alloc() : memref<[512], f32, local>
                                                      %total = tile.alloc() : memref<[], f32, local>
                                                      %s, %t = tile.scan(%x, %i, %room, %total)
    tile.sort(%m, %p, %out, %q)            becomes    tile.sort(%m, %p, %out, %q, %pairs), a key and a place each

Blocks have the sizes that threads hold by then. Which variants a kernel has depends on all of its scratch.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, clone_op
from tesserac.ir.forms import indices
from tesserac.ir.types import MemRefType
from tesserac.tile.dialect import memref_type, tile_type
from tesserac.types.dims import Dim
from tesserac.types.dtype import I64


def add_rooms(kernel: Op) -> Op:
    """The kernel with its rooms."""
    if not any(op.name in ("tile.scan", "tile.sort") for op in kernel.walk()):
        return kernel
    prepared = clone_op(kernel, {})
    start = Builder.before(prepared.body.ops[0])
    for op in list(prepared.walk()):
        if op.name in ("tile.scan", "tile.sort"):
            types = _scan_rooms(op) if op.name == "tile.scan" else [_pairs(op)]
            rooms = [start.value("tile.alloc", (), ty, hint="room") for ty in types]
            op.set_operands([*op.operands, *rooms])
    return prepared


def _scan_rooms(op: Op) -> list[MemRefType]:
    types = [tile_type(result) for result in op.results]
    return [MemRefType(tuple(map(Dim.const, ty.shape)), ty.dtype, ty.policy, space="local") for ty in types]


def _pairs(op: Op) -> MemRefType:
    size = memref_type(op.operands[0]).dims[indices(op, "dims")[0]]
    return MemRefType((size, Dim.const(2)), I64, space="local")
