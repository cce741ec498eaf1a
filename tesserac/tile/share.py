"""Kernels that say the same become one: the layers of a model differ in their weights, not in their code.

Enters: the kernels of a module and the host programs that launch them. Leaves: one kernel of each kind, the first,
which all launches of its like now name. Names of values and places in the source do not count. Launches that say the
same before there are kernels have theirs built once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tesserac.ir.core import Op, Value
from tesserac.ir.printer import print_attr

NAMES = ("sym_name", "reason", "copied")
"""Attributes that say what a kernel is called or why it is as it is, not what it does."""


def share_kernels(kernels: Sequence[Op], hosts: Iterable[Op]) -> list[Op]:
    """The kernels that are left."""
    first: dict[str, Op] = {}
    chosen = {kernel.symbol: first.setdefault(meaning(kernel), kernel).symbol for kernel in kernels}
    for host in hosts:
        for launch in host.walk():
            if launch.name == "tile.launch":
                launch.attrs["kernel"] = chosen[str(launch.attrs["kernel"])]
    return list(first.values())


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
