"""Fixes of `with torch.no_grad():` and its like: the statements within, without the `with`.

Enters: a `with` statement that says nothing here. Leaves: fixes on its diagnostic. What PyTorch computes while nothing
is recorded has no derivative: a name that is assigned there is so here by `stop_gradient`, where it is a tensor.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.names.foreign_names import FOREIGN_CONTEXTS
from tesserac.check.state.body import Body
from tesserac.check.values.rewriting import indentation
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.syntax import ast

_UNRECORDED = ("no_grad", "inference_mode")


def suggest_without(body: Body, draft: Draft, node: ast.With, name: str) -> None:
    """Of a `with` of PyTorch's that stands alone before a block of its own."""
    if name not in FOREIGN_CONTEXTS or len(node.contexts) != 1 or not node.body:
        return
    block = _block(body, node)
    outer, inner = indentation(body, node.span), indentation(body, node.body[0].span)
    if block.start <= node.span.start or len(inner) <= len(outer):  # all of it in one line
        return
    assigned = [line.value.span for line in node.body if isinstance(line, ast.Assignment) and _is_one_name(line)]
    if name in _UNRECORDED and assigned:
        kept = [Edit(span, f"stop_gradient({body.rules.text(span)})") for span in assigned]
        draft.fix("what is computed in it has no derivative", *_moved_out(body, node, block, outer, inner, kept))
    words = "leave it out"
    draft.fix(words, *_moved_out(body, node, block, outer, inner, []), advice=FOREIGN_CONTEXTS[name])


def _block(body: Body, node: ast.With) -> Span:
    """From the line behind the first to the end."""
    first = node.body[0].span.start
    head = body.rules.text(Span(node.span.file, node.span.start, first))
    return Span(node.span.file, node.span.start + head.find("\n") + 1, node.body[-1].span.end)


def _is_one_name(line: ast.Assignment) -> bool:
    return len(line.targets) == 1 and isinstance(line.targets[0], ast.Name)


def _moved_out(body: Body, node: ast.With, block: Span, outer: str, inner: str, kept: list[Edit]) -> list[Edit]:
    """Without the first line, and with all others as far left as it."""
    edits, at = [Edit(Span(block.file, node.span.start - len(outer), block.start), ""), *kept], block.start
    for line in body.rules.text(block).split("\n"):
        if line.startswith(inner):
            edits.append(Edit(Span(block.file, at, at + len(inner) - len(outer)), ""))
        at += len(line) + 1
    return edits
