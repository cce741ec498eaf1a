"""Operations written with signs: arithmetic, logic, powers, policies.

Enters: an operation of the syntax tree. Leaves: the operator it stands for, applied to its checked operands.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.algebra import rules as algebra
from tesserac.check.analysis.unasked import may_end
from tesserac.check.analysis.uniformity import require_uniformity
from tesserac.check.calls.functions import call_function
from tesserac.check.declarations.annotations import read_attribute
from tesserac.check.guards.assumed import assuming, compares_sizes, relies_on
from tesserac.check.model import typed
from tesserac.check.model.operator_use import Use
from tesserac.check.names.foreign_texts import from_percent
from tesserac.check.names.refs import FunctionRef
from tesserac.check.operators.apply import apply_operator
from tesserac.check.operators.precision import explain_two_dtypes
from tesserac.check.operators.vectors import apply_to_structs, has_struct
from tesserac.check.places.listed_numbers import MANY_NUMBERS, filled_tensor
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.check.state.evaluation import apart
from tesserac.check.values.bits import power_of_ints
from tesserac.check.values.conditions import is_elementwise, refuse_default, refuse_elementwise, require_condition
from tesserac.check.values.generic_items import join_lists
from tesserac.check.values.tuples import join_tuples, make_tuple, tuple_items
from tesserac.check.values.type_values import TYPE, first_alternative, with_type_attribute
from tesserac.diag.codes.names import E0210, E0215, E0299
from tesserac.diag.codes.precision import E0408
from tesserac.ops.compare import (
    BitAnd,
    BitNot,
    BitOr,
    BitXor,
    LeftShift,
    RightShift,
)
from tesserac.ops.contract import MatMul
from tesserac.ops.elementwise import Add, Div, FloorDiv, Mod, Mul, Neg, Power, Sub
from tesserac.ops.powers import Pow
from tesserac.ops.registry import Operator
from tesserac.syntax import ast
from tesserac.types.dtype import BOOL
from tesserac.types.policy import PolicyError, fitting
from tesserac.types.ty import (
    BoolType,
    DTypeType,
    ErrorType,
    IntType,
    ListType,
    NoneType,
    RecordType,
    RunIntType,
    StrType,
    TensorType,
    TupleType,
)

BINARY: dict[str, Operator] = {
    "+": Add(), "-": Sub(), "*": Mul(), "/": Div(), "//": FloorDiv(), "%": Mod(), "@": MatMul(),
    "&": BitAnd(), "|": BitOr(), "^": BitXor(), "<<": LeftShift(), ">>": RightShift(),
}  # fmt: skip
_OF_FLOATS = {"%": "remainder", "//": "floor_divide"}
"""What is an operator of integers, and of floats a function of the library, which loops."""
_INTEGER_POWER = "integer_power"


def infer_binary(body: Body, node: ast.BinaryOp) -> typed.Expr:
    left = body.expression(node.left)
    if node.op == "@" and isinstance(left.type, DTypeType):
        return _policy(body, node, left.type)
    if node.op == "@" and isinstance(left.type, RecordType) and left.type.kind == TYPE:
        return with_type_attribute(body, node, left.type)
    right = body.expression(node.right)
    if node.op == "∘" or algebra.has_operator(left, right):
        return algebra.binary(body, node, left, right)
    if node.op == "**":
        return _power(body, node, left, right)
    if isinstance(left.type, TupleType) and isinstance(right.type, TupleType) and node.op == "+":
        return join_tuples(left, right, node.span)
    if node.op == "+" and {type(left.type), type(right.type)} in ({ListType}, {ListType, TupleType}):
        return join_lists(body, left, right, node.span)
    if node.op == "*" and {type(left.type), type(right.type)} in ({TupleType, IntType}, {TupleType, RunIntType}):
        return _repeat(body, node, *((left, right) if isinstance(left.type, TupleType) else (right, left)))
    if node.op == "%" and isinstance(left.type, StrType):
        return _refuse_filled_text(body, node)
    if node.op in _OF_FLOATS and _has_kind(left, right, "f"):
        return _spelt(body, _OF_FLOATS[node.op], [left, right], node.op_span, node.span)
    return _apply(body, BINARY[node.op], [left, right], node.op_span, node.span)


_MOST_REPEATED = 10_000
"""Items of a list that is repeated, at most: longer ones are meant as tensors."""


def _repeat(body: Body, node: ast.BinaryOp, items: typed.Expr, count: typed.Expr) -> typed.Expr:
    """`(1,) * k`: the items k times, each computed once."""
    assert isinstance(items.type, TupleType)
    number = count.type.value.constant if isinstance(count.type, IntType) else None
    parts = tuple_items(items, node.span)
    if number is None and isinstance(count.type, IntType) and body.wants_value(count.type.value):
        return body.error(node.span)
    is_short = number is not None and number * len(parts) <= _MOST_REPEATED
    if number is not None and is_short and all(isinstance(part, typed.Static | typed.Local) for part in parts):
        return make_tuple(parts * max(0, number), node.span)
    told, text = body.rules.text(count.span), body.rules.text(items.span)
    one = text[1:-1].strip().removesuffix(",")
    if is_short:
        draft = body.sink.error(E0210, at=items.span, expected="names or numbers to repeat", found="what is computed")
        draft.replace("compute it for each", node.span, f"[{one} for i in range({told})]")
        return body.error(node.span)
    if number is None:
        draft = body.sink.error(E0215, at=count.span, what=f"how often `{text}` is repeated")
    else:
        expected = f"a list of at most {_MOST_REPEATED:,} items"
        draft = body.sink.error(E0210, at=node.span, expected=expected, found=number)
    tensor = filled_tensor(parts[0], one, told) if len(parts) == 1 else None
    if tensor is not None:
        draft.replace(MANY_NUMBERS, node.span, tensor, advice=MANY_NUMBERS)
    return body.error(node.span)


def _refuse_filled_text(body: Body, node: ast.BinaryOp) -> typed.Expr:
    """`"%d" % n`."""
    draft = body.sink.error(E0210, at=node.left.span, expected="a number or a tensor", found="a text")
    draft.remark("a text with values in it is an f-string: `f\"{x:.3f}\"`")
    values = node.right.items if isinstance(node.right, ast.TupleExpr) else (node.right,)
    text = from_percent(body.rules.text(node.left.span), [body.rules.text(value.span) for value in values])
    if text is not None:
        draft.replace("an f-string says the same", node.span, text)
    return body.error(node.span)


def _has_kind(left: typed.Expr, right: typed.Expr, kinds: str) -> bool:
    return any(isinstance(value.type, TensorType) and value.type.dtype.kind in kinds for value in (left, right))


def _spelt(body: Body, name: str, operands: list[typed.Expr], at: Span, span: Span) -> typed.Expr:
    """A sign that stands for a function of the library, or, where that is checked itself, of this module; the part of
    it that is checked before has none."""
    meaning = body.rules.library(name) or body.rules.resolve(name)
    args = [Arg(None, operand.span, operand) for operand in operands]
    if isinstance(meaning, FunctionRef):
        return call_function(body, meaning, args, Callee(name, at, span))
    body.sink.error(E0299, at=at, feature=f"`{name}` in a part of the library that is checked before it")
    return body.error(span)


def _apply(body: Body, op: Operator, operands: list[typed.Expr], at: Span, span: Span) -> typed.Expr:
    rule = apply_to_structs if has_struct(operands) else apply_operator
    return rule(body, op, operands, at, span)


def _policy(body: Body, node: ast.BinaryOp, dtype: DTypeType) -> typed.Expr:
    try:
        policy = fitting(dtype.dtype, read_attribute(dtype.policy, first_alternative(body, node.right)))
        return typed.Static(DTypeType(dtype.dtype, policy), node.span)
    except PolicyError as error:
        body.sink.error(E0408, at=node.right.span, problem=str(error))
        return body.error(node.span)


def _power(body: Body, node: ast.BinaryOp, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    exponent = right.type.value.constant if isinstance(right.type, IntType) else None
    if isinstance(left.type, ErrorType) or isinstance(right.type, ErrorType):
        return body.error(node.span)
    written = isinstance(node.right, ast.UnaryOp) and exponent is not None and exponent < 0
    if isinstance(left.type, IntType) and isinstance(right.type, IntType) and not written:
        return power_of_ints(body, left.type.value, right.type.value, node.op_span, node.span)
    return raised(body, left, right, node.op_span, node.span)


def raised(body: Body, left: typed.Expr, right: typed.Expr, at: Span, span: Span) -> typed.Expr:
    """`left ** right` of tensors, or of one and a number."""
    exponent = right.type.value.constant if isinstance(right.type, IntType) else None
    is_whole = _has_kind(left, right, "iu") and not _has_kind(left, right, "fc")
    dtypes = {value.type.dtype for value in (left, right) if isinstance(value.type, TensorType)}
    if is_whole and len(dtypes) > 1:
        explain_two_dtypes(body, Use(Power(2), (left, right), at, span), left, right)
        return body.error(span)
    if is_whole and (exponent is None or exponent > 64):
        return _spelt(body, _INTEGER_POWER, [left, right], at, span)
    if exponent is None or abs(exponent) > 64:
        return apply_operator(body, Pow(), [left, right], at, span)
    return apply_operator(body, Power(exponent), [left], at, span)


def infer_unary(body: Body, node: ast.UnaryOp) -> typed.Expr:
    operand = body.expression(node.operand)
    if algebra.has_operator(operand):
        return algebra.negative(body, node, operand)
    if node.op == "not":
        inverted = require_condition(body, operand, inverted=node.span)
        return apply_operator(body, BitNot(), [inverted], node.op_span, node.span)
    if node.op == "+":
        return operand
    op: Operator = Neg() if node.op == "-" else BitNot()
    return _apply(body, op, [operand], node.op_span, node.span)


def infer_logical(body: Body, node: ast.LogicalOp) -> typed.Expr:
    """`and`, `or`: one bool each. What the first decides while compiling leaves the second unasked."""
    first = body.expression(node.left)
    if is_elementwise(first):
        return refuse_elementwise(body, node, first)
    if node.op == "or" and isinstance(first.type, NoneType):
        return refuse_default(body, node, first)
    left = require_condition(body, first)
    if isinstance(left.type, BoolType) and left.type.value == (node.op == "or"):
        return left
    if isinstance(left.type, BoolType):
        return require_condition(body, body.expression(node.right))
    if isinstance(left.type, ErrorType) and body.needs_value:
        return left  # a call knows whether the second is asked
    met, checked = len(body.devices.meetings), body.sizes.checked
    with assuming(body, left, holds=node.op == "and"):
        right = apart(body, lambda: body.expression(node.right))
    if isinstance(left.type, ErrorType):
        return left
    right = require_condition(body, right)
    sized = relies_on(body, left, checked) and not compares_sizes(right) and not isinstance(right.type, ErrorType)
    if sized or may_end(right):
        require_uniformity(body, met, left, node.left.span)
        return _decided_first(left, right, node, sized=sized)
    op: Operator = BitAnd() if node.op == "and" else BitOr()
    return apply_operator(body, op, [left, right], node.op_span, node.span)


def _decided_first(left: typed.Expr, right: typed.Expr, node: ast.LogicalOp, *, sized: bool) -> typed.Expr:
    """The second side has an effect, may end the call, or relies on sizes that are so only where the first does not
    decide."""
    one = TensorType((), BOOL)
    decided = typed.Coerce(one, node.span, typed.Static(BoolType(node.op == "or"), node.span))
    asked = typed.Coerce(one, right.span, right) if isinstance(right.type, BoolType) else right
    sides = (asked, decided) if node.op == "and" else (decided, asked)
    return typed.Conditional(one, node.span, left, sides[0], sides[1], sized)
