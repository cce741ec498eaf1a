"""Branches: `if`, and what becomes of the statements after one that leaves.

Enters: an `if` and the statements after it. Leaves: a typed `If` that says what comes out of it, or, where compiling
decides, the branch itself. Where a branch returns, or ends an iteration of a loop, what follows the `if` belongs to the
branches that do not, so that control stays structured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.base.source import Span
from tesserac.check.analysis.uniformity import require_uniformity
from tesserac.check.guards.assumed import assuming, relies_on
from tesserac.check.model import typed
from tesserac.check.model.control import always_exits, assigned_names, may_exit
from tesserac.check.model.message_text import change_texts, structure_text, type_text
from tesserac.check.model.scope import Binding, Lost, Scope
from tesserac.check.places.update_calls import update_place
from tesserac.check.state.body import Body, is_static
from tesserac.check.values.common_types import converted, meet
from tesserac.check.values.conditions import (
    Selection,
    check_excluded,
    checks_excluded,
    compares_ints,
    require_condition,
)
from tesserac.check.values.generic_items import quietly
from tesserac.diag.codes.names import E0212
from tesserac.syntax import ast
from tesserac.types.ty import Aggregate, BoolType, ErrorType

SHAPES = "E03"
"""How the codes of mistakes with sizes start."""


def check_if(body: Body, node: ast.If, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    test = require_condition(body, body.expression(node.test), _selection(node, rest))
    if isinstance(test.type, BoolType):
        return _decided_if(body, node, test.type.value, rest)
    if isinstance(test.type, ErrorType) and body.needs_value:
        return _unknown_if(body, node, rest)
    body.forks = body.forks or (bool(body.sizes.static_symbols) and compares_ints(body, node.test))
    first = len(body.devices.meetings)
    returning = may_exit(node) and not body.flow.loops
    statements = _returning_if(body, node, test, rest) if returning else _joining_if(body, node, test, rest)
    require_uniformity(body, first, test, node.test.span)
    return statements


def _selection(node: ast.If, rest: Sequence[ast.Stmt]) -> Selection | None:
    """Two branches that return one value, or give one to the same name."""
    then, otherwise = node.body, node.otherwise or rest[:1]
    whole = Span(node.span.file, node.span.start, max(part.span.end for part in (node, *otherwise)))
    match (*then, *otherwise):
        case ast.Return(value=ast.Node() as first), ast.Return(value=ast.Node() as second):
            return Selection(node.test, first, second, whole, "return ")
        case (
            ast.Assignment(targets=(ast.Name(id=name),), value=first),
            ast.Assignment(targets=(ast.Name(id=other),), value=second),
        ) if name == other and node.otherwise:
            return Selection(node.test, first, second, whole, f"{name} = ")
    return None


def _joining_if(body: Body, node: ast.If, test: typed.Expr, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    """What follows comes after both branches, unless one of them ends an iteration of a loop."""
    after = rest if may_exit(node) else ()
    before, blocks, scopes, checked = body.scope, [], [], body.sizes.checked
    for branch, holds in ((node.body, True), (node.otherwise, False)):
        body.scope = before.snapshot()
        with assuming(body, test, holds=holds):
            blocks.append(body.rules.block(body, _continued(branch, after)))
        scopes.append(body.scope)
    body.scope = before
    branched = join(body, test, blocks, scopes, node.span, sized=relies_on(body, test, checked))
    return [] if isinstance(test.type, ErrorType) else [branched]


def _unknown_if(body: Body, node: ast.If, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    """Only a call knows the condition, and keeps one of the branches: of what they bind nothing is known here."""
    before = body.scope
    for branch in (node.body, node.otherwise):
        body.scope = before.snapshot()
        with quietly(body):
            body.rules.block(body, branch)
    body.scope = before
    for name in assigned_names((*node.body, *node.otherwise), lambda call: update_place(body, call)):
        body.scope.bind(Binding(name, ErrorType(), node.test.span, None))
    return list(body.rules.block(body, rest)) if may_exit(node) else []


def _continued(branch: Sequence[ast.Stmt], rest: Sequence[ast.Stmt]) -> Sequence[ast.Stmt]:
    """A branch with what follows it, unless it leaves before."""
    return branch if always_exits(branch) else (*branch, *rest)


def _decided_if(body: Body, node: ast.If, truth: bool, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    """Both branches are checked where the function is defined, and one is kept."""
    kept, other = (node.body, node.otherwise) if truth else (node.otherwise, node.body)
    if checks_excluded(body, node.test):
        saved, body.scope = body.scope, body.scope.snapshot()
        impossible = (SHAPES,) if compares_ints(body, node.test) else ()  # sizes that rule it out need not fit there
        check_excluded(body, node.test, lambda: body.rules.block(body, other), impossible)
        _lose_new(body.scope, saved)
        body.scope = saved
    return list(body.rules.block(body, _continued(kept, rest) if may_exit(node) else kept))


def _lose_new(dropped: Scope, scope: Scope) -> None:
    """What only the branch that is not kept binds has no value after it."""
    for name, binding in dropped.bindings.items():
        if name not in scope.bindings:
            scope.half_bound.setdefault(name, Lost(binding.span))


def _returning_if(body: Body, node: ast.If, test: typed.Expr, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    """What follows belongs to each branch that does not return."""
    before, checked = body.scope, body.sizes.checked
    blocks = []
    for branch, holds in ((node.body, True), (node.otherwise, False)):
        body.scope = before.snapshot()
        with assuming(body, test, holds=holds):
            blocks.append(body.rules.block(body, _continued(branch, rest)))
    body.scope = before
    if isinstance(test.type, ErrorType):
        return []
    return [typed.If(node.span, test, blocks[0], blocks[1], (), relies_on(body, test, checked))]


def join(
    body: Body, test: typed.Expr, blocks: Sequence[typed.Block], scopes: Sequence[Scope], span: Span, *, sized: bool
) -> typed.If:
    """The two branches as one statement. Names after it: those bound on both sides, with one type; those bound on one
    side have no value."""
    results: list[typed.Carried] = []
    before = dict(body.scope.bindings)
    for name in dict.fromkeys([*scopes[0].bindings, *scopes[1].bindings]):
        left, right = (scope.bindings.get(name) for scope in scopes)
        if left is right and left is not None:
            continue
        if left is None or right is None:
            only = left or right
            assert only is not None
            body.scope.lose(name, Lost(only.span))
            continue
        carried = _join_name(body, name, left, right, before.get(name))
        results += [] if carried is None or is_static(carried.type) else [carried]
    pairs = zip(blocks, scopes, strict=True)
    then, otherwise = ((*block, *_joined_values(body, scope, results, span)) for block, scope in pairs)
    return typed.If(span, test, then, otherwise, tuple(results), sized)


def _joined_values(
    body: Body, scope: Scope, results: Sequence[typed.Carried], span: Span
) -> Iterator[typed.Stmt]:
    """What is known in a branch, but not after it, is a value of the run from here on; an operator is what both
    branches have in common."""
    for carried in results:
        own = scope.bindings[carried.name].type
        is_known, is_other = is_static(own), isinstance(carried.type, Aggregate) and own != carried.type
        value = typed.Static(own, span) if is_known else typed.Local(own, span, carried.name)
        if is_known or is_other:
            yield typed.Bind(span, carried.name, converted(body, value, carried.type) if is_other else value)


def _join_name(
    body: Body, name: str, left: Binding, right: Binding, before: Binding | None
) -> typed.Carried | None:
    type_ = meet(body, left.type, right.type)
    later = right if right is not before else left
    if type_ is None:
        other = left if later is right else right
        draft = body.sink.error(E0212, at=later.span, name=name, **change_texts(other.type, later.type))
        draft.note(other.span, f"here it is {type_text(other.type)}")
        if structure := structure_text(other.type, later.type):
            draft.remark(structure)
        type_ = ErrorType()
    body.scope.bind(Binding(name, type_, later.span, None))
    return typed.Carried(name, type_)
