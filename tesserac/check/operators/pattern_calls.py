"""Calls of `rearrange`, and of `reduce` and `repeat` with a pattern: `rearrange(x, "b (h d) -> b h d", h=8)`.

Enters: a tensor, a pattern, and sizes of axes by their names. Leaves: a reshape to one dim for each axis, a reduction
of the axes that the right side lacks, a permutation, an expansion by those that it has beyond, and a reshape. What does
not fit is told by the name of the axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.guards.guarding import require_guard
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, type_text
from tesserac.check.operators.apply import apply_operator
from tesserac.check.operators.patterns import Pattern, PatternError, read_pattern
from tesserac.check.provenance.declared import show_declared
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0205, E0210
from tesserac.diag.codes.precision import E0417, E0418
from tesserac.ops.reduce import Max, Mean, Min, Prod, Reduction, Sum
from tesserac.ops.registry import Operator
from tesserac.ops.search import All, Any
from tesserac.ops.shape import Expand, Permute, Reshape
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.ty import ErrorType, IntType, StrType, TensorType

_REDUCTIONS: dict[str, type[Reduction]] = {
    "sum": Sum, "mean": Mean, "max": Max, "min": Min, "prod": Prod, "any": Any, "all": All,
}  # fmt: skip
Sizes = dict[str, Dim]


def has_pattern(args: Sequence[Arg]) -> bool:
    """Whether a call of `repeat` or `reduce` is one with a pattern."""
    return len(args) > 1 and args[1].name is None and isinstance(args[1].value.type, StrType)


def call_pattern(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`rearrange(x, pattern, **sizes)`, `repeat(x, pattern, **sizes)` or `reduce(x, pattern, how, **sizes)`."""
    count = 3 if callee.name == "reduce" else 2
    plain = [arg.value for arg in args if arg.name is None]
    if any(isinstance(arg.value.type, ErrorType) for arg in args):
        return body.error(callee.span)
    if len(plain) != count:
        shown = ', "mean"' if callee.name == "reduce" else ""
        call = f'`{callee.name}(x, "a b -> b a"{shown})`'
        body.sink.error(E0205, at=callee.at, problem=f"it takes a tensor and a pattern, {call}, and sizes by name")
        return body.error(callee.span)
    sizes = _sizes(body, args)
    how = _reduction(body, plain[2]) if count == 3 else None
    if sizes is None or (count == 3 and how is None) or not _is_tensor(body, plain[0]):
        return body.error(callee.span)
    return _rearranged(body, plain[0], plain[1], sizes, how, callee) or body.error(callee.span)


def _is_tensor(body: Body, x: typed.Expr) -> bool:
    if isinstance(x.type, TensorType):
        return True
    body.sink.error(E0210, at=x.span, expected="a tensor", found=type_text(x.type))
    return False


def _sizes(body: Body, args: Sequence[Arg]) -> Sizes | None:
    """The sizes that the call gives, by the names of axes."""
    sizes: Sizes = {}
    for arg in args:
        if arg.name is None:
            continue
        if not isinstance(arg.value.type, IntType):
            body.sink.error(E0210, at=arg.value.span, expected="an int", found=type_text(arg.value.type))
            return None
        sizes[arg.name] = arg.value.type.value
    return sizes


def _reduction(body: Body, how: typed.Expr) -> type[Reduction] | None:
    name = how.type.value if isinstance(how.type, StrType) else ""
    if name not in _REDUCTIONS:
        expected = "one of " + ", ".join(f'"{known}"' for known in _REDUCTIONS)
        body.sink.error(E0210, at=how.span, expected=expected, found=body.rules.text(how.span) or type_text(how.type))
    return _REDUCTIONS.get(name)


