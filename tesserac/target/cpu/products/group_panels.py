"""Packing of operands that count through several dims of memory: `cpu.pack_groups`. Places of rows and columns are
listed once for a block (`place_tables.py`).

A panel without a break is copied in vectors. One with breaks is put together of masked loads (`masked_panels.py`) where
the processor has them. Elsewhere vectors of a few elements that have one break each are put together of two loads: the
first goes on from the first element, the second ends with the last one, so both lie between elements of the block. What
is left is copied element by element. Where memory is contiguous along k, squares are transposed as in `panels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op, tuple_of
from tesserac.ir.types import MemRefType
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.elements.registers import memory_type, register_type, widen
from tesserac.target.cpu.elements.transpose import exchanged
from tesserac.target.cpu.products.masked_panels import NEAR, RUNS, MaskedLoads, Run
from tesserac.target.cpu.products.panels import SQUARE
from tesserac.target.cpu.products.place_tables import PlaceTable, counted_up, sides_of
from tesserac.target.dims import ceil_div
from tesserac.target.flow import choose, for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, LType, Value, const_i64, const_int, vector
from tesserac.types.dims import Dim


def emit_pack_groups(frame: Frame, op: Op) -> None:
    _GroupPack(frame, op).emit()


class _GroupPack:
    def __init__(self, frame: Frame, op: Op) -> None:
        self.b, self.op = frame.b, op
        width, groups = op.attrs["width"], tuple_of(op.attrs["groups"], int)
        assert isinstance(width, int)
        self.width = width
        panels, rows, columns, source = (frame.memories[value] for value in op.operands[:4])
        self.panels, self.rows, self.columns = panels, PlaceTable(self.b, rows), PlaceTable(self.b, columns)
        self.dtype, self.stored = source.dtype, memory_type(source.dtype)
        self.element = register_type(source.dtype)
        self.lanes = frame.target.lanes(self.element.bits)
        *starts, self.depth, self.count = (frame.value(value) for value in op.operands[4:])
        offset, *sides = sides_of(self.b, source, starts, groups, _strides(op))
        self.row, self.column = sides[::-1] if op.attrs["transposed"] is True else sides
        self.start = self.b.gep(self.stored, source.start, offset)
        self.masked: MaskedLoads | None = None
        if frame.target.has_masks and self.width % self.lanes == 0 and self.column.step in NEAR:
            self.masked = MaskedLoads(self.b, self.stored, self.start, self.lanes, self.column.step)

    def emit(self) -> None:
        b = self.b
        if self.op.attrs["does"] != "pack":
            self.rows.fill(self.row.digits, self.row.first, self.depth, 1, 1)
        if self.op.attrs["does"] == "list":
            return
        self.columns.fill(self.column.digits, self.column.first, self.count, self.width, self.column.step or 1)
        width = const_i64(self.width)

        def panel(p: Value, _: list[Value]) -> Sequence[Value]:
            first = b.mul(p, width)
            target = b.gep(self.element, self.panels.start, b.mul(first, self.panels.dims[0]))
            if self.column.step == 1:
                self._along(first, target)
            elif self.row.step == 1 and self.width % SQUARE == 0:
                self._across(first, target)
            elif self.masked is not None:
                self._in_runs(first, target, lambda: self._alone(first, target))
            else:
                self._alone(first, target)
            return []

        for_loop(b, const_i64(0), ceil_div(b, self.count, width), const_i64(1), [], panel)

    def _line(self, target: Value, k: Value) -> Value:
        return self.b.gep(self.element, target, self.b.mul(k, const_i64(self.width)))

    def _load(self, place: Value, lanes: int = 0) -> Value:
        type_: LType = vector(self.stored, lanes) if lanes else self.stored
        value = self.b.load(type_, self.b.gep(self.stored, self.start, place), self.stored.bits // 8)
        return widen(self.b, value, self.dtype)

    def _store(self, value: Value, line: Value, column: int | Value) -> None:
        self.b.store(value, self.b.gep(self.element, line, column), self.element.bits // 8)

    def _each_row(self, body: Callable[[Value, Value], None], target: Value) -> None:
        def row(k: Value, _: list[Value]) -> Sequence[Value]:
            body(self.rows.place(k), self._line(target, k))
            return []

        for_loop(self.b, const_i64(0), self.depth, const_i64(1), [], row)

    # --- contiguous along the columns ---------------------------------------------------------------------------------

    def _along(self, first: Value, target: Value) -> None:
        b = self.b
        last = b.add(first, const_i64(self.width - 1))
        whole = b.icmp("eq", self.columns.breaks(first, last), const_i64(0))
        def broken() -> None:
            fits = const_int(I1, 1)
            for start in range(0, self.width, self._few):
                fits = b.binary("and", fits, self._has_two_runs(b.add(first, const_i64(start))))
            _either(b, fits, lambda: self._in_pairs(first, target), lambda: self._alone(first, target))

        in_runs = broken if self.masked is None else lambda: self._in_runs(first, target, broken)
        _either(b, whole, lambda: self._in_vectors(first, target), in_runs)

    @property
    def _few(self) -> int:
        """Elements of a vector in a panel with breaks."""
        return SQUARE if self.width % SQUARE == 0 else 2

    def _has_two_runs(self, first: Value) -> Value:
        b = self.b
        last = b.add(first, const_i64(self._few - 1))
        reach = b.sub(self.columns.place(last), self.columns.place(first))
        one = b.icmp("sle", self.columns.breaks(first, last), const_i64(1))
        return b.binary("and", one, b.icmp("sge", reach, const_i64(self._few - 1)))

    def _in_vectors(self, first: Value, target: Value) -> None:
        b, lanes, begin = self.b, min(self.lanes, self.width & -self.width), self.columns.place(first)

        def row(place: Value, line: Value) -> None:
            for c in range(0, self.width, lanes):
                self._store(self._load(b.add(b.add(place, begin), const_i64(c)), lanes), line, c)

        self._each_row(row, target)

    def _in_pairs(self, first: Value, target: Value) -> None:
        b, few = self.b, self._few
        parts = list[tuple[Value, Value, Value]]()
        for start in range(0, self.width, few):
            column = b.add(first, const_i64(start))
            begin, end = (self.columns.place(b.add(column, const_i64(i))) for i in (0, few - 1))
            apart = b.sub(self.columns.places(column, few), b.splat(begin, few))
            upto = b.icmp("eq", apart, counted_up(few))
            parts.append((begin, b.sub(end, const_i64(few - 1)), upto))

        def row(place: Value, line: Value) -> None:
            for number, (begin, other, upto) in enumerate(parts):
                loads = [self._load(b.add(place, at), few) for at in (begin, other)]
                self._store(b.select(upto, *loads), line, number * few)

        self._each_row(row, target)

    def _alone(self, first: Value, target: Value) -> None:
        self._singly(first, target, const_i64(0), self.depth)

    # --- with masks ---------------------------------------------------------------------------------------------------

    def _vectors(self, first: Value) -> list[Value]:
        """The first column of each vector of a panel."""
        return [self.b.add(first, const_i64(c)) for c in range(0, self.width, self.lanes)]

    def _in_runs(self, first: Value, target: Value, otherwise: Callable[[], None]) -> None:
        """By how many runs the vector with the most of them has; something else where these are too many."""
        b, most = self.b, const_i64(0)
        for column in self._vectors(first):
            last = b.minimum_int(b.add(column, const_i64(self.lanes - 1)), b.sub(self.count, const_i64(1)))
            most = b.maximum_int(most, self.columns.breaks(column, last))

        def at_most(runs: int, more: Callable[[], None]) -> Callable[[], None]:
            fits = b.icmp("slt", most, const_i64(runs))
            return lambda: _either(b, fits, lambda: self._of_runs(first, target, runs), more)

        for runs in reversed(RUNS):
            otherwise = at_most(runs, otherwise)
        otherwise()

    def _of_runs(self, first: Value, target: Value, most: int) -> None:
        b, loads = self.b, self.masked
        assert loads is not None
        parts = list[list[Run]]()
        for column in self._vectors(first):
            places, breaks = self.columns.places(column, self.lanes), self.columns.all_breaks(column, self.lanes)
            parts.append(loads.runs(places, breaks, b.sub(self.count, column), most))

        def row(place: Value, line: Value) -> None:
            for number, runs in enumerate(parts):
                self._store(widen(b, loads.load(place, runs), self.dtype), line, number * self.lanes)

        self._each_row(row, target)

    # --- contiguous along the rows, or not at all ---------------------------------------------------------------------

    def _across(self, first: Value, target: Value) -> None:
        b = self.b
        places = [self.columns.place(b.add(first, const_i64(c))) for c in range(self.width)]
        whole = b.binary("and", self.depth, const_i64(-SQUARE))

        def rows(k: Value, _: list[Value]) -> Sequence[Value]:
            run = b.icmp("eq", self.rows.breaks(k, b.add(k, const_i64(SQUARE - 1))), const_i64(0))
            after = b.add(k, const_i64(SQUARE))
            _either(b, run, lambda: self._square(k, places, target), lambda: self._singly(first, target, k, after))
            return []

        for_loop(b, const_i64(0), whole, const_i64(SQUARE), [], rows)
        self._singly(first, target, whole, self.depth)

    def _square(self, k: Value, places: Sequence[Value], target: Value) -> None:
        b, place, line = self.b, self.rows.place(k), self._line(target, k)
        for c in range(0, self.width, SQUARE):
            loads = [self._load(b.add(place, column), SQUARE) for column in places[c : c + SQUARE]]
            for lane, row in enumerate(exchanged(b, loads)):
                self._store(row, line, lane * self.width + c)

    def _singly(self, first: Value, target: Value, low: Value, high: Value) -> None:
        b = self.b

        def row(k: Value, _: list[Value]) -> Sequence[Value]:
            place, line = self.rows.place(k), self._line(target, k)

            def column(c: Value, _: list[Value]) -> Sequence[Value]:
                self._store(self._load(b.add(place, self.columns.place(b.add(first, c)))), line, c)
                return []

            for_loop(b, const_i64(0), const_i64(self.width), const_i64(1), [], column, unroll=True)
            return []

        for_loop(b, low, high, const_i64(1), [], row)


def _strides(op: Op) -> tuple[Dim, ...]:
    type_ = op.operands[3].type
    assert isinstance(type_, MemRefType)
    return type_.strides


def _either(b: Builder, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
    def arm(run: Callable[[], None]) -> Callable[[], Sequence[Value]]:
        def body() -> Sequence[Value]:
            run()
            return ()

        return body

    choose(b, condition, arm(yes), arm(no))
