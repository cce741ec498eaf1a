"""Makes operations at a place, with a current source span."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tesserac.base.source import NO_SPAN, Span
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, Value
from tesserac.ir.types import Type


class Builder:
    """Appends to `block`. `at` moves to another block for a while, `spanned` sets where new operations come from."""

    def __init__(self, block: Block, span: Span = NO_SPAN) -> None:
        self.block = block
        self.span = span
        self._before: Op | None = None

    @classmethod
    def before(cls, op: Op) -> Builder:
        """A builder that inserts before `op` and carries its span."""
        assert op.parent is not None
        builder = cls(op.parent, op.span)
        builder._before = op
        return builder

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        types: Sequence[Type] = (),
        attrs: Mapping[str, Attr] | None = None,
        blocks: Sequence[Block] = (),
        names: Sequence[str] = (),
    ) -> Op:
        opdef = OPDEFS[name]
        return self.add(Op(opdef, operands, types, attrs, [Region(b) for b in blocks], self.span, names))

    def add(self, op: Op) -> Op:
        """Puts an operation that exists already, such as a clone, where the builder stands."""
        if self._before is None:
            return self.block.append(op)
        return self.block.insert(self.block.place(self._before), op)

    def value(
        self,
        name: str,
        operands: Sequence[Value],
        type_: Type,
        attrs: Mapping[str, Attr] | None = None,
        blocks: Sequence[Block] = (),
        hint: str = "",
    ) -> Value:
        """An operation with one result, as that result."""
        return self.op(name, operands, (type_,), attrs, blocks, (hint,)).result

    @contextmanager
    def at(self, block: Block) -> Iterator[Block]:
        saved = self.block, self._before
        self.block, self._before = block, None
        try:
            yield block
        finally:
            self.block, self._before = saved

    @contextmanager
    def spanned(self, span: Span) -> Iterator[None]:
        saved, self.span = self.span, span
        try:
            yield
        finally:
            self.span = saved
