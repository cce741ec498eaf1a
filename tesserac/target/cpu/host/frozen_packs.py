"""Where a host program finds the pack of an operand that may be frozen: `schedule.kept`.

The pool knows packs by the address of the matrix and by a key (`frozen_memory.py`): a hash of what the layout is, and
for which registers, continued with the sizes and strides that a call has. So two functions share a pack exactly where
they would make the same one.
"""

from __future__ import annotations

import hashlib

from tesserac.ir.core import Block, Op, attr, attr_tuple
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import Guard
from tesserac.schedule.dialect import Predicate, memory
from tesserac.target.cpu.host.program import HostProgram, kernel_name
from tesserac.target.cpu.host.workspace import BufferBytes, aligned
from tesserac.target.cpu.pool.frozen_memory import filled_word
from tesserac.target.dims import emit_dim
from tesserac.target.entry.checks import emit_guard
from tesserac.target.entry.interrupts import is_stopped
from tesserac.target.entry.system import call_imported
from tesserac.target.flow import choose, if_return, if_then
from tesserac.target.llvm_types import I1, I64, PTR, Value, const_i64, const_int, zero
from tesserac.types.dims import Dim

_FACTOR = 0x2545F4914F6CDD1D
"""Odd, and random enough that sums of a few sizes times its powers meet only where all sizes are equal."""


def emit_kept(buffer_bytes: BufferBytes, program: HostProgram, op: Op) -> None:
    """With a pack that is kept, filled before where it is new; or without."""
    b, (fill, use, otherwise) = program.b, (region.block for region in op.regions)
    where = attr(op, "where", Predicate)
    holds, _, _ = emit_guard(b, Guard(where.kind, where.left, where.right, ""), program.symbols)
    (pack,) = choose(b, holds, lambda: [_find(buffer_bytes, program, op)], lambda: [zero(PTR)])
    program.values[op.operands[1]] = pack

    def with_pack() -> None:
        if_then(b, b.icmp("eq", filled_word(b, pack), const_i64(0)), lambda: _fill(program, fill, pack))
        program.run(use)

    program.either(b.icmp("ne", pack, zero(PTR)), with_pack, lambda: program.run(otherwise))


def _fill(program: HostProgram, block: Block, pack: Value) -> None:
    """A call that is stopped has not written all of it."""
    b = program.b
    program.run(block)

    def drop() -> None:
        call_imported(b, "pool.pool_pack_dropped", [pack])
        program.stop()

    if_return(b, is_stopped(b, program.status), drop)
    call_imported(b, "pool.pool_pack_filled", [pack])


def _find(buffer_bytes: BufferBytes, program: HostProgram, op: Op) -> Value:
    """The address of the pack, to be read or to be filled; null where there is none."""
    b, (source, packed) = program.b, op.operands
    start = b.cast("ptrtoint", program.address(source), I64)
    size = emit_dim(b, aligned(buffer_bytes(memory(packed))), program.symbols)
    (launch,) = (inner for inner in op.regions[0].block.ops if inner.name == "tile.launch")
    target = attr(program.kernels[kernel_name(launch)], "target", str)
    key = const_i64(_hash(f"{attr(op, 'layout', str)} for {target}"))
    for dim in attr_tuple(op, "sizes", Dim):
        key = b.add(b.mul(key, const_i64(_FACTOR)), emit_dim(b, dim, program.symbols))
    constant = const_int(I1, int(_is_constant(source)))
    return call_imported(b, "pool.pool_packed", [start, key, size, constant], PTR)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _is_constant(source: IRValue) -> bool:
    while (made := source.defining_op) is not None and made.name != "schedule.buffer":
        source = made.operands[0]
    return made is not None and made.attrs["role"] == "constant"
