"""Blocks of threads: how many programs share one, and what shared memory they have."""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.ir.types import MemRefType
from tesserac.schedule.costs.cost import body_work
from tesserac.schedule.machine import MACHINES
from tesserac.schedule.rows.row_lengths import row_parts
from tesserac.target.nvptx.products import clusters, copies
from tesserac.tile.dialect import RESIDENT, kernel_tensors
from tesserac.tile.gpu.layouts.variants import scratch_bytes
from tesserac.tile.gpu.model.layout import VECTOR_BYTES, WHOLE_WARP
from tesserac.tile.gpu.model.matrix import FMA
from tesserac.tile.gpu.model.shared import ATOM_BYTES
from tesserac.tile.gpu.model.types import BarriersType, StagesType
from tesserac.tile.gpu.model.values import fragment, is_persistent, kernel_grid, kernel_threads, matrix_unit_of, memory
from tesserac.tile.gpu.rows.held_rows import LOOPS
from tesserac.types.dims import Dim, product
from tesserac.types.dtype import F32


def programs(kernel: Op) -> Dim:
    """How many programs a launch has."""
    return product(kernel_grid(kernel))


MOST_BESIDE, USUALLY_BESIDE, ENOUGH_BLOCKS = 8, 4, 1024
"""Programs in one block of threads, those where only a run knows how many there are, and how many blocks are no fewer
than keep all multiprocessors busy."""
FEW_THREADS, MOST_SHARED = 64, 256
"""Threads of programs that share a block, and bytes that each tells its warps through."""


