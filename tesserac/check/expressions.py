"""Types of expressions.

Enters: an expression of the syntax tree, in a body. Leaves: a typed expression; one that is wrong has a diagnostic
and the error type, which nothing complains about again.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check import typed
from tesserac.check.annotations import read_attribute
from tesserac.check.apply import apply_operator, meet_storage
from tesserac.check.arguments import Arg, Callee, check_arguments
from tesserac.check.body import Body
from tesserac.check.builtin_calls import call_builtin, transpose
from tesserac.check.calls import call_function
from tesserac.check.conform import agree
from tesserac.check.indexing import index_value
from tesserac.check.operator_calls import call_operator
from tesserac.check.resolve import (
    BuiltinRef,
    ConstantRef,
    DTypeRef,
    FunctionRef,
    LaterRef,
    LibraryRef,
    OperatorRef,
    Resolved,
    closest,
)
from tesserac.check.words import type_text
from tesserac.diag.codes.names import E0201, E0203, E0207, E0208, E0212, E0214, E0299
from tesserac.diag.codes.precision import E0408
from tesserac.ops.compare import BitAnd, BitNot, BitOr, BitXor, Equal, Less, LessEqual, NotEqual
from tesserac.ops.contract import MatMul
from tesserac.ops.elementwise import Add, Div, FloorDiv, Mod, Mul, Neg, Power, Sub
from tesserac.ops.registry import Operator
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL
from tesserac.types.policy import PolicyError
from tesserac.types.ty import (
    BoolType,
    DTypeType,
    ErrorType,
    FloatType,
    FunctionType,
    IntType,
    NoneType,
    StrType,
    TensorType,
    TupleType,
    Type,
)

_BINARY: dict[str, Operator] = {
    "+": Add(), "-": Sub(), "*": Mul(), "/": Div(), "//": FloorDiv(), "%": Mod(), "@": MatMul(),
    "&": BitAnd(), "|": BitOr(), "^": BitXor(),
}  # fmt: skip
_COMPARISONS: dict[str, Operator] = {
    "==": Equal(), "!=": NotEqual(), "<": Less(), "<=": LessEqual(), ">": Less(), ">=": LessEqual(),
}  # fmt: skip
_EXCHANGED = (">", ">=")
_LATER = {
    ast.Lambda: "lambda",
    ast.ListComprehension: "a comprehension",
    ast.DictComprehension: "a comprehension",
    ast.DictExpr: "a dict",
    ast.FString: "an f-string outside `print` and `assert`",
    ast.FunctionType: "a function type as a value",
    ast.Slice: "a slice outside `[...]`",
    ast.EllipsisLiteral: "`...` outside `[...]`",
}


def infer_expression(body: Body, node: ast.Expr) -> typed.Expr:
    """The typed form of one expression."""
    match node:
        case ast.Name():
            return _name(body, node)
        case ast.BinaryOp():
            return _binary(body, node)
        case ast.UnaryOp():
            return _unary(body, node)
        case ast.Call():
            return _call(body, node)
        case ast.Attribute():
            return _attribute(body, node)
        case ast.Subscript():
            return index_value(body, body.expression(node.value), node)
        case ast.Comparison():
            return _comparison(body, node)
        case ast.LogicalOp():
            return _logical(body, node)
        case ast.Conditional():
            return _conditional(body, node)
    return _literal(body, node)


def _literal(body: Body, node: ast.Expr) -> typed.Expr:
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
        case ast.TupleExpr(items=items) | ast.ListExpr(items=items):
            return make_tuple([body.expression(item) for item in items], node.span)
    body.sink.error(E0299, at=node.span, feature=_LATER[type(node)])
    return body.error(node.span)


def make_tuple(items: list[typed.Expr], span: Span) -> typed.Expr:
    type_ = TupleType(tuple(item.type for item in items))
    if all(isinstance(item, typed.Static) for item in items):
        return typed.Static(type_, span)
    return typed.TupleOf(type_, span, tuple(items))


# ----------------------------------------------------------------------------------------------------- names


def _name(body: Body, node: ast.Name) -> typed.Expr:
    scope, name = body.scope, node.id
    if name in scope.bindings:
        return body.local(name, node.span)
    if name in scope.half_bound:
        draft = body.sink.error(E0203, at=node.span, name=name)
        draft.note(scope.half_bound[name], "it has a value only after this")
        return body.error(node.span)
    if name in body.symbols:
        return typed.Static(IntType(body.symbols[name]), node.span)
    return _global(body, node, body.rules.resolve(name))


def _global(body: Body, node: ast.Name, meaning: Resolved | None) -> typed.Expr:
    match meaning:
        case ConstantRef(owner, name):
            return body.rules.constant(body, owner, name, node.span)
        case FunctionRef(owner, name):
            return typed.Static(FunctionType(owner, name), node.span)
        case DTypeRef(dtype):
            return typed.Static(DTypeType(dtype), node.span)
        case OperatorRef() | BuiltinRef() | LibraryRef():
            body.sink.error(E0299, at=node.span, feature=f"`{node.id}` as a value")
        case LaterRef():
            pass
        case None:
            unknown_name(body, node)
    return body.error(node.span)


def unknown_name(body: Body, node: ast.Name) -> None:
    known = [*body.scope.bindings, *body.symbols, *body.rules.suggestions()]
    draft = body.sink.error(E0201, at=node.span, name=node.id)
    guess = closest(node.id, known)
    if guess:
        draft.replace(f"did you mean `{guess}`?", node.span, guess)


# ------------------------------------------------------------------------------------------------- operators


def _binary(body: Body, node: ast.BinaryOp) -> typed.Expr:
    left = body.expression(node.left)
    if node.op == "@" and isinstance(left.type, DTypeType):
        return _policy(body, node, left.type)
    right = body.expression(node.right)
    if node.op == "**":
        return _power(body, node, left, right)
    if isinstance(left.type, TupleType) and isinstance(right.type, TupleType) and node.op == "+":
        return _joined(left, right, node.span)
    if node.op not in _BINARY:
        body.sink.error(E0299, at=node.op_span, feature=f"`{node.op}`")
        return body.error(node.span)
    return apply_operator(body, _BINARY[node.op], [left, right], node.op_span, node.span)


def _joined(left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr:
    items: list[typed.Expr] = []
    for side in (left, right):
        assert isinstance(side.type, TupleType)
        if isinstance(side, typed.TupleOf):
            items += side.items
        elif isinstance(side, typed.Static):
            items += [typed.Static(item, span) for item in side.type.items]
        else:
            items += [typed.Item(item, span, side, i) for i, item in enumerate(side.type.items)]
    return make_tuple(items, span)


def _policy(body: Body, node: ast.BinaryOp, dtype: DTypeType) -> typed.Expr:
    try:
        return typed.Static(DTypeType(dtype.dtype, read_attribute(dtype.policy, node.right)), node.span)
    except PolicyError as error:
        body.sink.error(E0408, at=node.right.span, problem=str(error))
        return body.error(node.span)


def _power(body: Body, node: ast.BinaryOp, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    exponent = right.type.value.constant if isinstance(right.type, IntType) else None
    if isinstance(left.type, ErrorType) or isinstance(right.type, ErrorType):
        return body.error(node.span)
    if exponent is None or abs(exponent) > 64:
        body.sink.error(E0299, at=node.op_span, feature="`**` with an exponent that is not a small whole number")
        return body.error(node.span)
    if isinstance(left.type, IntType) and exponent >= 0:
        power = Dim.const(1)
        for _ in range(exponent):
            power = power * left.type.value
        return typed.Static(IntType(power), node.span)
    return apply_operator(body, Power(exponent), [left], node.op_span, node.span)


def _unary(body: Body, node: ast.UnaryOp) -> typed.Expr:
    operand = body.expression(node.operand)
    if node.op == "not":
        return apply_operator(body, BitNot(), [require_condition(body, operand)], node.op_span, node.span)
    if node.op == "+":
        return operand
    op: Operator = Neg() if node.op == "-" else BitNot()
    return apply_operator(body, op, [operand], node.op_span, node.span)


def _logical(body: Body, node: ast.LogicalOp) -> typed.Expr:
    """`and`, `or`: one bool each. What the first decides while compiling leaves the second unasked."""
    left = require_condition(body, body.expression(node.left))
    if isinstance(left.type, BoolType) and left.type.value == (node.op == "or"):
        return left
    right = body.expression(node.right)
    if isinstance(left.type, ErrorType):
        return left
    right = require_condition(body, right)
    if isinstance(left.type, BoolType):
        return right
    op: Operator = BitAnd() if node.op == "and" else BitOr()
    return apply_operator(body, op, [left, right], node.op_span, node.span)


def require_condition(body: Body, value: typed.Expr) -> typed.Expr:
    """A compile-time bool or a `Tensor[bool]` without dims."""
    type_ = value.type
    if isinstance(type_, BoolType | ErrorType) or type_ == TensorType((), BOOL):
        return value
    draft = body.sink.error(E0214, at=value.span, found=type_text(type_))
    if isinstance(type_, TensorType) and type_.dtype == BOOL:
        draft.remark("for every element use `&`, `|`, `~` and `where`")
    return body.error(value.span)


def _comparison(body: Body, node: ast.Comparison) -> typed.Expr:
    left = body.expression(node.first)
    result: typed.Expr | None = None
    for link in node.links:
        right = body.expression(link.operand)
        one = _compare(body, link, left, right, node.span)
        both = [one] if result is None else [result, one]
        result = one if result is None else apply_operator(body, BitAnd(), both, link.op_span, node.span)
        left = right
    assert result is not None
    return result


def _compare(
    body: Body, link: ast.ComparisonLink, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    if isinstance(left.type, ErrorType) or isinstance(right.type, ErrorType):
        return body.error(span)
    identity = link.op in ("is", "is not")
    plain = (StrType, NoneType, DTypeType, TupleType)
    if identity or (isinstance(left.type, plain) and isinstance(right.type, plain)):
        return _identity(body, link, left, right, span)
    if link.op not in _COMPARISONS:
        body.sink.error(E0299, at=link.op_span, feature=f"`{link.op}`")
        return body.error(span)
    operands = [right, left] if link.op in _EXCHANGED else [left, right]
    return apply_operator(body, _COMPARISONS[link.op], operands, link.op_span, span)


def _identity(
    body: Body, link: ast.ComparisonLink, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    """Values known while compiling compare by value; `is` only asks for None."""
    if link.op in ("is", "is not") and not isinstance(right.type, NoneType):
        body.sink.error(E0299, at=link.op_span, feature="`is` with anything but None")
        return body.error(span)
    same = left.type == right.type
    return typed.Static(BoolType(same if link.op in ("is", "==") else not same), span)


def _conditional(body: Body, node: ast.Conditional) -> typed.Expr:
    test = require_condition(body, body.expression(node.test))
    if isinstance(test.type, BoolType):
        kept, other = (node.then, node.otherwise) if test.type.value else (node.otherwise, node.then)
        if not decides_none(node.test):
            body.dead += 1
            body.expression(other)
            body.dead -= 1
        return body.expression(kept)
    then, otherwise = body.expression(node.then), body.expression(node.otherwise)
    then, otherwise = _meet_other(body, then, otherwise), _meet_other(body, otherwise, then)
    type_ = agree(then.type, otherwise.type)
    if type_ is None:
        before, after = type_text(then.type), type_text(otherwise.type)
        body.sink.error(E0212, at=node.otherwise.span, name="this value", before=before, after=after)
        return body.error(node.span)
    if isinstance(type_, ErrorType) or isinstance(test.type, ErrorType):
        return body.error(node.span)
    return typed.Conditional(type_, node.span, test, then, otherwise)


def _meet_other(body: Body, value: typed.Expr, other: typed.Expr) -> typed.Expr:
    """A number beside a 0-d tensor becomes one."""
    if isinstance(value.type, IntType | FloatType) and isinstance(other.type, TensorType) and not other.type.dims:
        met = meet_storage(body, value, other.type.dtype, other.type.policy)
        return body.error(value.span) if met is None else met
    return value


def decides_none(test: ast.Expr) -> bool:
    """Whether a test asks for None: then the other branch may rely on the answer and is not looked at."""
    match test:
        case ast.Comparison(links=links):
            return any(link.op in ("is", "is not") for link in links)
        case ast.LogicalOp(left=left, right=right):
            return decides_none(left) or decides_none(right)
        case ast.UnaryOp(op="not", operand=operand):
            return decides_none(operand)
    return False


# ------------------------------------------------------------------------------------- calls and attributes


def _call(body: Body, node: ast.Call) -> typed.Expr:
    function = node.function
    if isinstance(function, ast.Attribute):
        return _call_attribute(body, node, function)
    if isinstance(function, ast.Name):
        callee = Callee(function.id, function.span, node.span)
        local = body.scope.bindings.get(function.id)
        if local is None and function.id not in body.scope.half_bound and function.id not in body.symbols:
            meaning = body.rules.resolve(function.id)
            if meaning is None:
                unknown_name(body, function)
            return call_meaning(body, meaning, check_arguments(body, node.arguments), callee)
    value = body.expression(function)
    if isinstance(value.type, FunctionType):
        callee = Callee(value.type.name, function.span, node.span)
        ref = FunctionRef(value.type.module, value.type.name)
        return call_function(body, ref, check_arguments(body, node.arguments), callee)
    if not isinstance(value.type, ErrorType):
        body.sink.error(E0207, at=function.span, what=type_text(value.type))
    return body.error(node.span)


def call_meaning(body: Body, meaning: Resolved | None, args: list[Arg], callee: Callee) -> typed.Expr:
    """A call of what a name outside the function means."""
    match meaning:
        case FunctionRef():
            return call_function(body, meaning, args, callee)
        case OperatorRef(op):
            return call_operator(body, op, args, callee)
        case BuiltinRef(name):
            return call_builtin(body, name, args, callee)
        case ConstantRef() | DTypeRef() | LibraryRef():
            body.sink.error(E0207, at=callee.at, what=f"`{callee.name}`")
    return body.error(callee.span)


def _call_attribute(body: Body, node: ast.Call, function: ast.Attribute) -> typed.Expr:
    """`op.name(...)`, or a method: the function of that name with the value as its first argument."""
    callee = Callee(function.name, function.name_span, node.span)
    base = function.value
    is_local = isinstance(base, ast.Name) and (base.id in body.scope.bindings or base.id in body.symbols)
    if isinstance(base, ast.Name) and not is_local and isinstance(body.rules.resolve(base.id), LibraryRef):
        meaning = body.rules.library(function.name)
        if meaning is None:
            body.sink.error(E0208, at=function.name_span, what="the library", name=function.name)
        return call_meaning(body, meaning, check_arguments(body, node.arguments), callee)
    receiver = body.expression(base)
    if isinstance(receiver.type, ErrorType):
        return receiver
    meaning = body.rules.resolve(function.name)
    if not isinstance(meaning, FunctionRef | OperatorRef | BuiltinRef):
        _unknown_attribute(body, receiver.type, function)
        return body.error(node.span)
    args = [Arg(None, base.span, receiver), *check_arguments(body, node.arguments)]
    return call_meaning(body, meaning, args, callee)


def _attribute(body: Body, node: ast.Attribute) -> typed.Expr:
    base = node.value
    if isinstance(base, ast.Name) and base.id not in body.scope.bindings and base.id not in body.symbols:
        meaning = body.rules.resolve(base.id)
        if isinstance(meaning, LibraryRef):
            return _global(body, ast.Name(node.span, node.name), body.rules.library(node.name))
    value = body.expression(base)
    type_ = value.type
    if isinstance(type_, TensorType):
        match node.name:
            case "T":
                return transpose(body, value, Callee(".T", node.name_span, node.span))
            case "shape":
                return typed.Static(TupleType(tuple(map(IntType, type_.dims))), node.span)
            case "dtype":
                return typed.Static(DTypeType(type_.dtype, type_.policy), node.span)
            case "rank" | "ndim":
                return typed.Static(IntType(Dim.const(type_.rank)), node.span)
    if not isinstance(type_, ErrorType):
        _unknown_attribute(body, type_, node)
    return body.error(node.span)


def _unknown_attribute(body: Body, type_: Type, node: ast.Attribute) -> None:
    draft = body.sink.error(E0208, at=node.name_span, what=type_text(type_), name=node.name)
    known = ["T", "shape", "dtype", "rank", *body.rules.suggestions()] if isinstance(type_, TensorType) else []
    guess = closest(node.name, known)
    if guess:
        draft.replace(f"did you mean `{guess}`?", node.name_span, guess)
