"""`return` inside loops: the loop ends, and what it found is returned after it.

    for i in range(N):              returned, result = False, zeros(...)
        if x[i] > 0.0:              for i in range(N):
            return i                    if x[i] > 0.0:
    return -1                               result, returned = i, True
                                            break
                                    if returned:
                                        return result
                                    return -1

Enters: the outermost loop that holds a `return`, and the statements after it. Leaves: typed statements in which control
is structured. What the result is before an iteration has given one, nobody reads: it has the type of what is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.check.instances.conform import conform
from tesserac.check.model import typed
from tesserac.check.model.control import Exit, KeepResult, holds_return, is_endless
from tesserac.check.model.message_text import type_text
from tesserac.check.model.scope import RESULT, RETURNED
from tesserac.check.places.assignment import bind
from tesserac.check.state.body import Body
from tesserac.check.state.evaluation import framed
from tesserac.check.state.trials import undo_of
from tesserac.check.statements.branches import check_if
from tesserac.check.statements.loops import check_loop
from tesserac.check.values.some_values import some_value
from tesserac.diag.codes.names import E0227, E0299
from tesserac.syntax import ast
from tesserac.types.ty import (
    Aggregate,
    BoolType,
    ErrorType,
    IntType,
    ListType,
    NoneType,
    RunIntType,
    TensorType,
    Type,
    parts,
    sizes_in,
    with_parts,
)


def check_returning_loop(body: Body, node: ast.For | ast.While, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    """A loop that holds a `return`, and all that follows it."""
    way = Exit(f"{RESULT}{node.span.start}", f"{RETURNED}{node.span.start}", node.span, body.flow.path, body.flow.dead)
    loop = replace(node, body=_leaving(node.body, way))
    key = (body.flow.path, node.span, way.result)
    while True:
        undo = undo_of(body)
        block = _begin(body, way, body.flow.rises.starts.get(key))
        with framed(body) as frame:
            looped = check_loop(body, loop)
        block += [*frame.statements, *looped]
        if node.span not in body.flow.rises.again:
            return [*block, *_finish(body, node, way, rest)]
        body.flow.rises.again.discard(node.span)
        undo()


def _leaving(statements: Sequence[ast.Stmt], way: Exit) -> tuple[ast.Stmt, ...]:
    """The statements of a loop with each `return` as what is kept and a `break`; loops inside end those around them."""
    block: list[ast.Stmt] = []
    for node in statements:
        match node:
            case ast.Return():
                block += [KeepResult(node.span, node.value, way), ast.Break(node.span)]
            case ast.If():
                block.append(replace(node, body=_leaving(node.body, way), otherwise=_leaving(node.otherwise, way)))
            case ast.With():
                block.append(replace(node, body=_leaving(node.body, way)))
            case ast.For() | ast.While() if holds_return(node.body):
                leave = ast.If(node.span, ast.Name(node.span, way.returned), (ast.Break(node.span),), ())
                block += [replace(node, body=_leaving(node.body, way)), leave]
            case _:
                block.append(node)
    return tuple(block)


def _begin(body: Body, way: Exit, type_: Type | None) -> list[typed.Stmt]:
    """What is bound before the loop: that it has not returned, and a result that nobody reads."""
    lowered = bind(body, way.returned, way.span, typed.Static(BoolType(False), way.span), way.span)
    if type_ is None:
        return lowered
    return [*lowered, *bind(body, way.result, way.span, some_value(type_, way.span), way.span)]


def keep_result(body: Body, node: KeepResult) -> list[typed.Stmt]:
    """`return value` in a loop, up to the `break`. The first that is found tells what the loop has to start with."""
    value = typed.Static(NoneType(), node.span) if node.value is None else body.expression(node.value)
    if body.declared.result_spec is not None:
        value = conform(body, body.declared.result_spec, value)
    way = node.way
    returned = bind(body, way.returned, node.span, typed.Static(BoolType(True), node.span), node.span)
    lasting = _lasting(body, value.type)
    if isinstance(value.type, ErrorType) or lasting is None:
        return returned if lasting is not None else _report_shape(body, value)
    if way.result not in body.scope.bindings and body.flow.dead == way.dead:
        body.flow.rises.starts.setdefault((way.path, way.span, way.result), lasting)
        body.flow.rises.again.add(way.span)
    return [*bind(body, way.result, value.span, value, node.span), *returned]


def _lasting(body: Body, type_: Type) -> Type | None:
    """The type of a result after the loop, where its indices mean nothing; None where it has none there."""
    if isinstance(type_, IntType):
        return RunIntType() if _indices(body, type_) else type_
    inner = parts(type_)
    if inner is not None:
        items = [_lasting(body, item) for item in inner]
        known = [item for item in items if item is not None]
        assert isinstance(type_, Aggregate)
        whole = with_parts(type_, known) if len(known) == len(items) else None
        return None if whole is None or _indices(body, whole) else whole
    scaled = isinstance(type_, TensorType) and type_.is_scaled
    return None if scaled or isinstance(type_, ListType) or _indices(body, type_) else type_


def _indices(body: Body, type_: Type) -> list[str]:
    return [name for size in sizes_in(type_) for name in sorted(size.symbols()) if body.facts.is_index(name)]


def _report_shape(body: Body, value: typed.Expr) -> list[typed.Stmt]:
    """Sizes that change from iteration to iteration are those of no value after the loop."""
    indices = _indices(body, value.type)
    if indices:
        body.sink.error(E0227, at=value.span, index=indices[0])
    else:
        body.sink.error(E0299, at=value.span, feature=f"a `return` of {type_text(value.type)} inside a loop")
    return []


def _finish(body: Body, node: ast.For | ast.While, way: Exit, rest: Sequence[ast.Stmt]) -> Sequence[typed.Stmt]:
    """What follows the loop: the `return` that it asked for, or the statements after it."""
    returned = body.scope.bindings[way.returned].type
    given = ast.Return(node.span, ast.Name(node.span, way.result))
    if returned == BoolType(False) or way.result not in body.scope.bindings:
        return body.rules.block(body, rest)
    if returned == BoolType(True) or is_endless(node):
        return body.rules.block(body, [given])
    return check_if(body, ast.If(node.span, ast.Name(node.span, way.returned), (given,), ()), rest)
