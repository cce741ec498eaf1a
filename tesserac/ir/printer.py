"""IR to text. The text parses back to the same module (`parser.py`), with or without source locations.

    graph.func @scale {export = true} {
      ^(%x: tensor<[N], f32>):
        %0 = graph.mul(%x, %x) : tensor<[N], f32> loc("scale.tess", 40, 45)
        graph.return(%0)
    }
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable

from tesserac.base.source import NO_SPAN
from tesserac.ir.attributes import attribute_name
from tesserac.ir.core import Attr, Block, Module, Op, Value
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy

INDENT = "  "

Annotate = Callable[[Op], str]
"""A remark that stands behind an operation as a `//` comment, such as its source line."""


def print_module(module: Module, *, locations: bool = False, annotate: Annotate | None = None) -> str:
    return "".join(print_op(op, locations=locations, annotate=annotate) + "\n" for op in module.ops)


def print_op(op: Op, *, locations: bool = False, annotate: Annotate | None = None) -> str:
    printer = _Printer(locations, annotate)
    printer.op(op, 0)
    return "\n".join(printer.lines)


def print_attr(value: Attr) -> str:
    """One attribute value. Every kind of value has a text of its own, so that the parser needs no types."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float_text(value)
        case str():
            return _quoted(value)
        case tuple():
            return "[" + ", ".join(map(print_attr, value)) + "]"
        case Dim():
            return f"`{value}`"
        case DType():
            return f"dtype<{value.name}>"
        case Policy():
            return f"policy<{str(value).strip()}>"
        case _:
            return _structured_text(value)


_quoted = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes one for each text


def _float_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def _structured_text(value: object) -> str:
    """What does not count when two are compared, as a place in the source, is not shown."""
    name = attribute_name(value)
    if name is None:
        return str(value)  # a type prints itself
    assert dataclasses.is_dataclass(value)
    fields = (f"{f.name}={print_attr(getattr(value, f.name))}" for f in dataclasses.fields(value) if f.compare)
    return f"#{name}<{', '.join(fields)}>"


class _Printer:
    def __init__(self, locations: bool, annotate: Annotate | None) -> None:
        self.lines: list[str] = []
        self.locations = locations
        self.annotate = annotate
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.unnamed = 0

    def op(self, op: Op, depth: int) -> None:
        attrs = dict(op.attrs)
        symbol = attrs.pop("sym_name", None)
        regions = op.regions
        head = self._head(op) + (f" @{symbol}" if symbol is not None else "")
        if op.operands:
            head += "(" + ", ".join(self.name(v) for v in op.operands) + ")"
        elif symbol is None:
            head += "()"
        if attrs:
            head += " {" + ", ".join(f"{k} = {print_attr(v)}" for k, v in sorted(attrs.items())) + "}"
        if op.results:
            head += " : " + ", ".join(str(v.type) for v in op.results)
        if self.locations and op.span != NO_SPAN:
            head += f" loc({json.dumps(op.span.file)}, {op.span.start}, {op.span.end})"
        self._emit(op, head, [r.block for r in regions], depth)

    def _head(self, op: Op) -> str:
        if not op.results:
            return op.name
        return ", ".join(self.define(op.results)) + " = " + op.name

    def _emit(self, op: Op, head: str, blocks: list[Block], depth: int) -> None:
        pad = INDENT * depth
        remark = self.annotate(op) if self.annotate else ""
        remark = f"  // {remark}" if remark else ""
        if not blocks:
            self.lines.append(pad + head + remark)
            return
        self.lines.append(pad + head + " {" + remark)
        for i, block in enumerate(blocks):
            if i:
                self.lines.append(pad + "} {")
            self.block(block, depth + 1)
        self.lines.append(pad + "}")

    def block(self, block: Block, depth: int) -> None:
        names = self.define(block.args)
        args = ", ".join(f"{n}: {v.type}" for n, v in zip(names, block.args, strict=True))
        self.lines.append(INDENT * depth + f"^({args}):")
        for op in block.ops:
            self.op(op, depth + 1)

    def define(self, values: Iterable[Value]) -> list[str]:
        for value in values:
            self.names[value] = self._fresh(value.name)
        return [self.names[v] for v in values]

    def _fresh(self, hint: str) -> str:
        """The hint if it is free, else the hint with the first free number; so printing what was parsed is stable."""
        stem = f"{hint}_" if hint.isidentifier() else ""
        name = hint if stem else ""
        number = self.unnamed if not stem else 1
        while not name or name in self.taken:
            name = f"{stem}{number}"
            number += 1
        if not stem:
            self.unnamed = number
        self.taken.add(name)
        return "%" + name

    def name(self, value: Value) -> str:
        return self.names.get(value, "%<undefined>")
