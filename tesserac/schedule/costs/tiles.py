"""Blocks of a matrix product: candidates and what each would cost.

A program computes `rows` x `columns` of the result and walks k in steps of `depth`. Time is counted in multiply-adds of
one core: waves of programs, each with its products, the copying of its operands and the traffic of its accumulators.
On a CPU a launch cuts blocks further where threads would be idle (`cuts.py`), so there the work of all programs counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.kernels import kernel_settings
from tesserac.numerics.order import CONTRACTION, Chain
from tesserac.schedule.costs.cost import element_bytes
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.legality import ImpossibleSchedule
from tesserac.types.dtype import F32, DType


@dataclass(frozen=True)
class Block:
    rows: int
    columns: int
    depth: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}"


@dataclass(frozen=True)
class Problem:
    """Nominal sizes of a product; `leads` is the number of products, `dtype` that of the operands, `laid_out` says that
    the right one is in panels already, `by_bytes` that matrix units of 8-bit numbers multiply, `known` that all sizes
    are, and that tensor copies take both operands. A block of terms divides `run`, where there is one. `left_stays`: a
    panel of the left operand stays in the first cache while panels of the right one pass. `dense`: neighbours in one
    dim of each operand are neighbours in memory."""

    leads: int
    rows: int
    columns: int
    terms: int
    dtype: DType
    accum: DType
    laid_out: bool
    by_bytes: bool = False
    known: bool = False
    run: int | None = None
    left_stays: bool = False
    dense: bool = False

    @property
    def in_words(self) -> bool:
        """Whether threads of a GPU multiply words that copies can turn: see Note [Banks of registers]."""
        return self.dense and element_bytes(self.dtype) == WORD_BYTES

    @property
    def narrow(self) -> bool:
        """Whether matrix units of a GPU multiply."""
        return self.dtype.bits == 16 or self.by_bytes

    def __str__(self) -> str:
        lead = f"{self.leads} products of " if self.leads > 1 else ""
        return f"{lead}{self.rows}x{self.columns}x{self.terms} {self.dtype}"


CPU_ROWS = (24, 48, 96, 192)
CPU_COLUMNS = (96, 192, 384)
"""Multiples of every register block's height and width, so that no panel belongs to two programs; the panels of the
largest block stay in the second cache."""
PASSING_ROWS = 2048
"""Where panels of the right operand pass: with so many rows few programs bring the same columns. Those of two blocks
of 768 took 1.02 and 1.07 of the time for squares of 1024 and 2048."""
WIDE, EACH = 256, 32
"""Columns from which on threads pack those of their blocks, and how many of them each thread has at least: fewer, and
packing the left operand would show. In squares 16 threads took 0.92 and 0.95 of the time (two runs) that they took with
a right operand that is laid out before for 512, 0.94 and 1.08 for 1024, 0.91 and 0.93 for 2048; 4 threads 0.93 to 0.98,
2 threads the same."""
VECTORS_OF_BYTES = 512
"""Terms of a product of bytes that vectors multiply, at a time."""
LARGE_CACHE = 2 << 20
"""Bytes of a second cache that holds the panels and sums of twice as many rows."""
VECTOR_RATE, COPY_RATE, LOAD_RATE = 8.0, 0.5, 4.0
"""Per cycle of a CPU core: multiply-adds, elements copied into panels, elements read from the second cache."""

FEW_ROWS_COLUMNS = 1024
"""Few rows usually meet a matrix of weights at least so wide; a narrower block of it is more programs."""

FEWEST_ROWS = 8
"""Up to so many rows, laying out the right operand costs more than it saves even block by block."""
FEWEST_ROWS_BLOCK = Block(FEWEST_ROWS, 4096, 512)
"""As wide as most matrices of weights: memory is read in long runs, and the sums of a row stay near."""
FEWEST_TILED_BLOCK = Block(32, 4096, 64)
"""Of a matrix unit, which takes nothing as it lies: as many rows as it multiplies at once. The matrix is packed in long
runs of memory, a few of its rows at a time."""
LONG_RUN = 2048
"""Columns of a thread from which that pays: the sums of all columns pass the unit with every few rows."""
ROWS_UNIT = 64
"""Columns in whole groups of vectors, where threads share a row."""

ASYNC_BLOCKS = ((128, 256, 64), (128, 128, 64), (128, 64, 64), (64, 128, 64), (64, 64, 128))
KNOWN_BLOCKS = ((128, 256, 64), (128, 192, 64), *ASYNC_BLOCKS[1:], (64, 32, 128))
JOINED_BLOCKS = ((192, 192, 64), *KNOWN_BLOCKS)
"""Where all sizes are known: only groups of warps multiply blocks that are no power of two, or so narrow."""
ASKED_BLOCKS, ASKED_WIDE_BLOCKS = ((64, 64, 64),), ((32, 32, 32),)
"""Those that a program may ask for besides, of narrow numbers and of f32."""
WARP_BLOCKS = ((128, 128, 32), (64, 64, 32))
"""Of narrow types, where matrix units run beside the warps and where warps wait for them."""
BYTE_BLOCKS = ((128, 256, 128), (128, 128, 128), (64, 128, 128), (64, 64, 128))
"""Of 8-bit numbers: sums of as many terms are added in f32, which takes as many registers again as the result."""
WARP_BYTE_BLOCKS = ((128, 64, 128), (64, 64, 128))
WIDE_BLOCKS = ((128, 128, 16), (64, 64, 16), (16, 32, 64))
"""Of f32, the last where larger ones would leave multiprocessors idle: a chain of terms is never split."""
WIDEST_BLOCK, LEAST_COPIES = (128, 256, 16), 3
"""Of words that copies turn, where there is room for so many copies: eight warps have as many sums as registers hold"""
WORD_BLOCKS, SMALL_WORD_BLOCK = (WIDEST_BLOCK, (128, 128, 16)), (64, 64, 16)
SMALL_IN_A_ROUND = 7
"""See Note [Rounds of words]."""
KNOWN_WIDE_BLOCKS = ((128, 128, 32), *WIDE_BLOCKS[1:])
"""Of f32 that copies do not turn, where all sizes are known: half as many barriers. With the tree over segments it
gains nothing."""
WORD_BYTES = 4
BLOCK_NAMES = ("m", "n", "k")
BUSY = 3
"""Quarters of the multiprocessors that should have a program."""
PROGRAM_START = 2.0e6
"""Multiply-adds that a multiprocessor misses while a program fills and drains its pipeline."""
STEP_START = 0.5e6
"""Those that its matrix unit misses while a program goes on to the next block of terms."""


VERY_FEW_ROWS, MOST_ROWS = 8, "most_rows"
"""Rows of which copies bring no more to a block, and the attribute of a launch, and of the kernel that it becomes, that
has at most so many."""
SPLIT_TERMS = "split_terms"
"""The attribute of a launch, and of the kernel that it becomes, in which so many segments of a product are programs of
their own; they are joined where they end, or in a second launch."""
TOGETHER = 2
"""Segments that run side by side, and join their parts in shared memory: of four and more not all multiprocessors take
some at once, which was measured to cost a second wave."""
HELD_COLUMNS, HELD_COST = 192, 1.06
"""Columns of a block of which threads hold two sums of each element, and by how much more a product may cost that has
no others waiting in memory: of 8192 terms this was measured to save 5 % of the time."""
JOIN_START, SPLIT_START = 4.0e6, 8.0e6
"""Multiply-adds that a multiprocessor misses while segments wait for each other, about a microsecond, and while a
launch that joins them begins."""
JOIN_ELEMENT, SPLIT_BYTE = 256, 1.0
"""Those that it could do while an element of a part is written to shared memory, and read there, and while a byte of
parts that wait in memory is moved."""
MOST_SEGMENTS = 8
"""Of those that wait for others where they are joined, registers hold a few."""


def few_rows(machine: Machine) -> int:
    """Up to so many rows, which are one block, laying out the right operand as a whole is only one launch more."""
    return CPU_ROWS[-1] * (2 if machine.second_bytes >= LARGE_CACHE else 1)


def packs_long_runs(machine: Machine, dtype: DType, accum: DType) -> bool:
    """Whether few rows times a matrix, which is packed for them, had better pack it in long runs: where these have two
    tiles of terms, or sums that stand in vectors beside them."""
    if not machine.uses_tiles(dtype, accum):
        return False
    assert machine.matrix_unit is not None and machine.vectors is not None
    return machine.vectors.tiles != "amx" or FEWEST_TILED_BLOCK.depth > machine.matrix_unit.terms(dtype)


def candidates(problem: Problem, machine: Machine) -> list[Block]:
    """Blocks to choose from. Each block of rows packs a right operand that is not laid out: it had better be one. Of
    one that is laid out, blocks are not so large that a few more or less of them show."""
    if machine.packs_operands:
        depth = _depth(problem, machine)
        few = [m for m in (*CPU_ROWS[:-1], few_rows(machine)) if m >= min(problem.rows, CPU_ROWS[-2])]
        if problem.left_stays:
            return _passing_blocks(problem, few, depth, machine)
        rows = CPU_ROWS[:-1] if problem.laid_out else few
        return [Block(m, n, depth) for m in rows for n in CPU_COLUMNS]
    narrow = (KNOWN_BLOCKS if problem.known else ASYNC_BLOCKS) if machine.has_async_matrix_unit else WARP_BLOCKS
    by_bytes = BYTE_BLOCKS if machine.has_async_matrix_unit else WARP_BYTE_BLOCKS
    deep = problem.known and problem.dtype == F32 and problem.terms <= CONTRACTION.length and not problem.in_words
    shapes = by_bytes if problem.by_bytes else narrow if problem.narrow else KNOWN_WIDE_BLOCKS if deep else WIDE_BLOCKS
    if problem.in_words and machine.near_bytes >= LEAST_COPIES * _copied_words(WIDEST_BLOCK) * WORD_BYTES:
        shapes = (WIDEST_BLOCK, *shapes)
    able = _within_runs([Block(*shape) for shape in shapes], problem)
    if len(able) < len(shapes) and problem.narrow and machine.has_async_matrix_unit:
        able += [Block(*shape) for shape in ASKED_BLOCKS]
    return able


def _copied_words(shape: tuple[int, int, int]) -> int:
    rows, columns, depth = shape
    return (rows + columns) * depth


def _passing_blocks(problem: Problem, few: list[int], depth: int, machine: Machine) -> list[Block]:
    """Those of panels that pass: half of the second cache holds those of all columns, so the left operand is packed as
    few times as can be. Sums that are the result need no room in a cache."""
    rows = few if problem.laid_out or problem.rows <= few[-1] else [PASSING_ROWS]
    held = machine.second_bytes // (2 * machine.left_panel_bytes)
    wide = max(CPU_COLUMNS[-1], 1 << (held.bit_length() - 1))
    return [Block(m, n, depth) for m in rows for n in (*CPU_COLUMNS, wide)]


def _within_runs(blocks: list[Block], problem: Problem) -> list[Block]:
    """Those with no block of terms that crosses the end of a run of them."""
    return [block for block in blocks if problem.run is None or problem.run % block.depth == 0]


def _depth(problem: Problem, machine: Machine) -> int:
    """How many terms of panels stay in the first cache. Vectors of bytes are multiplied as fast as they are loaded:
    there the left operand stays beside the right one."""
    if not machine.uses_tiles(problem.dtype, problem.accum):
        row_bytes = machine.left_panel_bytes if problem.left_stays else machine.panel_bytes
        return row_bytes // element_bytes(problem.accum)
    by_vectors = machine.vectors is not None and machine.vectors.tiles == "vnni"
    depth = machine.panel_bytes // element_bytes(problem.dtype)
    return min(depth, VECTORS_OF_BYTES) if by_vectors else depth


def has_given_block(contract: Op) -> bool:
    """Whether the program says rows, columns or terms of a block."""
    return not kernel_settings(contract).keys().isdisjoint(BLOCK_NAMES)


def given_block(contract: Op, chosen: Block, problem: Problem, machine: Machine) -> Block | None:
    """The block that the program says, what it leaves open as it is `chosen`; None where it says none. On a CPU rows
    and columns are rounded up to whole register blocks. Raises ImpossibleSchedule where no unit takes such blocks."""
    said = {name: value for name, value in kernel_settings(contract).items() if name in BLOCK_NAMES}
    if not said:
        return None
    m, n, k = said.get("m", chosen.rows), said.get("n", chosen.columns), said.get("k", chosen.depth)
    if machine.packs_operands:
        rows, columns, order = CPU_ROWS[0], CPU_COLUMNS[0], contract.attrs.get("order")
        if isinstance(order, Chain) and order.length % k:
            raise ImpossibleSchedule(f"a chain is cut every {order.length} terms, which {k} does not divide", contract)
        if machine.uses_tiles(problem.dtype, problem.accum):
            assert machine.matrix_unit is not None
            terms = machine.matrix_unit.terms(problem.dtype)
            if k % terms:
                raise ImpossibleSchedule(f"the matrix unit adds {terms} terms at a time: {k} is no multiple", contract)
        return Block(-(-m // rows) * rows, -(-n // columns) * columns, k)
    block, able = Block(m, n, k), candidates(problem, machine)
    if machine.has_async_matrix_unit and problem.narrow and not problem.by_bytes:
        able += [Block(*shape) for shape in (*ASKED_BLOCKS, *JOINED_BLOCKS[:1] * problem.known)]
    elif not problem.narrow:
        able += [Block(*shape) for shape in ASKED_WIDE_BLOCKS]
    able = _within_runs(able, problem)
    if block not in able:
        taken, runs = ", ".join(map(str, able)), f" in runs of {problem.run} terms" if problem.run else ""
        why = f"products of {problem.dtype}{runs} on {machine.arch} have blocks of {taken}, not of {block}"
        raise ImpossibleSchedule(why, contract)
    return block


def accumulator_block(problem: Problem, machine: Machine) -> Block:
    """The block of a sum over iterations, which each of them reads and writes: small enough for the first cache or
    little beyond it, and for a matrix of a few hundred rows and columns to be more than a few programs."""
    return Block(CPU_ROWS[2], CPU_COLUMNS[0], _depth(problem, machine))


def programs(problem: Problem, block: Block) -> int:
    return problem.leads * -(-problem.rows // block.rows) * -(-problem.columns // block.columns)


def words_at_once(block: Block) -> int:
    """How many blocks of words a multiprocessor computes in the time of one: see Note [Rounds of words]."""
    return WIDEST_BLOCK[0] * WIDEST_BLOCK[1] // (block.rows * block.columns) if _shape(block) in WORD_BLOCKS else 1


def _rounds_of_words(count: int, block: Block, machine: Machine) -> int:
    """The time of blocks of words, in small ones of one multiprocessor; the last of these are fewer at once."""
    rounds = -(-count // (machine.cores * words_at_once(block)))
    return SMALL_IN_A_ROUND * rounds if _shape(block) in WORD_BLOCKS else rounds + 1


def _shape(block: Block) -> tuple[int, int, int]:
    return block.rows, block.columns, block.depth


def time(problem: Problem, block: Block, machine: Machine) -> float:
    """The cost of the whole product with this block, smaller is better."""
    count = programs(problem, block)
    products = block.rows * block.columns * problem.terms
    if not machine.packs_operands:
        traffic = (block.rows + block.columns) * problem.terms * element_bytes(problem.dtype)
        fed: float = traffic * machine.flops_per_byte
        if machine.has_async_matrix_unit and problem.narrow:
            fed = -(-problem.terms // block.depth) * STEP_START
        if problem.in_words and _shape(block) in (*WORD_BLOCKS, SMALL_WORD_BLOCK):
            return _rounds_of_words(count, block, machine) * SMALL_WORD_BLOCK[0] * SMALL_WORD_BLOCK[1] * problem.terms
        return -(-count // machine.cores) * (products + fed + PROGRAM_START)
    right_rate = LOAD_RATE if problem.laid_out else COPY_RATE
    copies = block.rows * problem.terms / COPY_RATE + block.columns * problem.terms / right_rate
    rounds = 2 * block.rows * block.columns * (problem.terms / block.depth) / LOAD_RATE
    # Blocks at the edge are cut.
    cut = problem.leads * problem.rows * problem.columns / (count * block.rows * block.columns)
    return count * cut * (products / VECTOR_RATE + copies + rounds)


def split_time(problem: Problem, block: Block, machine: Machine) -> float:
    """The cost if all segments are programs, and each of them joins a part of all, or another launch does."""
    parts = segments(problem)
    alone = replace(problem, leads=problem.leads * parts, terms=CONTRACTION.length)
    if parts <= TOGETHER:
        waves = -(-programs(alone, block) // machine.cores)
        return time(alone, block, machine) + waves * (JOIN_START + JOIN_ELEMENT * block.rows * block.columns)
    moved = 2 * element_bytes(problem.accum) * parts * problem.leads * problem.rows * problem.columns
    return time(alone, block, machine) + SPLIT_START + SPLIT_BYTE * moved


def segments(problem: Problem) -> int:
    return -(-problem.terms // CONTRACTION.length)


def best_split(problem: Problem, machine: Machine) -> Block | None:
    """The block of a product whose segments had better be programs of their own; None where it is best as a whole."""
    if not (machine.has_async_matrix_unit and problem.narrow and not problem.by_bytes):
        return None
    if not 1 < segments(problem) <= MOST_SEGMENTS:
        return None
    plain = candidates(replace(problem, known=False), machine)
    joined = problem.known and segments(problem) <= TOGETHER
    able = [Block(*shape) for shape in JOINED_BLOCKS] if joined else plain
    block = min(able, key=lambda b: (split_time(problem, b, machine), -b.rows * b.columns))
    whole = time(problem, best_block(problem, machine), machine)
    return block if split_time(problem, block, machine) < whole else None


def best_block(problem: Problem, machine: Machine) -> Block:
    """The cheapest candidate; of equals the larger. Of products that threads multiply by themselves only those that
    leave few multiprocessors idle, else the smallest: several small programs run at once, which `time` knows nothing
    of."""
    able = candidates(problem, machine)
    if not machine.packs_operands and not problem.narrow:
        able = [b for b in able if programs(problem, b) >= enough_programs(machine)] or able[-1:]
    block = min(able, key=lambda b: (time(problem, b, machine), -b.rows * b.columns, programs(problem, b)))
    return _held_block(problem, machine, able, block)


def _held_block(problem: Problem, machine: Machine, able: Sequence[Block], block: Block) -> Block:
    """Of two segments, a block that keeps the sums of the first in registers, where it costs hardly more: those of a
    larger one wait in memory, for which all multiprocessors ask at about the same time."""
    held = [b for b in able if b.columns <= HELD_COLUMNS]
    asynchronous = machine.has_async_matrix_unit and problem.narrow and not problem.by_bytes
    if not (problem.known and asynchronous and segments(problem) == TOGETHER and held):
        return block
    least = min(held, key=lambda b: time(problem, b, machine))
    return least if time(problem, least, machine) <= HELD_COST * time(problem, block, machine) else block


def enough_programs(machine: Machine) -> int:
    """Those that leave few multiprocessors of a GPU idle."""
    return machine.cores * BUSY // 4


# Note [Rounds of words]
# Products of words by blocks, on an H200 with 132 multiprocessors, milliseconds of 4096 and of 1024: 128x256, of which
# a multiprocessor holds one, 2.75 in four rounds and 0.181 in one; 128x128, two, 2.83 in four and 0.184 in one that is
# not full, so that a block alone takes as long as two; 64x64, four, 3.07 and 0.065. So a round of the larger ones takes
# 0.69 at 4096 terms, as long as seven blocks of 64x64 for each multiprocessor, though it has eight times as many sums:
# they are right where their rounds are full. Chosen so, and in brackets where small ones never come first, ms: 1280
# 0.123 (0.228), 2304 0.653 (0.775), 3072 1.43 (1.54); 1536 0.280 (0.274) and 1792 0.327 stay (PyTorch 0.189, 0.273).
