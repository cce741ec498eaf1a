"""Rows times windows of memory, read where they lie: `cpu.window_product`.

    items     (place, column, its lanes)  columns that lie in one vector of memory, at most as many as it has lanes
    terms     places of the steps         place of element (k, c) = terms[k] + place of c

    for a group of items:   for a group of rows: sums in registers, a vector for each row and item
        for each step k:    x = load(terms[k] + place of the item), the lanes that its columns have
                            sum of row i = fma(a[i, k], x, sum of row i)

No window is packed: it is loaded as often as there are groups of rows. Many rows stand in panels, as many at a time as
have their sums in registers. An item goes on behind the end of a run where the next one begins within the same vector,
as lines of an image in a frame do. What lies between is multiplied too, and not stored:

    columns      40 .. 55 | 56 .. 69       56 columns of lines that are 58 apart
    lanes        x ... x    . . x ... x    two lanes of the second vector are of the frame

Loads are of whole vectors: those that take masks are several times slower where they touch two lines of the cache. All
lanes lie in memory if none is behind the last column that there is; an item with such lanes begins so much earlier, in
lanes of the item before. Runs of a few columns, as those of a kernel of 3 x 3, and less than a vector of them go in
vectors of a few lanes, with masks. Where a group has too few items, its last stands for those that are missing. Each
sum is one ascending chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, tuple_of
from tesserac.ir.core import Value as IRValue
from tesserac.target.cpu.elements.frame import Frame, Memory
from tesserac.target.cpu.elements.registers import memory_type, register_type, widen
from tesserac.target.cpu.products.masked_panels import MaskedLoads, Run
from tesserac.target.cpu.products.place_tables import (
    PlaceTable,
    Side,
    digits_of,
    following,
    place_of,
    sides_of,
    sum_of,
)
from tesserac.target.flow import choose, do_while, for_loop, if_else, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, VOID, LType, Value, const_i64, integer, vector, zero
from tesserac.tile.cpu.product_ops import window_product_operands
from tesserac.tile.cpu.products.window_products import ITEM, TALL
from tesserac.tile.dialect import memref_type

FLAT = 4
"""Rows at once of those that `TALL` leaves."""
GROUPS = {TALL: (3,), FLAT: (6, 3)}
"""Items at once: as many as there are registers for sums and masks, and as few as keep an fma busy."""
FEW = 4
"""Lanes for runs of so few columns."""


@dataclass(frozen=True)
class _Items:
    """A group: where each is loaded, which lanes it has, as many from lane 0 on, and where the sums of the first row
    stand."""

    lanes: int
    runs: list[Run | Value]
    masks: list[Value]
    firsts: list[Value]
    places: list[Value]

    @property
    def sums(self) -> list[tuple[Value, Value, Value]]:
        return list(zip(self.places, self.masks, self.firsts, strict=True))


def emit_window_product(frame: Frame, op: Op) -> None:
    _WindowProduct(frame, op).emit()


class _WindowProduct:
    def __init__(self, frame: Frame, op: Op) -> None:
        left, starts, right, others, memories, sizes = window_product_operands(op)
        b, rows = frame.b, op.attrs["rows"]
        assert isinstance(rows, int)
        self.b, self.rows = b, rows
        self.right = frame.memories[right]
        self.sums, terms, items, *factors = (frame.memories[value] for value in memories)
        self.terms, self.items = PlaceTable(b, terms), items.start
        self.height, self.depth, self.columns, self.done = (frame.value(value) for value in sizes)
        self.left: _Panels | _Rows = _Panels(b, frame.memories[left])
        if factors:
            sides = _sides(frame, op, "left", left, starts)
            self.left = _Rows(b, frame.memories[left], PlaceTable(b, *factors), *sides)
        self.term_side, self.column_side, self.start = _sides(frame, op, "right", right, others)
        self.element = register_type(self.sums.dtype)
        self.lanes = frame.target.lanes(self.element.bits)

    def emit(self) -> None:
        b, (run, _) = self.b, self.column_side.digits[-1]
        self.terms.fill(self.term_side.digits, self.term_side.first, self.depth, 1, 1)
        self.left.prepare(self.depth)
        lowest, highest = self._ends()
        step, far = self.column_side.step or 1, const_i64(1 << 40)
        near = b.icmp("slt", b.sub(highest, lowest), const_i64(self.lanes * step))
        few = b.binary("or", b.icmp("ule", run, const_i64(FEW)), near)
        if_else(b, few, lambda: self._in_vectors(FEW, far), lambda: self._in_vectors(self.lanes, highest))

    def _ends(self) -> tuple[Value, Value]:
        """The lowest and the highest place that columns have."""
        b, zero = self.b, const_i64(0)
        reaches = [b.mul(b.sub(size, const_i64(1)), stride) for size, stride in self.column_side.digits]
        lowest, highest = ([pick(r, zero) for r in reaches] for pick in (b.minimum_int, b.maximum_int))
        return sum_of(b, lowest), sum_of(b, highest)

    def _in_vectors(self, lanes: int, highest: Value) -> None:
        b, count = self.b, self._list_items(lanes, highest)
        tall = b.binary("and", self.height, const_i64(-TALL)) if self.rows >= TALL else const_i64(0)
        if self.rows >= TALL:
            self._each_group(lanes, TALL, count, lambda items: self._tall_rows(items, tall))
        rest = self.rows % TALL
        if rest:
            low = partial(self._each_group, lanes, FLAT, count, lambda items: self._rest(items, tall, rest))
            if_then(b, b.icmp("sgt", self.height, tall), low)

    def _each_group(self, lanes: int, height: int, count: Value, body: Callable[[_Items], None]) -> None:
        """All items in groups for so many rows; of the last ones, two small groups take as long as a large one."""
        b, (most, *fewer) = self.b, GROUPS[height]
        begin = const_i64(0)

        def in_groups(end: Value, size: int) -> None:
            def group(first: Value, _: list[Value]) -> Sequence[Value]:
                body(self._items(lanes, size, first, count))
                return []

            for_loop(b, begin, end, const_i64(size), [], group)

        for few in fewer:
            whole = b.sub(count, b.binary("urem", count, const_i64(most)))
            rest = b.sub(count, whole)
            end = b.select(b.icmp("ugt", rest, const_i64(few)), b.add(whole, const_i64(most)), whole)
            in_groups(end, most)
            begin, most = end, few
        in_groups(count, most)

    def _tall_rows(self, items: _Items, end: Value) -> None:
        def rows(first: Value, _: list[Value]) -> Sequence[Value]:
            self._sums(items, first, TALL)
            return []

        for_loop(self.b, const_i64(0), end, const_i64(TALL), [], rows)

    def _rest(self, items: _Items, first: Value, count: int) -> None:
        for passed in range(0, count, FLAT):
            self._sums(items, self.b.add(first, const_i64(passed)), min(FLAT, count - passed))

    # --- which columns are a vector -----------------------------------------------------------------------------------

    def _list_items(self, lanes: int, highest: Value) -> Value:
        """Lists all items; how many there are."""
        b, digits, one = self.b, self.column_side.digits, const_i64(1)
        size, stride = digits[-1]
        begun = digits_of(b, digits, self.column_side.first)
        place = place_of(b, digits, begun)

        def run(state: list[Value]) -> tuple[Value, Sequence[Value]]:
            column, count, start, bits, begin, place, *held = state
            left = b.sub(self.columns, column)
            length = left if len(digits) == 1 else b.minimum_int(b.sub(size, held[-1]), left)
            behind = b.add(column, length)
            listed = self._list_run(lanes, highest, [column, behind, place], [count, start, bits, begin])
            rest = b.sub(length, one)
            last = b.add(place, b.mul(rest, stride))
            after, held = following(b, digits, last, [*held[:-1], b.add(held[-1], rest)])
            return b.icmp("slt", behind, self.columns), [behind, *listed, after, *held]

        nowhere, nothing = const_i64(-(1 << 40)), const_i64(0)
        return do_while(b, [nothing, nothing, nowhere, nothing, nothing, place, *begun], run)[1]

    def _list_run(self, lanes: int, highest: Value, run: Sequence[Value], item: Sequence[Value]) -> Sequence[Value]:
        """Lists columns from one to behind another that are neighbours from a place on, the first of them in the last
        item (how many there are, where it starts, which lanes it has, its first column) as far as they lie there."""
        b, step, (column, behind, place) = self.b, self.column_side.step or 1, run

        def part(state: list[Value]) -> tuple[Value, Sequence[Value]]:
            column, place, count, start, bits, begin = state
            apart = b.sub(place, start)
            lane = b.binary("udiv", apart, const_i64(step))
            near = b.icmp("ult", apart, const_i64(lanes * step))
            fits = b.binary("and", near, b.icmp("eq", b.mul(lane, const_i64(step)), apart))
            over = b.sub(b.add(place, const_i64((lanes - 1) * step)), highest)
            earlier = b.maximum_int(b.binary("sdiv", b.add(over, const_i64(step - 1)), const_i64(step)), const_i64(0))
            lane = b.select(fits, lane, earlier)
            start = b.select(fits, start, b.sub(place, b.mul(earlier, const_i64(step))))
            begin = b.select(fits, begin, column)
            count = b.select(fits, count, b.add(count, const_i64(1)))
            number = b.minimum_int(b.sub(behind, column), b.sub(const_i64(lanes), lane))
            present = b.sub(b.binary("shl", const_i64(1), number), const_i64(1))
            bits = b.binary("or", b.select(fits, bits, const_i64(0)), b.binary("shl", present, lane))
            passed = b.sub(b.add(column, number), begin)
            first_lanes = b.sub(b.binary("shl", const_i64(1), passed), const_i64(1))
            for word, value in enumerate((start, begin, bits, first_lanes)):
                b.store(value, self._word(b.sub(count, const_i64(1)), word), 8)
            column, place = b.add(column, number), b.add(place, b.mul(number, const_i64(step)))
            return b.icmp("slt", column, behind), [column, place, count, start, bits, begin]

        return do_while(b, [column, place, *item], part)[2:]

    def _word(self, item: Value, word: int) -> Value:
        b = self.b
        return b.gep(I64, self.items, b.add(b.mul(item, const_i64(ITEM)), const_i64(word)))

    def _items(self, lanes: int, size: int, first: Value, count: Value) -> _Items:
        """A group of so many. Of one that stands in for others the sums are the same."""
        b, found = self.b, _Items(lanes, [], [], [], [])
        loads = self._loads(lanes)
        for number in range(size):
            item = b.minimum_int(b.add(first, const_i64(number)), b.sub(count, const_i64(1)))
            place, column, *bits = (b.load(I64, self._word(item, word), 8) for word in range(ITEM))
            mask, first_lanes = (b.cast("bitcast", b.cast("trunc", w, integer(lanes)), vector(I1, lanes)) for w in bits)
            found.runs.append(loads.run(place, mask) if lanes <= FEW else place)
            found.masks.append(mask)
            found.firsts.append(first_lanes)
            found.places.append(b.gep(self.element, self.sums.start, column))
        return found

    def _loads(self, lanes: int) -> MaskedLoads:
        return MaskedLoads(self.b, memory_type(self.right.dtype), self.start, lanes, self.column_side.step or 1)

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _sums(self, items: _Items, first: Value, height: int) -> None:
        """Those of rows from one on. The lanes of an item are put side by side in a register before they are stored:
        stores that do it are slow on some processors."""
        b, lanes = self.b, items.lanes
        whole, rows = vector(self.element, lanes), [b.add(first, const_i64(row)) for row in range(height)]
        begin = [self.left.begin(row) for row in rows]
        kept = [(self._sum(place, row), *masks) for place, *masks in items.sums for row in rows]

        def step(k: Value, sums: list[Value]) -> Sequence[Value]:
            """The fewer of windows and factors stay in registers, the others pass."""
            term, totals = self.terms.place(k), list(sums)
            factors = (b.splat(self.left.factor(k, row), lanes) for row in begin)
            windows = (self._window(term, run, lanes) for run in items.runs)
            tall = height > len(items.runs)
            held, passing = (list(windows), factors) if tall else (list(factors), windows)
            for i, x in enumerate(passing):
                for j, y in enumerate(held):
                    place = j * height + i if tall else i * height + j
                    totals[place] = b.fma(x, y, totals[place])
            return totals

        sums = for_loop(b, const_i64(0), self.depth, const_i64(1), self._begun(kept, whole), step)
        for (place, mask, first_lanes), value in zip(kept, sums, strict=True):
            packed = b.intrinsic("llvm.experimental.vector.compress", whole, [value, mask, zero(whole)], [whole])
            b.intrinsic("llvm.masked.store", VOID, [packed, place, first_lanes], [whole, place.type])

    def _window(self, term: Value, run: Run | Value, lanes: int) -> Value:
        """The vector of an item for a step whose terms begin at this place."""
        b, stored, step = self.b, memory_type(self.right.dtype), self.column_side.step or 1
        if isinstance(run, Run):
            return widen(b, self._loads(lanes).load(term, [run]), self.right.dtype)
        start = b.gep(stored, b.gep(stored, self.start, run), term)
        whole, align = vector(stored, lanes), stored.bits // 8
        found = b.load(whole, start, align)
        if step > 1:
            other = b.load(whole, b.gep(stored, start, lanes - 1), align)
            found = b.shuffle(found, other, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)])
        return widen(b, found, self.right.dtype)

    def _begun(self, kept: Sequence[tuple[Value, ...]], whole: LType) -> list[Value]:
        """The sums so far, or +0 where nothing was done."""
        b = self.b

        def load() -> list[Value]:
            loads = [(place, mask, zero(whole)) for place, mask, _ in kept]
            return [b.intrinsic("llvm.masked.expandload", whole, given, [whole]) for given in loads]

        any_done = b.icmp("ne", self.done, const_i64(0))
        return choose(b, any_done, load, lambda: [zero(whole)] * len(kept))

    def _sum(self, place: Value, row: Value) -> Value:
        return self.b.gep(self.element, place, self.b.mul(row, self.sums.strides[0]))


class _Panels:
    """Rows that stand in panels, `TALL` of them side by side."""

    def __init__(self, b: Builder, memory: Memory) -> None:
        self.b, self.memory, self.element = b, memory, register_type(memory.dtype)

    def prepare(self, depth: Value) -> None:
        """There is nothing to list."""

    def begin(self, row: Value) -> Value:
        """Where the first factor of a row lies; the rows of a panel begin side by side."""
        b = self.b
        within = b.binary("and", row, const_i64(TALL - 1))
        panel = b.mul(b.sub(row, within), self.memory.dims[0])
        return b.gep(self.element, self.memory.start, b.add(panel, within))

    def factor(self, k: Value, begin: Value) -> Value:
        b = self.b
        return b.load(self.element, b.gep(self.element, begin, b.mul(k, const_i64(TALL))), self.element.bits // 8)


class _Rows:
    """Rows that are read as they lie; where their terms count through several dims, places are listed first."""

    def __init__(self, b: Builder, memory: Memory, table: PlaceTable, rows: Side, terms: Side, start: Value) -> None:
        self.b, self.dtype, self.table, self.rows, self.terms, self.start = b, memory.dtype, table, rows, terms, start
        self.is_listed = len(terms.digits) > 1

    def prepare(self, depth: Value) -> None:
        if self.is_listed:
            self.table.fill(self.terms.digits, self.terms.first, depth, 1, 1)

    def begin(self, row: Value) -> Value:
        b, digits = self.b, self.rows.digits
        return place_of(b, digits, digits_of(b, digits, b.add(self.rows.first, row)))

    def factor(self, k: Value, begin: Value) -> Value:
        b, stored, (_, step) = self.b, memory_type(self.dtype), self.terms.digits[-1]
        place = self.table.place(k) if self.is_listed else b.mul(b.add(k, self.terms.first), step)
        address = b.gep(stored, self.start, b.add(begin, place))
        return widen(b, b.load(stored, address, stored.bits // 8), self.dtype)


def _sides(frame: Frame, op: Op, name: str, value: IRValue, starts: Sequence[IRValue]) -> tuple[Side, Side, Value]:
    """The last two coordinates of an operand, and where it begins at the others."""
    memory, groups = frame.memories[value], tuple_of(op.attrs[name], int)
    places = [frame.value(start) for start in starts]
    offset, first, second = sides_of(frame.b, memory, places, groups, memref_type(value).strides)
    return first, second, frame.b.gep(memory_type(memory.dtype), memory.start, offset)
