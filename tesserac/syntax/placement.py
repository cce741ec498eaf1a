"""What may stand where, as far as it does not depend on names or types.

In: the statements of one item. Out: the item as the module sees it, and a diagnostic for what is out of place: a bare
expression at module level, `return` outside a function, `break` outside a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from tesserac.base.source import Span
from tesserac.diag.codes.syntax import E0110, E0111, E0114
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.syntax.describe import describe_expression, describe_statement
from tesserac.syntax.lexer import MAX_NESTING
from tesserac.syntax.walk import children

_ADVICE = "a module holds imports, constants, `param`, `struct`, `def` and `test`; put it into a function or a test"


class _Inside(NamedTuple):
    function: bool
    loop: bool


def module_items(statements: Sequence[ast.Stmt | ast.Item], sink: Sink) -> tuple[ast.Item, ...]:
    """The items among module-level statements, constants made of assignments."""
    items: list[ast.Item] = []
    for statement in statements:
        if _too_deep(statement, sink):
            continue
        _check_jumps(statement, _Inside(function=False, loop=False), sink)
        if (item := _item(statement, sink)) is not None:
            items.append(item)
    return tuple(items)


def typed_statements(
    statements: Sequence[ast.Stmt | ast.Item], sink: Sink
) -> tuple[ast.Stmt | ast.Item, ...]:
    """The same for what is typed at a prompt, where statements of any kind may stand."""
    kept = [statement for statement in statements if not _too_deep(statement, sink)]
    for statement in kept:
        _check_jumps(statement, _Inside(function=False, loop=False), sink)
    return tuple(kept)


def _item(statement: ast.Stmt | ast.Item, sink: Sink) -> ast.Item | None:
    if isinstance(statement, ast.Item):
        return statement
    if isinstance(statement, ast.Assignment):
        for target in statement.targets:
            _check_constant(target, sink)
        return ast.ConstDef(statement.span, statement.targets, None, statement.value)
    if isinstance(statement, ast.AnnotatedAssignment) and statement.value is not None:
        return ast.ConstDef(statement.span, (statement.target,), statement.annotation, statement.value)
    if not isinstance(statement, ast.ErrorStatement | ast.Return | ast.BufferDecl):  # those are reported already
        what = describe_statement(statement)
        draft = sink.error(E0110, at=_head(statement), what=what, where="at module level").remark(_ADVICE)
        if _is_main(statement):
            head = Span(statement.span.file, statement.span.start, statement.test.span.end)
            draft.replace("`tessera run` calls `main()`", head, "def main()")
    return None


def _is_main(statement: ast.Stmt) -> TypeGuard[ast.If]:
    """`if __name__ == "__main__":`, behind which a file of Python says what it does when it is run."""
    match statement:
        case ast.If(test=ast.Comparison(first=ast.Name(id="__name__")), otherwise=()):
            return True
    return False


def _check_constant(target: ast.Expr, sink: Sink) -> None:
    """A module-level assignment defines a name; nothing there can be updated."""
    if isinstance(target, ast.TupleExpr | ast.ListExpr):
        for item in target.items:
            _check_constant(item, sink)
    elif isinstance(target, ast.Attribute | ast.Subscript):
        label = "a constant is never updated"
        sink.error(E0111, at=target.span, label=label, what=f"{describe_expression(target)} at module level")


def _check_jumps(statement: ast.Stmt | ast.Item, inside: _Inside, sink: Sink) -> None:
    match statement:
        case ast.Return() if not inside.function:
            sink.error(E0110, at=_head(statement), what="`return`", where="outside a function")
        case ast.Break() | ast.Continue() if not inside.loop:
            sink.error(E0110, at=statement.span, what=describe_statement(statement), where="outside a loop")
        case ast.BufferDecl():
            sink.error(E0110, at=statement.span, what="`buffer`", where="outside a struct")
        case ast.StructDef():
            for method in statement.methods:
                _check_jumps(method, inside, sink)
        case ast.FunctionDef():
            _check_all(statement.body, _Inside(function=True, loop=False), sink)
        case ast.For() | ast.While():
            _check_all(statement.body, inside._replace(loop=True), sink)
        case ast.If():
            _check_all(statement.body + statement.otherwise, inside, sink)
        case ast.With() | ast.TestBlock():
            _check_all(statement.body, inside, sink)
        case _:
            pass


def _check_all(statements: tuple[ast.Stmt, ...], inside: _Inside, sink: Sink) -> None:
    for statement in statements:
        _check_jumps(statement, inside, sink)


def _too_deep(root: ast.Node, sink: Sink) -> bool:
    """Long chains (`a + b + c + ...`) nest without brackets. The tree is walked without recursion."""
    layer: list[ast.Node] = [root]
    for _ in range(MAX_NESTING + 1):
        layer = [child for node in layer for child in children(node)]
        if not layer:
            return False
    draft = sink.error(E0114, at=layer[0].span, limit=MAX_NESTING)
    draft.remark("name parts of it on lines of their own")
    return True


def _head(statement: ast.Node) -> Span:
    """A short span for a statement: up to the end of its first expression, or its first characters."""
    first = next(iter(children(statement)), None)
    end = first.span.end if first is not None else statement.span.end
    return Span(statement.span.file, statement.span.start, end)
