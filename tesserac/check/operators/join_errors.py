"""Says why tensors cannot be joined: `concat` along a dim, `stack` in a new one.

Enters: a call of either with checked operands. Leaves: True, or False after a diagnostic; where the shapes differ in
one dim only, the fix joins along that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, type_text
from tesserac.check.model.operator_use import Use
from tesserac.check.operators.lining_up import suggest_expansion
from tesserac.check.provenance.sides import Side, show_origin, show_steps
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.shapes import E0321
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.ops.join import Concat, Stack
from tesserac.ops.registry import Operator
from tesserac.ops.unify import BroadcastMismatch
from tesserac.types.ty import IntType, TensorType


def check_join(
    body: Body, op: Concat | Stack, operands: Sequence[typed.Expr], axis: typed.Expr | None, callee: Callee
) -> bool:
    """Whether the shapes allow it; what else may be wrong is for the operator's own rules."""
    types = [operand.type for operand in operands if isinstance(operand.type, TensorType)]
    if len(types) != len(operands):
        return True
    mismatch = op.mismatch(types, body.facts.same)
    if not isinstance(mismatch, BroadcastMismatch):
        return True
    use = Use(op, tuple(operands), callee.at, callee.span)
    first, second = Side.of(body, use, mismatch.left), Side.of(body, use, mismatch.right)
    if body.sizes.first_telling(first.dim, second.dim):
        draft = _explain(body, op, first, second, axis, callee)
        beside = enumerate(zip(first.dims, second.dims, strict=True))
        joined = op.axis % len(first.dims) if isinstance(op, Concat) else None
        from tesserac.check.operators.mismatch import suggest_divisors

        suggest_divisors(body, draft, [pair for place, pair in beside if place != joined])
        if joined is not None:
            suggest_expansion(body, draft, first.operand, second.operand, joined)
            suggest_expansion(body, draft, second.operand, first.operand, joined)
            _suggest_order(body, draft, first, second, joined)
        _suggest_axis(body, draft, types, axis, callee, (first, second))
    return False


def is_unlisted(args: Sequence[Arg]) -> bool:
    """Whether tensors are given one by one: `concat(a, b)`."""
    return len(args) > 1 and all(arg.name is None and isinstance(arg.value.type, TensorType) for arg in args[:2])


def refuse_unlisted(body: Body, args: Sequence[Arg]) -> None:
    first, found = args[0].value, type_text(args[0].value.type)
    draft = body.sink.error(E0210, at=first.span, expected="a list of tensors", found=found)
    tensors = [arg.value.span for arg in args if arg.name is None and isinstance(arg.value.type, TensorType)]
    opened, closed = (Span(first.span.file, at, at) for at in (tensors[0].start, tensors[-1].end))
    title = "what is joined stands in a list"
    draft.fix(title, Edit(opened, "["), Edit(closed, "]"), advice=title)


def suggest_rows(
    body: Body, draft: Draft, operator: type[Operator], rows: typed.Expr, axis: typed.Expr | None, callee: Callee
) -> None:
    """A tensor where a list of tensors is expected: its rows are joined as they lie, or lie along another axis."""
    ty, text = rows.type, body.rules.text(rows.span)
    place = 0 if axis is None else axis.type.value.constant if isinstance(axis.type, IntType) else None
    if not isinstance(ty, TensorType) or not text:
        return
    if operator is Stack and place == 0:
        draft.replace("it is one tensor already", callee.span, text)
    elif operator is Stack and place is not None:
        moved = f"moveaxis({text}, 0, {place})"
        draft.replace("it is one tensor already, with its items along the first axis", callee.span, moved)
    elif operator is Concat and place == 0 and ty.rank > 1:
        dims = ", ".join(map(str, (ty.dims[0] * ty.dims[1], *ty.dims[2:])))
        draft.replace("join its first two axes", callee.span, f"reshape({text}, {dims})")


def _explain(
    body: Body, op: Concat | Stack, first: Side, second: Side, axis: typed.Expr | None, callee: Callee
) -> Draft:
    rule = "stacked tensors must have one shape"
    if isinstance(op, Concat):
        rule = f"joined along {dim_text(first.dims[op.axis])}, all other dims must be equal"
    at = callee.at if axis is None or not axis.span.known else axis.span
    label = f"the join runs along {dim_text(first.dims[op.axis])}" if isinstance(op, Concat) else ""
    sides = {"first": dim_text(first.dim), "second": dim_text(second.dim)}
    draft = body.sink.error(E0321, at=at, label=label, rule=rule, **sides)
    for side in (first, second):
        draft.note(side.operand.span, f"{side.name}{dims_text(side.dims)}")
        show_origin(body, draft, side)
    show_steps(body, draft, first, second)
    return draft


def _suggest_axis(
    body: Body,
    draft: Draft,
    types: Sequence[TensorType],
    axis: typed.Expr | None,
    callee: Callee,
    sides: tuple[Side, Side],
) -> None:
    """The one dim in which the shapes differ is the one to join along; of several, one may be misnamed."""
    shapes = [ty.dims for ty in types]
    differing = [
        place
        for place, dims in enumerate(zip(*shapes, strict=True))
        if not all(body.facts.same(dims[0], dim) for dim in dims)
    ]
    if len(differing) != 1:
        from tesserac.check.operators.mismatch import suggest_renaming

        suggest_renaming(body, draft, *sides)
        return
    (place,) = differing
    along = " + ".join(dim_text(dims[place]) for dims in shapes)
    given = axis is not None and axis.span.known
    edits = [Edit(axis.span, str(place))] if given and axis is not None else [_insertion(callee, place)]
    if callee.name == "stack":
        edits.append(Edit(callee.at, "concat"))
    draft.fix(f"join along the dim in which they differ, giving {along}", *edits)


def _suggest_order(body: Body, draft: Draft, first: Side, second: Side, joined: int) -> None:
    """Two axes of one that stand the other way round in what it is joined to, as heads and positions of a cache."""
    for moved, other in ((second, first), (first, second)):
        for pair in combinations(range(len(moved.dims)), 2):
            order = list(range(len(moved.dims)))
            order[pair[0]], order[pair[1]] = pair[1], pair[0]
            turned = [moved.dims[axis] for axis in order]
            beside = [axis for axis in order if axis != joined]
            if moved.text and all(body.facts.same(turned[axis], other.dims[axis]) for axis in beside):
                title = f"turn its axes: {dims_text(tuple(turned))}"
                draft.replace(title, moved.operand.span, f"permute({moved.text}, ({', '.join(map(str, order))}))")
                return


def _insertion(callee: Callee, place: int) -> Edit:
    end = callee.span.end - 1
    return Edit(Span(callee.span.file, end, end), f", axis={place}")
