"""What is evaluated once: expressions with an effect, in the order in which the program has them.

Enters: expressions as they are checked. Leaves: a statement before the one under check for each that has an effect, and
in its place a name that reads the value. So whatever a rule makes of an expression, whether it uses it twice, in parts
or not at all, its effect happens once, where it stands. See Note [Effects are statements].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tesserac.check.model import typed
from tesserac.check.model.scope import HIDDEN, Binding
from tesserac.syntax import ast
from tesserac.types.ty import ErrorType

if TYPE_CHECKING:
    from tesserac.check.state.body import Body

REPEATABLE = frozenset(("random", "nondet"))
"""Effects that show in the value alone: one that nobody reads need not be computed."""


class Frame:
    """What has to be done before the value of a statement, or of a branch of an expression, is there; and the value of
    each expression with an effect, for a rule that asks for it again."""

    def __init__(self, around: Frame | None = None) -> None:
        self.statements: list[typed.Stmt] = []
        self.known: dict[ast.Expr, typed.Expr] = {} if around is None else dict(around.known)

    def take(self) -> list[typed.Stmt]:
        """The statements so far; those to come stand behind what the taker puts after them."""
        taken, self.statements = self.statements, []
        return taken


def once(body: Body, node: ast.Expr, value: typed.Expr, acts: bool) -> typed.Expr:
    """The value of an expression that has an effect; one that `acts` is a statement from here on."""
    if acts:
        value = named(body, value)
    body.flow.frame.known[node] = value
    return value


def named(body: Body, value: typed.Expr) -> typed.Expr:
    """A value computed here, under a name that no program has."""
    if isinstance(value, typed.Static | typed.Local) or isinstance(value.type, ErrorType):
        return value
    body.flow.named += 1
    local = typed.Local(value.type, value.span, f"{HIDDEN}{body.flow.named}.once")
    body.origins[local] = Binding(local.name, value.type, value.span, value)
    body.flow.frame.statements.append(typed.Bind(value.span, local.name, value))
    return local


def apart(body: Body, make: Callable[[], typed.Expr]) -> typed.Expr:
    """An expression that is not evaluated where the statement is: what it does, it does there."""
    with framed(body) as frame:
        value = make()
    if not frame.statements or isinstance(value.type, ErrorType):
        return value
    body.doing.acts = True
    return typed.Let(value.type, value.span, tuple(frame.statements), value)


@contextmanager
def framed(body: Body) -> Iterator[Frame]:
    """A frame of its own for what is checked inside."""
    outer, body.flow.frame = body.flow.frame, Frame(body.flow.frame)
    try:
        yield body.flow.frame
    finally:
        body.flow.frame = outer


# Note [Effects are statements]
# `a, b = split(noisy(x), 2)` becomes two slices of one expression, `lo < noisy(x) < hi` two comparisons of it, and
# `noisy(x).shape` needs no value at all. An expression tree says how values follow from one another, not how often
# something happens: so an expression that prints or communicates is taken out of the tree, and bound to a name by a
# statement of its own, in program order. Expressions that only some runs evaluate (a branch of a conditional
# expression, what follows `and`, the text of an `assert`), or that a loop evaluates at every iteration, have a frame of
# their own, which becomes a `Let`. What is merely computed stays in the tree: the graph builder builds a node once,
# whoever reads it.
