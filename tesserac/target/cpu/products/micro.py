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

Right panels that pass a left one are asked for a few steps ahead, into the first cache. Where they are packed by the
blocks of the first rows, there are two functions more, which walk beside their own work, in steps of rows:

    brings      reads the right operand as it lies, and writes its panel: two stores a step
    asks        asks for the right operand of the next terms as it lies, into the second cache: a line a step, by rows
    both        ask for the sums of the following block, a row every 4 steps: they come from behind the second cache

Those that come from memory,
packed before the launch, and stay while left ones pass, are asked for by panels. While a panel is multiplied, which all
rows of a block do one after the other, the next one comes into the second cache: even lines while the first block of
rows is computed, odd ones while the second is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from tesserac.base.dataclass import dataclass
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.elements.registers import NARROW, memory_type, narrow, narrow_fma, register_type, widen
from tesserac.target.cpu.elements.scalars import emit_scalar
from tesserac.target.cpu.products.panels import LINE_BYTES
from tesserac.target.emit import Function, Module
from tesserac.target.flow import LoopBody, choose, for_loop, if_else
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, PTR, VOID, Value, const_i64, vector, zero
from tesserac.tile.cpu.target import Micro
from tesserac.types.dtype import DType

NEAR = 16
"""How many steps ahead a right panel that passes is asked for: 200 cycles, in which what is behind the second cache
answers."""
NEAR_ROWS = 8
"""How many steps ahead a right operand is asked for that is read as it lies, most of it from the second cache. Rows a
power of two apart meet in one set of the first cache, which has no room for more of them."""
REACHED = 3
"""Rows that an address of x86 reaches from one register: it adds one, two or no times another."""
UNROLL = 4
"""Steps of k in one iteration of the main loop; two to eight are equally fast."""


