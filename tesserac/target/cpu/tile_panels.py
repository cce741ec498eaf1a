"""Packing into tiles of a matrix unit: `cpu.pack_tiles`.

    left, 16 rows of 32 terms        right, 16 columns of 32 terms
    r0: k0 k1 k2 ... k31             c0: k0 k1   c1: k0 k1   ...  c15: k0 k1
    r1: k0 k1 k2 ... k31             c0: k2 k3   c1: k2 k3   ...
    ...                              ...

A word of 4 bytes has neighbouring terms of one row or column. Whole words of whole tiles are made in vectors, in
the order in which the source lies: long runs of it. What is at the edges goes element by element, and terms that are
missing are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op
from tesserac.schedule.machine import AMX
from tesserac.target.cpu.accesses import prepare_addresses
from tesserac.target.cpu.bodies import ask_ahead, emit_body
from tesserac.target.cpu.frame import REST, Entry, Frame, Lanes, Mode, Run
from tesserac.target.cpu.registers import narrow
from tesserac.target.dims import ceil_div
from tesserac.target.flow import choose, for_loop
from tesserac.target.llvm_types import I16, I32, Value, const_i64, const_int, like, vector, zero

COLUMNS = AMX.rows
PAIR = 2
READ_AHEAD = 8
"""How many terms ahead the source is asked for, as in `panels.py`."""


def emit_pack_tiles(frame: Frame, op: Op) -> None:
    _TilePack(frame, op).emit()


class _TilePack:
    """Elements are 16 bits: a word has two terms."""

    def __init__(self, frame: Frame, op: Op) -> None:
        self.frame, self.b, self.body = frame, frame.b, op.body
        self.left, self.across = op.attrs["left"] is True, op.attrs["across"] is True
        self.memory = frame.memories[op.operands[0]]
        self.terms = AMX.terms(self.memory.dtype)
        self.row, self.column, self.depth, self.count = (frame.value(v) for v in op.operands[1:])

    def emit(self) -> None:
        prepare_addresses(self.frame, self.body)
        b = self.b
        pitch = b.mul(ceil_div(b, self.memory.dims[0], const_i64(self.terms)), const_i64(self.terms * COLUMNS))
        first = b.mul(b.binary("udiv", self.column, const_i64(COLUMNS)), pitch)
        start = b.gep(I16, self.memory.start, b.add(first, b.mul(self.row, const_i64(COLUMNS))))

        whole = b.binary("udiv", self.count, const_i64(COLUMNS))
        step = self.terms if self.across else PAIR
        end = b.mul(b.binary("udiv", self.depth, const_i64(step)), const_i64(step))

        def groups(low: Value, high: Value, body: Callable[[Value, Value], None]) -> None:
            def group(g: Value, _: list[Value]) -> Sequence[Value]:
                body(b.mul(g, const_i64(COLUMNS)), b.gep(I16, start, b.mul(g, pitch)))
                return []

            for_loop(b, low, high, const_i64(1), [], group)

        def each(body: Callable[[Value], None]) -> None:
            def vectors(k: Value, _: list[Value]) -> Sequence[Value]:
                body(k)
                return []

            for_loop(b, const_i64(0), end, const_i64(step), [], vectors)

        if self.across:
            groups(const_i64(0), whole, lambda column, target: each(lambda k: self._terms(column, target, k)))
        else:
            each(lambda k: groups(const_i64(0), whole, lambda column, target: self._columns(column, target, k)))
        groups(const_i64(0), whole, lambda column, target: self._single(column, target, end))
        all_groups = ceil_div(b, self.count, const_i64(COLUMNS))
        groups(whole, all_groups, lambda column, target: self._single(column, target, const_i64(0)))

    def _columns(self, column: Value, target: Value, k: Value) -> None:
        """Two terms of all columns: one row of words of a right tile, one column of those of a left one."""
        b, mode = self.b, Mode(COLUMNS, 1)
        terms = (k, b.add(k, const_i64(1)))
        low, high = (self._bits(self._vectors([term, Run(column, (0,))], mode)[0]) for term in terms)
        for ahead in range(PAIR):
            ask_ahead(self.frame, self.body, [b.add(k, const_i64(READ_AHEAD + ahead)), column])
        upper = b.binary("and", high, const_int(high.type, -(1 << 16)))
        words = b.binary("or", b.binary("lshr", low, const_int(low.type, 16)), upper)
        place = self._word(target, const_i64(0), k)
        if self.left:
            for c in range(COLUMNS):
                b.store(b.extract(words, c), b.gep(I32, place, c * self.terms // PAIR), 4)
        else:
            b.store(words, place, 4)

    def _terms(self, column: Value, target: Value, k: Value) -> None:
        """All terms of a tile, column after column."""
        b, half = self.b, self.terms // 2

        def one(c: Value, _: list[Value]) -> Sequence[Value]:
            parts = self._vectors([Run(k, (0, half)), b.add(column, c)], Mode(half, 2))
            for number, part in enumerate(parts):
                words = b.cast("bitcast", self._halves(part), vector(I32, half // PAIR))
                place = self._word(target, c, b.add(k, const_i64(number * half)))
                if self.left:
                    b.store(words, place, 4)
                    continue
                for word in range(half // PAIR):
                    b.store(b.extract(words, word), b.gep(I32, place, word * COLUMNS), 4)
            return []

        for_loop(b, const_i64(0), const_i64(COLUMNS), const_i64(1), [], one, nonempty=True)

    def _single(self, column: Value, target: Value, low: Value) -> None:
        """Element by element, from term `low` to the end of its tile. Columns that are missing are left as they are."""
        b = self.b
        high = b.mul(ceil_div(b, self.depth, const_i64(self.terms)), const_i64(self.terms))
        width = b.minimum_int(b.sub(self.count, column), const_i64(COLUMNS))

        def term(k: Value, _: list[Value]) -> Sequence[Value]:
            def one(c: Value, _: list[Value]) -> Sequence[Value]:
                def evaluated() -> Sequence[Value]:
                    (entry,) = emit_body(self.frame, self.body, [k, b.add(column, c)], REST)
                    assert isinstance(entry, Value)
                    return [narrow(b, entry, self.memory.dtype)]

                there = b.icmp("slt", k, self.depth)
                (value,) = choose(b, there, evaluated, lambda: [zero(I16)])
                inside = b.binary("and", k, const_i64(PAIR - 1))
                b.store(value, b.gep(I16, self._word(target, c, k), inside), 2)
                return []

            for_loop(b, const_i64(0), width, const_i64(1), [], one)
            return []

        for_loop(b, low, high, const_i64(1), [], term)

    def _word(self, target: Value, column: Value, k: Value) -> Value:
        """The word of a column that holds term k."""
        b = self.b
        tile, inside = b.binary("udiv", k, const_i64(self.terms)), b.binary("urem", k, const_i64(self.terms))
        word = b.binary("udiv", inside, const_i64(PAIR))
        if self.left:
            place = b.add(b.mul(column, const_i64(self.terms // PAIR)), word)
        else:
            place = b.add(b.mul(word, const_i64(COLUMNS)), column)
        return b.gep(I32, target, b.add(b.mul(tile, const_i64(self.terms // PAIR * COLUMNS)), place))

    def _bits(self, value: Value) -> Value:
        return self.b.cast("bitcast", value, like(value.type, I32))

    def _halves(self, value: Value) -> Value:
        """bf16 numbers held in f32, as they are stored: nothing is rounded, their low halves are zero."""
        bits = self._bits(value)
        return self.b.cast("trunc", self.b.binary("lshr", bits, const_int(bits.type, 16)), like(bits.type, I16))

    def _vectors(self, arguments: list[Entry], mode: Mode) -> tuple[Value, ...]:
        (entry,) = emit_body(self.frame, self.body, arguments, mode)
        assert not isinstance(entry, Run)
        parts = entry.parts if isinstance(entry, Lanes) else (entry,) * mode.parts
        return tuple(v if v.type.lanes else self.b.splat(v, mode.lanes) for v in parts)
