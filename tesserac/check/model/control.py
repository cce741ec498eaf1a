"""Questions about control flow that the syntax tree alone answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.syntax import ast
from tesserac.syntax.targets import bound_names
from tesserac.syntax.walk import descendants

Updates = Callable[[ast.Expr], ast.Expr | None]
"""What a statement that is an expression binds, if it does."""


def _no_update(_: ast.Expr) -> None:
    return None


_EXITS = (ast.Return, ast.Break, ast.Continue)


@dataclass(frozen=True)
class Exit:
    """The names under which a loop leaves what it returns, and whether it has; `path` is the way that leads to it,
    `dead` in how many branches that are not taken it stands."""

    result: str
    returned: str
    span: Span
    path: tuple[int, ...]
    dead: int


@dataclass(frozen=True, slots=True, eq=False)
class KeepResult(ast.Pass):
    """A `return` inside a loop, up to the `break`: it binds the names of the exit."""

    value: ast.Expr | None
    way: Exit


def may_exit(node: ast.If) -> bool:
    """Whether some branch holds a `return`, or a `break` or `continue` that does not belong to a loop inside it."""
    statements = (*node.body, *node.otherwise)
    return _hold(statements, _EXITS) or holds_return(statements)


def _hold(statements: Sequence[ast.Stmt], kinds: tuple[type[ast.Stmt], ...]) -> bool:
    """Whether one of these kinds is among the statements or their branches. Without recursion, since a chain of `elif`
    is asked about at every link."""
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, kinds):
            return True
        if isinstance(node, ast.If):
            waiting += node.body
            waiting += node.otherwise
        elif isinstance(node, ast.With):
            waiting += node.body
    return False


def holds_break(statements: Sequence[ast.Stmt]) -> bool:
    """Whether the body of a loop holds a `break` of that loop."""
    return _hold(statements, (ast.Break,))


def holds_return(statements: Sequence[ast.Stmt]) -> bool:
    """Whether a `return` is among the statements, their branches and loops."""
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            return True
        waiting += node.body if isinstance(node, ast.If | ast.With | ast.For | ast.While) else ()
        waiting += node.otherwise if isinstance(node, ast.If) else ()
    return False


def is_endless(node: ast.Stmt) -> bool:
    """Whether a loop ends by a `return` only."""
    forever = isinstance(node, ast.While) and isinstance(node.test, ast.BoolLiteral) and node.test.value
    return forever and isinstance(node, ast.While) and not holds_break(node.body) and holds_return(node.body)


def always_exits(statements: Sequence[ast.Stmt]) -> bool:
    """Whether what follows these statements is never reached."""
    return any(
        isinstance(node, _EXITS)
        or is_endless(node)
        or (isinstance(node, ast.With) and always_exits(node.body))
        or (isinstance(node, ast.If) and always_exits(node.body) and always_exits(node.otherwise))
        for node in statements
    )


def always_returns(statements: Sequence[ast.Stmt]) -> bool:
    return any(
        isinstance(node, ast.Return)
        or is_endless(node)
        or (isinstance(node, ast.With) and always_returns(node.body))
        or (isinstance(node, ast.If) and always_returns(node.body) and always_returns(node.otherwise))
        for node in statements
    )


def assigned_names(statements: Sequence[ast.Stmt], updates: Updates = _no_update) -> list[str]:
    """Names that statements bind, each once, in order; loop indices included. `updates` knows the calls that bind."""
    return list(dict.fromkeys(name for node in statements for name in _assigned(node, updates)))


def _assigned(node: ast.Stmt, updates: Updates) -> Iterator[str]:
    match node:
        case ast.Assignment(targets=targets):
            for target in targets:
                yield from (name.id for name in bound_names(target))
        case ast.AnnotatedAssignment(target=target) | ast.AugmentedAssignment(target=target):
            yield from (name.id for name in bound_names(target))
        case ast.ExpressionStatement(value=value):
            place = updates(value)
            yield from () if place is None else (name.id for name in bound_names(place))
        case ast.If(body=body, otherwise=otherwise):
            yield from assigned_names((*body, *otherwise), updates)
        case ast.For(target=target, body=body):
            yield from (name.id for name in bound_names(target))
            yield from assigned_names(body, updates)
        case ast.While(body=body) | ast.With(body=body):
            yield from assigned_names(body, updates)
        case ast.FunctionDef(name=name):
            yield name
        case KeepResult(way=way):
            yield from (way.result, way.returned)


def tested_names(statements: Sequence[ast.Stmt]) -> set[str]:
    """Names that a test of an `if` or of a conditional expression asks for: by themselves, or compared."""
    nodes = (node for statement in statements for node in descendants(statement))
    return {name for node in nodes if isinstance(node, ast.If | ast.Conditional) for name in _asked(node.test)}


def _asked(test: ast.Expr) -> Iterator[str]:
    match test:
        case ast.Name(id=name):
            yield name
        case ast.UnaryOp(op="not", operand=operand):
            yield from _asked(operand)
        case ast.LogicalOp(left=left, right=right):
            yield from (*_asked(left), *_asked(right))
        case ast.Comparison(first=first, links=links):
            asked = (first, *(link.operand for link in links))
            yield from (node.id for node in asked if isinstance(node, ast.Name))
