"""Types of statements.

Enters: the statements of a body, in order. Leaves: typed statements in which branches and loops say what they carry.
A `return` in a branch takes what follows the branch into the other one, so that control stays structured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tesserac.check.expressions.closures import check_inner
from tesserac.check.instances.conform import conform
from tesserac.check.kernels.tile_stores import check_store, is_store
from tesserac.check.model import typed
from tesserac.check.model.control import KeepResult, holds_return, may_exit
from tesserac.check.places.assignment import bind, check_annotated, check_assignment, check_augmented
from tesserac.check.places.growing_lists import is_append, report_append
from tesserac.check.places.update_calls import check_update, update_place
from tesserac.check.state.body import Body
from tesserac.check.state.effects import UPDATES
from tesserac.check.state.evaluation import framed
from tesserac.check.statements.branches import check_if
from tesserac.check.statements.contexts import EndWith, enter_with, set_numerics
from tesserac.check.statements.early_returns import check_returning_loop, keep_result
from tesserac.check.statements.loops import check_loop, raise_flag
from tesserac.check.statements.printing import check_assert, check_print, is_print
from tesserac.diag.codes.names import E0201, E0203, W0201
from tesserac.syntax import ast
from tesserac.types.ty import ErrorType, NoneType, StructType, TupleType, Type

_BINDS = re.compile(r"(\(*[^\W\d][\w, \t()\[\]]*?)[ \t]*(?::[^=]*|[-+*/@%&|^<>]{0,2})=(?!=)")
_NAME = re.compile(r"[^\W\d]\w*")
_PLACE = re.compile(r"\[.*?\]")


def check_block(body: Body, statements: Sequence[ast.Stmt]) -> typed.Block:
    """The typed form of statements in sequence."""
    block: list[typed.Stmt] = []
    for position, statement in enumerate(statements):
        rest = statements[position + 1 :]
        if isinstance(statement, ast.If):
            with framed(body) as frame:
                branches = check_if(body, statement, rest)
            block += [*frame.statements, *branches]
            if may_exit(statement):
                return tuple(block)
            continue
        if isinstance(statement, ast.With):
            end = EndWith(statement.span, body.doing.numerics, body.flow.memory, body.devices.mesh)
            inner = (*statement.body, end, *rest)
            with framed(body) as frame:
                entered = enter_with(body, statement)
            return (*block, *frame.statements, *entered, *check_block(body, inner))
        if isinstance(statement, ast.For | ast.While) and holds_return(statement.body):
            return (*block, *check_returning_loop(body, statement, rest))
        block += _check_statement(body, statement)
        if isinstance(statement, ast.Return | ast.Break | ast.Continue):
            return tuple(block)
    return tuple(block)


def _check_statement(body: Body, node: ast.Stmt) -> list[typed.Stmt]:
    rule = _RULES.get(type(node))
    with framed(body) as frame:
        made = [] if rule is None else rule(body, node)
    return [*frame.statements, *made]


def _unread(body: Body, node: ast.ErrorStatement | ast.BufferDecl) -> list[typed.Stmt]:
    """What did not parse or is out of place may be anything, a `return` too: nobody is told what the function gives.
    Names that it would bind have values of which nothing is known, whatever else has these names."""
    found = _BINDS.match(body.rules.text(node.span))
    for name in () if found is None else _NAME.findall(_PLACE.sub("", found[1])):
        bind(body, name, node.span, body.error(node.span), node.span)
    body.error(node.span)
    return []


def _end_with(body: Body, node: EndWith) -> list[typed.Stmt]:
    body.flow.memory, body.devices.mesh = node.memory, node.mesh
    return set_numerics(body, node.numerics, node.span)


def _expression(body: Body, node: ast.ExpressionStatement) -> list[typed.Stmt]:
    if isinstance(node.value, ast.StringLiteral | ast.EllipsisLiteral):
        return []
    if is_print(body, node.value):
        return check_print(body, node.value)
    if is_store(body, node.value):
        assert isinstance(node.value, ast.Call)
        return check_store(body, node.value)
    if is_append(body, node.value):
        report_append(body, node.value)
        return []
    place = update_place(body, node.value)
    if place is not None:
        assert isinstance(node.value, ast.Call)
        return check_update(body, node.value, place)
    before, body.doing.effects = body.doing.effects, {}
    body.doing.asserts = False
    value = body.expression(node.value)
    own, body.doing.effects = body.doing.effects, {**body.doing.effects, **before}
    if _begins(body, node.value) or isinstance(value.type, ErrorType):
        return []
    if not own.keys() - UPDATES:
        if not body.doing.asserts:
            _report_unused(body, node, value)
        return [typed.Evaluate(node.span, value)] if isinstance(value, typed.Call) else []  # it may assert
    return [] if isinstance(value, typed.Static | typed.Local) else [typed.Evaluate(node.span, value)]


def _begins(body: Body, node: ast.Expr) -> bool:
    """Whether a statement is of names alone of which one has no value: so an assignment begins that is being written.
    That is told here; below, nothing is known of the name."""
    names = node.items if isinstance(node, ast.TupleExpr) else (node,)
    found = [name for name in names if isinstance(name, ast.Name)]
    new = [name for name in found if any(body.sink.draft(code, name.span) for code in (E0201, E0203))]
    for name in new if len(found) == len(names) else ():
        bind(body, name.id, name.span, body.error(name.span), node.span)
    return bool(new)


def _report_unused(body: Body, node: ast.ExpressionStatement, value: typed.Expr) -> None:
    """A value that nobody reads. An update that is written as an expression was most likely to be kept."""
    draft = body.sink.warning(W0201, at=node.span)
    text = body.rules.text(node.span)
    target, updates, _ = text.partition(".at[")
    if updates and target.isidentifier():
        draft.because("`.at` gives an updated copy and leaves the tensor as it is")
        draft.replace("keep the updated tensor", node.span, f"{target} = {text}")
    elif kept := _followed(body, node.value, value):
        draft.because("nothing is changed in place: what is changed is what the call gives")
        draft.replace("keep what it gives", node.span, f"{kept} = {text}")
    elif isinstance(value.type, NoneType):
        draft.because("a function changes nothing that its caller has, and this one gives nothing back")
        draft.remark("let it return what it computes, and bind that: `x = f(x)`")
    else:
        draft.remark("bind it to a name, or remove the statement")


def _followed(body: Body, node: ast.Expr, value: typed.Expr) -> str:
    """The names of arguments that all that a call gives is like, in order: what an update of them would be bound to."""
    if not isinstance(node, ast.Call):
        return ""
    given = [argument.value for argument in node.arguments]
    if isinstance(node.function, ast.Attribute):
        given.insert(0, node.function.value)
    names = [name.id for name in given if isinstance(name, ast.Name)]
    own = {name: body.scope.bindings[name].type for name in names if name in body.scope.bindings}
    kept: list[str] = []
    for type_ in value.type.items if isinstance(value.type, TupleType) else (value.type,):
        like = next((name for name in own if name not in kept and _is_like(own[name], type_)), None)
        if like is None or isinstance(type_, NoneType):
            return ""
        kept.append(like)
    return ", ".join(kept)


def _is_like(own: Type, new: Type) -> bool:
    if isinstance(own, StructType) and isinstance(new, StructType):
        return (own.module, own.name) == (new.module, new.name)
    return own == new


# ---------------------------------------------------------------------------------------- return --------


def _return(body: Body, node: ast.Return) -> list[typed.Stmt]:
    value = typed.Static(NoneType(), node.span) if node.value is None else body.expression(node.value)
    if body.declared.result_spec is not None:
        value = conform(body, body.declared.result_spec, value)
    if body.flow.dead == 0:
        body.flow.returns.append(value)
    return [typed.Return(node.span, value)]


_RULES: dict[type[ast.Stmt], Callable[[Body, Any], list[typed.Stmt]]] = {
    ast.Assignment: check_assignment,
    ast.AnnotatedAssignment: check_annotated,
    ast.AugmentedAssignment: check_augmented,
    ast.ExpressionStatement: _expression,
    ast.Return: _return,
    ast.Assert: check_assert,
    ast.For: check_loop,
    ast.While: check_loop,
    ast.Break: raise_flag,
    ast.FunctionDef: check_inner,
    ast.ErrorStatement: _unread,
    ast.BufferDecl: _unread,
    EndWith: _end_with,
    KeepResult: keep_result,
}
"""By kind of statement. `continue` only ends its block; `pass` is nothing."""
