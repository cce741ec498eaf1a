"""Pass `barriers`: threads that exchange values through shared memory wait for each other.

    gpu.publish(%v, %room)                          gpu.publish(%v, %room)
    %0, %1 = gpu.collect(%room)          becomes    gpu.barrier()
                                                    %0, %1 = gpu.collect(%room)

A read of memory that was written since the last barrier, and a write to memory that was read or written since, get one
before them. In a loop the end of an iteration comes before its beginning. Stages are not looked at: their copies are in
flight while others are read, and `pipeline` and `roles` order them.
"""

from __future__ import annotations

from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.types import MemRefType
from tesserac.tile.gpu.errors import LoweringError


@dataclass
class _Open:
    """Memory touched since the last barrier."""

    read: set[Value] = field(default_factory=set)
    written: set[Value] = field(default_factory=set)

    def clear(self) -> None:
        self.read.clear()
        self.written.clear()


def insert_barriers(kernel: Op) -> None:
    """Changes the kernel in place."""
    _walk(kernel.body, _Open(), in_role=False)


def _walk(block: Block, open_: _Open, in_role: bool) -> None:
    for op in list(block.ops):
        if op.name in ("gpu.for", "gpu.tree"):
            for _ in range(2):
                for region in op.regions:
                    _walk(region.block, open_, in_role)
        elif op.name == "gpu.role":
            _walk(op.body, open_, in_role=True)
        elif op.name == "gpu.barrier":
            open_.clear()
        else:
            _visit(op, open_, in_role)


def _visit(op: Op, open_: _Open, in_role: bool) -> None:
    reads, writes = _touched(op)
    if reads & open_.written or writes & (open_.read | open_.written):
        if in_role:
            raise LoweringError("warps of one role exchange values through shared memory")
        Builder.before(op).op("gpu.barrier")
        open_.clear()
    open_.read |= reads
    open_.written |= writes


def _touched(op: Op) -> tuple[set[Value], set[Value]]:
    match op.name:
        case "gpu.load" | "gpu.collect":
            return _shared(op.operands[0]), set()
        case "gpu.store" | "gpu.publish":
            return set(), _shared(op.operands[1])
    return set(), set()


def _shared(value: Value) -> set[Value]:
    return {value} if isinstance(value.type, MemRefType) and value.type.space == "shared" else set()
