"""The micro-kernel: one register block of a matrix product.

Accumulators stay in registers over all of k: per step one row of the right panel in vectors, one column of the left
panel, and an fma per accumulator. Each output element is one ascending chain of fma. The function is shared by all
products of a module with the same block and type.

    right panel, `columns` wide            a row of it is 2 vectors:      b0 | b1
    left panel, `rows` high                a column of it, spread:    a0 | c00  c01     fma into 12 x 2 vectors,
                                                                      a1 | c10  c11     each loaded left element
                                                                      .. | ...          serves two, each vector twelve
    memory:  a[k][row], b[k][column], k ascending; both pointers walk forward

An operand that stands where it can be read as it is, a computed one in scratch or rows of memory, is not packed: `Walk`
says how far apart its elements are, which x86 writes into the instruction.

What is left of the rows of a block goes through a lower block of the same panel, the lowest that has all of them:

    20 rows, blocks of 12, 8 and 4         rows 0 .. 11   one block of 12
                                           rows 12 .. 19  one of 8 in the next panel, whose other 4 rows are empty

Right panels that pass a left one are asked for a few steps ahead, into the first cache. Those that come from memory,
packed before the launch, and stay while left ones pass, are asked for by panels. While a panel is multiplied, which all
rows of a block do one after the other, the next one comes into the second cache: even lines while the first block of
rows is computed, odd ones while the second is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.target.cpu.frame import Frame
from tesserac.target.cpu.panels import LINE_BYTES
from tesserac.target.cpu.registers import NARROW, memory_type, narrow, narrow_fma, register_type, widen
from tesserac.target.cpu.scalars import emit_scalar
from tesserac.target.emit import Function, Module
from tesserac.target.flow import LoopBody, choose, for_loop, if_else
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, PTR, VOID, Value, const_i64, vector, zero
from tesserac.tile.cpu.target import Micro
from tesserac.types.dtype import DType

NEAR = 16
"""How many steps ahead a right panel that passes is asked for: 200 cycles, in which what is behind the second cache
answers."""
UNROLL = 4
"""Steps of k in one iteration of the main loop; two to eight are equally fast."""


@dataclass(frozen=True)
class Walk:
    """How many elements apart the rows of a left operand are, its terms, and the terms of a right operand; and how many
    steps ahead the right one is asked for, into the first cache."""

    rows: int
    left: int
    right: int
    near: int = 0


def packed_walk(micro: Micro) -> Walk:
    """That of two panels."""
    return Walk(1, micro.rows, micro.columns)


def call_micro_kernel(
    frame: Frame,
    micro: Micro,
    accum: DType,
    arguments: Sequence[Value],
    rows: Value,
    ahead: Value | None,
    walk: Walk,
    *,
    finishes: bool = False,
    whole: bool = False,
    known: int = 0,
) -> None:
    """Calls the function of the lowest block that has all `rows` that are left, or of a whole one, where others are not
    worth their code; `known` is the height of one more, for rows that are known to be left. `ahead` is how far behind
    this right panel the next one is, where that is not near; one that `finishes` adds +0 to the sums."""
    b, few = frame.b, micro.rows if whole else frame.target.rest_rows
    given = [*arguments, *([] if ahead is None else [ahead])]

    def lowest(heights: Sequence[int]) -> None:
        height, *higher = heights

        def call() -> None:
            b.call(micro_kernel(frame, micro, accum, height, ahead is not None, finishes, walk), given)

        if not higher:
            call()
        else:
            if_else(b, b.icmp("sgt", rows, const_i64(height)), lambda: lowest(higher), call)

    lowest(sorted({*range(few, micro.rows, few), micro.rows, known or micro.rows}))


def micro_kernel(
    frame: Frame, micro: Micro, accum: DType, height: int, asks: bool, finishes: bool, walk: Walk
) -> Function:
    """The function `(a, b, c, row stride of c, depth, done, ahead)` of a block of `height` rows, made once per module;
    one that `asks` for nothing has no `ahead`."""
    near = f"_near_{walk.near}" * (walk.near > 0)
    packed = replace(walk, near=0) == packed_walk(micro)
    walks = near if packed else f"_by_{walk.rows}_{walk.left}_{walk.right}{near}"
    name = f"micro_{accum}_{height}x{micro.columns}{walks}{'_ahead' * asks}{'_finished' * finishes}"
    found = frame.module.find_function(name)
    return found or _MicroKernel(frame.module, name, micro, accum, height, asks, finishes, walk).build()


class _MicroKernel:
    """`height` of the rows of a left panel, which is `micro.rows` high."""

    def __init__(
        self, module: Module, name: str, micro: Micro, accum: DType, height: int, asks: bool, finishes: bool, walk: Walk
    ) -> None:
        self.finishes, self.walk = finishes, walk
        self.micro, self.accum, self.element, self.height = micro, accum, register_type(accum), height
        self.stored = memory_type(accum)
        self.vector = vector(self.element, micro.lanes)
        self.align = self.element.bits // 8
        parameters = [PTR, PTR, PTR, I64, I64, I64, *([I64] if asks else [])]
        attributes = ("nounwind", "noinline")
        self.function = module.function(name, VOID, parameters, attributes=attributes, linkage="internal")
        self.function.is_common = True
        self.b: Builder = self.function.builder
        self.left, self.right, self.block, self.stride, self.depth, self.done, *self.ahead = self.function.args

    def build(self) -> Function:
        b = self.b
        if self.finishes:
            self._ask_for_block()
        fresh = b.icmp("eq", self.done, const_i64(0))
        count = self.height * self.micro.columns // self.micro.lanes
        totals = choose(b, fresh, lambda: [zero(self.vector)] * count, self._load_block)
        whole = b.binary("and", self.depth, const_i64(-UNROLL))
        state = [self.left, self.right, *totals]
        state = for_loop(b, const_i64(0), whole, const_i64(UNROLL), state, self._steps(UNROLL))
        _, _, *totals = for_loop(b, whole, self.depth, const_i64(1), state, self._steps(1))
        if self.finishes:
            totals = [emit_scalar(b, "add", self.accum, [total, zero(self.vector)]) for total in totals]
        for place, total in zip(self._places(), totals, strict=True):
            b.store(narrow(b, total, self.accum), place, self.stored.bits // 8)
        b.ret()
        return self.function

    def _places(self) -> list[Value]:
        """The address of each vector of the block, row by row."""
        b, places = self.b, []
        for row in range(self.height):
            start = b.gep(self.stored, self.block, b.mul(self.stride, const_i64(row)))
            places += [b.gep(self.stored, start, column) for column in range(0, self.micro.columns, self.micro.lanes)]
        return places

    def _ask_for_block(self) -> None:
        """For the lines of the result: there is time while sums are computed, and a store would wait for each."""
        b, line = self.b, LINE_BYTES * 8 // self.stored.bits
        for row in range(self.height):
            start = b.gep(self.stored, self.block, b.mul(self.stride, const_i64(row)))
            for column in range(0, self.micro.columns, line):
                b.prefetch_for_store(b.gep(self.stored, start, column))

    def _load_block(self) -> list[Value]:
        b, type_ = self.b, vector(self.stored, self.micro.lanes)
        loaded = [b.load(type_, place, self.stored.bits // 8) for place in self._places()]
        return [widen(b, value, self.accum) for value in loaded]

    def _steps(self, count: int) -> LoopBody:
        """Both pointers walk along with the accumulators."""

        def body(_: Value, state: list[Value]) -> Sequence[Value]:
            left, right, *totals = state
            for step in range(count):
                for ahead in self.ahead if count == UNROLL else ():
                    self._ask(right, ahead, step)
                if count == UNROLL and self.walk.near:
                    self._ask_near(right, step)
                totals = self._step(left, right, step, totals)
            walking = [(left, self.walk.left), (right, self.walk.right)]
            return [*(self.b.gep(self.element, p, count * step) for p, step in walking), *totals]

        return body

    def _ask(self, right: Value, ahead: Value, step: int) -> None:
        """For the line in the second cache that the next panel has where this step reads this one. The place follows
        from the pointer that walks anyway: another one would be an accumulator less in registers."""
        place = self.b.gep(self.element, self.b.gep(self.element, right, ahead), step * self.walk.right)
        self.b.prefetch(place, near=2)

    def _ask_near(self, right: Value, step: int) -> None:
        """For the lines in the first cache of the step that is so many steps ahead."""
        line = LINE_BYTES * 8 // self.element.bits
        for column in range(0, self.micro.columns, line):
            self.b.prefetch(self.b.gep(self.element, right, (step + self.walk.near) * self.walk.right + column))

    def _step(self, left: Value, right: Value, step: int, totals: Sequence[Value]) -> list[Value]:
        """One k: every accumulator continues its chain. Each left element is written just before what it is multiplied
        with: where all of them come first, LLVM keeps more than there are registers for some processors."""
        b, micro = self.b, self.micro
        row = [
            b.load(self.vector, b.gep(self.element, right, step * self.walk.right + c), self.align)
            for c in range(0, micro.columns, micro.lanes)
        ]
        sums = iter(totals)
        return [self._multiply_add(x, y, next(sums)) for x in self._left_column(left, step) for y in row]

    def _left_column(self, left: Value, step: int) -> Iterator[Value]:
        """Each left element in all lanes. Whole vectors are loaded where they fit: a lane of a vector is an operand of
        NEON's fma; elsewhere an element is loaded and spread, which is one instruction on x86."""
        b, micro, apart = self.b, self.micro, self.walk.rows
        place = step * self.walk.left
        if self.height % micro.lanes or apart != 1:
            for row in range(self.height):
                item = b.load(self.element, b.gep(self.element, left, place + row * apart), self.align)
                yield b.splat(item, micro.lanes)
            return
        vectors = [
            b.load(self.vector, b.gep(self.element, left, place + r), self.align)
            for r in range(0, self.height, micro.lanes)
        ]
        for v in vectors:
            for lane in range(micro.lanes):
                yield b.shuffle(v, v, [lane] * micro.lanes)

    def _multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        if self.accum in NARROW:
            return narrow_fma(self.b, x, y, total, self.accum)
        if self.element.is_float:
            return self.b.fma(x, y, total)
        return self.b.add(total, self.b.mul(x, y))
