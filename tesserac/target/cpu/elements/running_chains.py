"""Running folds of eight rows of scratch: `cpu.chains`.

    scratch               registers, transposed                     scratch
    a0 a1 a2 ...          a0 b0 ...   +  before  =  s0          s0 of a, s1 of a, ...
    b0 b1 b2 ...   ==>    a1 b1 ...   +  s0      =  s1   ==>    s0 of b, s1 of b, ...

A vector holds one element of every row, so that each row keeps its order while none waits for another. What is smaller
than a square goes one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Op
from tesserac.ir.forms import COMBINE
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.elements.registers import constant, narrow, widen
from tesserac.target.cpu.elements.scalars import emit_scalar
from tesserac.target.cpu.elements.transpose import exchanged
from tesserac.target.flow import for_loop
from tesserac.target.llvm_types import Value, const_i64, vector
from tesserac.tile.bodies import identity_of
from tesserac.tile.cpu.dialect import CHAINS


def emit_chains(frame: Frame, op: Op) -> None:
    _Chains(frame, op).emit()


class _Chains:
    def __init__(self, frame: Frame, op: Op) -> None:
        self.b = frame.b
        self.memory, self.totals = (frame.memories[v] for v in op.operands[:2])
        self.count, self.kind = frame.value(op.operands[2]), str(op.attrs["kind"])
        self.align = self.memory.element.bits // 8
        self.lanes = vector(self.memory.element, CHAINS)

    def emit(self) -> None:
        b, side = self.b, const_i64(CHAINS)
        empty = constant(self.memory.dtype, identity_of(self.kind, self.memory.dtype))
        whole = b.sub(self.count, b.binary("and", self.count, const_i64(CHAINS - 1)))
        (held,) = for_loop(b, const_i64(0), whole, side, [b.splat(empty, CHAINS)], self._square)
        (held,) = for_loop(b, whole, self.count, const_i64(1), [held], self._column)
        b.store(narrow(b, held, self.memory.dtype), self.totals.start, self.align)

    def _square(self, column: Value, state: list[Value]) -> Sequence[Value]:
        b, (held,), ends = self.b, state, list[Value]()
        places = [self._place(const_i64(row), column) for row in range(CHAINS)]
        for elements in exchanged(b, [b.load(self.lanes, place, self.align) for place in places]):
            held = self._folded(held, elements)
            ends.append(narrow(b, held, self.memory.dtype))
        for place, row in zip(places, exchanged(b, ends), strict=True):
            b.store(row, place, self.align)
        return [held]

    def _column(self, column: Value, state: list[Value]) -> Sequence[Value]:
        b, (held,) = self.b, state
        for row in range(CHAINS):
            place = self._place(const_i64(row), column)
            end = self._folded(b.extract(held, row), b.load(self.memory.element, place, self.align))
            b.store(narrow(b, end, self.memory.dtype), place, self.align)
            held = b.insert(held, end, row)
        return [held]

    def _folded(self, before: Value, stored: Value) -> Value:
        name, dtype = COMBINE[self.kind].removeprefix("scalar."), self.memory.dtype
        return emit_scalar(self.b, name, dtype, [before, widen(self.b, stored, dtype)])

    def _place(self, row: Value, column: Value) -> Value:
        place = self.b.add(self.b.mul(row, self.memory.strides[0]), column)
        return self.b.gep(self.memory.element, self.memory.start, place)
