"""The aligned tree over a run-time number of blocks, as a binary counter.

    for i in 0 .. n:  value = block(i)
                      level = 0; m = i
                      while m is odd, or i is the last and m is not 0:
                          if m is odd: value = combine(held[level], value)
                          m = m / 2; level = level + 1
                      if i is not the last: held[level] = value

Level l holds a full subtree of 2^l blocks where bit l of the count of blocks before i is set. The last block folds up
all that is held, so a tree of one block costs nothing.

Where every block is given the tree over those before it, that is what the counter holds, from the lowest level up:

    for i in 0 .. n:  before = empty
                      for each level of which i has the bit, ascending:  before = combine(held[level], before)
                      value = block(i, before), which is put into the counter
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Block, Op
from tesserac.ir.types import ScalarType
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.elements.registers import register_type
from tesserac.target.flow import choose, do_while, for_loop, if_then
from tesserac.target.llvm_types import I1, LType, Value, array, const_i64, const_int
from tesserac.tile.cpu.loops import MOST_LEVELS

EmitBlock = Callable[[Frame, Block, Sequence[Value]], list[Value]]
"""Writes a region with loops in it; gives what it yields."""


def emit_tree(frame: Frame, op: Op, emit_block: EmitBlock) -> None:
    count, *empty = (frame.value(v) for v in op.operands)
    if count.number == 1:
        results = emit_block(frame, op.regions[0].block, [const_i64(0)])
    else:
        results = _counted(frame, op, emit_block, count, empty)
    frame.entries.update(zip(op.results, results, strict=True))


def _counted(frame: Frame, op: Op, emit_block: EmitBlock, count: Value, empty: Sequence[Value]) -> list[Value]:
    tree = _Tree(frame, op, emit_block, count)
    return for_loop(frame.b, const_i64(0), count, const_i64(1), empty, tree.step)


def emit_running(frame: Frame, op: Op, emit_block: EmitBlock) -> None:
    count, *empty = (frame.value(v) for v in op.operands)
    tree, (begin, precede) = _Tree(frame, op, emit_block, count), (region.block for region in op.regions[3:])

    def step(i: Value, _: list[Value]) -> Sequence[Value]:
        emit_block(frame, begin, [])
        values = emit_block(frame, tree.compute, [i, *tree.all_before(i, empty, precede)])
        tree.push(i, values)
        return []

    for_loop(frame.b, const_i64(0), count, const_i64(1), [], step)


class _Tree:
    def __init__(self, frame: Frame, op: Op, emit_block: EmitBlock, count: Value) -> None:
        self.frame, self.emit_block, self.count = frame, emit_block, count
        self.compute, self.combine, self.keep = (region.block for region in op.regions[:3])
        self.types = [_register(v.type) for v in op.operands[1:]]
        self.held = [frame.b.alloca(array(t, MOST_LEVELS), 8) for t in self.types]

    def step(self, i: Value, _: list[Value]) -> Sequence[Value]:
        b = self.frame.b
        values = self.emit_block(self.frame, self.compute, [i])
        last = b.icmp("eq", b.add(i, const_i64(1)), self.count)
        level, *values = choose(
            b, self._goes_on(i, last), lambda: self._carry(i, last, values), lambda: [const_i64(0), *values]
        )
        more = b.icmp("slt", b.add(i, const_i64(1)), self.count)
        if_then(b, more, lambda: self._put(level, values))
        return values

    def push(self, i: Value, values: Sequence[Value]) -> None:
        """Adds block i to the counter."""
        b, last = self.frame.b, const_int(I1, 0)
        odd = b.cast("trunc", i, I1)
        level, *total = choose(b, odd, lambda: self._carry(i, last, values), lambda: [const_i64(0), *values])
        self._put(level, total)

    def all_before(self, i: Value, empty: Sequence[Value], precede: Block) -> list[Value]:
        """The tree over the i blocks in the counter."""
        b = self.frame.b

        def up(state: list[Value]) -> tuple[Value, Sequence[Value]]:
            rest, level, *newer = state
            odd = b.cast("trunc", rest, I1)
            total = choose(b, odd, lambda: self._combined(level, newer, precede), lambda: newer)
            rest = b.binary("lshr", rest, const_i64(1))
            return b.icmp("ne", rest, const_i64(0)), [rest, b.add(level, const_i64(1)), *total]

        def some() -> Sequence[Value]:
            return do_while(b, [i, const_i64(0), *empty], up)[2:]

        return choose(b, b.icmp("ne", i, const_i64(0)), some, lambda: empty)

    def _goes_on(self, rest: Value, last: Value) -> Value:
        b = self.frame.b
        odd = b.cast("trunc", rest, I1)
        unfinished = b.binary("and", last, b.icmp("ne", rest, const_i64(0)))
        return b.binary("or", odd, unfinished)

    def _carry(self, i: Value, last: Value, values: Sequence[Value]) -> list[Value]:
        b = self.frame.b

        def up(state: list[Value]) -> tuple[Value, Sequence[Value]]:
            rest, level, *newer = state
            odd = b.cast("trunc", rest, I1)
            total = choose(b, odd, lambda: self._combined(level, newer, self.combine), lambda: newer)
            rest = b.binary("lshr", rest, const_i64(1))
            return self._goes_on(rest, last), [rest, b.add(level, const_i64(1)), *total]

        _, level, *total = do_while(b, [i, const_i64(0), *values], up)
        return [level, *total]

    def _combined(self, level: Value, newer: Sequence[Value], combine: Block) -> list[Value]:
        b = self.frame.b
        older = [
            b.load(t, b.gep(t, memory, level), max(1, t.bits // 8))
            for t, memory in zip(self.types, self.held, strict=True)
        ]
        with self.frame.rarely():
            return self.emit_block(self.frame, combine, [level, *older, *newer])

    def _put(self, level: Value, values: Sequence[Value]) -> None:
        b = self.frame.b
        for type_, memory, value in zip(self.types, self.held, values, strict=True):
            b.store(value, b.gep(type_, memory, level), max(1, type_.bits // 8))
        with self.frame.rarely():
            self.emit_block(self.frame, self.keep, [level])


def _register(type_: object) -> LType:
    assert isinstance(type_, ScalarType)
    return register_type(type_.dtype)
