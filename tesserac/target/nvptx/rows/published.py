"""What programs of a launch tell each other: nodes of a tree over them, each written once and waited for.

A number of 32 bits and that it is told are one word of 64, so that whoever sees one sees both. Longer numbers stand in
memory of their own, in front of the word. All words are 0 before the launch. See Note [Programs that wait for others].
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Value as IRValue
from tesserac.target import flow
from tesserac.target.llvm_types import I32, I64, Value, const_i64
from tesserac.target.nvptx.context import Context, memory_type
from tesserac.target.nvptx.memory.line import Line
from tesserac.tile.gpu.kernels.wide_scans import WORD_BITS
from tesserac.tile.gpu.model.values import memory
from tesserac.types.dtype import DType

DEVICE = 'syncscope("device")'
TOLD = 1 << WORD_BITS


class Told:
    """A tree over the programs of a row: level 0 has one node for each, all levels together twice as many at most."""

    def __init__(
        self, ctx: Context, words: IRValue, values: IRValue | None, row: Sequence[Value], dtype: DType
    ) -> None:
        self.b, self.element = ctx.b, memory_type(dtype)
        self.room = ctx.dim(memory(words).dims[-1])
        self.words = Line(ctx, words, row)
        self.values = Line(ctx, values, row) if values is not None else None

    def _place(self, level: Value, node: Value) -> Value:
        return self.b.add(self.b.sub(self.room, self.b.binary("lshr", self.room, level)), node)

    def tell(self, level: Value, node: Value, value: Value) -> None:
        b, place = self.b, self._place(level, node)
        if self.values is not None:
            self.values.store(value, place)
            b.store_atomic(const_i64(TOLD), self.words.address(place), f"{DEVICE} release")
            return
        bits = value if value.type == I32 else b.cast("bitcast", value, I32)
        word = b.binary("or", b.cast("zext", bits, I64), const_i64(TOLD))
        b.store_atomic(word, self.words.address(place), f"{DEVICE} monotonic")

    def ask(self, level: Value, node: Value) -> Value:
        """Waits until it is told."""
        b, place = self.b, self._place(level, node)
        address, order = self.words.address(place), "monotonic" if self.values is None else "acquire"

        def again(_: list[Value]) -> tuple[Value, list[Value]]:
            word = b.load_atomic(I64, address, f"{DEVICE} {order}")
            return b.icmp("ult", word, const_i64(TOLD)), [word]

        [word] = flow.do_while(b, [const_i64(0)], again)
        if self.values is not None:
            return self.values.load(place)
        bits = b.cast("trunc", word, I32)
        return bits if self.element == I32 else b.cast("bitcast", bits, self.element)
