"""A few rows times a matrix that lies by columns, as in `A @ x`: its columns are the rows of A.

    for a group of columns:  for each row i:   c = sums of the group, in registers
        for k in steps of LANES:               b = LANES neighbours of each column, a square of registers, transposed
                                               c = fma(a[i, k + 3], b[3], ... fma(a[i, k], b[0], c))

Each lane is the one ascending chain of its column, so that bits are those of every other way to compute the product;
transposing in registers is what lets neighbours in memory meet different factors. Columns a power of two apart share a
set of the first cache, which forgets a line before the rest of it is read: so vectors begin where lines do, behind a
few terms in quarters. What is left of the columns is done four by four and one by one, what is left of the terms
likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.target.cpu.elements.registers import memory_type, register_type, widen
from tesserac.target.emit import Function
from tesserac.target.flow import for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, Value, const_i64, vector, zero
from tesserac.types.dtype import DType

COLUMNS, SOME_COLUMNS, FEW_COLUMNS = 16, 8, 4
"""Columns of a group, of one where a vector is a quarter of a line, then those of what is left. One chain alone would
wait for each of its steps; with 32, a matrix of 4096 rows was read a fifth more slowly on an x86 with AVX-512, probably
as what reads ahead follows fewer places. A line that four vectors read one after the other, columns a power of two
apart, stays in a cache of four ways beside few others only: 32 rows of 2048 numbers in f64 took 0.89 ns a term on a
Neoverse N1 in groups of 16, and take 0.48 in groups of 8."""
QUARTER = 128
"""Bits of a run of neighbours that is no whole vector: what allocators align all memory to."""


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
        for lanes, count in self._narrowing():
            size = lanes * count
            left = b.sub(self.columns, column)
            end = b.add(column, b.mul(b.binary("udiv", left, const_i64(size)), const_i64(size)))
            self._groups(column, end, lanes, count)
            column = end
        b.ret()
        return self.function

    def _narrowing(self) -> list[tuple[int, int]]:
        """Columns of a vector, and vectors of a group: all that are taken at once, then fewer for what is left."""
        narrow = [(lanes, 1) for lanes in (self.lanes, FEW_COLUMNS) if lanes <= self.lanes]
        short = self.lanes * self.element.bits <= QUARTER
        most = SOME_COLUMNS if short else COLUMNS
        return list(dict.fromkeys([(self.lanes, max(1, most // self.lanes)), *narrow, (1, 1)]))

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
        low = const_i64(0)
        for width, high in self._stretches(parts[0][0], lanes):
            totals = for_loop(b, low, high, const_i64(width), totals, self._steps(i, parts, width))
            low = high
        for total, place in zip(totals, places, strict=True):
            b.store(total, place, align)

    def _stretches(self, start: Value, lanes: int) -> list[tuple[int, Value]]:
        """Terms that are taken at once, and up to where: few until a whole vector lies in one line of the cache, then
        whole vectors, a few, and one by one."""
        b, few = self.b, self._few(lanes)
        if few == 1:
            return [(lanes, b.binary("and", self.depth, const_i64(-lanes))), (1, self.depth)]
        end = b.binary("and", self.depth, const_i64(-few))
        head = b.minimum_int(self._head(start, lanes), end)
        whole = b.add(head, b.binary("and", b.sub(self.depth, head), const_i64(-lanes)))
        return [(few, head), (lanes, whole), (few, end), (1, self.depth)]

    def _few(self, lanes: int) -> int:
        """Neighbours of a quarter of the widest vector, or 1 where that is no part of a vector here."""
        few = QUARTER // memory_type(self.right).bits
        return few if few < lanes else 1

    def _head(self, start: Value, lanes: int) -> Value:
        """Terms before the first vector that lies in one line of the cache, if this is so of all columns at once; where
        it is not, they also lie in different sets of the cache, and half a line can wait there for its turn."""
        b, size = self.b, memory_type(self.right).bits // 8
        line = const_i64(lanes * size)
        before = b.binary("and", b.sub(const_i64(0), b.cast("ptrtoint", start, I64)), b.sub(line, const_i64(1)))
        alike = b.icmp("eq", b.binary("urem", b.mul(self.pitch, const_i64(size)), line), const_i64(0))
        terms = b.binary("and", b.binary("udiv", before, const_i64(size)), const_i64(-self._few(lanes)))
        return b.select(alike, terms, const_i64(0))

    def _steps(
        self, i: Value, parts: Sequence[Sequence[Value]], width: int
    ) -> Callable[[Value, list[Value]], Sequence[Value]]:
        """So many terms at once of each column; one vector of columns after the other, as registers hold no more."""

        def body(k: Value, held: list[Value]) -> Sequence[Value]:
            factors = self._factors(i, k, width)
            return [self._square(starts, k, factors, total) for starts, total in zip(parts, held, strict=True)]

        return body

    def _square(self, starts: Sequence[Value], k: Value, factors: Sequence[Value], total: Value) -> Value:
        """The sums of a vector of columns, carried on by as many terms as there are factors."""
        b, lanes, width = self.b, len(starts), len(factors)
        runs = [self._run(start, k, width) for start in starts]
        terms = self._transposed([self._joined(runs[j::width]) for j in range(width)])
        for factor, term in zip(factors, terms, strict=True):
            total = b.fma(b.splat(self._factor(factor), lanes), term, total)
        return total

    def _factors(self, i: Value, k: Value, count: int) -> list[Value]:
        """Where neighbouring factors lie."""
        b, stored = self.b, memory_type(self.left)
        places = [b.gep(stored, self.a, b.add(b.mul(i, self.a_row), b.mul(k, self.a_step)))]
        while len(places) < count:
            places.append(b.gep(stored, places[-1], self.a_step))
        return places

    def _factor(self, place: Value) -> Value:
        stored = memory_type(self.left)
        return widen(self.b, self.b.load(stored, place, stored.bits // 8), self.left)

    def _run(self, start: Value, k: Value, count: int) -> Value:
        """Neighbours of a column, from the term `k` on."""
        b, stored = self.b, memory_type(self.right)
        return widen(b, b.load(vector(stored, count), b.gep(stored, start, k), stored.bits // 8), self.right)

    def _joined(self, runs: Sequence[Value]) -> Value:
        """Vectors one behind the other."""
        while len(runs) > 1:
            count = 2 * runs[0].type.lanes
            pairs = zip(runs[::2], runs[1::2], strict=True)
            runs = [self.b.shuffle(low, high, range(count)) for low, high in pairs]
        return runs[0]

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
