"""Loops over the rows of tensors, as Python writes them: `for row in x`, `for p, t in zip(x, y)`, `for i, row in
enumerate(x)`.

Enters: a `for` over something else than a range. Leaves: a diagnostic that writes it as a loop over places; nothing is
said of a loop over anything else.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model.control import assigned_names
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0213
from tesserac.diag.diagnostic import Edit
from tesserac.syntax import ast
from tesserac.types.ty import TensorType

_PLACES = ("i", "j", "k", "n", "row")
"""Names for the places of rows; the first that a program does not use."""


def report_rows(body: Body, node: ast.For) -> bool:
    """Whether this is a loop over rows, which is told."""
    tensors = _tensors(body, node.iterable)
    if not tensors:
        return False
    first = body.scope.bindings[tensors[0].id].type
    assert isinstance(first, TensorType)
    draft = body.sink.error(E0213, at=node.iterable.span)
    edits = _by_places(body, node, tensors, str(first.dims[0]))
    if edits:
        draft.fix("loop over the places, and take the rows there", *edits)
    else:
        draft.remark("loop over `range(N)` and index, or use `scan` or `vmap`")
    return True


def _tensors(body: Body, node: ast.Expr) -> list[ast.Name]:
    """The tensors whose rows are asked for: names alone, so that an expression is not computed again for each row."""
    parts = [node]
    while len(parts) == 1 and isinstance(call := parts[0], ast.Call) and _is_python(body, call.function):
        parts = [argument.value for argument in call.arguments]
    names = [part for part in parts if isinstance(part, ast.Name) and _has_rows(body, part.id)]
    return names if len(names) == len(parts) else []


def _is_python(body: Body, function: ast.Expr) -> bool:
    return isinstance(function, ast.Name) and function.id in ("zip", "enumerate") and not body.binds(function.id)


def _has_rows(body: Body, name: str) -> bool:
    binding = body.scope.bindings.get(name)
    return binding is not None and isinstance(binding.type, TensorType) and binding.type.rank > 0


def _by_places(body: Body, node: ast.For, tensors: list[ast.Name], count: str) -> list[Edit]:
    """The head over places, and the rows bound in front of the body; none where the loop is written in one line."""
    head, target = node.target.span.to(node.iterable.span), node.target
    before = body.rules.text(Span(head.file, head.end, node.body[0].span.start))
    _, new_line, indent = before.rpartition("\n")
    place = _new_name(body, node)
    if isinstance(node.iterable, ast.Call) and body.rules.text(node.iterable.function.span) == "enumerate":
        if not isinstance(target, ast.TupleExpr) or len(target.items) != 2:
            return []
        counted, target = target.items
        place = body.rules.text(counted.span)
    if not new_line or not place:
        return []
    rows = ", ".join(f"{tensor.id}[{place}]" for tensor in tensors)
    first = Span(head.file, node.body[0].span.start, node.body[0].span.start)
    bound = f"{body.rules.text(target.span)} = {rows}\n{indent}"
    return [Edit(head, f"{place} in range({count})"), Edit(first, bound)]


def _new_name(body: Body, node: ast.For) -> str:
    taken = assigned_names((node,), lambda _: None)
    return next((name for name in _PLACES if not body.binds(name) and name not in taken), "")
