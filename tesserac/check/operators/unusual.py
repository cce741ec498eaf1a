"""Warns where an axis is legal and almost certainly not the one that was meant.

Enters: a checked call along an axis, or a contraction. Leaves: a warning, or nothing. The signs are those that correct
programs do not show:
- a function whose elements compete or follow one another (softmax, argmax, cumsum) runs along the batch;
- a softmax of attention scores runs along the heads, or along the queries instead of the keys;
- weights that sum to 1 along one dim are summed along another.
Sums, means and extremes run along any dim: a batch norm and a mean loss are right.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.library_annotations import ALONG_AXIS, ORDERED, WEIGHTS, annotation_of
from tesserac.check.model.message_text import dim_text, dims_text
from tesserac.check.model.operator_use import Use
from tesserac.check.names.refs import FunctionRef
from tesserac.check.state.body import Body
from tesserac.diag.codes.shapes import W0301, W0302
from tesserac.ops.contract import MatMul
from tesserac.ops.convert import Cast
from tesserac.ops.einsum import Einsum
from tesserac.types.dims import Dim
from tesserac.types.ty import IntType, TensorType

_BATCH = frozenset({"B", "Batch", "BS"})
_HEADS = frozenset({"H", "NH", "Heads"})
_SCALING = frozenset({"mul", "div", "add", "sub", "where"})
"""Elementwise operators between scores and their softmax."""


@dataclass(frozen=True)
class _Unusual:
    """What an axis is, and the axis that is usual."""

    role: str
    verb: str
    reason: str
    usual: int


def check_axis(
    body: Body, name: str, along: str | None, operand: typed.Expr, place: int, written: Span
) -> None:
    """A call of `name` along the axis at `place`, as the program has `written` it; `along` is what is known of it."""
    found = _unusual(body, along, operand, place) if along is not None else None
    if found is None:
        return
    dims = _dims(operand)
    draft = body.sink.warning(
        W0301, at=written, label=f"{found.verb} {found.role}", name=name, dim=dim_text(dims[place]), role=found.role
    )
    text = body.rules.text(operand.span)
    draft.note(operand.span, f"{text}: {dims_text(dims)}" if text.isidentifier() else dims_text(dims))
    draft.because(found.reason)
    usual = _axis_source(body, dims, found.usual, written)
    draft.replace(f"run along {dim_text(dims[found.usual])}", written, usual)


def _unusual(body: Body, along: str, operand: typed.Expr, place: int) -> _Unusual | None:
    dims = _dims(operand)
    last = len(dims) - 1
    if place >= last:
        return None
    if dims[place].symbol in _BATCH:
        return _Unusual("the batch", "this is", "along the batch, each example would change the others", last)
    if along == ORDERED or dims[last].constant == 1:
        return None
    if dims[place].symbol in _HEADS and place == last - 2 and dims[place + 1].symbol != "W":
        reason = f"in attention the weights of one query sum to 1 along the keys, here {dim_text(dims[last])}"
        return _Unusual("the heads", "these are", reason, last)
    if place == last - 1 and len(dims) > 2 and _is_scores(body, operand):
        reason = f"each row of scores is one query, and its weights sum to 1 along the keys, {dim_text(dims[last])}"
        return _Unusual("the queries", "these are", reason, last)
    return None


def check_weights(body: Body, use: Use) -> None:
    """A contraction whose left operand is weights: they must sum to 1 along the dim that is contracted."""
    if not isinstance(use.op, MatMul | Einsum) or len(use.operands) != 2:
        return
    weights = use.operands[0]
    found = _call_that_weighs(body, weights)
    if found is None or len(_dims(weights)) < 3:
        return
    call, name = found
    place = axis_position(call.args[1])
    summed = _contracted(use)
    if place is None or not summed or place in summed or _unusual(body, WEIGHTS, call.args[0], place):
        return
    dims = _dims(weights)
    normal, contracted = dim_text(dims[place]), dim_text(dims[summed[0]])
    draft = body.sink.warning(W0302, at=use.at, label=f"sums along {contracted}", normal=normal, contracted=contracted)
    draft.note(weights.span, dims_text(dims))
    draft.because(f"{name} makes the weights sum to 1 along {normal}", call.span)
    draft.remark("the result is no average: its size grows with the number of terms")
    axis = call.args[1].span
    if axis.known and axis.file == use.at.file:
        draft.replace(f"normalise along {contracted}", axis, _axis_source(body, dims, summed[0], axis))


def _contracted(use: Use) -> list[int]:
    """The axes of the left operand that the contraction sums over."""
    left, right = (_dims(operand) for operand in use.operands)
    if isinstance(use.op, Einsum):
        first, second = use.op.terms
        return [i for i, letter in enumerate(first) if letter not in use.op.output and letter in second]
    return [len(left) - 1] if right else []


def _call_that_weighs(body: Body, expr: typed.Expr) -> tuple[typed.Call, str] | None:
    """The call whose result sums to 1 that an expression is, through names and casts; and what it calls."""
    for _ in range(8):
        binding = body.origins.get(expr) if isinstance(expr, typed.Local) else None
        if binding is not None and binding.value is not None:
            expr = binding.value
        elif isinstance(expr, typed.Apply) and isinstance(expr.op, Cast):
            expr = expr.operands[0]
        else:
            break
    ref = _library_function(body, expr.function) if isinstance(expr, typed.Call) else None
    if ref is None or not isinstance(expr, typed.Call):
        return None
    said = annotation_of(body.rules.signature(ref.owner, ref.name).node, ALONG_AXIS)
    return (expr, ref.name) if said == WEIGHTS else None


def _library_function(body: Body, symbol: str) -> FunctionRef | None:
    """The function of the library that a symbol is an instance of."""
    for name in symbol.split("."):
        ref = body.rules.library(name)
        if isinstance(ref, FunctionRef) and f"{symbol}.".startswith(f"{ref.owner}.{ref.name}."):
            return ref
    return None


def _is_scores(body: Body, expr: typed.Expr) -> bool:
    """Whether it is a product of two batches of matrices, perhaps scaled and masked."""
    for _ in range(16):
        binding = body.origins.get(expr) if isinstance(expr, typed.Local) else None
        if binding is not None and binding.value is not None:
            expr = binding.value
            continue
        if not isinstance(expr, typed.Apply):
            return False
        if isinstance(expr.op, MatMul | Einsum):
            return len(expr.operands) == 2 and all(len(_dims(operand)) > 2 for operand in expr.operands)
        if expr.op.name not in _SCALING and not isinstance(expr.op, Cast):
            return False
        expr = max(expr.operands, key=lambda operand: (len(_dims(operand)), not isinstance(operand, typed.Coerce)))
    return False


def axis_position(axis: typed.Expr) -> int | None:
    """The position that a resolved axis is; None for several."""
    return axis.type.value.constant if isinstance(axis.type, IntType) else None


def _dims(expr: typed.Expr) -> tuple[Dim, ...]:
    return expr.type.dims if isinstance(expr.type, TensorType) else ()


def _axis_source(body: Body, dims: tuple[Dim, ...], place: int, span: Span) -> str:
    """An axis as the program writes axes: by name where it does and the name is clear, else by position."""
    name = dims[place].symbol
    written = body.rules.text(span)
    by_name = name is not None and dims.count(dims[place]) == 1 and not written.lstrip("-").isdigit()
    if not by_name or name is None:
        return str(place - len(dims) if written.startswith("-") or place == len(dims) - 1 else place)
    return f'"{name}"' if written.startswith(('"', "'")) else name