@dataclass(frozen=True)
class Walk:
    """How many elements apart the rows of a left operand are, 0 where only a run knows, its terms, and the terms of a
    right operand; and how many steps ahead the right one is asked for, into the first cache. What a block does beside
    its own work: it `brings` the right operand into its panel, or `asks` for what follows."""

    rows: int
    left: int
    right: int
    near: int = 0
    beside: Literal["", "brings", "asks"] = ""

    @property
    def by_pitch(self) -> bool:
        """Whether a run says how far apart rows are."""
        return self.rows == 0


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
    pitch: Value | None = None,
) -> None:
    """Calls the function of the lowest block that has all `rows` that are left, or of a whole one, where others are not
    worth their code; `known` is the height of one more, for rows that are known to be left. `ahead` is how far behind
    this right panel the next one is, where that is not near; one that `finishes` adds +0 to the sums."""
    b, few = frame.b, micro.rows if whole else frame.target.rest_rows
    given = [*arguments, *(value for value in (ahead, pitch) if value is not None)]

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
    """The function `(a, b, c, row stride of c, depth, done, ahead, pitch)` of a block of `height` rows, made once per
    module; one that `asks` for nothing has no `ahead`, and one that knows how far apart left rows are no `pitch`. One
    that does something beside has `(.., following block of c, ..)`, and `(.., the panel that it writes, how far apart
    rows of the right operand are)`, or `(.., the right operand that it asks for, how far the end of a row of it is from
    the next one, how long a row is)`."""
    near = f"_near_{walk.near}" * (walk.near > 0) + f"_{walk.beside}" * bool(walk.beside)
    packed = replace(walk, near=0, beside="") == packed_walk(micro)
    walks = near if packed else f"_by_{walk.rows}_{walk.left}_{walk.right}{near}"
    name = f"micro_{accum}_{height}x{micro.columns}{walks}{'_ahead' * asks}{'_finished' * finishes}"
    found = frame.module.find_function(name)
    if found is not None:
        return found
    kernel = _MicroKernel(frame.module, name, micro, accum, height, asks, finishes, walk)
    return kernel.function if frame.module.has_code(kernel.function, f"{name} {micro} {walk}") else kernel.build()


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
        beside = {"": [], "brings": [PTR, PTR, I64], "asks": [PTR, PTR, I64, I64]}[walk.beside]
        parameters = [PTR, PTR, PTR, I64, I64, I64, *([I64] if asks else []), *beside, *([I64] * walk.by_pitch)]
        attributes = ("nounwind", "noinline")
        self.function = module.function(name, VOID, parameters, attributes=attributes, linkage="internal")
        self.function.is_common = True
        self.b: Builder = self.function.builder
        self.left, self.right, self.block, self.stride, self.depth, self.done, *others = self.function.args
        self.pitch = others.pop() if walk.by_pitch else None
        self.ahead, self.beside = ([], others) if walk.beside else (others, [])

    def build(self) -> Function:
        b = self.b
        if self.finishes and not self.walk.beside:
            self._ask_for_block()
        fresh = b.icmp("eq", self.done, const_i64(0))
        count = self.height * self.micro.columns // self.micro.lanes
        totals = choose(b, fresh, lambda: [zero(self.vector)] * count, self._load_block)
        whole = b.binary("and", self.depth, const_i64(-UNROLL))
        state = [*self._lefts(), self.right, *self.beside[:2], *self.beside[3:], *totals]
        state = for_loop(b, const_i64(0), whole, const_i64(UNROLL), state, self._steps(UNROLL))
        state = for_loop(b, whole, self.depth, const_i64(1), state, self._steps(1))
        totals = state[-count:]
        if self.finishes:
            totals = [emit_scalar(b, "add", self.accum, [total, zero(self.vector)]) for total in totals]
        for place, total in zip(self._places(), totals, strict=True):
            b.store(narrow(b, total, self.accum), place, self.stored.bits // 8)
        b.ret()
        return self.function

    def _lefts(self) -> list[Value]:
        """Where rows of the left operand begin: the first, from which all others are a known way, or every third one,
        from which an address of x86 reaches two more."""
        if self.pitch is None:
            return [self.left]
        b = self.b
        return [b.gep(self.element, self.left, b.mul(self.pitch, const_i64(r))) for r in range(0, self.height, REACHED)]

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
        """Both pointers walk along with the accumulators, and what is beside."""
        return self._steps_beside(count) if self.walk.beside else self._plain_steps(count)

    def _plain_steps(self, count: int) -> LoopBody:
        many = 1 if self.pitch is None else len(range(0, self.height, REACHED))

        def body(_: Value, state: list[Value]) -> Sequence[Value]:
            lefts, right, totals = state[:many], state[many], state[many + 1 :]
            for step in range(count):
                for ahead in self.ahead if count == UNROLL else ():
                    self._ask(right, ahead, step)
                if count == UNROLL and self.walk.near:
                    self._ask_near(right, step)
                totals = self._step(lefts, self._right_row(right, step), step, totals)
            return [*self._walked(lefts, right, count), *totals]

        return body

    def _steps_beside(self, count: int) -> LoopBody:
        """`following` are the sums of the block after this one; `other` is the panel that is written, or the right
        operand that is asked for, of whose row so much is `behind`."""
        b, brings, (_, _, pitch, *row_length) = self.b, self.walk.beside == "brings", self.beside

        def body(index: Value, state: list[Value]) -> Sequence[Value]:
            left, right, following, other, *totals = state
            behind, totals = totals[: len(row_length)], totals[len(row_length) :]
            begins = (left, right)
            if count == UNROLL:
                following = self._ask_following(index, following)
            for step in range(count):
                if brings:
                    row = self._bring_row(right, other, step)
                    right = b.gep(self.element, right, pitch)
                else:
                    row = self._right_row(right, step)
                if count == UNROLL and not brings:
                    self._ask_near(right, step)
                    b.prefetch(b.gep(self.element, other, step * self.micro.lanes), near=2)
                totals = self._step([left], row, step, totals)
            left, walked = self._walked([begins[0]], begins[1], count)
            if brings:
                other = b.gep(self.element, other, count * self.walk.right)
            else:
                right = walked
                if count == UNROLL:
                    other, behind = self._ask_further(other, behind[0])
            return [left, right, following, other, *behind, *totals]

        return body

    def _walked(self, lefts: Sequence[Value], right: Value, count: int) -> list[Value]:
        walking = [*((left, self.walk.left) for left in lefts), (right, self.walk.right)]
        return [self.b.gep(self.element, p, count * step) for p, step in walking]

    def _right_row(self, right: Value, step: int) -> list[Value]:
        b, micro = self.b, self.micro
        return [
            b.load(self.vector, b.gep(self.element, right, step * self.walk.right + c), self.align)
            for c in range(0, micro.columns, micro.lanes)
        ]

    def _bring_row(self, right: Value, panel: Value, step: int) -> list[Value]:
        """A row of the right operand as it lies, also written to its panel; later ones are asked for, and those of the
        next panel."""
        b, pitch = self.b, self.beside[2]
        later = b.gep(self.element, right, b.mul(pitch, const_i64(NEAR_ROWS)))
        for column in self._lines():
            b.prefetch(b.gep(self.element, later, column))
        for column in self._vectors():
            b.prefetch(b.gep(self.element, right, self.micro.columns + column), near=2)
        row = [b.load(self.vector, b.gep(self.element, right, c), self.align) for c in self._vectors()]
        for c, value in zip(self._vectors(), row, strict=True):
            b.store(value, b.gep(self.element, panel, step * self.walk.right + c), self.align)
        return row

    def _ask_further(self, place: Value, behind: Value) -> tuple[Value, list[Value]]:
        """Where the next lines of the right operand are that are asked for: behind these, or in the next row."""
        b, (_, _, gap, width) = self.b, self.beside
        taken = UNROLL * self.micro.lanes
        place, behind = b.gep(self.element, place, taken), b.sub(behind, const_i64(taken))
        ends = b.icmp("sle", behind, const_i64(0))
        place = b.gep(self.element, place, b.select(ends, gap, const_i64(0)))
        return place, [b.select(ends, width, behind)]

    def _ask_following(self, index: Value, place: Value) -> Value:
        """For a row of the sums after these; gives where the one after it lies. The last one is asked for again."""
        b = self.b
        for column in self._lines():
            b.prefetch_for_store(b.gep(self.stored, place, column))
        below = b.icmp("slt", index, const_i64((self.height - 1) * UNROLL))
        return b.gep(self.stored, place, b.select(below, self.stride, const_i64(0)))

    def _vectors(self) -> range:
        return range(0, self.micro.columns, self.micro.lanes)

    def _lines(self) -> list[int]:
        """Places of a row in each of its lines, wherever it begins: a vector is a line."""
        return [*self._vectors(), self.micro.columns - 1]

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

    def _step(self, lefts: Sequence[Value], row: Sequence[Value], step: int, totals: Sequence[Value]) -> list[Value]:
        """One k: every accumulator continues its chain. Each left element is written just before what it is multiplied
        with: where all of them come first, LLVM keeps more than there are registers for some processors."""
        sums = iter(totals)
        return [self._multiply_add(x, y, next(sums)) for x in self._left_column(lefts, step) for y in row]

    def _left_column(self, lefts: Sequence[Value], step: int) -> Iterator[Value]:
        """Each left element in all lanes. Whole vectors are loaded where they fit: a lane of a vector is an operand of
        NEON's fma; elsewhere an element is loaded and spread, which is one instruction on x86."""
        b, micro, apart = self.b, self.micro, self.walk.rows
        place, left = step * self.walk.left, lefts[0]
        if self.pitch is not None:
            for row in range(self.height):
                start = b.gep(self.element, lefts[row // REACHED], b.mul(self.pitch, const_i64(row % REACHED)))
                yield b.splat(b.load(self.element, b.gep(self.element, start, place), self.align), micro.lanes)
            return
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
