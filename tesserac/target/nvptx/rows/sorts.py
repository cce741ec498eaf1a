"""The order of a row by all threads of a program: a network of comparisons on pairs of key and place.

Keys are unsigned integers in the order of the elements; places are all different, so the order of pairs is total, and
the sort stable. Blocks of 2, 4, 8, ... are merged: first each element with its mirror image in the block, then those
half a block apart, a quarter, ... The smaller always goes to the front, so a row of any length is one that ends early:
a comparison with nothing does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices
from tesserac.ir.indexed import gives_elements
from tesserac.ir.types import IndexType
from tesserac.target import flow
from tesserac.target.llvm_types import I1, I64, Value, const_i64, const_int, undefined, vector
from tesserac.target.nvptx.context import Context, Memory, memory_type
from tesserac.target.nvptx.products.copies import barrier
from tesserac.target.nvptx.registers.conversions import convert
from tesserac.target.sort_keys import sort_key
from tesserac.tile.gpu.model.values import memory
from tesserac.types.dtype import F32

PAIR = vector(I64, 2)


def emit_sort(ctx: Context, op: Op) -> None:
    _Sort(ctx, op).emit()


class _Sort:
    def __init__(self, ctx: Context, op: Op) -> None:
        self.ctx, self.b, self.descending = ctx, ctx.b, op.attrs["descending"] is True
        self.elements = gives_elements(op)
        rank = len(memory(op.operands[0]).dims)
        out = op.operands[1 + rank]
        width = len(memory(out).dims)
        from_dim, to_dim = indices(op, "dims")
        self.source, self.target = ctx.memories[op.operands[0]], ctx.memories[out]
        self.row = self._address(self.source, op.operands[1 : 1 + rank])
        self.places = self._address(self.target, op.operands[2 + rank : 2 + rank + width])
        self.step, self.place_step = self.source.strides[from_dim], self.target.strides[to_dim]
        self.size = ctx.dim(self.source.type.dims[from_dim])
        self.pairs = self._pairs(op.operands[2 + rank + width :])
        self.thread = self.b.cast("zext", ctx.thread, I64)

    def _address(self, mem: Memory, at: Sequence[IRValue]) -> Value:
        place = const_i64(0)
        for value, stride in zip(at, mem.strides, strict=True):
            place = self.b.add(place, self.b.mul(self.ctx.indices[value], stride))
        return self.b.gep(memory_type(mem.type.dtype), mem.pointer, place)

    def _pairs(self, room: Sequence[IRValue]) -> Value:
        """Where the pairs of this program begin: in shared memory, or in its row of the workspace."""
        mem = self.ctx.memories[room[0]]
        if len(room) == 1:
            return mem.pointer
        assert isinstance(room[1].type, IndexType)
        return self.b.gep(I64, mem.pointer, self.b.mul(self.ctx.indices[room[1]], mem.strides[0]))

    def emit(self) -> None:
        self._each(self.size, self._enter)
        barrier(self.ctx)
        log = self.b.sub(const_i64(64), self._leading_zeros(self.b.sub(self.size, const_i64(1))))
        levels = self.b.select(self.b.icmp("sgt", self.size, const_i64(1)), log, const_i64(0))
        self._count(const_i64(0), levels, self._merge)
        self._each(self.size, self._leave)

    def _leading_zeros(self, value: Value) -> Value:
        return self.b.intrinsic("llvm.ctlz", I64, [value, const_int(I1, 0)], [I64])

    # --- loops --------------------------------------------------------------------------------------------------------

    def _each(self, count: Value, body: Callable[[Value], None]) -> None:
        """Numbers below `count`, dealt to the threads."""

        def step(i: Value, _: list[Value]) -> Sequence[Value]:
            body(i)
            return []

        flow.for_loop(self.b, self.thread, count, const_i64(self.ctx.threads), [], step)

    def _count(self, low: Value, high: Value, body: Callable[[Value], None]) -> None:
        """What all threads count alike."""

        def step(i: Value, _: list[Value]) -> Sequence[Value]:
            body(i)
            return []

        flow.for_loop(self.b, low, high, const_i64(1), [], step)

    # --- elements -----------------------------------------------------------------------------------------------------

    def _enter(self, i: Value) -> None:
        stored, dtype = self._element(i), self.source.type.dtype
        number = convert(self.b, stored, dtype, F32) if dtype.is_float and dtype.bits < 32 else stored
        key = sort_key(self.b, number, dtype, self.descending)
        self._store(self.b.insert(self.b.insert(undefined(PAIR), key, 0), i, 1), i)

    def _element(self, i: Value) -> Value:
        element = memory_type(self.source.type.dtype)
        return self.b.load(element, self.b.gep(element, self.row, self.b.mul(i, self.step)), element.bits // 8)

    def _leave(self, i: Value) -> None:
        place = self.b.extract(self._load(i), 1)
        given = self._element(place) if self.elements else place
        self.b.store(given, self.b.gep(given.type, self.places, self.b.mul(i, self.place_step)), given.type.bits // 8)

    def _load(self, i: Value) -> Value:
        return self.b.load(PAIR, self.b.gep(PAIR, self.pairs, i), 16)

    def _store(self, pair: Value, i: Value) -> None:
        self.b.store(pair, self.b.gep(PAIR, self.pairs, i), 16)

    # --- the network --------------------------------------------------------------------------------------------------

    def _merge(self, level: Value) -> None:
        """Sorted blocks of 2**level become sorted blocks of twice that."""
        self._compare_all(level, self._mirrored)
        self._count(const_i64(0), level, lambda i: self._halve(self.b.sub(self.b.sub(level, i), const_i64(1))))

    def _halve(self, level: Value) -> None:
        self._compare_all(level, lambda front, _: self.b.add(front, self._power(level)))

    def _power(self, level: Value) -> Value:
        return self.b.binary("shl", const_i64(1), level)

    def _mirrored(self, front: Value, level: Value) -> Value:
        """Of a place in the front half of its block of 2**(level + 1), the same from the end."""
        mask = self.b.sub(self._power(self.b.add(level, const_i64(1))), const_i64(1))
        return self.b.binary("xor", front, mask)

    def _compare_all(self, level: Value, partner: Callable[[Value, Value], Value]) -> None:
        """Every place in the front half of a block of 2**(level + 1) with its partner behind it."""
        b = self.b
        half = self._power(level)
        width = b.add(level, const_i64(1))
        blocks = b.binary("lshr", b.add(self.size, b.sub(self._power(width), const_i64(1))), width)

        def compare(number: Value) -> None:
            inside = b.binary("and", number, b.sub(half, const_i64(1)))
            front = b.add(b.binary("shl", b.binary("lshr", number, level), width), inside)
            behind = partner(front, level)
            flow.if_then(b, b.icmp("slt", behind, self.size), lambda: self._order(front, behind))

        self._each(b.binary("shl", blocks, level), compare)
        barrier(self.ctx)

    def _order(self, front: Value, behind: Value) -> None:
        b, left, right = self.b, self._load(front), self._load(behind)
        keys, places = [b.extract(p, 0) for p in (left, right)], [b.extract(p, 1) for p in (left, right)]
        later = b.binary("and", b.icmp("eq", *keys), b.icmp("ugt", *places))
        wrong = b.binary("or", b.icmp("ugt", *keys), later)

        def exchange() -> None:
            self._store(right, front)
            self._store(left, behind)

        flow.if_then(b, wrong, exchange)
