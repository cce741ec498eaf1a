"""A few rows times windows of memory, read where they lie: `cpu.window_product`.

    items     (place, column, count)      columns that are neighbours in memory, at most as many as a vector has lanes
    terms     places of the steps         place of element (k, c) = terms[k] + place of c

    for a group of items:   sums of all rows, a vector for each item, in registers
        for each step k:    x = load(terms[k] + place of the item), as many lanes as it has columns
                            sum of row i = fma(a[i, k], x, sum of row i)

Nothing is packed: a window is loaded as often as there are groups of rows. Runs of a few columns, as those of a kernel
of 3 x 3, go in vectors of a few lanes, so that loads seldom touch two lines of the cache. Where a group has too few
items, its last stands for those that are missing. Each sum is one ascending chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op, tuple_of
from tesserac.ir.core import Value as IRValue
from tesserac.target.cpu.frame import Frame
from tesserac.target.cpu.masked_panels import MaskedLoads, Run
from tesserac.target.cpu.place_tables import PlaceTable, Side, counted_up, digits_of, following, place_of, sides_of
from tesserac.target.cpu.registers import memory_type, register_type, widen
from tesserac.target.dims import ceil_div
from tesserac.target.flow import do_while, for_loop, if_else
from tesserac.target.llvm_types import I64, VOID, LType, Value, const_i64, vector, zero
from tesserac.tile.cpu.dialect import window_product_operands
from tesserac.tile.cpu.window_products import ITEM
from tesserac.tile.dialect import memref_type

GROUPS = (6, 3)
"""Items at once: as many as there are registers for masks, and as few as keep an fma busy."""
MOST_ROWS = 4
"""Rows at once: their sums of a group of items stay in registers."""
FEW = 4
"""Lanes for runs of so few columns."""


def emit_window_product(frame: Frame, op: Op) -> None:
    _WindowProduct(frame, op).emit()


class _WindowProduct:
    def __init__(self, frame: Frame, op: Op) -> None:
        left, starts, right, others, memories, sizes = window_product_operands(op)
        b, rows = frame.b, op.attrs["rows"]
        assert isinstance(rows, int)
        self.b, self.rows = b, rows
        self.left, self.right = frame.memories[left], frame.memories[right]
        self.sums, factors, terms, items = (frame.memories[value] for value in memories)
        self.factors, self.terms, self.items = PlaceTable(b, factors), PlaceTable(b, terms), items.start
        self.depth, self.columns, self.done = (frame.value(value) for value in sizes)
        self.row_side, self.factor_side, self.left_start = _sides(frame, op, "left", left, starts)
        self.term_side, self.column_side, self.start = _sides(frame, op, "right", right, others)
        self.element = register_type(self.sums.dtype)
        self.lanes = frame.target.lanes(self.element.bits)

    def emit(self) -> None:
        b, (run, _) = self.b, self.column_side.digits[-1]
        self.terms.fill(self.term_side.digits, self.term_side.first, self.depth, 1, 1)
        if len(self.factor_side.digits) > 1:
            self.factors.fill(self.factor_side.digits, self.factor_side.first, self.depth, 1, 1)
        if self.lanes <= FEW:
            self._in_vectors(self.lanes)
            return
        few = b.icmp("ule", run, const_i64(FEW))
        if_else(b, few, lambda: self._in_vectors(FEW), lambda: self._in_vectors(self.lanes))

    def _in_vectors(self, lanes: int) -> None:
        b, (most, few) = self.b, GROUPS
        count = self._list_items(lanes)
        whole = b.sub(count, b.binary("urem", count, const_i64(most)))
        rest = b.sub(count, whole)
        # Two small groups take as long as a large one.
        end = b.select(b.icmp("ugt", rest, const_i64(few)), b.add(whole, const_i64(most)), whole)
        for first in range(0, self.rows, MOST_ROWS):
            rows = range(first, min(first + MOST_ROWS, self.rows))
            for_loop(b, const_i64(0), end, const_i64(most), [], self._group(lanes, most, rows, count))
            for_loop(b, end, count, const_i64(few), [], self._group(lanes, few, rows, count))

    # --- which columns are a vector -----------------------------------------------------------------------------------

    def _list_items(self, lanes: int) -> Value:
        """Lists all items; how many there are."""
        b, digits, one = self.b, self.column_side.digits, const_i64(1)
        size, stride = digits[-1]
        begun = digits_of(b, digits, self.column_side.first)
        place = place_of(b, digits, begun)

        def run(state: list[Value]) -> tuple[Value, Sequence[Value]]:
            column, count, place, *held = state
            left = b.sub(self.columns, column)
            length = left if len(digits) == 1 else b.minimum_int(b.sub(size, held[-1]), left)
            parts = ceil_div(b, length, const_i64(lanes))

            def part(i: Value, _: list[Value]) -> Sequence[Value]:
                passed = b.mul(i, const_i64(lanes))
                number = b.minimum_int(b.sub(length, passed), const_i64(lanes))
                item = (b.add(place, b.mul(passed, stride)), b.add(column, passed), number)
                for word, value in enumerate(item):
                    b.store(value, self._word(b.add(count, i), word), 8)
                return []

            for_loop(b, const_i64(0), parts, one, [], part)
            rest = b.sub(length, one)
            last = b.add(place, b.mul(rest, stride))
            after, held = following(b, digits, last, [*held[:-1], b.add(held[-1], rest)])
            behind = b.add(column, length)
            return b.icmp("slt", behind, self.columns), [behind, b.add(count, parts), after, *held]

        state = [const_i64(0), const_i64(0), place, *begun]
        return do_while(b, state, run)[1]

    def _word(self, item: Value, word: int) -> Value:
        b = self.b
        return b.gep(I64, self.items, b.add(b.mul(item, const_i64(ITEM)), const_i64(word)))

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _group(
        self, lanes: int, size: int, rows: Sequence[int], count: Value
    ) -> Callable[[Value, list[Value]], Sequence[Value]]:
        """So many items of so many rows. Of an item that stands in for others the sums are the same."""
        b, whole, begin = self.b, vector(self.element, lanes), [self._row_place(row) for row in rows]
        loads = MaskedLoads(b, memory_type(self.right.dtype), self.start, lanes, self.column_side.step or 1)

        def body(first: Value, _: list[Value]) -> Sequence[Value]:
            last, runs, masks, places = b.sub(count, const_i64(1)), list[Run](), list[Value](), list[Value]()
            for number in range(size):
                item = b.minimum_int(b.add(first, const_i64(number)), last)
                place, column, present = (b.load(I64, self._word(item, word), 8) for word in range(ITEM))
                mask = b.icmp("slt", counted_up(lanes), b.splat(present, lanes))
                runs.append(loads.run(place, mask))
                masks.append(mask)
                places.append(b.gep(self.element, self.sums.start, column))
            kept = [(self._sum(place, row), mask) for place, mask in zip(places, masks, strict=True) for row in rows]
            sums = for_loop(b, const_i64(0), self.depth, const_i64(1), self._begun(kept, whole), step(runs))
            for (place, mask), value in zip(kept, sums, strict=True):
                b.intrinsic("llvm.masked.store", VOID, [value, place, mask], [whole, place.type])
            return []

        def step(runs: Sequence[Run]) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def body(k: Value, sums: list[Value]) -> Sequence[Value]:
                term, factors = self.terms.place(k), [b.splat(self._factor(k, row), lanes) for row in begin]
                read = [widen(b, loads.load(term, [run]), self.right.dtype) for run in runs]
                pairs = [(factor, window) for window in read for factor in factors]
                return [b.fma(factor, window, total) for (factor, window), total in zip(pairs, sums, strict=True)]

            return body

        return body

    def _begun(self, kept: Sequence[tuple[Value, Value]], whole: LType) -> list[Value]:
        """The sums so far, or +0 where nothing was done."""
        b, sums = self.b, list[Value]()
        any_done = b.icmp("ne", self.done, const_i64(0))
        for place, mask in kept:
            present = b.binary("and", mask, b.splat(any_done, whole.lanes))
            sums.append(b.intrinsic("llvm.masked.load", whole, [place, present, zero(whole)], [whole, place.type]))
        return sums

    def _sum(self, place: Value, row: int) -> Value:
        return self.b.gep(self.element, place, self.b.mul(const_i64(row), self.sums.strides[0]))

    def _factor(self, k: Value, row: Value) -> Value:
        """The element of a row, which begins at this place, for step k."""
        b, stored, (_, step) = self.b, memory_type(self.left.dtype), self.factor_side.digits[-1]
        listed = len(self.factor_side.digits) > 1
        place = self.factors.place(k) if listed else b.mul(b.add(k, self.factor_side.first), step)
        address = b.gep(stored, self.left_start, b.add(row, place))
        return widen(b, b.load(stored, address, stored.bits // 8), self.left.dtype)

    def _row_place(self, row: int) -> Value:
        b, side = self.b, self.row_side
        return place_of(b, side.digits, digits_of(b, side.digits, b.add(side.first, const_i64(row))))


def _sides(frame: Frame, op: Op, name: str, value: IRValue, starts: Sequence[IRValue]) -> tuple[Side, Side, Value]:
    """The last two coordinates of an operand, and where it begins at the others."""
    memory, groups = frame.memories[value], tuple_of(op.attrs[name], int)
    places = [frame.value(start) for start in starts]
    offset, first, second = sides_of(frame.b, memory, places, groups, memref_type(value).strides)
    return first, second, frame.b.gep(memory_type(memory.dtype), memory.start, offset)
