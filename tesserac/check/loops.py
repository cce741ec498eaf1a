"""Loops: `for` over a range, `for` over a tuple, `while`.

Enters: a loop of the syntax tree. Leaves: a typed loop with the names it carries, each with the one type it has at
every turn; a tuple is unrolled. A name bound only inside has no value afterwards, since there may be no turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from tesserac.base.source import Span
from tesserac.check import typed
from tesserac.check.body import Body, is_static
from tesserac.check.conditions import require_condition
from tesserac.check.control import assigned_names
from tesserac.check.scope import Binding, Pinned
from tesserac.check.tuples import tuple_items
from tesserac.check.words import type_text
from tesserac.diag.codes.names import E0205, E0210, E0211, E0213, E0215, E0299
from tesserac.syntax import ast
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import BoolType, ErrorType, FloatType, IntType, ListType, TensorType, TupleType


def check_loop(body: Body, node: ast.For | ast.While) -> list[typed.Stmt]:
    return _check_for(body, node) if isinstance(node, ast.For) else _check_while(body, node)


def _check_for(body: Body, node: ast.For) -> list[typed.Stmt]:
    if not isinstance(node.target, ast.Name):
        body.sink.error(E0299, at=node.target.span, feature="a loop that unpacks its items")
        return []
    if _is_range(body, node.iterable):
        assert isinstance(node.iterable, ast.Call)
        return _range_loop(body, node, node.target, node.iterable)
    items = body.expression(node.iterable)
    if isinstance(items.type, TupleType):
        return _unrolled(body, node, node.target, items)
    if isinstance(items.type, ListType):
        body.unknown_count(items.type.count, node.iterable.span)
    elif isinstance(items.type, TensorType):
        draft = body.sink.error(E0213, at=node.iterable.span)
        draft.remark("loop over `range(N)` and index, or use `scan` or `vmap`")
    elif not isinstance(items.type, ErrorType):
        expected = "a range, a tuple or a list"
        body.sink.error(E0210, at=node.iterable.span, expected=expected, found=type_text(items.type))
    return []


def _is_range(body: Body, node: ast.Expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.function, ast.Name):
        return False
    return node.function.id == "range" and "range" not in body.scope.bindings


def _unrolled(body: Body, node: ast.For, target: ast.Name, items: typed.Expr) -> list[typed.Stmt]:
    """A loop over a tuple is its body once per item."""
    block: list[typed.Stmt] = []
    for item in tuple_items(items, target.span):
        body.scope.bind(Binding(target.id, item.type, target.span, item))
        if not is_static(item.type):
            block.append(typed.Bind(node.span, target.id, item))
        body.loops += 1
        block += body.rules.block(body, node.body)
        body.loops -= 1
    return block


def _range_loop(body: Body, node: ast.For, target: ast.Name, call: ast.Call) -> list[typed.Stmt]:
    bounds = _bounds(body, call)
    if bounds is None:
        return []
    start, stop, step = bounds
    symbol = _index_symbol(body, target.id)
    low, high = (start, stop - 1) if step > 0 else (stop + 1, start)
    body.facts.state_index(symbol, low, high)
    loop = _enter(body, node.body, node.target.span.to(node.iterable.span), target.id)
    body.scope.bind(Binding(target.id, IntType(Dim.sym(symbol)), target.span, None))
    block = _turn(body, node.body)
    results = _leave(body, loop)
    bounds_typed = [typed.Static(IntType(bound), call.span) for bound in (start, stop)]
    return [typed.For(node.span, symbol, bounds_typed[0], bounds_typed[1], step, block, results)]


def _bounds(body: Body, call: ast.Call) -> tuple[Dim, Dim, int] | None:
    values = [body.expression(argument.value) for argument in call.arguments]
    if not 1 <= len(values) <= 3 or any(argument.name for argument in call.arguments):
        body.sink.error(E0205, at=call.span, problem="`range` takes a stop, or a start, a stop and a step")
        return None
    sizes: list[Dim] = []
    for value in values:
        if isinstance(value.type, IntType):
            sizes.append(value.type.value)
        elif isinstance(value.type, TensorType):
            body.sink.error(E0299, at=value.span, feature="a trip count that is a tensor")
            return None
        else:
            if not isinstance(value.type, ErrorType):
                body.sink.error(E0210, at=value.span, expected="an int", found=type_text(value.type))
            return None
    start, stop, step = (ZERO, *sizes, ONE) if len(sizes) == 1 else (*sizes, ONE)[:3]
    if step.constant is None or step.constant == 0:
        body.sink.error(E0215, at=values[-1].span, what="the step of a range, not zero,")
        return None
    return start, stop, step.constant


def _index_symbol(body: Body, name: str) -> str:
    """The loop index as a size of its own; another name where that one is taken by a size."""
    symbol, number = name, 1
    while symbol in body.symbols or body.facts.is_index(symbol):
        number += 1
        symbol = f"{name}_{number}"
    return symbol


def _check_while(body: Body, node: ast.While) -> list[typed.Stmt]:
    loop = _enter(body, node.body, node.test.span, None)
    test = require_condition(body, body.expression(node.test))
    if isinstance(test.type, BoolType) and test.type.value:
        draft = body.sink.error(E0211, at=node.test.span, problem="this loop never ends")
        draft.remark("its condition does not depend on anything that a turn changes")
    block = _turn(body, node.body)
    results = _leave(body, loop)
    if isinstance(test.type, BoolType | ErrorType):
        return []
    return [typed.While(node.span, test, block, results)]


@dataclass(frozen=True)
class _Loop:
    """The names bound in a loop, and what an enclosing loop pins."""

    names: tuple[str, ...]
    outer: dict[str, Pinned]


def _enter(body: Body, statements: tuple[ast.Stmt, ...], loop: Span, index: str | None) -> _Loop:
    """Pins the names that live before the loop and are bound in it."""
    names = assigned_names(statements)
    outer = dict(body.scope.pinned)
    for name in names:
        binding = body.scope.bindings.get(name)
        if binding is None or name == index:
            continue
        if isinstance(binding.type, FloatType):
            binding = Binding(name, FloatType(), binding.span, None)
            body.scope.bind(binding)
        body.scope.pinned[name] = Pinned(binding, loop)
    return _Loop(tuple(dict.fromkeys([*names, *([index] if index else [])])), outer)


def _turn(body: Body, statements: tuple[ast.Stmt, ...]) -> typed.Block:
    body.loops += 1
    block = body.rules.block(body, statements)
    body.loops -= 1
    return block


def _leave(body: Body, loop: _Loop) -> tuple[typed.Carried, ...]:
    """Names after the loop: the carried ones keep their type, the others have no value."""
    carried: list[typed.Carried] = []
    pins, body.scope.pinned = body.scope.pinned, loop.outer
    for name in loop.names:
        inside = body.scope.bindings.get(name)
        if name not in pins:
            if inside is not None:
                body.scope.lose(name, inside.span)
            continue
        binding = pins[name].binding
        body.scope.bind(Binding(name, binding.type, binding.span, None))
        if not is_static(binding.type):
            carried.append(typed.Carried(name, binding.type))
    return tuple(carried)
