"""Updates: `x[i] = v`, `x[i] += v` and `x.at[i].set(v)`, which all give a new tensor.

Enters: a tensor, index expressions as written, and a value. Leaves: the tensor with the selected elements replaced, or
joined with the value. It broadcasts to the shape that reading the same selection would have. Where integer tensors
select, an element may be named several times: it is joined with all that name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import storage_text, type_text
from tesserac.check.operators.apply import apply_operator, meet_storage
from tesserac.check.operators.reshape import check_expand
from tesserac.check.places.indexing import Selection, entries_of, read_box, read_selection, select
from tesserac.check.places.masks import JOINS, Way, masked
from tesserac.check.provenance.creations import suggest_dtype
from tesserac.check.state.arguments import Arg, Callee, check_arguments
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0205, E0208, E0210, E0299
from tesserac.diag.codes.precision import E0407
from tesserac.ops.accumulate import AddAt, ExtremeAt, FoldAt, MultiplyAt
from tesserac.ops.create import Ones
from tesserac.ops.elementwise import Div, Neg
from tesserac.ops.rearrange import Flip
from tesserac.ops.registry import Operator
from tesserac.ops.shape import Expand, Reshape
from tesserac.ops.update import Insert, Scatter
from tesserac.syntax import ast
from tesserac.types.dtype import BOOL
from tesserac.types.ty import BoolType, ErrorType, FloatType, IntType, RunIntType, StrType, TensorType

GET = "get"
UPDATES: dict[str, Way] = {
    "set": "set",
    "add": "add",
    "sub": "sub",
    "subtract": "sub",
    "mul": "mul",
    "multiply": "mul",
    "div": "div",
    "divide": "div",
    "max": "max",
    "min": "min",
}
"""The methods of `x.at[i]` that change elements; three have JAX's names too."""
WRITTEN_OUT = {
    "apply": "`x.at[i].set(f(x[i]))`, which applies it once to an element that is named several times",
    "maximum": "`x.at[i].max(v)`",
    "minimum": "`x.at[i].min(v)`",
    "pow": "`x.at[i].set(x[i] ** v)`",
    "power": "`x.at[i].set(x[i] ** v)`",
}
"""What other methods of that name in JAX, or a slip, would be here."""
PROMISES = ("indices_are_sorted", "unique_indices")
"""What JAX's methods are told of their indices. Results are the same without, and so they are here."""
MODE, IN_BOUNDS = "mode", "promise_in_bounds"
AUGMENTED: dict[str, Way] = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
"""The operators of augmented assignments that join."""
FOLDS: dict[str, tuple[type[FoldAt], str]] = {
    "add": (AddAt, "sum"),
    "sub": (AddAt, "sum"),
    "mul": (MultiplyAt, "prod"),
    "max": (ExtremeAt, "max"),
    "min": (ExtremeAt, "min"),
}
"""Each way on elements that may be named several times; what is subtracted is added with its sign flipped."""


def is_update(node: ast.Call) -> bool:
    """Whether a call is `x.at[...].name(...)`."""
    function = node.function
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Subscript):
        return False
    return isinstance(function.value.value, ast.Attribute) and function.value.value.name == "at"


def call_update(body: Body, node: ast.Call) -> typed.Expr:
    """`x.at[i].set(v)`, `x.at[i].add(v)` and the others; `x.at[i].get()` is `x[i]`."""
    function = node.function
    assert isinstance(function, ast.Attribute) and isinstance(function.value, ast.Subscript)
    at = function.value.value
    assert isinstance(at, ast.Attribute)
    if function.name not in (*UPDATES, GET):
        _no_such_update(body, function)
        return body.error(node.span)
    args = _without_options(body, check_arguments(body, node.arguments))
    if args is None:
        return body.error(node.span)
    if function.name == GET and not args:
        return body.expression(replace(function.value, value=at.value))
    if function.name == GET or len(args) != 1 or args[0].name is not None:
        takes = "no argument" if function.name == GET else "1 argument"
        problem = f"`{function.name}` takes {takes}, {len(args)} were given"
        body.sink.error(E0205, at=function.name_span, problem=problem)
        return body.error(node.span)
    return updated(body, body.expression(at.value), function.value, args[0].value, UPDATES[function.name])


def _no_such_update(body: Body, function: ast.Attribute) -> None:
    draft = body.sink.error(E0208, at=function.name_span, what="`x.at[...]`", name=function.name)
    if function.name in WRITTEN_OUT:
        draft.remark(f"here it is {WRITTEN_OUT[function.name]}")
        return
    draft.remark("there are " + ", ".join(f"`x.at[i].{name}(v)`" for name in UPDATES))
    draft.did_you_mean(function.name, UPDATES, function.name_span)


def _without_options(body: Body, args: Sequence[Arg]) -> list[Arg] | None:
    """The arguments without what JAX is told of indices; None after a diagnostic for what would move some of them."""
    for arg in args:
        if arg.name == MODE and arg.value.type != StrType(IN_BOUNDS):
            draft = body.sink.error(E0205, at=arg.span, problem="an index out of range is an error: there is no `mode`")
            draft.remark("the nearest place is `clip(i, 0, N - 1)`; `take(x, i, axis=0, mode=\"clip\")` reads there")
            draft.remark("such a place is left out by what changes nothing: `where((i >= 0) & (i < N), v, 0.0)`")
            return None
    return [arg for arg in args if arg.name not in (*PROMISES, MODE)]


