"""Digits of keys: how often each stands in a block, where its keys go, and the keys on their way.

A warp has 512 keys of a block, 32 side by side at a time. Where keys are moved, lanes with equal digits find each other
by ballots; each has its rank among them, behind those that the warp has counted before. So ranks follow the order of
the keys. Where they are counted alone, counters have no order, and all lanes add to them at once. What goes from room
to room is a word: the key of an element, beside its place, or the element itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices
from tesserac.ir.indexed import gives_elements
from tesserac.target import flow
from tesserac.target.llvm_types import I32, I64, VOID, Value, const_i64, const_int
from tesserac.target.nvptx.context import Context
from tesserac.target.nvptx.memory.line import Line
from tesserac.target.nvptx.products.copies import barrier
from tesserac.target.nvptx.registers.conversions import convert
from tesserac.target.nvptx.registers.fragments import shuffle
from tesserac.target.sort_keys import sort_key
from tesserac.tile.gpu.kernels.radix import BLOCK, COUNTERS, DIGITS, ITEMS, WARPS
from tesserac.tile.gpu.model.values import integer, memory
from tesserac.types.dtype import F32


@dataclass(frozen=True)
class _Item:
    """One word of a thread: its place in the row, whether there is one, its digit, its rank in the warp."""

    place: Value
    exists: Value
    word: Value
    digit: Value
    rank: Value


AT_ONCE = 4
"""Counts that a thread which sums them up reads at once."""


class _Operands:
    """What an operation about keys is given: `source`, where they come from, one for each place of a row, and the rest
    behind it."""

    def __init__(self, ctx: Context, op: Op) -> None:
        self.ctx, self.b = ctx, ctx.b
        rank = len(memory(op.operands[1]).dims)
        self.block, self.rest = ctx.indices[op.operands[0]], op.operands[2 + rank :]
        self.first, self.dims, self.elements = op.attrs["first"] is True, indices(op, "dims"), gives_elements(op)
        self.descending, self.shift = op.attrs["descending"] is True, integer(op, "shift")
        at = [ctx.indices[v] for v in op.operands[2 : 2 + rank]]
        dim = self.dims[0] if self.first else 1
        self.source, self.size = Line(ctx, op.operands[1], at, dim), ctx.dim(memory(op.operands[1]).dims[dim])

    def word(self, i: Value) -> Value:
        stored = self.source.load(i)
        return self._key(stored) if self.first and not self.elements else stored

    def _key(self, stored: Value) -> Value:
        dtype = self.source.dtype
        number = convert(self.b, stored, dtype, F32) if dtype.is_float and dtype.bits < 32 else stored
        key = sort_key(self.b, number, dtype, self.descending)
        return key if dtype.bits > 32 else self.b.cast("trunc", key, I32)

    def digit(self, word: Value) -> Value:
        b, key = self.b, self._key(word) if self.elements else word
        digit = b.binary("and", b.binary("lshr", key, const_int(key.type, self.shift)), const_int(key.type, DIGITS - 1))
        return digit if digit.type == I32 else b.cast("trunc", digit, I32)


class _Ranks:
    """Ranks of the keys of a block among those of a warp with the same digit; how many each warp has."""

    def __init__(self, ctx: Context, given: _Operands, counters: IRValue) -> None:
        self.ctx, self.b, self.given = ctx, ctx.b, given
        self.all = Line(ctx, counters)
        self.warp = wide(ctx, ctx.b.binary("lshr", ctx.thread, const_int(I32, 5)))
        self.mine = Line(ctx, counters, (self.b.mul(self.warp, const_i64(COUNTERS)),))
        self.earlier = self.b.sub(self.b.binary("shl", const_int(I32, 1), ctx.lane), const_int(I32, 1))
        """A bit for each lane before this one."""

    def items(self) -> list[_Item]:
        """Keys in the order of the row, lane by lane; behind it all counters are complete."""
        items = [self._ranked(*word) for word in self._words()]
        barrier(self.ctx)
        return items

    def count(self) -> None:
        """All digits: the hardware joins lanes that add one to the same counter."""
        for _, exists, word in self._words():
            digit = self.b.select(exists, self.given.digit(word), const_int(I32, DIGITS))
            self.mine.increase(wide(self.ctx, digit))
        barrier(self.ctx)

    def _words(self) -> list[tuple[Value, Value, Value]]:
        """Those of the thread; behind it all counters are zero."""
        ctx, b = self.ctx, self.b

        def clear(i: Value, _: list[Value]) -> list[Value]:
            self.all.store(const_int(I32, 0), i)
            return []

        flow.for_loop(b, wide(ctx, ctx.thread), const_i64(WARPS * COUNTERS), const_i64(ctx.threads), [], clear)
        barrier(ctx)
        start = b.add(b.mul(self.given.block, const_i64(BLOCK)), b.mul(self.warp, const_i64(32 * ITEMS)))
        first = b.add(start, wide(ctx, ctx.lane))
        return [self._word(b.add(first, const_i64(32 * i))) for i in range(ITEMS)]

    def _word(self, place: Value) -> tuple[Value, Value, Value]:
        """An absent word is that of the first element, which is read instead."""
        exists = self.b.icmp("slt", place, self.given.size)
        return place, exists, self.given.word(self.b.select(exists, place, const_i64(0)))

    def _ranked(self, place: Value, exists: Value, word: Value) -> _Item:
        b = self.b
        digit = b.select(exists, self.given.digit(word), const_int(I32, DIGITS))
        same = self._equal_lanes(digit)
        below, at = self._bits(b.binary("and", same, self.earlier)), wide(self.ctx, digit)
        before = self.mine.load(at)
        self._together()
        more = b.add(before, self._bits(same))
        flow.if_then(b, b.icmp("eq", below, const_int(I32, 0)), lambda: self.mine.store(more, at))
        self._together()
        return _Item(place, exists, word, digit, b.add(before, below))

    def _equal_lanes(self, digit: Value) -> Value:
        """A bit for each lane with this digit, found bit by bit: a match of whole words asks for one word after the
        other."""
        b, same = self.b, const_int(I32, -1)
        for place in range(DIGITS.bit_length()):
            one = b.icmp("ne", b.binary("and", digit, const_int(I32, 1 << place)), const_int(I32, 0))
            lanes = b.intrinsic("llvm.nvvm.vote.ballot.sync", I32, [const_int(I32, -1), one])
            same = b.binary("and", same, b.select(one, lanes, b.binary("xor", lanes, const_int(I32, -1))))
        return same

    def _bits(self, word: Value) -> Value:
        return self.b.intrinsic("llvm.ctpop", I32, [word], [I32])

    def _together(self) -> None:
        """What lanes of a warp wrote is seen by all of them."""
        self.b.intrinsic("llvm.nvvm.bar.warp.sync", VOID, [const_int(I32, -1)])


def wide(ctx: Context, value: Value) -> Value:
    return ctx.b.cast("zext", value, I64)


def emit_counts(ctx: Context, op: Op) -> None:
    given = _Operands(ctx, op)
    counts, row, counters = given.rest
    ranks = _Ranks(ctx, given, counters)
    ranks.count()
    b, sum_, digit = ctx.b, const_int(I32, 0), wide(ctx, ctx.thread)
    for warp in range(WARPS):
        sum_ = b.add(sum_, ranks.all.load(b.add(digit, const_i64(warp * COUNTERS))))
    Line(ctx, counts, (ctx.indices[row], digit)).store(sum_, given.block)


def emit_offsets(ctx: Context, op: Op) -> None:
    """Every thread sums up some blocks; behind the sums of the threads before it, it goes through them again."""
    digit, counts, totals, row, room = op.operands
    b, thread, at = ctx.b, wide(ctx, ctx.thread), (ctx.indices[row], ctx.indices[digit])
    held, blocks = Line(ctx, counts, at), ctx.dim(memory(counts).dims[2])
    each = b.binary("udiv", b.add(blocks, const_i64(ctx.threads - 1)), const_i64(ctx.threads))
    low = b.minimum_int(b.mul(thread, each), blocks)
    high = b.minimum_int(b.add(low, each), blocks)

    def some(i: Value) -> list[tuple[Value, Value, Value]]:
        """Counts of several blocks, on their way at once, each with its place, and whether it is one of the thread."""
        places = [b.add(i, const_i64(k)) for k in range(AT_ONCE)]
        present = [b.icmp("slt", place, high) for place in places]
        found = [held.load(b.select(here, at, low)) for here, at in zip(present, places, strict=True)]
        counts = [b.select(here, count, const_int(I32, 0)) for here, count in zip(present, found, strict=True)]
        return list(zip(places, present, counts, strict=True))

    def add(i: Value, sums: list[Value]) -> list[Value]:
        total = sums[0]
        for _, _, count in some(i):
            total = b.add(total, count)
        return [total]

    def replace(i: Value, before: list[Value]) -> list[Value]:
        total = before[0]
        for place, here, count in some(i):
            flow.if_then(b, here, partial(held.store, total, place))
            total = b.add(total, count)
        return [total]

    (mine,) = flow.for_loop(b, low, high, const_i64(AT_ONCE), [const_int(I32, 0)], add)
    whole = _scanned(ctx, Line(ctx, room), mine)
    flow.for_loop(b, low, high, const_i64(AT_ONCE), [b.sub(whole, mine)], replace)
    last = b.icmp("eq", thread, const_i64(ctx.threads - 1))
    flow.if_then(b, last, lambda: Line(ctx, totals, at[:1]).store(whole, at[1]))


def emit_places(ctx: Context, op: Op) -> None:
    given = _Operands(ctx, op)
    counts, totals, row, counters, room, *moved = given.rest
    ranks = _Ranks(ctx, given, counters)
    items = ranks.items()
    b, digit, number = ctx.b, wide(ctx, ctx.thread), ctx.indices[row]
    total, words = Line(ctx, totals, (number,)).load(digit), Line(ctx, room)
    lower = b.sub(_scanned(ctx, words, total), total)
    start = b.add(lower, Line(ctx, counts, (number, digit)).load(given.block))
    here = _starts_in_block(ctx, ranks, words)
    words.store(b.sub(start, here), digit)
    barrier(ctx)
    moves = _Moves(ctx, op, given, moved, number)
    moves.put_in_order(items, ranks.mine)
    barrier(ctx)
    moves.write(words)


def _starts_in_block(ctx: Context, ranks: _Ranks, words: Line) -> Value:
    """Where the keys with the digit of this thread begin when those of the block are in order; counters become the
    starts of each warp's."""
    b, digit = ctx.b, wide(ctx, ctx.thread)
    at = [b.add(digit, const_i64(warp * COUNTERS)) for warp in range(WARPS)]
    found = [ranks.all.load(place) for place in at]
    sum_ = const_int(I32, 0)
    for count in found:
        sum_ = b.add(sum_, count)
    first = start = b.sub(_scanned(ctx, words, sum_), sum_)
    for place, count in zip(at, found, strict=True):
        ranks.all.store(start, place)
        start = b.add(start, count)
    return first


