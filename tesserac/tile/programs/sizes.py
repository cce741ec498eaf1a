"""Sizes in a tile program under construction: those of blocks, those that vary with a program, and what is made once.

    T_m = 128, or what a call makes of it     start = p_m * step     stop = min(start + step, M)

A size is a polynomial in the program's dims, in blocks and in numbers of blocks. Blocks become the integers that the
schedule has for them; the number of one is where it starts, divided by how large it is. Where a launch cuts blocks
smaller than the schedule says, they keep the size of their tiles and end earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.kernels import kernel_blocks, kernel_own, kernel_pinned
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.model.cuts import COLUMNS, ROWS, cut_of
from tesserac.schedule.programs.grid import launched_kernel
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.parts import BlockAxis, varying_symbols
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.unify import linear_in


class Sizes:
    """Those of one program, made where they are asked for."""

    def __init__(self, launch: Op) -> None:
        self.kernel = launched_kernel(launch)
        cuts = kernel_blocks(self.kernel)
        self.sizes = {cut.block: loop.block for cut, loop in zip(cuts, launch_loops(launch)[1:], strict=True)}
        self.over = {cut.block: cut.over for cut in cuts}
        self.steps: dict[Dim, Dim] = {block: Dim.const(size) for block, size in self.sizes.items()}
        """How far apart blocks stand: their sizes, or what a launch says of those that it cuts smaller."""
        if cut_of(launch) is not None:
            self.steps |= zip(kernel_own(self.kernel), map(Dim.sym, (ROWS, COLUMNS)), strict=False)
        self.block = Block()
        self.builder = Builder(self.block, self.kernel.span)
        self.meant = {Dim.sym(block) for block in kernel_pinned(self.kernel)}
        """Blocks on which results depend: what is made of one is made of it alone."""
        self.axes: dict[Dim, BlockAxis] = {}
        self.counters: dict[str, tuple[Value, int]] = {}
        """Symbols that vary inside the program: an index, and what it is divided by to be their value."""
        self.cut_numbers: set[str] = set()
        """Those of them that count blocks of which a call says the size."""
        self._known: list[dict[object, Value]] = [{}]
        self._varying = varying_symbols(self.kernel)

    def varies(self, dim: Dim) -> bool:
        """Whether a size depends on the blocks that a program works on, or how large they are."""
        return not dim.symbols().isdisjoint(self._varying)

    def end(self, block: BlockAxis) -> Value:
        """Where a block ends that is being worked on."""
        return index_op(self.builder, "min", self.behind(block.block, block.start), self.size(self.over[block.block]))

    def behind(self, block: Dim, start: Value) -> Value:
        """Where the next block starts."""
        return index_op(self.builder, "add", start, self.size(self.steps[block]))

    def size(self, dim: Dim | int) -> Value:
        """The value of a size, which may vary with what the program works on."""
        expression = self._sized(Dim.const(dim) if isinstance(dim, int) else dim)
        known = self.known(expression)
        return known if known is not None else self.remember(expression, self._size(expression))

    def count(self, dim: Dim) -> Value:
        """The value of a size in which blocks on which results depend are as long as they are: the last one of a dim
        may be cut short."""
        for block in self.axes:
            parts = linear_in(dim, block.symbol or "") if block in self.meant else None
            if parts is not None:
                slope, rest = map(self.count, parts)
                return index_op(self.builder, "add", index_op(self.builder, "mul", self._there(block), slope), rest)
        if not self.meant.isdisjoint(map(Dim.sym, dim.symbols())):
            raise NoTiles(f"a size {dim} of blocks that may be cut short")
        return self.size(dim)

    def is_full(self, block: Dim) -> bool:
        """Whether the dim is known to be made of whole blocks."""
        whole, size = self.over[block].constant, self.steps[block].constant
        return whole is not None and size is not None and whole % size == 0

    def _there(self, block: Dim) -> Value:
        """How much of a block there is."""
        if self.is_full(block):
            return self.size(block)
        return index_op(self.builder, "sub", self.end(self.axes[block]), self.axes[block].start)

    def _sized(self, dim: Dim) -> Dim:
        """With the sizes that blocks have."""
        return dim.substitute({block.symbol or "": Dim.const(size) for block, size in self.sizes.items()})

    def _size(self, dim: Dim) -> Value:
        for name, (index, step) in self.counters.items():
            if name not in dim.symbols():
                continue
            rest = dim.substitute({name: ZERO})
            slope = dim.substitute({name: ONE}) - rest
            if slope * Dim.sym(name) + rest != dim:
                raise NoTiles(f"a size {dim} that is not linear in a number of blocks")
            if name in self.cut_numbers and (slope.constant is None or slope.constant % step):
                raise NoTiles(f"a size {dim} with the number of a block that a call makes as large as it wants")
            part = self._times(index, step, slope)
            return part if rest == ZERO else index_op(self.builder, "add", part, self.size(rest))
        return dim_value(self.builder, dim)

    def _times(self, index: Value, step: int, slope: Dim) -> Value:
        """So many times the number of a block; `index` is where it begins."""
        scaled = slope.constant
        if scaled is None or scaled % step:
            number = index_op(self.builder, "floor_div", index, self.size(step))
            return number if slope == ONE else index_op(self.builder, "mul", number, self.size(slope))
        return index if scaled == step else index_op(self.builder, "mul", index, self.size(scaled // step))

    # ---------------------------------------------------------------------------------------------- what is made once

    def known(self, key: object) -> Value | None:
        return next((values[key] for values in reversed(self._known) if key in values), None)

    def remember(self, key: object, value: Value) -> Value:
        self._known[-1][key] = value
        return value

    @contextmanager
    def anew(self) -> Iterator[None]:
        """What is made here is forgotten behind it."""
        self._known.append({})
        yield
        self._known.pop()

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Builds in the body of a loop."""
        with self.anew(), self.builder.at(block):
            yield

    @contextmanager
    def alone(self, block: Block) -> Iterator[None]:
        """Builds where nothing of what was made before is meant: the values of forms are bound anew."""
        saved, self._known = self._known, [{}]
        with self.builder.at(block):
            yield
        self._known = saved