def _rearranged(
    body: Body, x: typed.Expr, written: typed.Expr, sizes: Sizes, how: type[Reduction] | None, callee: Callee
) -> typed.Expr | None:
    assert isinstance(x.type, TensorType)
    if not isinstance(written.type, StrType):
        found = type_text(written.type)
        body.sink.error(E0210, at=written.span, expected='a pattern such as `"a b -> b a"`', found=found)
        return None
    if body.wants_text(written):
        return None
    try:
        pattern = read_pattern(written.type.value, x.type.rank)
        _check_axes(pattern, sizes, how is not None, callee.name)
    except PatternError as error:
        draft = body.sink.error(E0417, at=written.span, problem=str(error))
        draft.note(x.span, dims_text(x.type.dims))
        return None
    if not all(
        _solve(body, x, written, group, place, sizes, callee) for place, group in enumerate(pattern.left)
    ):
        return None
    return _build(body, x, pattern, sizes, how, callee)


def _check_axes(pattern: Pattern, sizes: Sizes, reduces: bool, name: str) -> None:
    """Which axes may be on one side alone, and which sizes may be said."""
    lost = [axis for axis in pattern.taken if axis not in pattern.given]
    new = [axis for axis in pattern.given if axis not in pattern.taken]
    unknown = [axis for axis in sizes if axis not in (*pattern.taken, *pattern.given)]
    if lost and not reduces:
        raise PatternError(f"axis `{lost[0]}` is missing on the right; `reduce` says how it is folded")
    if new and name != "repeat":
        raise PatternError(f"axis `{new[0]}` is missing on the left; `repeat` makes new ones")
    if unknown:
        raise PatternError(f"a size is given for `{unknown[0]}`, which is no axis of the pattern")
    open_ = next((axis for axis in new if axis not in sizes), None)
    if open_ is not None:
        raise PatternError(f"how large the new axis `{open_}` is must be said, `{open_}=...`")


def _solve(
    body: Body, x: typed.Expr, written: typed.Expr, group: tuple[str, ...], place: int, sizes: Sizes, callee: Callee
) -> bool:
    """Whether the axes of a group are a dim: one of them may be what is left of it."""
    assert isinstance(x.type, TensorType)
    dim, open_ = x.type.dims[place], [axis for axis in group if axis not in sizes]
    known = product(sizes[axis] for axis in group if axis in sizes)
    if len(open_) > 1:
        problem = f"of `({' '.join(group)})` only one size may be left open"
        draft = body.sink.error(E0417, at=written.span, problem=problem)
        draft.note(x.span, dims_text(x.type.dims))
        return False
    if open_ and body.facts.divides(known, dim) is not False:
        if known != ONE and body.facts.divides(known, dim) is None:
            require_guard(body, "divides", known, dim, callee.at)
        sizes[open_[0]] = dim if known == ONE else dim.exact_div(known)
        return True
    if not open_ and body.facts.same(known, dim):
        return True
    shown = f"axis `{group[0]}`" if len(group) == 1 else f"`({' '.join(group)})`" if group else "`1`"
    verb = "does not divide" if open_ else "is not"
    relation = f"{dim_text(known)} {verb} {dim_text(dim)}"
    label = f"{shown} is dim {place}"
    draft = body.sink.error(E0418, at=written.span, label=label, axis=shown, relation=relation)
    draft.note(x.span, dims_text(x.type.dims))
    show_declared(body, draft, x)
    return False


def _build(
    body: Body, x: typed.Expr, pattern: Pattern, sizes: Sizes, how: type[Reduction] | None, callee: Callee
) -> typed.Expr:
    def apply(op: Operator, value: typed.Expr) -> typed.Expr:
        return apply_operator(body, op, [value], callee.at, callee.span)

    taken, given = list(pattern.taken), pattern.given
    value = apply(Reshape(tuple(sizes[axis] for axis in taken)), x)
    lost = tuple(place for place, axis in enumerate(taken) if axis not in given)
    if how is not None and lost:
        value = apply(how(lost), value)
        taken = [axis for axis in taken if axis in given]
    if isinstance(value.type, ErrorType):
        return value
    kept = [axis for axis in given if axis in taken]
    value = apply(Permute(tuple(taken.index(axis) for axis in kept)), value)
    if len(kept) < len(given):
        value = apply(Reshape(tuple(sizes[axis] if axis in taken else ONE for axis in given)), value)
        value = apply(Expand(tuple(sizes[axis] for axis in given)), value)
    return apply(Reshape(tuple(product(sizes[axis] for axis in group) for group in pattern.right)), value)
