"""Types of expressions: the dispatch, literals, and the conditional expression.

Enters: an expression of the syntax tree, in a body. Leaves: a typed expression; one that is wrong has a diagnostic
and the error type, which nothing complains about again.
"""

from __future__ import annotations

from tesserac.check.analysis.uniformity import require_uniformity
from tesserac.check.expressions.attributes import infer_attribute
from tesserac.check.expressions.call_forms import infer_call
from tesserac.check.expressions.closures import infer_lambda
from tesserac.check.expressions.comparisons import infer_comparison
from tesserac.check.expressions.comprehensions import infer_comprehension
from tesserac.check.expressions.late_texts import refuse_text
from tesserac.check.expressions.operations import infer_binary, infer_logical, infer_unary
from tesserac.check.guards.assumed import assuming, relies_on
from tesserac.check.model import typed
from tesserac.check.model.message_text import change_texts, structure_text, type_text
from tesserac.check.operators.apply import meet_storage
from tesserac.check.places.indexing import index_value
from tesserac.check.places.masked import suggest_where
from tesserac.check.provenance.creations import suggest_dtype
from tesserac.check.state.body import Body
from tesserac.check.state.evaluation import apart
from tesserac.check.values.common_types import converted, meet
from tesserac.check.values.conditions import (
    Selection,
    check_excluded,
    checks_excluded,
    compares_ints,
    require_condition,
)
from tesserac.check.values.dicts import infer_dict
from tesserac.check.values.globals import infer_name
from tesserac.check.values.tuples import make_tuple
from tesserac.check.values.type_values import is_type_application, type_application
from tesserac.diag.codes.names import E0210, E0215, E0299
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import BoolType, ErrorType, FloatType, IntType, NoneType, OperatorType, StrType, TensorType

_LATER = {
    ast.FunctionType: "a function type as a value",
    ast.Slice: "a slice outside `[...]`",
    ast.EllipsisLiteral: "`...` outside `[...]`",
}


def infer_expression(body: Body, node: ast.Expr) -> typed.Expr:
    """The typed form of one expression."""
    match node:
        case ast.Name():
            return infer_name(body, node)
        case ast.BinaryOp():
            return infer_binary(body, node)
        case ast.UnaryOp():
            return infer_unary(body, node)
        case ast.Call():
            return _checked_call(body, node)
        case ast.Attribute():
            return infer_attribute(body, node)
        case ast.Subscript():
            return _applied(body, node)
        case ast.Comparison():
            return infer_comparison(body, node)
        case ast.LogicalOp():
            return infer_logical(body, node)
        case ast.Conditional():
            return _conditional(body, node)
    return _literal(body, node)


def _checked_call(body: Body, node: ast.Call) -> typed.Expr:
    value = infer_call(body, node)
    if isinstance(value.type, ErrorType):
        suggest_where(body, node)
    return value


def _applied(body: Body, node: ast.Subscript) -> typed.Expr:
    """`Name[...]` is type application where Name is a type, else indexing."""
    if is_type_application(body, node):
        return type_application(body, node)
    return index_value(body, body.expression(node.value), node)


def _literal(body: Body, node: ast.Expr) -> typed.Expr:
    """A value that is written as it is."""
    match node:
        case ast.IntLiteral(value=number):
            return typed.Static(IntType(Dim.const(number)), node.span)
        case ast.FloatLiteral(value=fraction):
            return typed.Static(FloatType(fraction), node.span)
        case ast.BoolLiteral(value=truth):
            return typed.Static(BoolType(truth), node.span)
        case ast.StringLiteral(value=text):
            return typed.Static(StrType(text), node.span)
        case ast.NoneLiteral():
            return typed.Static(NoneType(), node.span)
    return _put_together(body, node)


