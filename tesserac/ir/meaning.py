"""What an operation does, as text: equal for operations that do the same, whatever they and their values are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tesserac.ir.core import Block, Op, Value
from tesserac.ir.printer import print_attr

NAMES = ("sym_name", "reason", "copied")
"""Attributes that say what an operation is called or why it is as it is, not what it does."""


def meaning(kernel: Op) -> str:
    """Text that is equal for kernels that do the same, and for launches that do the same with their operands."""
    return part_meaning(kernel, kernel.operands)


def part_meaning(op: Op, outside: Sequence[Value]) -> str:
    """The same for an operation that reads, in its regions too, values from outside, which are told by their order."""
    text = _Text()
    text.lines.append(text.define(outside))
    text.op(op)
    return "\n".join(text.lines)


def body_meaning(block: Block) -> str:
    """The same for what an operation computes at a point, whatever it reads and writes there."""
    text = _Text()
    text.block(block)
    return "\n".join(text.lines)


class _Text:
    """Values are called by numbers, in the order in which they are made."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[Value, int] = {}

    def define(self, values: Iterable[Value]) -> str:
        for value in values:
            self._numbers[value] = len(self._numbers)
        return ", ".join(f"%{self._numbers[value]}: {value.type}" for value in values)

    def op(self, op: Op) -> None:
        reads = ", ".join(f"%{self._numbers[value]}" for value in op.operands)
        attrs = ", ".join(f"{name} = {print_attr(value)}" for name, value in op.attrs.items() if name not in NAMES)
        self.lines.append(f"{self.define(op.results)} = {op.name}({reads}) {{{attrs}}}")
        for region in op.regions:
            self.block(region.block)
            self.lines.append("end")

    def block(self, block: Block) -> None:
        self.lines.append(f"^({self.define(block.args)})")
        for inner in block.ops:
            self.op(inner)
