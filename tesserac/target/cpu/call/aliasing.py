"""Whether arrays that a call writes lie apart from all others, as code.

Enters: for each array where it starts, where it ends, and whether it is written. Leaves: one bit. A few arrays are
compared in pairs. More are sorted by where they start; then one that begins before an earlier one has ended shares
memory with it, so that a single walk finds out: hundreds of weights are given to a step of training, and pairs of them
are tens of thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import HOST_ATTRIBUTES, call_imported
from tesserac.target.flow import for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, PTR, Value, array, const_i64, const_int

Extent = tuple[Value, Value, Value]
"""Start, end, and a number that is not 0 where the array is written."""
Group = tuple[int, Callable[[Value], Extent]]
"""So many arrays, and the extent of each."""

_WORDS = 3
_FEW = 16
"""Arrays that are compared in pairs."""


def are_apart(b: Builder, groups: Sequence[Group]) -> Value:
    """Whether no array that is written overlaps another. It may doubt it where one is empty."""
    total = sum(count for count, _ in groups)
    rows = b.alloca(array(I64, _WORDS * max(total, 1)), 8)
    before = 0
    for count, extent in groups:
        _put(b, rows, before, count, extent)
        before += count
    return (_pairs if total <= _FEW else _in_order)(b, rows, total)


def _put(b: Builder, rows: Value, before: int, count: int, extent: Callable[[Value], Extent]) -> None:
    def put(number: Value, _: list[Value]) -> Sequence[Value]:
        row = b.add(number, const_i64(before))
        for word, value in enumerate(extent(number)):
            b.store(value, _at(b, rows, row, word), 8)
        return ()

    for_loop(b, const_i64(0), const_i64(count), const_i64(1), [], put)


def _pairs(b: Builder, rows: Value, count: int) -> Value:
    def one(number: Value, seen: list[Value]) -> Sequence[Value]:
        start, end, written = _row(b, rows, number)

        def other(earlier: Value, seen: list[Value]) -> Sequence[Value]:
            other_start, other_end, other_written = _row(b, rows, earlier)
            read = b.icmp("eq", b.binary("or", written, other_written), const_i64(0))
            beside = b.binary("or", b.icmp("ule", end, other_start), b.icmp("ule", other_end, start))
            return [b.binary("and", seen[0], b.binary("or", read, beside))]

        return for_loop(b, const_i64(0), number, const_i64(1), seen, other)

    return for_loop(b, const_i64(0), const_i64(count), const_i64(1), [const_int(I1, 1)], one)[0]


def _in_order(b: Builder, rows: Value, count: int) -> Value:
    compare = _emit_compare(b.module)
    call_imported(b, "libc.qsort", [rows, const_i64(count), const_i64(8 * _WORDS), compare.pointer])

    def walk(number: Value, seen: list[Value]) -> Sequence[Value]:
        most, most_written, apart = seen
        start, end, written = _row(b, rows, number)
        writes = b.icmp("ne", written, const_i64(0))
        reached = b.select(writes, most, most_written)
        beside = b.icmp("uge", start, reached)
        end_written = b.select(writes, end, const_i64(0))
        return [_larger(b, most, end), _larger(b, most_written, end_written), b.binary("and", apart, beside)]

    inits = [const_i64(0), const_i64(0), const_int(I1, 1)]
    return for_loop(b, const_i64(0), const_i64(count), const_i64(1), inits, walk)[2]


def _row(b: Builder, rows: Value, number: Value) -> tuple[Value, ...]:
    return tuple(b.load(I64, _at(b, rows, number, word), 8) for word in range(_WORDS))


def _at(b: Builder, rows: Value, number: Value, word: int) -> Value:
    return b.gep(I64, b.gep(I64, rows, b.mul(number, const_i64(_WORDS))), word)


def _larger(b: Builder, left: Value, right: Value) -> Value:
    return b.select(b.icmp("ugt", left, right), left, right)


def _emit_compare(module: Module) -> Function:
    """i32 tessera.earlier(ptr left, ptr right): as qsort asks, which of two rows starts first."""
    function = module.function("tessera.earlier", I32, [PTR, PTR], attributes=HOST_ATTRIBUTES, linkage="internal")
    b = function.builder
    left, right = (b.load(I64, row, 8) for row in function.args)
    above, below = b.icmp("ugt", left, right), b.icmp("ult", left, right)
    b.ret(b.sub(b.cast("zext", above, I32), b.cast("zext", below, I32)))
    return function
