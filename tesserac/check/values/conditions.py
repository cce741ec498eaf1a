"""Conditions: what `if`, `while`, `assert`, `and`, `or` and `not` decide on.

Enters: a checked value. Leaves: the value, known to be one bool, or an error expression after a diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.body import Body
from tesserac.check.values.kinds import asks_kind
from tesserac.check.values.scalars import apply_to_scalars
from tesserac.diag.codes.names import E0201, E0214
from tesserac.diag.sink import Draft, Sink
from tesserac.ops.compare import NotEqual
from tesserac.syntax import ast
from tesserac.types.dims import ZERO
from tesserac.types.dtype import BOOL
from tesserac.types.ty import BoolType, ErrorType, FloatType, IntType, RunIntType, TensorType


@dataclass(frozen=True)
class Selection:
    """A branch between two values: `where` behind `before`, in the place of `whole`, makes it for every element."""

    test: ast.Expr
    then: ast.Expr
    otherwise: ast.Expr
    whole: Span
    before: str = ""


def require_condition(
    body: Body, value: typed.Expr, branch: Selection | None = None, *, every: bool = False, inverted: Span | None = None
) -> typed.Expr:
    """A compile-time bool or a `Tensor[bool]` without dims; `branch` is what it decides, where that is one value. One
    that asserts something of tensors means `every` element, and one that a `not` inverts may mean each by itself."""
    type_ = value.type
    if isinstance(type_, BoolType | ErrorType) or type_ == TensorType((), BOOL):
        return value
    if isinstance(type_, FloatType):
        return _is_not_zero(body, value)
    draft = body.sink.error(E0214, at=value.span, found=type_text(type_))
    if isinstance(type_, IntType | RunIntType) or (isinstance(type_, TensorType) and not type_.dims):
        draft.replace("ask whether it is zero", value.span, f"{_operand_text(body, value)} != 0")
    elif isinstance(type_, TensorType) and type_.dtype != BOOL:
        draft.remark("compare it: `x != 0` gives bools; `&`, `|` and `~` combine them element by element")
    elif isinstance(type_, TensorType):
        draft.remark("for every element use `&`, `|`, `~` and `where`")
        if branch is not None:
            _suggest_selection(body, draft, branch)
        if inverted is not None:
            draft.replace("`~` inverts every element", inverted, f"~{_factor_text(body, value)}")
        _suggest_whole(body, draft, value, every)
    return body.error(value.span)


def _factor_text(body: Body, value: typed.Expr) -> str:
    """What is written there, as an operand of a sign before it."""
    text = body.rules.text(value.span)
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


def _operand_text(body: Body, value: typed.Expr) -> str:
    """What is written there, as an operand of a comparison."""
    text = body.rules.text(value.span)
    return text if text.isidentifier() else f"({text})"


def refuse_elementwise(body: Body, node: ast.LogicalOp, value: typed.Expr) -> typed.Expr:
    """`x > 0 and x < 1` of tensors: the sign that works on every element is `&`."""
    draft = body.sink.error(E0214, at=value.span, found=type_text(value.type))
    draft.note(node.op_span, f"`{node.op}` decides between two bools")
    sign = "&" if node.op == "and" else "|"
    left, right = body.rules.text(node.left.span), body.rules.text(node.right.span)
    title = f"`{sign}` works on every element"
    draft.replace(title, node.span, f"({left}) {sign} ({right})", advice=title)
    return body.error(node.span)


def refuse_default(body: Body, node: ast.LogicalOp, value: typed.Expr) -> typed.Expr:
    """`mask or other` of a value that may be None, and is no bool."""
    draft = body.sink.error(E0214, at=value.span, found=type_text(value.type))
    left, right = body.rules.text(node.left.span), body.rules.text(node.right.span)
    text = f"({left} if {left} is not None else {right})"
    draft.replace("choose by whether it is None", node.span, text)
    return body.error(node.span)


def is_elementwise(value: typed.Expr) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype == BOOL and value.type.rank > 0


def _suggest_whole(body: Body, draft: Draft, value: typed.Expr, every: bool) -> None:
    """What one bool can be made of a tensor of them."""
    text = body.rules.text(value.span)
    asked = (("ask whether it holds anywhere", "any"), ("or everywhere", "all"))
    asserted = (("it holds everywhere", "all"), ("or somewhere", "any"))
    for title, function in asserted if every else asked:
        draft.replace(title, value.span, f"{function}({text})")


def _suggest_selection(body: Body, draft: Draft, branch: Selection) -> None:
    texts = [body.rules.text(part.span) for part in (branch.test, branch.then, branch.otherwise)]
    draft.replace("choose for every element", branch.whole, f"{branch.before}where({', '.join(texts)})")


def _is_not_zero(body: Body, value: typed.Expr) -> typed.Expr:
    """A number decides by whether it is zero: while compiling where it is known, else in the run."""
    zero = typed.Static(IntType(ZERO), value.span)
    return apply_to_scalars(body, NotEqual(), [value, zero], value.span, value.span)


def checks_excluded(body: Body, test: ast.Expr) -> bool:
    """Whether the branch that a known test excludes is checked too: where the function is defined, for mistakes are
    mistakes whichever branch is kept; not for the types and values of a call, which the test may keep out."""
    return not body.at_call and not _decides_types(test)


def check_excluded(
    body: Body, test: ast.Expr, check: Callable[[], object], spared: tuple[str, ...] = ()
) -> None:
    """Checks what no run does; of codes that start as `spared` nothing is said. Where the text itself decides (`if
    False`) no call can bring it back: only its names are held to anything."""
    sink, body.sink = body.sink, Sink()
    body.flow.dead += 1
    check()
    body.flow.dead -= 1
    said, body.sink = body.sink, sink
    settled = _is_settled(test)
    sink.adopt(said, lambda code: code == E0201.id or not (settled or code.startswith(spared)))


def _is_settled(test: ast.Expr) -> bool:
    """Whether a test is made of literals alone."""
    match test:
        case ast.BoolLiteral() | ast.IntLiteral() | ast.FloatLiteral():
            return True
        case ast.UnaryOp(operand=operand):
            return _is_settled(operand)
        case ast.Comparison(first=first, links=links):
            return _is_settled(first) and all(_is_settled(link.operand) for link in links)
        case ast.LogicalOp(left=left, right=right):
            return _is_settled(left) and _is_settled(right)
    return False


def _decides_types(test: ast.Expr) -> bool:
    """Whether a test asks for None, a kind, a rank or a dtype: then the other branch may rely on the answer."""
    if asks_kind(test):
        return True
    match test:
        case ast.Comparison(first=first, links=links):
            asked = (first, *(link.operand for link in links))
            return any(link.op in ("is", "is not") for link in links) or any(map(_is_property, asked))
        case ast.LogicalOp(left=left, right=right):
            return _decides_types(left) or _decides_types(right)
        case ast.UnaryOp(op="not", operand=operand):
            return _decides_types(operand)
    return False


def compares_ints(body: Body, test: ast.Expr) -> bool:
    """Whether a test that compiling decides compares ints or sizes."""
    match test:
        case ast.Comparison(first=first, links=links):
            asked = (first, *(link.operand for link in links))
            return all(isinstance(body.expression(node).type, IntType) for node in asked)
        case ast.LogicalOp(left=left, right=right):
            return compares_ints(body, left) or compares_ints(body, right)
        case ast.UnaryOp(op="not", operand=operand):
            return compares_ints(body, operand)
    return False


def _is_property(node: ast.Expr) -> bool:
    """`x.rank`, `x.dtype.kind`: what is known of a tensor's type, and decides which operators take it."""
    return isinstance(node, ast.Attribute) and node.name in ("rank", "ndim", "dtype", "kind", "itemsize")
