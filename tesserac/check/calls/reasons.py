"""Why the sizes of a call are what they are.

Enters: a call whose sizes are solved, or one that breaks what its callee demands. Leaves: the equations of the call in
the proof forest of the caller, and chains that walk through them: from an argument to the callee's name for its size,
from there by the callee's facts to another, and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.base.source import Span
from tesserac.check.instances.binding import Reason
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text
from tesserac.check.model.specs import ScalarSpec, Signature, TypeSpec
from tesserac.check.provenance.chains import Chain, is_unnamed, one_line
from tesserac.check.provenance.declared import show_declared
from tesserac.check.provenance.origins import MAX_STEPS, trace
from tesserac.check.sizes.facts import CallSize, Node, Why
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.shapes import E0309
from tesserac.diag.sink import Draft
from tesserac.types.dims import Dim
from tesserac.types.forest import Link
from tesserac.types.ty import IntType, TensorType
from tesserac.types.unify import DimSolver

_MOST_AXES = 4


def record_call(
    body: Body, signature: Signature, solver: DimSolver[Reason], values: Sequence[typed.Expr], callee: Callee
) -> None:
    """What each symbol of the signature is in this call, with the argument that tells it as the reason."""
    for name in signature.symbols:
        bound = solver.bound.get(name)
        if bound is not None:
            argument = values[bound.reason.parameter]
            text = one_line(body, argument.span) or signature.parameters[bound.reason.parameter].name
            node = CallSize(callee.span, callee.name, Dim.sym(name))
            body.facts.equalities.merge(node, bound.value, Why(f"`{text}` gives it", argument.span))


def explain_demand(
    body: Body,
    guard: typed.Guard,
    sizes: dict[str, Dim],
    callee: Callee,
    values: Sequence[typed.Expr],
    signature: Signature | None,
) -> None:
    """A fact that the callee demands and that this call breaks."""
    names = sorted((guard.left.symbols() | guard.right.symbols()) & sizes.keys())
    label = ", ".join(f"{dim_text(Dim.sym(name))} is {dim_text(sizes[name])}" for name in names)
    unnamed = is_unnamed(guard)
    fact = guard.of_sizes(sizes).rule if unnamed else guard.rule
    draft = body.sink.error(E0309, at=callee.at, label="" if unnamed else label, fact=fact)
    for value in values if unnamed else ():  # the sizes that it has say more than the numbers of its dims
        if isinstance(value.type, TensorType) and value.span.file == callee.at.file:
            draft.note(value.span, dims_text(value.type.dims))
    first = guard
    while first.origin is not None:
        first = first.origin
    draft.note(first.span, "demanded here")
    if guard.said:
        draft.remark(guard.said)
    chain = Chain(body)
    chain.add_links(_links(body, guard, sizes, callee))
    chain.add_facts(*(sizes[name] for name in names))
    chain.add_demand(guard)
    chain.show(draft)
    if draft.steps < MAX_STEPS:
        show_declared(body, draft, *values)
    _suggest_divisor(body, draft, guard, sizes, values)
    if unnamed and signature is not None:
        suggest_axes(body, draft, signature, values, callee)


def suggest_axes(body: Body, draft: Draft, signature: Signature, values: Sequence[typed.Expr], callee: Callee) -> None:
    """Another axis for a function that takes one, of which the call says nothing: PyTorch's classes are its second."""
    tensors = [value.type.rank for value in values if isinstance(value.type, TensorType)]
    unsaid = [place for place, parameter in enumerate(signature.parameters) if _takes_axis(parameter.spec)]
    end = Span(callee.span.file, callee.span.end - 1, callee.span.end - 1)
    if len(unsaid) != 1 or not tensors or values[unsaid[0]].span.file == callee.at.file:
        return
    if body.rules.text(callee.span)[-1:] == ")":
        for axis in range(min(tensors[0] - 1, _MOST_AXES)):
            draft.replace(f"take axis {axis}", end, f", {signature.parameters[unsaid[0]].name}={axis}")


def _takes_axis(spec: TypeSpec) -> bool:
    return isinstance(spec, ScalarSpec) and spec.kind == "Axis"


def _suggest_divisor(
    body: Body, draft: Draft, guard: typed.Guard, sizes: dict[str, Dim], values: Sequence[typed.Expr]
) -> None:
    """A number that should divide another as the nearest one that does."""
    divisor, dividend = guard.left.constant, guard.right.substitute(sizes).constant
    same = [value for value in values if value.type == IntType(guard.left)]
    given = [value for value in same if body.rules.text(value.span) == str(divisor)]
    if guard.kind != "divides" or divisor is None or not dividend or len(given) != 1:
        return
    near = min((n for n in range(1, dividend + 1) if dividend % n == 0), key=lambda n: (abs(n - divisor), -n))
    draft.replace(f"the nearest number that divides {dividend} is {near}", given[0].span, str(near))


def _links(body: Body, guard: typed.Guard, sizes: dict[str, Dim], callee: Callee) -> Iterator[Link[Node, Why]]:
    """From a size of the caller to the callee's name for it; then, by an equality, to the size on its other side."""
    known = body.facts.equalities
    names = sorted((guard.left.symbols() | guard.right.symbols()) & sizes.keys())
    nodes = {name: CallSize(callee.span, callee.name, Dim.sym(name)) for name in names}
    left, right = guard.left.symbol, guard.right.symbol
    if guard.kind == "equal" and left in nodes and right in nodes and left is not None and right is not None:
        known = known.copy()
        known.merge(nodes[left], nodes[right], Why(f"`{callee.name}` demands it", guard.span))
        yield from known.explain(sizes[left], sizes[right]) or ()
        return
    for name, node in nodes.items():
        yield from known.explain(sizes[name], node) or ()


def show_arguments(body: Body, draft: Draft, *arguments: tuple[typed.Expr, Dim]) -> None:
    """The steps by which arguments got the sizes that do not fit, and the facts about these sizes."""
    chain = Chain(body)
    for argument, dim in arguments:
        if not isinstance(argument.type, TensorType) or dim not in argument.type.dims:
            continue
        trail = trace(body, argument, argument.type.dims.index(dim))
        if trail.declared is not None and not trail.steps:
            chain.add(f"`{trail.parameter}` is declared {dims_text(argument.type.dims)}", trail.declared)
        chain.add_trail(trail, 2)
    chain.add_facts(*(dim for _, dim in arguments))
    chain.show(draft)
