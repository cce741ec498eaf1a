"""Sorts of one row: by digits (`radix.py`), of a short one by insertion.

Places stand beside keys in one word where keys differ in their lower 32 bits alone, unless there are more places than
such a half counts. Where elements are wanted and not their places, elements are what moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices
from tesserac.ir.indexed import gives_elements
from tesserac.target.cpu.elements.frame import Frame, Memory
from tesserac.target.cpu.indexed.radix import (
    HALF,
    Elements,
    Form,
    Keys,
    Line,
    Packed,
    Radix,
    Wide,
    array,
    for_each,
    line_of,
)
from tesserac.target.flow import choose, do_while, for_loop, if_else, if_then
from tesserac.target.llvm_types import Value, const_i64
from tesserac.tile.cpu.dialect import sort_coordinates

SHORT = 48
"""Rows up to this length are sorted by insertion: counting digits would take longer."""


def emit_sort(frame: Frame, op: Op) -> None:
    sort = _Sort(frame, op)
    keys, b = Keys(sort.source.dtype, op.attrs["descending"] is True), frame.b
    if gives_elements(op):
        sort.emit(Elements(keys))
    elif keys.dtype.is_float and keys.dtype.bits > HALF:
        sort.emit(Wide(keys))
    else:
        fits = b.icmp("ult", sort.size, const_i64(1 << HALF))
        if keys.dtype.bits > HALF:
            fits = b.binary("and", fits, b.icmp("ult", sort.differing_bits(keys), const_i64(1 << HALF)))
        if_else(b, fits, lambda: sort.emit(Packed(keys)), lambda: sort.emit(Wide(keys)))


class _Sort:
    def __init__(self, frame: Frame, op: Op) -> None:
        self.frame, self.b = frame, frame.b
        mem, at, out, to = sort_coordinates(op)
        from_dim, to_dim = indices(op, "dims")
        self.source, target = frame.memories[mem], frame.memories[out]
        self.row = line_of(self.source, self._address(self.source, at), self.source.strides[from_dim])
        self.target = line_of(target, self._address(target, to), target.strides[to_dim])
        self.size = self.source.dims[from_dim]
        self.room = [frame.memories[v].start for v in op.operands[-3:]]

    def _address(self, memory: Memory, at: Sequence[IRValue]) -> Value:
        place = const_i64(0)
        for value, stride in zip(at, memory.strides, strict=True):
            place = self.b.add(place, self.b.mul(self.frame.value(value), stride))
        return self.b.gep(memory.element, memory.start, place)

    def emit(self, form: Form) -> None:
        b, (first, second, counts) = self.b, self.room
        here, spare = (array(form, start).behind(b, const_i64(1)).start for start in (first, second))
        short = b.icmp("slt", self.size, const_i64(SHORT + 1))
        [done] = choose(
            b, short, lambda: [self._by_insertion(form, here)], lambda: [self._by_digits(form, here, spare, counts)]
        )
        for_each(b, self.size, lambda i: self.target.store(b, form.given(b, array(form, done).load(b, i)), i))

    def differing_bits(self, keys: Keys) -> Value:
        """Those in which keys differ: that some of them have and not all."""
        b, none, every = self.b, const_i64(0), const_i64(-1)

        def look(i: Value, held: list[Value]) -> Sequence[Value]:
            key = keys.of(b, self.row.load(b, i))
            return [b.binary("or", held[0], key), b.binary("and", held[1], key)]

        some, all_ = for_loop(b, const_i64(0), self.size, const_i64(1), [none, every], look)
        return b.binary("xor", some, all_)

    def _by_digits(self, form: Form, here: Value, spare: Value, counts: Value) -> Value:
        b, radix = self.b, Radix(self.b, form, here, spare, counts)

        def keep(i: Value, held: list[Value]) -> Sequence[Value]:
            return radix.keep(form.entry(b, self.row.load(b, i), i), i, held)

        held = for_loop(b, const_i64(0), self.size, const_i64(1), radix.no_bits(), keep)
        return radix.finish(self.size, held)

    def _by_insertion(self, form: Form, here: Value) -> Value:
        """What stands before the first entry is read and not looked at: there is room for it."""
        for_each(self.b, self.size, lambda i: self._insert(form, array(form, here), i))
        return here

    def _insert(self, form: Form, entries: Line, i: Value) -> None:
        b, entry = self.b, form.entry(self.b, self.row.load(self.b, i), i)
        key = form.key(b, entry)

        def search(held: list[Value]) -> tuple[Value, Sequence[Value]]:
            [place] = held
            before = b.sub(place, const_i64(1))
            other = entries.load(b, before)
            larger = b.binary("and", b.icmp("ugt", form.key(b, other), key), b.icmp("sgt", place, const_i64(0)))
            if_then(b, larger, lambda: entries.store(b, other, place))
            return larger, [b.select(larger, before, place)]

        [place] = do_while(b, [i], search)
        entries.store(b, entry, place)