def _put_together(body: Body, node: ast.Expr) -> typed.Expr:
    """A value made of others."""
    match node:
        case ast.TupleExpr(items=items) | ast.ListExpr(items=items):
            return make_tuple([body.expression(item) for item in items], node.span)
        case ast.Lambda():
            return infer_lambda(body, node)
        case ast.ListComprehension() | ast.DictComprehension():
            return infer_comprehension(body, node)
        case ast.DictExpr():
            return infer_dict(body, node)
        case ast.FString():
            refuse_text(body, node)
            return body.error(node.span)
    body.sink.error(E0299, at=node.span, feature=_LATER[type(node)])
    return body.error(node.span)


def _conditional(body: Body, node: ast.Conditional) -> typed.Expr:
    branch = Selection(node.test, node.then, node.otherwise, node.span)
    test = require_condition(body, body.expression(node.test), branch)
    if isinstance(test.type, BoolType):
        kept, other = (node.then, node.otherwise) if test.type.value else (node.otherwise, node.then)
        if checks_excluded(body, node.test):
            check_excluded(body, node.test, lambda: apart(body, lambda: body.expression(other)))
        return body.expression(kept)
    if isinstance(test.type, ErrorType) and body.needs_value:
        return test  # a call knows which side it takes
    body.forks = body.forks or (bool(body.sizes.static_symbols) and compares_ints(body, node.test))
    first, checked = len(body.devices.meetings), body.sizes.checked
    then, otherwise = (_side(body, test, side, side is node.then) for side in (node.then, node.otherwise))
    require_uniformity(body, first, test, node.test.span)
    then, otherwise = _meet_other(body, then, otherwise), _meet_other(body, otherwise, then)
    type_ = meet(body, then.type, otherwise.type)
    if type_ is None:
        if not isinstance(test.type, ErrorType):
            _report_sides(body, node, then, otherwise)
        return body.error(node.span)
    if isinstance(type_, ErrorType) or isinstance(test.type, ErrorType):
        return body.error(node.span)
    if isinstance(type_, OperatorType):
        then, otherwise = (converted(body, side, type_) for side in (then, otherwise))
    return typed.Conditional(type_, node.span, test, then, otherwise, relies_on(body, test, checked))


def _side(body: Body, test: typed.Expr, node: ast.Expr, holds: bool) -> typed.Expr:
    """What is computed only where the condition holds, or does not."""
    with assuming(body, test, holds=holds):
        return apart(body, lambda: body.expression(node))


def _report_sides(body: Body, node: ast.Conditional, one: typed.Expr, other: typed.Expr) -> None:
    """Two values between which only the run decides have one type; an int has its own, which is its value."""
    then, otherwise = one.type, other.type
    if isinstance(then, IntType) and isinstance(otherwise, IntType):
        draft = body.sink.error(E0215, at=node.test.span, what="what decides between two ints")
        draft.remark("`where(test, cast(a, i64), cast(b, i64))` decides in the run")
        return
    structure = structure_text(then, otherwise)
    expected, found = change_texts(then, otherwise).values() if structure else map(type_text, (then, otherwise))
    draft = body.sink.error(E0210, at=node.otherwise.span, expected=expected, found=found)
    draft.note(node.then.span, f"this is {expected}, and both sides have one type")
    if structure:
        draft.remark(structure)
    for value, wanted in ((one, otherwise), (other, then)):
        if isinstance(wanted, TensorType) and isinstance(value.type, TensorType) and value.type.dims == wanted.dims:
            suggest_dtype(body, draft, value, wanted)
    sides = ((then, otherwise, node.otherwise), (otherwise, then, node.then))
    for tensor, number, side in sides:
        if isinstance(tensor, TensorType) and isinstance(number, IntType | FloatType):
            dims = ", ".join(map(str, tensor.dims)) + ("," if tensor.rank == 1 else "")
            full = f"full(({dims}), {body.rules.text(side.span)}, dtype={tensor.dtype})"
            draft.replace("that number at every place", side.span, full)


def _meet_other(body: Body, value: typed.Expr, other: typed.Expr) -> typed.Expr:
    """A number beside a 0-d tensor becomes one."""
    if isinstance(value.type, IntType | FloatType) and isinstance(other.type, TensorType) and not other.type.dims:
        met = meet_storage(body, value, other.type.dtype, other.type.policy)
        return body.error(value.span) if met is None else met
    return value