def updated(body: Body, x: typed.Expr, target: ast.Subscript, value: typed.Expr, way: Way) -> typed.Expr:
    """`x` with what `target` selects of it set to the value, or joined with it."""
    span = target.span
    if isinstance(x.type, ErrorType) or isinstance(value.type, ErrorType):
        return body.error(span)
    if not isinstance(x.type, TensorType):
        body.sink.error(E0210, at=target.value.span, expected="a tensor", found=type_text(x.type))
        return body.error(span)
    only = _only_entry(body, target)
    if only is not None and isinstance(only.type, TensorType) and only.type.dtype == BOOL:
        return masked(body, x, x.type, only, value, way, span)
    taken = select(body, x.type, entries_of(target), span, only)
    if taken is None:
        return body.error(span)
    if taken.lookups and way == "rebind":
        body.sink.error(E0299, at=span, feature="anything but +=, -=, *= and /= at places that a tensor says")
        return body.error(span)
    selected = read_selection(body, x, x.type, taken, span)
    if not taken.lookups and way in JOINS:
        value = apply_operator(body, JOINS[way](), [selected, value], span, span)
    fitted = _fitted(body, value, selected, span)
    if fitted is not None and taken.lookups and way == "sub":
        fitted = apply_operator(body, Neg(), [fitted], span, span)
    if fitted is None:
        return body.error(span)
    if taken.lookups and way == "div":
        return _divided(body, x, x.type, taken, fitted, span)
    return _put(body, x, x.type, taken, fitted, way, span)


def _divided(
    body: Body, x: typed.Expr, ty: TensorType, taken: Selection, value: typed.Expr, span: Span
) -> typed.Expr:
    """`x` by the product of all divisors of each element, 1 where there is none: one rounding where it is one."""
    ones = typed.Apply(ty, span, Ones(ty.dims, dtype=ty.dtype, policy=ty.policy), ())
    divisors = _put(body, ones, ty, taken, value, "mul", span)
    return apply_operator(body, Div(), [x, divisors], span, span)


def _only_entry(body: Body, target: ast.Subscript) -> typed.Expr | None:
    """What the one entry of `x[i]` is; None of several, and of slices and the like."""
    entries = entries_of(target)
    if len(entries) != 1 or isinstance(entries[0], ast.Slice | ast.NoneLiteral | ast.EllipsisLiteral):
        return None
    return body.expression(entries[0])


def _fitted(body: Body, value: typed.Expr, selected: typed.Expr, span: Span) -> typed.Expr | None:
    """The value as a tensor of the selection's shape."""
    if not isinstance(selected.type, TensorType) or isinstance(value.type, ErrorType):
        return None
    if not isinstance(value.type, TensorType | IntType | RunIntType | FloatType | BoolType):
        body.sink.error(E0210, at=value.span, expected="a tensor or a number", found=type_text(value.type))
        return None
    if isinstance(value.type, TensorType) and value.type.dtype != selected.type.dtype:
        wanted, text = storage_text(selected.type), body.rules.text(value.span)
        draft = body.sink.error(E0407, at=value.span, expected=wanted, found=storage_text(value.type))
        suggest_dtype(body, draft, selected, value.type)
        draft.replace("cast it", value.span, f"cast({text}, {wanted})")
        return None
    met = meet_storage(body, value, selected.type.dtype, selected.type.policy)
    shape = selected.type.dims
    if met is None or not check_expand(body, met, shape, Callee("`x[i] = v`", span, span)):
        return None
    assert isinstance(met.type, TensorType)
    if met.type.dims == shape:
        return met
    return typed.Apply(TensorType(shape, met.type.dtype, met.type.policy), value.span, Expand(shape), (met,))


def _scattered(axes: tuple[int, ...], at: int, way: Way) -> Operator:
    """What puts elements where tensors say."""
    if way not in FOLDS:
        return Scatter(axes, at)
    operator, kind = FOLDS[way]
    return operator(axes, at, kind)


def _put(
    body: Body, x: typed.Expr, ty: TensorType, taken: Selection, value: typed.Expr, way: Way, span: Span
) -> typed.Expr:
    """The value in its place: inside the box first, if tensors select there, then the box inside `x`."""
    if taken.lookups:
        axes, indices = zip(*taken.lookups, strict=True)
        box = read_box(x, ty, taken, span)
        value = apply_operator(body, _scattered(axes, taken.at, way), [box, value, *indices], span, span)
    if isinstance(value.type, ErrorType):
        return value
    assert isinstance(value.type, TensorType)
    sizes = tuple(cut.size for cut in taken.cuts)
    if taken.lookups and taken.shape == ty.dims:
        return value
    if value.type.dims != sizes:
        value = typed.Apply(TensorType(sizes, value.type.dtype, value.type.policy), span, Reshape(sizes), (value,))
    backwards = tuple(axis for axis, cut in enumerate(taken.cuts) if cut.step < 0)
    if backwards:
        value = apply_operator(body, Flip(backwards), [value], span, span)
    starts = tuple(cut.start if cut.step > 0 else cut.start + (cut.size - 1) * cut.step for cut in taken.cuts)
    steps = tuple(abs(cut.step) for cut in taken.cuts)
    return apply_operator(body, Insert(starts, steps), [x, value], span, span)
