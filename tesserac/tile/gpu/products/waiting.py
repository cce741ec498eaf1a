"""Sums of a segment that wait for those of the next one: in shared memory, as far as copies leave some.

    %sum = gpu.tree(%segments, %zero) { ... } {+}      the first level of the tree, of which there is one for two
                                                       segments, has the room of
    %waiting = gpu.alloc() : memref<[20, 256, 4], f32, shared>      20 times 16 bytes of each of 256 threads

What has no room there waits in the thread's own memory, which is in the second cache: all multiprocessors come to the
end of a segment at about the same time, and then wait for that. No other thread reads what one has written, so no
barrier is needed.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.types import MemRefType
from tesserac.tile.gpu.layouts.variants import scratch_bytes
from tesserac.tile.gpu.model.layout import VECTOR_BYTES
from tesserac.tile.gpu.model.types import WAITING, FragmentType
from tesserac.tile.gpu.model.values import constant_index, fragment
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY

UNKNOWN = 1 << 20
LEAST = 64
"""Sums of a thread for which it is worth while."""
LANES = VECTOR_BYTES // F32.bytes


@dataclass(frozen=True)
class WaitingSums:
    """Those of a level, by threads and accesses of each."""

    threads: int
    accesses: int

    @property
    def row_bytes(self) -> int:
        return self.threads * VECTOR_BYTES

    @property
    def bytes(self) -> int:
        return self.accesses * self.row_bytes


def waiting_sums(kernel: Op, threads: int) -> WaitingSums | None:
    """What may have to wait; None where it is little, or not known to be one kind of sums. What is computed between
    products takes registers, and what they do not hold the first cache, which is what shared memory leaves."""
    trees = [op for op in kernel.walk() if op.name == "gpu.tree"]
    terms = [term for op in kernel.walk() if op.name == "gpu.dot" for term in op.operands[:2]]
    if len(trees) != 1 or constant_index(trees[0].operands[0]) == 1 or not all(map(_is_staged, terms)):
        return None
    if not all(isinstance(v.type, FragmentType) and v.type.dtype == F32 for v in trees[0].results):
        return None
    count = sum(fragment(v).layout.count for v in trees[0].results)
    return WaitingSums(threads, count // LANES) if count >= LEAST else None


def _is_staged(term: Value) -> bool:
    return term.defining_op is not None and term.defining_op.name in ("gpu.stage", "gpu.turned")


def held_bytes(kernel: Op) -> int:
    """What other memory that threads share takes; all there is, where only a run knows how much."""
    types = [op.result.type for op in kernel.walk() if op.name == "gpu.alloc"]
    sizes = [scratch_bytes(ty).constant for ty in types if isinstance(ty, MemRefType)]
    return sum(UNKNOWN if size is None else size for size in sizes)


def keep_near(start: Builder, sums: WaitingSums | None, shared_bytes: int) -> None:
    """Gives them what is left of shared memory."""
    accesses = min(sums.accesses, shared_bytes // sums.row_bytes) if sums is not None else 0
    if sums is None or accesses < 1:
        return
    dims = (Dim.const(accesses), Dim.const(sums.threads), Dim.const(LANES))
    strides = (Dim.const(sums.threads * LANES), Dim.const(LANES), ONE)
    ty = MemRefType(dims, F32, NO_POLICY, strides, space="shared")
    start.value("gpu.alloc", (), ty, {WAITING: True}, hint="waiting")
