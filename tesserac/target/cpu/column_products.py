"""A few rows times a matrix that lies by columns, as in `A @ x`: its columns are the rows of A.

    for a group of columns:  for each row i:   c = sums of the group, in registers
        for k in steps of LANES:               b = LANES neighbours of each column, a square of registers, transposed
                                               c = fma(a[i, k + 3], b[3], ... fma(a[i, k], b[0], c))

Each lane is the one ascending chain of its column, so that bits are those of every other way to compute the product;
transposing in registers is what lets neighbours in memory meet different factors. What is left of the columns is done
one by one, and what is left of the terms element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.target.cpu.registers import memory_type, register_type, widen
from tesserac.target.emit import Function
from tesserac.target.flow import for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import Value, const_i64, undefined, vector, zero
from tesserac.types.dtype import DType

COLUMNS, LEAST_PARTS = 8, 2
"""Columns of a group, at least, and vectors of sums: one chain alone would wait for each of its steps."""


class ColumnProduct:
    """`(a, its strides, b, stride of its columns, c, stride of its rows, rows, columns, depth, done)`"""

    def __init__(self, function: Function, left: DType, right: DType, accum: DType, lanes: int) -> None:
        self.function, self.left, self.right, self.lanes = function, left, right, lanes
        self.element = register_type(accum)
        self.b: Builder = function.builder
        self.a, self.a_row, self.a_step, self.matrix, self.pitch, self.c, self.c_row, *sizes = function.args
        self.rows, self.columns, self.depth, self.done = sizes

    def build(self) -> Function:
        b, column = self.b, const_i64(0)
        parts = max(LEAST_PARTS, COLUMNS // self.lanes)
        for lanes, count in ((self.lanes, parts), (self.lanes, 1), (1, 1)):
            size = lanes * count
            left = b.sub(self.columns, column)
            end = b.add(column, b.mul(b.binary("udiv", left, const_i64(size)), const_i64(size)))
            self._groups(column, end, lanes, count)
            column = end
        b.ret()
        return self.function

    def _groups(self, low: Value, high: Value, lanes: int, parts: int) -> None:
        b, stored = self.b, memory_type(self.right)

        def group(column: Value, _: list[Value]) -> Sequence[Value]:
            places = [b.mul(b.add(column, const_i64(i)), self.pitch) for i in range(lanes * parts)]
            starts = [b.gep(stored, self.matrix, place) for place in places]

            def row(i: Value, _: list[Value]) -> Sequence[Value]:
                self._row(i, column, [starts[p * lanes : (p + 1) * lanes] for p in range(parts)])
                return []

            for_loop(b, const_i64(0), self.rows, const_i64(1), [], row)
            return []

        for_loop(b, low, high, const_i64(lanes * parts), [], group)

    def _row(self, i: Value, column: Value, parts: Sequence[Sequence[Value]]) -> None:
        """The sums of a group of columns; `parts` are where the columns start, those of one vector together."""
        b, lanes = self.b, len(parts[0])
        type_, align = vector(self.element, lanes), self.element.bits // 8
        sums = b.gep(self.element, self.c, b.add(b.mul(i, self.c_row), column))
        places = [b.gep(self.element, sums, p * lanes) for p in range(len(parts))]
        fresh = b.icmp("eq", self.done, const_i64(0))
        totals = [b.select(fresh, zero(type_), b.load(type_, place, align)) for place in places]
        whole = b.binary("and", self.depth, const_i64(-lanes))

        def steps(k: Value, held: list[Value]) -> Sequence[Value]:
            factors = [b.splat(self._factor(i, b.add(k, const_i64(s))), lanes) for s in range(lanes)]
            squares = [self._transposed([self._run(start, k, lanes) for start in starts]) for starts in parts]
            for factor, *terms in zip(factors, *squares, strict=True):
                held = [b.fma(factor, term, total) for term, total in zip(terms, held, strict=True)]
            return held

        def step(k: Value, held: list[Value]) -> Sequence[Value]:
            factor = b.splat(self._factor(i, k), lanes)
            terms = [self._gathered([self._run(start, k, 1) for start in starts]) for starts in parts]
            return [b.fma(factor, term, total) for term, total in zip(terms, held, strict=True)]

        totals = for_loop(b, const_i64(0), whole, const_i64(lanes), totals, steps)
        totals = for_loop(b, whole, self.depth, const_i64(1), totals, step)
        for total, place in zip(totals, places, strict=True):
            b.store(total, place, align)

    def _factor(self, i: Value, k: Value) -> Value:
        b, stored = self.b, memory_type(self.left)
        place = b.add(b.mul(i, self.a_row), b.mul(k, self.a_step))
        return widen(b, b.load(stored, b.gep(stored, self.a, place), stored.bits // 8), self.left)

    def _run(self, start: Value, k: Value, count: int) -> Value:
        """Neighbours of a column, from the term `k` on."""
        b, stored = self.b, memory_type(self.right)
        return widen(b, b.load(vector(stored, count), b.gep(stored, start, k), stored.bits // 8), self.right)

    def _gathered(self, items: Sequence[Value]) -> Value:
        """The only elements of vectors as one vector."""
        made = undefined(vector(self.element, len(items)))
        for lane, item in enumerate(items):
            made = self.b.insert(made, self.b.extract(item, 0), lane)
        return made

    def _transposed(self, rows: Sequence[Value]) -> list[Value]:
        """A square of registers, its blocks exchanged across the diagonal from the largest to single elements."""
        square, span = list(rows), len(rows) // 2
        while span:
            for i in (i for i in range(len(square)) if not i & span):
                upper, lower = square[i], square[i + span]
                square[i] = self._interleaved(upper, lower, span, False)
                square[i + span] = self._interleaved(upper, lower, span, True)
            span //= 2
        return square

    def _interleaved(self, upper: Value, lower: Value, span: int, second: bool) -> Value:
        """Of each two blocks of `span` lanes the first, or the second, of both vectors in turn."""
        count = upper.type.lanes
        lanes = [(lane & ~span) + span * second + (count if lane & span else 0) for lane in range(count)]
        return self.b.shuffle(upper, lower, lanes)