class _Moves:
    """Words, and places beside keys, to where they belong; of the last digit, places or elements. They go through an
    order of the block's own, so that those with one digit are written side by side."""

    def __init__(self, ctx: Context, op: Op, given: _Operands, moved: Sequence[IRValue], row: Value) -> None:
        self.ctx, self.b, self.given, self.last = ctx, ctx.b, given, op.attrs["last"] is True
        rest, at = list(moved), (row, const_i64(0))
        self.words = Line(ctx, rest.pop(0))
        self.places = None if given.elements else Line(ctx, rest.pop(0))
        """Those of the block in its own order."""
        self.before = None if given.elements or given.first else Line(ctx, rest.pop(0), at, 1)
        if self.last:
            targets = [Line(ctx, rest[0], [ctx.indices[v] for v in rest[1:]], given.dims[1])]
        else:
            targets = [Line(ctx, target, at, 1) for target in rest]
        self.word_target = None if self.last and not given.elements else targets[0]
        self.place_target = None if given.elements else targets[-1]

    def put_in_order(self, items: list[_Item], starts: Line) -> None:
        for item in items:
            flow.if_then(self.b, item.exists, partial(self._put, item, starts))

    def _put(self, item: _Item, starts: Line) -> None:
        b = self.b
        to = wide(self.ctx, b.add(starts.load(wide(self.ctx, item.digit)), item.rank))
        self.words.store(item.word, to)
        if self.places is not None:
            place = b.cast("trunc", item.place, I32) if self.before is None else self.before.load(item.place)
            self.places.store(place, to)

    def write(self, apart: Line) -> None:
        """`apart` is how far the words of a digit stand from where they belong."""
        b, ctx = self.b, self.ctx
        present = b.sub(self.given.size, b.mul(self.given.block, const_i64(BLOCK)))

        def one(at: Value) -> None:
            word = self.words.load(at)
            to = wide(ctx, b.add(apart.load(wide(ctx, self.given.digit(word))), b.cast("trunc", at, I32)))
            place = self.places.load(at) if self.places is not None else None
            if self.word_target is not None:
                self.word_target.store(word, to)
            if self.place_target is not None and place is not None:
                self.place_target.store(wide(ctx, place) if self.last else place, to)

        for i in range(ITEMS):
            at = b.add(wide(ctx, ctx.thread), const_i64(i * ctx.threads))
            flow.if_then(b, b.icmp("slt", at, present), partial(one, at))


def _scanned(ctx: Context, words: Line, value: Value) -> Value:
    """The sum of the values of all threads up to this one: in a warp those of 2, 4, 8, ... lanes, of which the upper
    half has the lower one's before it, then the sums of the warps before."""
    b, zero, all_ = ctx.b, const_int(I32, 0), value
    for distance in (1, 2, 4, 8, 16):
        other = shuffle(ctx, all_, distance)
        upper = b.icmp("ne", b.binary("and", ctx.lane, const_int(I32, distance)), zero)
        value, all_ = b.add(value, b.select(upper, other, zero)), b.add(all_, other)
    warp = wide(ctx, b.binary("lshr", ctx.thread, const_int(I32, 5)))
    flow.if_then(b, b.icmp("eq", ctx.lane, zero), lambda: words.store(all_, warp))
    barrier(ctx)
    for earlier in range(ctx.threads // 32 - 1):
        before = b.icmp("ugt", warp, const_i64(earlier))
        value = b.add(value, b.select(before, words.load(const_i64(earlier)), zero))
    barrier(ctx)
    return value
