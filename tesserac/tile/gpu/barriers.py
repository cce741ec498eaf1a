"""Pass `barriers`: threads that exchange values through shared memory wait for each other.

    gpu.publish(%v, %room)                          gpu.publish(%v, %room)
    %0, %1 = gpu.collect(%room)          becomes    gpu.barrier()
                                                    %0, %1 = gpu.collect(%room)

A read of memory that was written since the last barrier, and a write to memory that was read or written since, get one
before them; stores into places of their own need none between them. In a loop the end of an iteration comes before its
beginning; one that may have no iteration orders nothing for what stands behind it. Stages are not looked at: their
copies are in flight while others are read, and `pipeline` and `roles` order them.
"""

from __future__ import annotations

from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.index import constant_index
from tesserac.ir.types import MemRefType
from tesserac.tile.dialect import APART
from tesserac.tile.gpu.kernels.scratch import exchanged_rooms
from tesserac.tile.gpu.model.errors import NoRolesError
from tesserac.tile.gpu.model.touched import viewed, written_memory
from tesserac.tile.gpu.model.types import HANDED, WAITING
from tesserac.tile.gpu.model.values import fragment, integer, kernel_parameters


@dataclass
class _Open:
    """Memory touched since the last barrier, of that which threads see of each other."""

    seen: set[Value]
    read: set[Value] = field(default_factory=set)
    written: set[Value] = field(default_factory=set)

    def clear(self) -> None:
        self.read.clear()
        self.written.clear()

    def copy(self) -> _Open:
        return _Open(self.seen, set(self.read), set(self.written))

    def add(self, other: _Open) -> None:
        """What is open on either of two ways."""
        self.read |= other.read
        self.written |= other.written


def insert_barriers(kernel: Op) -> None:
    """Changes the kernel in place."""
    _walk(kernel.body, _Open(_seen(kernel)), in_role=False)


def _walk(block: Block, open_: _Open, in_role: bool) -> None:
    for op in list(block.ops):
        if op.name in ("gpu.for", "gpu.tree", "gpu.running"):
            _walk_loop(op, open_, in_role)
        elif op.name == "gpu.role":
            _walk(op.body, open_, in_role=True)
        elif op.name == "gpu.barrier":
            if in_role:
                raise NoRolesError("a barrier of the whole block in a role, at which other warps never arrive")
            open_.clear()
        else:
            _visit(op, open_, in_role)


def _walk_loop(loop: Op, open_: _Open, in_role: bool) -> None:
    before = open_.copy()
    for _ in range(2):
        for region in loop.regions:
            passed = open_.copy()
            _walk(region.block, open_, in_role)
            if region is not loop.regions[0]:  # how two blocks are put together, of one alone not at all
                open_.add(passed)
    if not _goes_round(loop):
        open_.add(before)


def _goes_round(loop: Op) -> bool:
    """Whether a loop is known to have an iteration."""
    ends = [constant_index(value) for value in loop.operands[: 2 if loop.name == "gpu.for" else 1]]
    low, high = (0, *ends)[-2:]
    return low is not None and high is not None and low < high


def _visit(op: Op, open_: _Open, in_role: bool) -> None:
    reads, writes = _touched(op, open_.seen)
    again = set() if APART in op.attrs else writes & open_.written
    if reads & open_.written or writes & open_.read or again:
        if in_role:
            raise NoRolesError("warps of one role exchange values through shared memory")
        Builder.before(op).op("gpu.barrier")
        open_.clear()
    open_.read |= reads
    open_.written |= writes


def _touched(op: Op, seen: set[Value]) -> tuple[set[Value], set[Value]]:
    """What of the memory that threads see of each other an operation reads and writes."""
    written = set(map(viewed, written_memory(op))) & seen
    if op.name in ("gpu.load", "gpu.gather", "gpu.sort", "gpu.collect"):
        return {viewed(op.operands[0])} & seen, written
    return (written if op.name == "gpu.scan_rows" else set()), written


def _seen(kernel: Op) -> set[Value]:
    """Shared memory, and workspace in which one thread writes what others read: of a block that several hold copies of,
    that one of them walks, or that is read at other places."""
    workspaces = set(kernel_parameters(kernel)[integer(kernel, "takes") :])
    found = {value for value in workspaces if value.index in exchanged_rooms(kernel)}
    for op in kernel.walk():
        shared = op.name == "gpu.alloc" and isinstance(op.result.type, MemRefType)
        if shared and op.attrs.keys().isdisjoint((HANDED, WAITING)):
            found.add(op.result)
        elif op.name == "gpu.scan_rows" or (op.name == "gpu.store" and _has_copies(op)):
            found |= set(written_memory(op)) & workspaces
    return found


def _has_copies(store: Op) -> bool:
    """Whether one thread of several writes; teams of threads have blocks of their own."""
    layout = fragment(store.operands[0]).layout
    return "team" not in store.attrs and None in (*layout.lanes, *layout.warps)