def programs_beside(kernel: Op) -> int:
    """How many programs of few warps share a block of threads. They know nothing of each other; but a multiprocessor
    holds 32 blocks, and 64 warps, and begins a block in about 90 ns."""
    count, threads = programs(kernel).constant, kernel_threads(kernel)
    most = MOST_BESIDE * WHOLE_WARP // threads
    special = kernel_tensors(kernel) or RESIDENT in kernel.attrs or is_persistent(kernel) or clusters.size(kernel) > 1
    if special or threads > FEW_THREADS or not _keeps_to_itself(kernel, threads):
        return 1
    if count is None:
        return min(most, USUALLY_BESIDE)
    return next((n for n in (8, 4, 2) if n <= most and count % n == 0 and count // n >= ENOUGH_BLOCKS), 1)


def _keeps_to_itself(kernel: Op, threads: int) -> bool:
    """Whether a program shares nothing, or is of teams that tell each other a few numbers and write one. Where those
    write rows, blocks of few threads were faster: more of them have their registers at once."""
    ops, shared = list(kernel.walk()), shared_bytes(kernel).constant
    names = {op.name for op in ops}
    if threads == WHOLE_WARP:
        return shared == 0 and "gpu.barrier" not in names
    one = "gpu.team" in names and not _writes_rows(kernel)
    return one and shared is not None and shared <= MOST_SHARED and shared % VECTOR_BYTES == 0


def _writes_rows(kernel: Op) -> bool:
    """Whether what is written to memory is more than single numbers."""
    stored = [op for op in kernel.walk() if op.name == "gpu.store" and memory(op.operands[1]).space == "global"]
    return any(fragment(op.operands[0]).shape for op in stored)


EARLY_BLOCKS = 2
"""Blocks for each multiprocessor up to which a launch begins early: see Note [Early launches] of `host_calls`."""


def may_begin_early(kernel: Op, arch: str) -> bool:
    """Whether launches of it may begin early: those that have few blocks, or may have where only a run knows how many.
    Others read what no one writes through the cache for such memory, and could not if it were still being written."""
    machine, count = MACHINES[arch], block_count(kernel).constant
    if not machine.has_async_matrix_unit or kernel_tensors(kernel):
        return False
    few = count <= EARLY_BLOCKS * machine.cores if count is not None else _reads_at_once(kernel)
    return is_persistent(kernel) or few


def _reads_at_once(kernel: Op) -> bool:
    """Whether a thread reads all of a block before it writes, so that it does not matter by which loads: maps of 4 TB/s
    are as fast by either, and sums of rows side by side. Sorts and rows of odd length of bf16 lost 5 %."""
    return {op.name for op in kernel.walk() if op.opdef.dialect == "gpu"} <= EARLY


def block_threads(kernel: Op) -> int:
    """Threads of a block."""
    return kernel_threads(kernel) * programs_beside(kernel)


FULL, HOLDING, TOGETHER, HOLDING_MORE, NARROW, HALVES = 64, 40, 36, 28, 32, 24
LOOPING, FOLDING, LOOPING_LONG = 20, 24, 16
"""Warps that a multiprocessor should have at once, of maps, of rows that lie in registers, of several short ones and of
few narrow numbers, of longer ones that one warp holds, of such rows of narrow numbers, which have code for those that
stand alone, of rows of which half a warp has a block, of rows that threads go over, of those of which they write
numbers only, and of those with long bodies. By ncu, gelu with 28 began an instruction in 61 % of the cycles, and waited
for memory in others."""
FEW_WORDS, WORDS_OF_A_ROW, WORDS_OF_A_WARP, NARROW_WORDS, WORDS_OF_A_ROUND, WORDS_OF_A_PAIR = 8, 16, 24, 12, 32, 48
"""What a thread of a map or a row reads, at most, of a row that one warp holds, of narrow numbers of such, of a row
in one round, or of two rows with a scale and a bias, in words, where it needs no more registers than so many warps
leave it."""
SHORT_BODY, LONG_BODY, LONGEST_BODY = 28, 40, 120
"""Operations for a number, such as those of a term of a softmax: what a longer body has at once needs registers that so
many warps do not leave; a body of which that holds for maps of old architectures, and for rows that threads go over;
and one of which it holds for all maps, such as that of digamma."""
ACROSS, NUMBERS_ACROSS, WORK_ACROSS = 16, 96, range(16, LONGEST_BODY + 1)
"""Warps of rows that lie across memory, how many numbers of such a thread reads at most, narrow ones as well, since
with more it would spill, and what it does for one: with more it would spill, too, with less it waits for memory alone,
which two blocks of a multiprocessor read at twice as many places at a time."""
WORD_BITS = 32
MAPS = {"gpu.kernel", "gpu.axis", "gpu.load", "gpu.map", "gpu.cast", "gpu.store", "gpu.return"}
FOLDS = MAPS | {"gpu.alloc", "gpu.barrier", "gpu.fold", "gpu.full", "gpu.mask", "gpu.tree", "gpu.yield"}
EARLY = FOLDS | {"gpu.iota", "gpu.index", "gpu.for", "gpu.butterfly", "gpu.relabel"}


NEWEST = ("sm_90a", "sm_100a")
"""Architectures whose code for narrow numbers needs few registers: on others half a warp would spill hundreds of
bytes."""


def blocks_resident(kernel: Op, arch: str = NEWEST[0]) -> int:
    """How many blocks a multiprocessor should hold at once, by which registers are shared out: while some compute,
    others wait for memory."""
    if _sums_few(kernel):
        return 2
    return max(1, _warps_resident(kernel, arch) * WHOLE_WARP // block_threads(kernel))


FEW_SUMS = 16
"""Sums of a thread beside which half of a multiprocessor's registers suffice for all else that a product keeps."""


def _sums_few(kernel: Op) -> bool:
    """Whether threads multiply words by themselves, and so few each that two programs go beside each other: while one
    waits at a barrier, the other multiplies."""
    ops = list(kernel.walk())
    products = [op for op in ops if op.name == "gpu.multiply"]
    sums = [fragment(op.results[0]) for op in products if matrix_unit_of(op).name == FMA]
    few = all(ty.dtype == F32 and ty.layout.count <= FEW_SUMS for ty in sums)
    return bool(sums) and len(sums) == len(products) and few and not any(op.name == "gpu.fold" for op in ops)


def _warps_resident(kernel: Op, arch: str) -> int:
    names = {op.name for op in kernel.walk() if op.opdef.dialect == "gpu"}
    bits, words = {fragment(op.result).dtype.bits for op in _loads(kernel)}, _words(kernel)
    if not bits or max(bits) > WORD_BITS:
        return 1
    if names <= MAPS:
        return _warps_of_maps(kernel, arch, words)
    if "gpu.team" not in names and not row_parts(kernel):
        return ACROSS if names <= FOLDS and _computes_across(kernel) else 1
    wide = bits == {WORD_BITS}
    if names & set(LOOPS):
        going = _warps_of_loops(kernel)
        return going if wide and max(map(_words, kernel.body.ops)) <= WORDS_OF_A_ROUND else 1
    return _warps_of_held_rows(kernel, wide, words, arch)


def _warps_of_maps(kernel: Op, arch: str, words: int) -> int:
    """On an H200 a rotary embedding, whose threads read 32 words, takes 70.3 us with registers of 20 warps, 77.2 with
    those of 24, which spill, and 77.6 without a limit."""
    body = _longest_body(kernel)
    if words > FEW_WORDS:
        return LOOPING if words <= WORDS_OF_A_ROUND and body <= SHORT_BODY and arch in NEWEST else 1
    if body > LONGEST_BODY:
        return HOLDING_MORE
    return FULL if arch in NEWEST or body <= LONG_BODY else HOLDING


def _warps_of_loops(kernel: Op) -> int:
    body = _longest_body(kernel)
    if _writes_rows(kernel) and body > LONG_BODY:
        return LOOPING_LONG
    return LOOPING if _writes_rows(kernel) or body > SHORT_BODY else FOLDING


def _computes_across(kernel: Op) -> bool:
    return _longest_body(kernel) in WORK_ACROSS and _numbers(kernel) <= NUMBERS_ACROSS


def _warps_of_held_rows(kernel: Op, wide: bool, words: int, arch: str) -> int:
    if _longest_body(kernel, of_blocks=not wide) > SHORT_BODY:
        return HOLDING_MORE if wide and words <= WORDS_OF_A_ROW else 1
    if wide and words <= WORDS_OF_A_ROW:
        return TOGETHER if any(len(fragment(op.result).shape) > 1 for op in _loads(kernel)) else HOLDING
    if not row_parts(kernel):
        return _warps_of_teams(words, wide, arch)
    if words > (WORDS_OF_A_WARP if wide else NARROW_WORDS):
        return ACROSS if words <= WORDS_OF_A_PAIR and not wide and arch in NEWEST else 1
    return HOLDING_MORE if wide else NARROW


def _warps_of_teams(words: int, wide: bool, arch: str) -> int:
    """On the newest architecture softmax of f32 spills 8 bytes where half a warp has a block and 24 warps share."""
    if words <= FEW_WORDS:
        return TOGETHER
    if words > (WORDS_OF_A_ROUND if wide else WORDS_OF_A_ROW) or arch not in NEWEST:
        return 1
    return LOOPING if wide and arch == NEWEST[-1] else HALVES


def _longest_body(kernel: Op, of_blocks: bool = False) -> int:
    """Operations that the longest map does for a number. Of narrow rows, of whose numbers two share a register while
    something is computed for the whole row, it is the longest of those that blocks have."""
    maps = [op for op in kernel.walk() if op.name == "gpu.map"]
    return max((body_work(op) for op in maps if fragment(op.result).shape or not of_blocks), default=0)


def _loads(op: Op) -> list[Op]:
    return [inner for inner in op.walk() if inner.name == "gpu.load"]


def _numbers(op: Op) -> int:
    """How many a thread reads there."""
    return sum(fragment(load.result).layout.count for load in _loads(op))


def _words(op: Op) -> int:
    """What a thread reads there."""
    held = [fragment(load.result) for load in _loads(op)]
    return sum(ty.layout.count * ty.dtype.bits // WORD_BITS for ty in held)


def block_count(kernel: Op) -> Dim:
    """How many blocks a launch has."""
    return programs(kernel).ceil_div(programs_beside(kernel)) * clusters.size(kernel)


def block_bytes(kernel: Op) -> Dim:
    """The dynamic shared memory of a block of threads."""
    return shared_bytes(kernel) * programs_beside(kernel)


def shared_bytes(kernel: Op) -> Dim:
    """That of a program."""
    return sum(map(allocation_bytes, allocations(kernel)), Dim.const(0))


def allocations(kernel: Op) -> list[Op]:
    return sorted((op for op in kernel.walk() if op.name == "gpu.alloc"), key=_allocation_order)


def _allocation_order(op: Op) -> int:
    if isinstance(op.result.type, StagesType):
        return 0
    return 1 if allocation_bytes(op).constant is not None else 2


def allocation_bytes(op: Op) -> Dim:
    ty = op.result.type
    if isinstance(ty, StagesType):
        size = ty.depth * ty.layout.bytes
        return Dim.const(-(-size // ATOM_BYTES) * ATOM_BYTES)
    if isinstance(ty, BarriersType):
        return Dim.const(-(-ty.count * copies.BARRIER_BYTES // 16) * 16)
    assert isinstance(ty, MemRefType)
    return scratch_bytes(ty)
