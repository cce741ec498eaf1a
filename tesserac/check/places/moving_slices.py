"""A fix for slices of one size that start where the run says: `x[i:i + 3]` is `slice(x, i, 3)`.

Enters: a slice whose start is a value of the run. Leaves: whether its end stands the size behind it, as the program
writes it, with the fix on what was told of the start. A place that is assigned to has none.
"""

from __future__ import annotations

import re

from tesserac.base.source import Span
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210, E0226
from tesserac.syntax import ast

_ASSIGNED = re.compile(r"\s*(?:[-+*/@%]|//|\*\*)?=(?!=)")


def suggest_moving(body: Body, node: ast.Slice, span: Span) -> bool:
    """Whether the end of a slice, whose start was told of, follows from it: then nothing has to be said of the end."""
    size = _size(body, node)
    draft = None if node.start is None else body.sink.draft(E0226, node.start.span)
    draft = draft or (None if node.start is None else body.sink.draft(E0210, node.start.span))
    if not size or draft is None or node.start is None:
        return False
    text, start = body.rules.text(span), body.rules.text(node.start.span)
    behind = body.rules.text(Span(span.file, span.end, span.end + 8))
    written = re.escape(body.rules.text(node.span))
    found = re.fullmatch(rf"(.*)\[((?:\s*:\s*,)*)\s*{written}\s*(?:,\s*:\s*)*\]", text, re.DOTALL)
    if found is not None and not _ASSIGNED.match(behind):
        axis = found[2].count(":")
        named = f", axis={axis}" if axis else ""
        draft.replace("so many from there on", span, f"slice({found[1]}, {start}, {size}{named})")
    return True


def _size(body: Body, node: ast.Slice) -> str:
    """The text of the size: `i:i + n`, or `i * n:(i + 1) * n`."""
    if node.start is None or not isinstance(node.stop, ast.BinaryOp):
        return ""
    text, start, stop = body.rules.text, node.start, node.stop
    if stop.op == "+":
        parts = (stop.left, stop.right), (stop.right, stop.left)
        return next((text(size.span) for at, size in parts if text(at.span) == text(start.span)), "")
    counted = stop.left
    if not isinstance(start, ast.BinaryOp) or not isinstance(counted, ast.BinaryOp) or {start.op, stop.op} != {"*"}:
        return ""
    is_next = isinstance(counted.right, ast.IntLiteral) and counted.right.value == 1 and counted.op == "+"
    same = text(start.left.span) == text(counted.left.span) and text(start.right.span) == text(stop.right.span)
    return text(stop.right.span) if is_next and same else ""
