"""What stands after the `@` of a type, and devices: `KVCache[...] @rolling_window @device(gpu[1])`.

Enters: the node after the `@`. Leaves: its name, or a diagnostic where there is no such attribute, or it takes another
argument.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.diag.codes.effects import E0603
from tesserac.diag.codes.names import E0204
from tesserac.diag.sink import Draft, Sink
from tesserac.syntax import ast

FP32_MASTER = "fp32_master"
DEVICE = "device"
TYPE_ATTRIBUTES = ("rolling_window", DEVICE, FP32_MASTER, "paged", "checkpointable")
"""Where a value lives and how it is kept."""
DEVICES = ("cpu", "gpu")
NUMBERED = ("gpu",)
"""Devices of which there may be several."""


def attribute_name(node: ast.Expr) -> str:
    """`device` for `device(gpu)`, what stands after an `@`."""
    name = node.function if isinstance(node, ast.Call) else node
    return name.id if isinstance(name, ast.Name) else ""


def report_attribute(sink: Sink, node: ast.Expr) -> None:
    """What stands after the `@` of a type is none of its attributes."""
    name = attribute_name(node)
    draft = sink.error(E0204, at=node.span, problem=f"`@{name}` is not an attribute of a type")
    draft.did_you_mean(name, TYPE_ATTRIBUTES, node.function.span if isinstance(node, ast.Call) else node.span)


def check_attribute(sink: Sink, node: ast.Expr) -> bool:
    """`@device(gpu)` takes a device, any other attribute takes nothing; False after a diagnostic."""
    name, given = attribute_name(node), node.arguments if isinstance(node, ast.Call) else ()
    if name == DEVICE and (len(given) != 1 or given[0].name is not None):
        _no_device(sink, node, "`@device` takes one device")
        return False
    if name == DEVICE:
        return read_device(sink, given[0].value) != "" and _has_number(sink, given[0].value)
    if isinstance(node, ast.Call):
        sink.error(E0603, at=node.span, problem=f"`@{name}` takes no arguments")
    return not isinstance(node, ast.Call)


def refuse_attributes(sink: Sink, nodes: Iterable[ast.Expr], of: str) -> None:
    """What is asked of a value that no function has in its signature has nobody to ask."""
    for node in nodes:
        problem = f"`@{attribute_name(node)}` is an attribute of parameters and results, not of {of}"
        sink.error(E0603, at=node.span, problem=problem)


def read_device(sink: Sink, node: ast.Expr) -> str:
    """`cpu` or `gpu`, of `cpu`, `gpu` and `gpu[1]`; nothing after a diagnostic."""
    kind = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(kind, ast.Name) and kind.id in (NUMBERED if isinstance(node, ast.Subscript) else DEVICES):
        return kind.id
    _no_device(sink, node, "this is no device")
    return ""


def _has_number(sink: Sink, node: ast.Expr) -> bool:
    """Whether what stands in brackets, if anything, is a number; False after a diagnostic."""
    if isinstance(node, ast.Subscript) and device_number(node) is None:
        _no_device(sink, node, "the number of a device in a type is written out")
        return False
    return True


def device_number(node: ast.Expr) -> int | None:
    """1 of `gpu[1]`; None where no number is written."""
    index = node.arguments[0].value if isinstance(node, ast.Subscript) else None
    return index.value if isinstance(index, ast.IntLiteral) else None


def _no_device(sink: Sink, node: ast.Node, problem: str) -> Draft:
    return sink.error(E0603, at=node.span, problem=problem).remark("there are `cpu`, `gpu` and `gpu[1]`")
