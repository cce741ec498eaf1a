"""Elements of a memory along one of its dims, from a place on."""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Value as IRValue
from tesserac.target.llvm_types import Value, const_i64, const_int
from tesserac.target.nvptx.context import Context, memory_type


class Line:
    """`at` is the place, of which dims that are left out are 0."""

    def __init__(self, ctx: Context, mem: IRValue, at: Sequence[Value] = (), dim: int = -1) -> None:
        b, held = ctx.b, ctx.memories[mem]
        place = const_i64(0)
        for value, stride in zip(at, held.strides, strict=False):
            place = b.add(place, b.mul(value, stride))
        self.b, self.dtype, self.step = b, held.type.dtype, held.strides[dim]
        self.element = memory_type(self.dtype)
        self.pointer = b.gep(self.element, held.pointer, place)

    def address(self, i: Value) -> Value:
        return self.b.gep(self.element, self.pointer, self.b.mul(i, self.step))

    def load(self, i: Value) -> Value:
        return self.b.load(self.element, self.address(i), self.element.bits // 8)

    def store(self, value: Value, i: Value) -> None:
        self.b.store(value, self.address(i), self.element.bits // 8)

    def increase(self, i: Value) -> None:
        """By one, whoever else does it at the same time."""
        self.b.atomic_rmw("add", self.address(i), const_int(self.element, 1), "monotonic")
