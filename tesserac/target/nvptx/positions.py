"""Where a program lies in the grid of its kernel, and which programs a block of threads runs one after the other.

Enters: the number of a program, from 0. Leaves: the indices of its axes, in `ctx.indices`. The grid is launched flat,
so that no axis has a limit of its own; the last axis varies fastest, or that before it in groups: see Note [Programs
near each other].
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op
from tesserac.target import flow
from tesserac.target import llvm_types as lt
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, Value, const_i64, const_int
from tesserac.target.nvptx.context import Context
from tesserac.tile.gpu.model.types import BESIDE, FALLS, RISES, WORK
from tesserac.tile.gpu.model.values import integer, kernel_grid
from tesserac.types.dims import Dim, product

I128 = lt.integer(128)
PRODUCTS, CROWDED = ("gpu.multiply", "gpu.multiply_held"), 3
WAVE_SHIFT = 37
"""By how much blocks of threads move on from one wave of programs to the next; by one where there are no more."""


class Grid:
    """The grid of a kernel. What is divided by again and again is made ready where the grid is made, if it is
    `prepared`: see Note [Division on the way]."""

    def __init__(self, ctx: Context, prepared: bool = False) -> None:
        self._ctx = ctx
        self._sizes = grid = kernel_grid(ctx.kernel)
        self._beside = BESIDE in ctx.kernel.attrs
        self._ordered = ctx.kernel.attrs.get(WORK) in (RISES, FALLS)
        prepare = Prepared if prepared and not self._beside and not self._ordered else Divisor
        if self._beside:
            grid = grid[:-2]
            self._matrix = Divisor(ctx.b, ctx.dim(product(self._sizes[-2:])))
        if self._ordered:
            grid = grid[:-1]
            others, places = (ctx.dim(size) for size in (product(grid), self._sizes[-1]))
            grouped = not _is_crowded(ctx.kernel)
            self._order = Together(ctx.b, self._blocks, others, places) if grouped else Divisor(ctx.b, others)
        self._inner = [prepare(ctx.b, ctx.dim(size)) for size in grid[1:]]

    def _blocks(self) -> Value:
        """How many blocks of threads there are, read where it is needed: what follows from it would take registers for
        as long as a program runs."""
        b = self._ctx.b
        return b.cast("zext", b.asm(I32, "mov.u32 $0, %nctaid.x;", "=r", []), I64)

    def bind(self, number: Value) -> None:
        """The indices of a program."""
        ctx, rest = self._ctx, number
        ctx.program = number
        positions = ctx.kernel.body.args[: len(self._sizes)]
        if self._beside:
            rows, columns = (ctx.dim(size) for size in self._sizes[-2:])
            rest, own = self._matrix.divide(number) if len(positions) > 2 else (number, number)
            inside = grouped_place(ctx.b, own, rows, columns, integer(ctx.kernel, BESIDE))
            ctx.indices.update(zip(positions[-2:], inside, strict=True))
            positions = positions[:-2]
        if self._ordered:
            ctx.indices[positions[-1]], rest = self._longest_first(number)
            positions = positions[:-1]
        for value, size in reversed(list(zip(positions[1:], self._inner, strict=True))):
            rest, ctx.indices[value] = size.divide(rest)
        if positions:
            ctx.indices[positions[0]] = rest

    def _longest_first(self, number: Value) -> tuple[Value, Value]:
        """The place of a program along the last dim, where those with most work come first, and its number along all
        others."""
        b, ctx = self._ctx.b, self._ctx
        place, other = self._order.divide(number)
        if ctx.kernel.attrs[WORK] == RISES:
            place = b.sub(b.sub(ctx.dim(self._sizes[-1]), const_i64(1)), place)
        return place, other


def _is_crowded(kernel: Op) -> bool:
    """Whether a round of a loop has so many products that all registers are taken, as those of gradients: the numbers
    that groups are found by were measured to cost more there than groups save."""
    loops = (op for op in kernel.walk() if op.name == "gpu.for")
    return any(sum(op.name in PRODUCTS for op in loop.body.ops) >= CROWDED for loop in loops)


class Together:
    """Programs of an ordered kernel: so many others for each place along the last dim, that are run a group after the
    other: see Note [Groups of ordered programs]."""

    def __init__(self, b: Builder, blocks: Callable[[], Value], others: Value, places: Value) -> None:
        self._b, self._blocks, self._others, self._places = b, blocks, others, places

    def divide(self, number: Value) -> tuple[Value, Value]:
        """The place of a program in its order, and which of the others it is. Those that are no whole group belong to
        the last one."""
        b, size = self._b, group_size(self._b, self._blocks(), self._places)
        several = b.icmp("sge", self._others, b.add(size, size))
        (first,) = flow.choose(b, several, lambda: [self._first(number, size)], lambda: [const_i64(0)])
        left = b.sub(self._others, first)
        last = b.icmp("slt", left, b.add(size, size))
        place, other = Divisor(b, b.select(last, left, size)).divide(b.sub(number, b.mul(first, self._places)))
        return place, b.add(first, other)

    def _first(self, number: Value, size: Value) -> Value:
        """Where the group of a program begins."""
        b = self._b
        first = b.mul(Divisor(b, b.mul(size, self._places)).divide(number)[0], size)
        behind = b.icmp("slt", b.sub(self._others, first), size)
        return b.select(behind, b.sub(first, size), first)


def group_size(b: Builder, blocks: Value, places: Value) -> Value:
    """How many of the others are a group: with all their places a multiple of two waves."""
    waves = b.mul(blocks, const_i64(2))
    shared = b.intrinsic("llvm.cttz", I64, [b.binary("or", waves, places), const_int(I1, 0)], [I64])
    return b.binary("lshr", waves, shared)


def grouped_place(b: Builder, number: Value, rows: Value, columns: Value, height: int) -> tuple[Value, Value]:
    """Row and column of a program of a matrix of them, where `height` rows are walked side by side."""
    group, own = Divisor(b, b.mul(columns, const_i64(height))).divide(number)
    first = b.mul(group, const_i64(height))
    column, row = Divisor(b, b.minimum_int(b.sub(rows, first), const_i64(height))).divide(own)
    return b.add(first, row), column


class Divisor:
    """What numbers that are not negative are divided by."""

    def __init__(self, b: Builder, size: Value) -> None:
        self._b, self._size = b, size

    def divide(self, number: Value) -> tuple[Value, Value]:
        """The quotient, and what is left: with one division, which takes longer than all else of a place."""
        quotient = self._b.binary("udiv", number, self._size)
        return quotient, self._b.sub(number, self._b.mul(quotient, self._size))


class Prepared(Divisor):
    """The same by a product with `2**64 / size`, rounded down: see Note [Division on the way]."""

    def __init__(self, b: Builder, size: Value) -> None:
        super().__init__(b, size)
        self._inverse = b.binary("udiv", const_i64(-1), size)

    def divide(self, number: Value) -> tuple[Value, Value]:
        b = self._b
        both = b.mul(b.cast("zext", number, I128), b.cast("zext", self._inverse, I128))
        low = b.cast("trunc", b.binary("lshr", both, const_int(I128, 64)), I64)
        rest = b.sub(number, b.mul(low, self._size))
        more = b.icmp("uge", rest, self._size)
        return b.select(more, b.add(low, const_i64(1)), low), b.select(more, b.sub(rest, self._size), rest)


def run_programs(ctx: Context, prepared: bool, run: Callable[[], None]) -> None:
    """What a block of threads of a persistent kernel runs, one program after the other: see Note [Persistent
    kernels]."""
    b, total = ctx.b, ctx.dim(product(kernel_grid(ctx.kernel)))
    block, blocks = ctx.sreg("ctaid.x"), ctx.sreg("nctaid.x")
    grid = Grid(ctx, prepared)

    def wave(start: Value, carried: list[Value]) -> list[Value]:
        (place,) = carried
        number = b.add(start, b.cast("zext", place, I64))

        def one() -> None:
            grid.bind(number)
            run()

        flow.if_then(b, b.icmp("slt", number, total), one)
        return [_moved(ctx, place, blocks)]

    flow.for_loop(b, const_i64(0), total, b.cast("zext", blocks, I64), [block], wave)


def _moved(ctx: Context, place: Value, blocks: Value) -> Value:
    """Which program of the next wave a block of threads runs, by that of this one. Where work is ordered, the one with
    most of a wave has least of the next."""
    b = ctx.b
    if WORK in ctx.kernel.attrs:
        return b.sub(b.sub(blocks, const_int(I32, 1)), place)
    many = b.icmp("ugt", blocks, const_int(I32, WAVE_SHIFT))
    ahead = b.add(place, b.select(many, const_int(I32, WAVE_SHIFT), const_int(I32, 1)))
    return b.select(b.icmp("ult", ahead, blocks), ahead, b.sub(ahead, blocks))


def last_first(ctx: Context, number: Value) -> Value:
    """The number of a program where the last one comes first."""
    programs: Dim = product(kernel_grid(ctx.kernel))
    return ctx.b.sub(ctx.b.sub(ctx.dim(programs), const_i64(1)), number)


# Note [Programs near each other]
# Programs that run at once share what they read through the second cache. A wave of a product that were a few rows of
# blocks would read all of the right operand; as many rows as columns of blocks read the least of both.

# Note [Persistent kernels]
# As many blocks of threads start as run at once; each runs a program of every wave, so that the first copies of one are
# made while the one before it ends. Programs have numbers in the order of memory. Were block b given numbers b, b + n,
# b + 2n ..., it could have those with the most work every time, where that goes by rows: so blocks move on by a few
# places from wave to wave. Of the last wave some have nothing to do. Where it is known that work rises or falls along
# the last dim, the longest of some programs come first, and block b has the b-th of one wave and the b-th from the end
# of the next: of 32 heads of 4096 keys under a causal mask the busiest of 132 blocks has 1.002 times the mean, where in
# the order of memory it had 1.335 times as much.

# Note [Groups of ordered programs]
# Were the longest of all programs first, then the next, of 256 heads of 512 keys each wave of 132 programs would read
# keys and values of as many heads, which the second cache has lost when they come again: 234 MB, where all there is are
# 134. So some heads with all their places are a group, and then the next. Every group is a whole number of pairs of
# waves, of which one goes back: only so does each block have the same of it. Of 132 blocks of threads groups are 66
# heads of 512 keys, 33 of 1024 and 2048 or more, in which the busiest block has at most 1.031 times the mean, what the
# last wave leaves undone.

# Note [Division on the way]
# A GPU divides by some twenty instructions that wait for each other, 150 cycles, and where only a run knows that both
# numbers have 32 bits, behind a test: nothing else of a program goes on meanwhile, and its first product waits for it.
# A product with an inverse takes as many, but stands among other instructions, or where a result is stored; it is at
# most one too small, since n * (2**64 / d - inverse) / 2**64 is less than one for any n below 2**64. Warps that copy do
# without: the inverse takes long, and is what their first copies would wait for. So do matrices of programs, whose sums
# leave no registers for inverses, and ordered ones, whose first loads wait for their place in any case.
