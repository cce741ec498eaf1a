"""Blocks of memory rows for columns: `cpu.transpose`.

    memory, a line after the other      scratch
    a0 a1 a2 ...                        a0 b0 c0 ...
    b0 b1 b2 ...               ==>      a1 b1 c1 ...
    c0 c1 c2 ...                        a2 b2 c2 ...

Squares of as many elements as a vector has lanes: each line of memory is read whole, and only once, however far it is
from the next. The last squares reach back over those before them. What is smaller than a square is cut into squares of
fewer lanes, as the 9 weights of each channel, and what is smaller than these goes one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Op
from tesserac.target.cpu.elements.accesses import prepare_addresses
from tesserac.target.cpu.elements.bodies import emit_body, prefetch
from tesserac.target.cpu.elements.frame import REST, Entry, Frame, Lanes, Mode, Run
from tesserac.target.flow import choose, for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import Value, const_i64

LARGEST_SQUARE = 16
"""Lanes of a square, at most: as many vectors as its lanes are held at once."""
SMALLEST_SQUARE = 4
AHEAD = 16
"""How many lines ahead memory is asked for: each lies in a page of its own, where no processor foresees it."""


def emit_transpose(frame: Frame, op: Op) -> None:
    _Turn(frame, op).emit()


class _Turn:
    """Element (r, c) of the body goes to row r and column c; what the body reads is contiguous along r."""

    def __init__(self, frame: Frame, op: Op) -> None:
        self.frame, self.b, self.body = frame, frame.b, op.body
        self.memory = frame.memories[op.operands[0]]
        self.rows, self.columns = (frame.value(v) for v in op.operands[1:])
        self.align = self.memory.element.bits // 8
        self.lanes = min(frame.target.lanes(self.memory.element.bits), LARGEST_SQUARE)

    def emit(self) -> None:
        prepare_addresses(self.frame, self.body)
        self._of_at_most(self.lanes)

    def _of_at_most(self, lanes: int) -> Sequence[Value]:
        """Squares of so many lanes, or of fewer where that is more than there are rows or columns."""
        if lanes < min(SMALLEST_SQUARE, self.lanes):
            return self._one_by_one()
        b, least = self.b, const_i64(lanes)
        fits = b.binary("and", b.icmp("sge", self.rows, least), b.icmp("sge", self.columns, least))
        return choose(b, fits, lambda: self._in_squares(lanes), lambda: self._of_at_most(lanes // 2))

    def _in_squares(self, lanes: int) -> Sequence[Value]:
        b, side = self.b, const_i64(lanes)
        last_row, last_column = b.sub(self.rows, side), b.sub(self.columns, side)

        def lines(start: Value, _: list[Value]) -> Sequence[Value]:
            column = b.minimum_int(start, last_column)

            def square(at: Value, _: list[Value]) -> Sequence[Value]:
                self._square(lanes, b.minimum_int(at, last_row), column)
                return []

            for_loop(b, const_i64(0), self.rows, side, [], square, nonempty=True)
            return []

        for_loop(b, const_i64(0), self.columns, side, [], lines, nonempty=True)
        return []

    def _square(self, count: int, row: Value, column: Value) -> None:
        b = self.b
        columns = Lanes(tuple(b.add(column, const_i64(c)) for c in range(count)))
        for c in range(count):
            prefetch(self.frame, self.body, [row, b.add(column, const_i64(AHEAD + c))])
        values = self._evaluate([Run(row, (0,) * count), columns], Mode(count, count))
        for lane, vector in enumerate(exchanged(b, values)):
            b.store(vector, self._place(b.add(row, const_i64(lane)), column), self.align)

    def _one_by_one(self) -> Sequence[Value]:
        b = self.b

        def row(r: Value, _: list[Value]) -> Sequence[Value]:
            def column(c: Value, _: list[Value]) -> Sequence[Value]:
                (value,) = self._evaluate([r, c], REST)
                b.store(value, self._place(r, c), self.align)
                return []

            for_loop(b, const_i64(0), self.columns, const_i64(1), [], column)
            return []

        for_loop(b, const_i64(0), self.rows, const_i64(1), [], row)
        return []

    def _place(self, row: Value, column: Value) -> Value:
        place = self.b.add(self.b.mul(row, self.memory.strides[0]), column)
        return self.b.gep(self.memory.element, self.memory.start, place)

    def _evaluate(self, arguments: list[Entry], mode: Mode) -> tuple[Value, ...]:
        (entry,) = emit_body(self.frame, self.body, arguments, mode)
        assert not isinstance(entry, Run)
        return entry.parts if isinstance(entry, Lanes) else (entry,)


def exchanged(b: Builder, rows: Sequence[Value], beside: int = 1) -> list[Value]:
    """As many vectors as each has lanes, a power of two: rows for columns. Or of vectors in which several such squares
    lie beside each other, each by itself."""
    count, found = len(rows), list(rows)
    lanes = count * beside
    low = [start + lane // 2 + lanes * (lane % 2) for start in range(0, lanes, count) for lane in range(count)]
    high = [lane + count // 2 for lane in low]
    for _ in range(count.bit_length() - 1):
        pairs = list(zip(found[: count // 2], found[count // 2 :], strict=True))
        found = [b.shuffle(x, y, mask) for x, y in pairs for mask in (low, high)]
    return found
