"""What an operation does, as text: equal for operations that do the same, whatever they and their values are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.printer import print_attr

if TYPE_CHECKING:
    from tesserac.ir.types import Type

NAMES = ("sym_name", "reason", "copied")
"""Attributes that say what an operation is called or why it is as it is, not what it does."""


class Meanings:
    """Of operations that have attributes and types in common, as copies of a launch do: each of these is printed once.
    """

    def __init__(self) -> None:
        self._printed: dict[int, tuple[Attr | Type, str]] = {}
        """With what was printed, whose identity is then that of nothing else."""

    def of(self, op: Op) -> str:
        """Text that is equal for kernels that do the same, and for launches that do the same with their operands."""
        return self.of_part(op, op.operands)

    def of_part(self, op: Op, outside: Sequence[Value]) -> str:
        """The same for an operation that reads, in its regions too, values from outside, which are told by their
        order."""
        text = _Text(self)
        text.lines.append(text.define(outside))
        text.op(op)
        return "\n".join(text.lines)

    def printed(self, value: Attr | Type) -> str:
        found = self._printed.get(id(value))
        if found is None:
            found = self._printed[id(value)] = (value, self.shown(value))
        return found[1]

    def shown(self, value: Attr | Type) -> str:
        """The text of one."""
        return print_attr(value)

    def of_body(self, block: Block) -> str:
        """What a block does with its arguments."""
        text = _Text(self)
        text.block(block)
        return "\n".join(text.lines)


def meaning(op: Op) -> str:
    """That of one operation."""
    return Meanings().of(op)


def part_meaning(op: Op, outside: Sequence[Value]) -> str:
    """That of a part of one."""
    return Meanings().of_part(op, outside)


def body_meaning(block: Block) -> str:
    """The same for what an operation computes at a point, whatever it reads and writes there."""
    return Meanings().of_body(block)


class _Text:
    """Values are called by numbers, in the order in which they are made."""

    def __init__(self, meanings: Meanings) -> None:
        self.lines: list[str] = []
        self._numbers: dict[Value, int] = {}
        self._printed = meanings.printed

    def define(self, values: Sequence[Value]) -> str:
        numbers = self._numbers
        for value in values:
            numbers[value] = len(numbers)
        return ", ".join([f"%{numbers[value]}: {self._printed(value.type)}" for value in values])

    def op(self, op: Op) -> None:
        numbers, printed = self._numbers, self._printed
        reads = ", ".join([f"%{numbers[value]}" for value in op.operands])
        attrs = ", ".join([f"{name} = {printed(value)}" for name, value in op.attrs.items() if name not in NAMES])
        self.lines.append(f"{self.define(op.results)} = {op.name}({reads}) {{{attrs}}}")
        for region in op.regions:
            self.block(region.block)
            self.lines.append("end")

    def block(self, block: Block) -> None:
        self.lines.append(f"^({self.define(block.args)})")
        for inner in block.ops:
            self.op(inner)
