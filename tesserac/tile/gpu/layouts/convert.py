"""Pass `convert`: a block changes its layout through shared memory.

    %y = gpu.convert(%x) : fragment<[16, 16], f32, B>
  becomes, with room that all conversions of one type share,
    %room = gpu.alloc() : memref<[16, 16], f32, shared>
    gpu.store(%x, %room, %0, %1)
    %y = gpu.load(%room, %0, %1) : fragment<[16, 16], f32, B>

where the axes cover the block. `barriers` sees the traffic and orders it.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.index import dim_value
from tesserac.ir.types import AxisType, MemRefType, row_major
from tesserac.schedule.machine import Machine
from tesserac.tile.dialect import memref_type
from tesserac.tile.gpu.layouts.variants import EXCHANGE_BYTES, scratch_bytes
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.values import fragment
from tesserac.types.dims import Dim

WORD = 4
STATIC_BYTES = 40 * 1024
"""What conversions of a kernel may take of it at most."""


def expand_conversions(kernel: Op, machine: Machine) -> None:
    """Changes the kernel in place."""
    rooms: dict[MemRefType, Value] = {}
    start = Builder.before(kernel.body.ops[0])
    for op in list(kernel.walk()):
        if op.name == "gpu.convert":
            _through_memory(op, start, rooms)
    needed = sum((scratch_bytes(mem) for mem in rooms), start=Dim.const(0)).constant
    if needed is None or needed > _room(kernel, machine):
        raise LoweringError(f"blocks that change their layout would need {needed} bytes of shared memory")


def _room(kernel: Op, machine: Machine) -> int:
    """Bytes for conversions. Scratch of a size that only a run knows leaves them `EXCHANGE_BYTES`."""
    scratch = [memref_type(op.result) for op in kernel.walk() if op.name == "gpu.scratch"]
    taken = sum((scratch_bytes(mem) for mem in scratch), start=Dim.const(0)).constant
    left = EXCHANGE_BYTES if taken is None else machine.near_bytes - taken
    return min(STATIC_BYTES, max(left, EXCHANGE_BYTES))


def _through_memory(op: Op, start: Builder, rooms: dict[MemRefType, Value]) -> None:
    ty = fragment(op.result)
    dims = tuple(Dim.const(n) for n in ty.shape)
    mem = MemRefType(dims, ty.dtype, ty.policy, _strides(dims, ty.dtype.bytes), space="shared")
    if mem not in rooms:
        rooms[mem] = start.value("gpu.alloc", (), mem, hint="exchange")
    b = Builder.before(op)
    zero = dim_value(b, 0)
    axes = [b.value("gpu.axis", (zero, dim_value(b, n)), AxisType(n)) for n in ty.shape]
    b.op("gpu.store", (op.operands[0], rooms[mem], *axes))
    op.result.replace_all_uses(b.value("gpu.load", (rooms[mem], *axes), ty, hint=op.result.name))
    op.erase()


def _strides(dims: tuple[Dim, ...], size: int) -> tuple[Dim, ...]:
    """Rows a word longer than they are, so that neighbours in a column lie in different banks."""
    return row_major(dims) if len(dims) < 2 else row_major((*dims[:-1], dims[-1] + max(1, WORD // size)))

