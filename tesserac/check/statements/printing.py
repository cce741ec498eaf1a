"""`print` and `assert`.

Enters: those statements. Leaves: pieces of text and values to print; run-time checks, guards on sizes, or an error
for what is false at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tesserac.base.source import Span
from tesserac.check.analysis.uniformity import require_uniformity
from tesserac.check.guards.guarding import require_guard, require_here
from tesserac.check.model import typed
from tesserac.check.names.refs import BuiltinRef
from tesserac.check.names.struct_items import is_test
from tesserac.check.state.body import Body
from tesserac.check.state.evaluation import apart, framed
from tesserac.check.values.conditions import require_condition
from tesserac.check.values.scalars import decide
from tesserac.diag.codes.names import E0205, E0216
from tesserac.syntax import ast
from tesserac.types.dims import ZERO, Dim
from tesserac.types.ty import BoolType, ErrorType, IntType, StrType, TupleType


def is_print(body: Body, node: ast.Expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.function, ast.Name):
        return False
    name = node.function.id
    return name not in body.scope.bindings and body.rules.resolve(name) == BuiltinRef("print")


def check_print(body: Body, node: ast.Expr) -> list[typed.Stmt]:
    assert isinstance(node, ast.Call)
    body.add_effect("io", node.span)
    pieces: list[str | typed.Shown] = []
    for position, argument in enumerate(node.arguments):
        if argument.name is not None:
            draft = body.sink.error(E0205, at=argument.span, problem="`print` takes values only")
            if position:
                before = node.arguments[position - 1].span.end
                draft.replace("leave it out", Span(node.span.file, before, argument.span.end), "")
            return []
        pieces += [" "] if position else []
        pieces += _pieces(argument.value, body.expression)
    return [typed.Print(node.span, (*pieces, "\n"))]


def _pieces(node: ast.Expr, read: Callable[[ast.Expr], typed.Expr]) -> list[str | typed.Shown]:
    if not isinstance(node, ast.FString):
        return [_shown(read(node), "")]
    pieces: list[str | typed.Shown] = []
    for part in node.parts:
        if isinstance(part, ast.StringLiteral):
            pieces.append(part.value)
        else:
            pieces += [part.label] if part.label else []
            pieces.append(_shown(read(part.value), part.format))
    return pieces


def _shown(value: typed.Expr, format_: str) -> str | typed.Shown:
    return value.type.value if isinstance(value.type, StrType) else typed.Shown(value, format_)


def check_assert(body: Body, node: ast.Assert) -> list[typed.Stmt]:
    message = node.message.value if isinstance(node.message, ast.StringLiteral) else ""
    first = len(body.devices.meetings)
    text = _pieces(node.message, partial(_if_it_fails, body)) if isinstance(node.message, ast.FString) else []
    last = len(body.devices.meetings)
    made: list[typed.Stmt] = []
    for part in _conjuncts(node.test):
        checks = _check_part(body, node, part, message, text)
        for check in checks if last > first else ():
            if isinstance(check, typed.Assert):
                require_uniformity(body, first, check.test)  # the text is computed where the check fails
        made += [*body.flow.frame.take(), *checks]
    return made


def _if_it_fails(body: Body, node: ast.Expr) -> typed.Expr:
    """A value that is shown, and computed, only where a check fails."""
    return apart(body, lambda: body.expression(node))


def _conjuncts(test: ast.Expr) -> list[ast.Expr]:
    """`a and b < c < d` as what must hold one by one."""
    match test:
        case ast.LogicalOp(op="and", left=left, right=right):
            return [*_conjuncts(left), *_conjuncts(right)]
        case ast.Comparison(first=first, links=links) if len(links) > 1:
            firsts = [first, *(link.operand for link in links)]
            return [ast.Comparison(test.span, one, (link,)) for one, link in zip(firsts, links, strict=False)]
    return [test]


def _check_part(
    body: Body, node: ast.Assert, part: ast.Expr, message: str, text: Sequence[str | typed.Shown]
) -> list[typed.Assert | typed.Require]:
    if body.flow.branches == 0 and _assert_sizes(body, part, _written(body, node.message)):
        return []
    test = require_condition(body, body.expression(part), every=True)
    if isinstance(test.type, BoolType):
        if not test.type.value and body.flow.dead == 0:
            body.sink.error(E0216, at=part.span, label=message)
        return []
    if isinstance(test.type, ErrorType):
        return []
    shown = (*text, *(_operands(body, part) if is_test(body.name) else ()))
    return [typed.Assert(node.span, test, message, shown), *_relied_on(body, part)]


def _relied_on(body: Body, part: ast.Expr) -> list[typed.Require]:
    """On a branch what is asserted of sizes is a fact from here on, also in a build that leaves assertions out."""
    with framed(body) as frame:
        found = body.flow.branches > 0 and _assert_sizes(body, part, "")
    return [check for check in frame.statements if isinstance(check, typed.Require)] if found else []


def _operands(body: Body, part: ast.Expr) -> Iterator[str | typed.Shown]:
    """In a test, the values of what is compared: each on a line of its own. They are computed once more where the check
    fails, which not all devices may come to: so what they compute together is not shown."""
    for node in _compared(part):
        if not isinstance(node, ast.IntLiteral | ast.FloatLiteral | ast.BoolLiteral | ast.Lambda):
            first, value = len(body.devices.meetings), _if_it_fails(body, node)
            if len(body.devices.meetings) == first:
                yield f"\n`{' '.join(body.rules.text(node.span).split())}` = "
                yield _shown(value, "")


def _compared(part: ast.Expr) -> list[ast.Expr]:
    """Both sides of a comparison, also of every element (`all(a == b)`); arguments of any other call."""
    match part:
        case ast.Comparison():
            return [part.first, part.links[0].operand]
        case ast.Call(function=ast.Name(id="all"), arguments=(ast.Argument(value=ast.Comparison() as inner),)):
            return _compared(inner)
        case ast.Call():
            return [argument.value for argument in part.arguments if argument.name is None]
    return []


def _written(body: Body, message: ast.Expr | None) -> str:
    """The text of an assertion; what is checked on entry has no values to put in for its names."""
    if isinstance(message, ast.StringLiteral):
        return message.value
    return body.rules.text(message.span).lstrip("fF").strip("\"'") if isinstance(message, ast.FString) else ""


def _assert_sizes(body: Body, test: ast.Expr, said: str) -> bool:
    """A comparison of sizes that compiling cannot decide is a guard, and from here on a fact."""
    if not isinstance(test, ast.Comparison) or len(test.links) != 1:
        return False
    link = test.links[0]
    if isinstance(test.first, ast.BinaryOp) and test.first.op == "%" and link.op == "==":
        divisor, dividend = _size(body, test.first.right), _size(body, test.first.left)
        if divisor and dividend and _size(body, link.operand) == ZERO:
            if body.facts.divides(divisor, dividend) is None:
                _demand(body, "divides", divisor, dividend, test.span, said)
                return True
            return False
    if link.op == "==":
        return _assert_equal(body, test, _sizes(body, test.first), _sizes(body, link.operand), said)
    left, right = _size(body, test.first), _size(body, link.operand)
    if left is None or right is None or link.op not in (">=", ">", "<=", "<"):
        return False
    if link.op in ("<", "<="):
        left, right = right, left
    right = right + 1 if link.op in ("<", ">") else right
    if body.facts.at_least(left, right) is not None:
        return False
    _demand(body, "at_least", left, right, test.span, said)
    return True


def _demand(body: Body, kind: typed.GuardKind, left: Dim, right: Dim, at: Span, said: str) -> None:
    """On entry, or on a branch where the program comes to it."""
    if body.flow.branches:
        require_here(body, kind, left, right, at)
    else:
        require_guard(body, kind, left, right, at, said=said)


def _assert_equal(
    body: Body, test: ast.Comparison, left: tuple[Dim, ...] | None, right: tuple[Dim, ...] | None, said: str
) -> bool:
    """Sizes that are to be equal, one by one; nothing is asked where compiling knows two that are not, or all."""
    if left is None or right is None or len(left) != len(right):
        return False
    known = [decide(body, "equal", own, other) for own, other in zip(left, right, strict=True)]
    if False in known or None not in known:
        return False
    for own, other, same in zip(left, right, known, strict=True):
        if same is None:
            _demand(body, "equal", own, other, test.span, said)
    return True


def _sizes(body: Body, node: ast.Expr) -> tuple[Dim, ...] | None:
    """A size, or those of a tuple of nothing else."""
    type_ = body.expression(node).type
    items = type_.items if isinstance(type_, TupleType) else (type_,)
    found = tuple(item.value for item in items if isinstance(item, IntType))
    return found if len(found) == len(items) else None


def _size(body: Body, node: ast.Expr) -> Dim | None:
    type_ = body.expression(node).type
    return type_.value if isinstance(type_, IntType) else None
