"""Packing into tiles of a matrix unit: `cpu.pack_tiles`.

    left, 16 rows of 32 terms        right, 16 columns of 32 terms
    r0: k0 k1 k2 ... k31             c0: k0 k1   c1: k0 k1   ...  c15: k0 k1
    r1: k0 k1 k2 ... k31             c0: k2 k3   c1: k2 k3   ...
    ...                              ...

A word of 4 bytes has neighbouring terms of one row or column: two of bf16, as here, four of i8, of which a tile has 64.
VNNI multiplies bytes without a sign by bytes with one: for it 128 is added to those of the left operand. Whole words of
whole tiles are made in vectors, in the order in which the source lies: long runs of it. What is at the edges goes
element by element, and terms that are missing are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op
from tesserac.schedule.machine import AMX
from tesserac.target.cpu.elements.accesses import prepare_addresses
from tesserac.target.cpu.elements.bodies import emit_body, prefetch
from tesserac.target.cpu.elements.frame import REST, Entry, Frame, Lanes, Mode, Run
from tesserac.target.cpu.elements.registers import narrow
from tesserac.target.dims import ceil_div
from tesserac.target.flow import choose, for_loop
from tesserac.target.llvm_types import I16, I32, Value, const_i64, const_int, integer, like, vector, zero

COLUMNS = AMX.rows
WORD = 4
READ_AHEAD = 8
"""How many terms ahead the source is asked for, as in `panels.py`."""


def emit_pack_tiles(frame: Frame, op: Op) -> None:
    _TilePack(frame, op).emit()


class _TilePack:
    """A word has `inside` terms."""

    def __init__(self, frame: Frame, op: Op) -> None:
        self.frame, self.b, self.body = frame, frame.b, op.body
        self.left, self.across = op.attrs["left"] is True, op.attrs["across"] is True
        self.memory = frame.memories[op.operands[0]]
        self.terms, self.inside = AMX.terms(self.memory.dtype), WORD // self.memory.dtype.bytes
        self.stored = integer(self.memory.dtype.bits)
        without_sign = self.left and self.inside == WORD and frame.target.tiles == "vnni"
        self.added = 0x80 if without_sign else 0
        self.row, self.column, self.depth, self.count = (frame.value(v) for v in op.operands[1:])

    def emit(self) -> None:
        prepare_addresses(self.frame, self.body)
        b = self.b
        pitch = b.mul(ceil_div(b, self.memory.dims[0], const_i64(self.terms)), const_i64(self.terms * COLUMNS))
        first = b.mul(b.binary("udiv", self.column, const_i64(COLUMNS)), pitch)
        start = b.gep(self.stored, self.memory.start, b.add(first, b.mul(self.row, const_i64(COLUMNS))))

        whole = b.binary("udiv", self.count, const_i64(COLUMNS))
        step = self.terms if self.across else self.inside
        end = b.mul(b.binary("udiv", self.depth, const_i64(step)), const_i64(step))

        def groups(low: Value, high: Value, body: Callable[[Value, Value], None]) -> None:
            def group(g: Value, _: list[Value]) -> Sequence[Value]:
                body(b.mul(g, const_i64(COLUMNS)), b.gep(self.stored, start, b.mul(g, pitch)))
                return []

            for_loop(b, low, high, const_i64(1), [], group)

        def each(body: Callable[[Value], None]) -> None:
            def vectors(k: Value, _: list[Value]) -> Sequence[Value]:
                body(k)
                return []

            for_loop(b, const_i64(0), end, const_i64(step), [], vectors)

        all_groups = ceil_div(b, self.count, const_i64(COLUMNS))
        if self.across:
            groups(const_i64(0), all_groups, lambda column, target: each(lambda k: self._terms(column, target, k)))
            groups(const_i64(0), all_groups, lambda column, target: self._single(column, target, end))
            return
        each(lambda k: groups(const_i64(0), whole, lambda column, target: self._columns(column, target, k)))
        groups(const_i64(0), whole, lambda column, target: self._single(column, target, end))
        groups(whole, all_groups, lambda column, target: self._single(column, target, const_i64(0)))

    def _columns(self, column: Value, target: Value, k: Value) -> None:
        """The terms of a word of all columns: one row of words of a right tile, one column of those of a left one."""
        b, mode = self.b, Mode(COLUMNS, 1)
        terms = [b.add(k, const_i64(number)) for number in range(self.inside)]
        words = self._flipped(self._words([self._vectors([term, Run(column, (0,))], mode)[0] for term in terms]))
        for ahead in range(self.inside):
            prefetch(self.frame, self.body, [b.add(k, const_i64(READ_AHEAD + ahead)), column])
        place = self._word(target, const_i64(0), k)
        if self.left:
            for c in range(COLUMNS):
                b.store(b.extract(words, c), b.gep(I32, place, c * self.terms // self.inside), 4)
        else:
            b.store(words, place, 4)

    def _words(self, terms: Sequence[Value]) -> Value:
        """The words of all columns of which these are the terms."""
        b = self.b
        if self.inside == WORD:
            pairs = [self._side_by_side(*terms[i : i + 2]) for i in (0, 2)]
            halves = (b.cast("bitcast", pair, vector(I16, COLUMNS)) for pair in pairs)
            return b.cast("bitcast", self._side_by_side(*halves), vector(I32, COLUMNS))
        low, high = map(self._bits, terms)
        upper = b.binary("and", high, const_int(high.type, -(1 << 16)))
        return b.binary("or", b.binary("lshr", low, const_int(low.type, 16)), upper)

    def _side_by_side(self, left: Value, right: Value) -> Value:
        return self.b.shuffle(left, right, [lane for i in range(COLUMNS) for lane in (i, COLUMNS + i)])

    def _flipped(self, words: Value) -> Value:
        """Bytes with 128 added, where that is wanted: their highest bit is the other."""
        if not self.added:
            return words
        mask = self.added * 0x01010101
        return self.b.binary("xor", words, const_int(words.type, mask - (1 << 32)))

    def _terms(self, column: Value, target: Value, k: Value) -> None:
        """All terms of a tile, column after column."""
        b, half = self.b, self.terms // 2

        def one(c: Value, _: list[Value]) -> Sequence[Value]:
            parts = self._vectors([Run(k, (0, half)), b.add(column, c)], Mode(half, 2))
            for number, part in enumerate(parts):
                words = self._flipped(b.cast("bitcast", self._halves(part), vector(I32, half // self.inside)))
                place = self._word(target, c, b.add(k, const_i64(number * half)))
                if self.left:
                    b.store(words, place, 4)
                    continue
                for word in range(half // self.inside):
                    b.store(b.extract(words, word), b.gep(I32, place, word * COLUMNS), 4)
            return []

        for_loop(b, const_i64(0), self._width(column), const_i64(1), [], one, nonempty=True)

    def _single(self, column: Value, target: Value, low: Value) -> None:
        """Element by element, from term `low` to the end of its tile. Columns that are missing are left as they are."""
        b = self.b
        high = b.mul(ceil_div(b, self.depth, const_i64(self.terms)), const_i64(self.terms))
        width = self._width(column)

        def term(k: Value, _: list[Value]) -> Sequence[Value]:
            def one(c: Value, _: list[Value]) -> Sequence[Value]:
                def evaluated() -> Sequence[Value]:
                    (entry,) = emit_body(self.frame, self.body, [k, b.add(column, c)], REST)
                    assert isinstance(entry, Value)
                    value = narrow(b, entry, self.memory.dtype)
                    return [b.binary("xor", value, const_int(value.type, -self.added)) if self.added else value]

                there = b.icmp("slt", k, self.depth)
                (value,) = choose(b, there, evaluated, lambda: [zero(self.stored)])
                inside = b.binary("and", k, const_i64(self.inside - 1))
                b.store(value, b.gep(self.stored, self._word(target, c, k), inside), self.memory.dtype.bytes)
                return []

            for_loop(b, const_i64(0), width, const_i64(1), [], one)
            return []

        for_loop(b, low, high, const_i64(1), [], term)

    def _width(self, column: Value) -> Value:
        """How many columns there are of a group."""
        return self.b.minimum_int(self.b.sub(self.count, column), const_i64(COLUMNS))

    def _word(self, target: Value, column: Value, k: Value) -> Value:
        """The word of a column that holds term k."""
        b = self.b
        tile, inside = b.binary("udiv", k, const_i64(self.terms)), b.binary("urem", k, const_i64(self.terms))
        word = b.binary("udiv", inside, const_i64(self.inside))
        if self.left:
            place = b.add(b.mul(column, const_i64(self.terms // self.inside)), word)
        else:
            place = b.add(b.mul(word, const_i64(COLUMNS)), column)
        return b.gep(I32, target, b.add(b.mul(tile, const_i64(self.terms // self.inside * COLUMNS)), place))

    def _bits(self, value: Value) -> Value:
        return self.b.cast("bitcast", value, like(value.type, I32))

    def _halves(self, value: Value) -> Value:
        """Numbers as they are stored. bf16 is held in f32: nothing is rounded, low halves are zero."""
        if self.inside == WORD:
            return value
        bits = self._bits(value)
        return self.b.cast("trunc", self.b.binary("lshr", bits, const_int(bits.type, 16)), like(bits.type, I16))

    def _vectors(self, arguments: list[Entry], mode: Mode) -> tuple[Value, ...]:
        (entry,) = emit_body(self.frame, self.body, arguments, mode)
        assert not isinstance(entry, Run)
        parts = entry.parts if isinstance(entry, Lanes) else (entry,) * mode.parts
        return tuple(v if v.type.lanes else self.b.splat(v, mode.lanes) for v in parts)
