"""What an operation does, as text: equal for operations that do the same, whatever they and their values are called."""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.ir.core import Op, Value
from tesserac.ir.printer import print_attr

NAMES = ("sym_name", "reason", "copied")
"""Attributes that say what an operation is called or why it is as it is, not what it does."""


def meaning(kernel: Op) -> str:
    """Text that is equal for kernels that do the same, and for launches that do the same with their operands."""
    lines: list[str] = []
    numbers: dict[Value, int] = {}

    def define(values: Iterable[Value]) -> str:
        for value in values:
            numbers[value] = len(numbers)
        return ", ".join(f"%{numbers[value]}: {value.type}" for value in values)

    def walk(op: Op) -> None:
        reads = ", ".join(f"%{numbers[value]}" for value in op.operands)
        attrs = ", ".join(f"{name} = {print_attr(value)}" for name, value in op.attrs.items() if name not in NAMES)
        lines.append(f"{define(op.results)} = {op.name}({reads}) {{{attrs}}}")
        for region in op.regions:
            lines.append(f"^({define(region.block.args)})")
            for inner in region.block.ops:
                walk(inner)
            lines.append("end")

    lines.append(define(kernel.operands))
    walk(kernel)
    return "\n".join(lines)
