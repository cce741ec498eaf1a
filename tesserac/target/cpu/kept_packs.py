"""Where a host program finds the pack of an operand that may be frozen: `schedule.kept`.

The pool knows packs by the address of the matrix and by a key (`frozen_memory.py`): a hash of what the layout is, and of
the micro-kernel that reads it, continued with the sizes and strides that a call has. So two functions share a pack
exactly where they would make the same one.
"""

from __future__ import annotations

import hashlib

from tesserac.ir.core import Op, attr, attr_tuple
from tesserac.ir.core import Value as IRValue
from tesserac.schedule.dialect import KEPT, memory
from tesserac.target.cpu.host_program import HostProgram, kernel_name
from tesserac.target.cpu.system import call_imported
from tesserac.target.cpu.workspace import BufferBytes, aligned
from tesserac.target.dims import emit_dim
from tesserac.target.llvm_types import I1, I64, PTR, Value, const_i64, const_int, zero
from tesserac.types.dims import Dim

_FACTOR = 0x2545F4914F6CDD1D
"""Odd, and random enough that sums of a few sizes times its powers meet only where all sizes are equal."""


def find_pack(buffer_bytes: BufferBytes, program: HostProgram, op: Op) -> tuple[Value, Value]:
    """The address of the pack, and whether there is one, to be read or to be filled."""
    assert op.name == KEPT
    b, (source, packed) = program.b, op.operands
    start = b.cast("ptrtoint", program.address(source), I64)
    size = emit_dim(b, aligned(buffer_bytes(memory(packed))), program.symbols)
    (kernel,) = {program.kernels[kernel_name(inner)] for inner in op.regions[0].block.ops if inner.name == "tile.launch"}
    key = const_i64(_hash(f"{attr(op, 'layout', str)} for {attr(kernel, 'target', str)}"))
    for dim in attr_tuple(op, "sizes", Dim):
        key = b.add(b.mul(key, const_i64(_FACTOR)), emit_dim(b, dim, program.symbols))
    constant = const_int(I1, int(_is_constant(source)))
    pack = call_imported(b, "pool.pool_packed", [start, key, size, constant], PTR)
    return pack, b.icmp("ne", pack, zero(PTR))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _is_constant(source: IRValue) -> bool:
    while (made := source.defining_op) is not None and made.name != "schedule.buffer":
        source = made.operands[0]
    return made is not None and made.attrs["role"] == "constant"
