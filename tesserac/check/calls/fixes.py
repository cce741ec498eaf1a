"""Fixes for arguments that do not fit: an axis moved, a unit dim dropped, a key by its name.

Enters: a call whose arguments do not fit. Leaves: a fix on the draft, where the argument so changed fits the signature
together with all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.instances.binding import CallBinding
from tesserac.check.model import typed
from tesserac.check.model.message_text import dims_text
from tesserac.check.model.specs import OperatorSpec, ScalarSpec, Signature, TypeSpec
from tesserac.check.operators.keys import KEY
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import tuple_items
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import TensorType, TupleType, Type


def suggest_move(
    body: Body, draft: Draft, signature: Signature, values: Sequence[typed.Expr], position: int, sizes: tuple[Dim, Dim]
) -> None:
    """`sizes` are what stands at an axis and what should: if the argument has it elsewhere, that axis can be moved."""
    argument, (found, wanted) = values[position], sizes
    text = body.rules.text(argument.span)
    if not isinstance(argument.type, TensorType) or not text.isidentifier():
        return
    dims = argument.type.dims
    if found not in dims or dims.count(wanted) != 1:
        return
    order = list(range(len(dims)))
    order.insert(dims.index(found), order.pop(dims.index(wanted)))
    moved = tuple(dims[axis] for axis in order)
    if _fits(body, signature, values, position, moved):
        listed = ", ".join(map(str, order))
        draft.replace(f"move the axes, to {dims_text(moved)}", argument.span, f"permute({text}, ({listed}))")


def suggest_unit(
    body: Body, draft: Draft, signature: Signature, values: Sequence[typed.Expr], position: int
) -> None:
    """An argument with one dim too many, a leading 1."""
    argument = values[position]
    text = body.rules.text(argument.span)
    if not isinstance(argument.type, TensorType) or not text.isidentifier() or argument.type.dims[:1] != (ONE,):
        return
    if _fits(body, signature, values, position, argument.type.dims[1:]):
        draft.replace("drop the leading unit dim", argument.span, f"{text}[0]")


def suggest_operator(body: Body, draft: Draft, spec: TypeSpec, argument: typed.Expr) -> None:
    """A matrix where an operator is declared."""
    is_matrix = isinstance(argument.type, TensorType) and argument.type.rank == 2
    if is_matrix and isinstance(spec, OperatorSpec) and not spec.is_spectral:
        draft.replace("make an operator of it", argument.span, f"op.dense({body.rules.text(argument.span)})")


def suggest_key(body: Body, draft: Draft, spec: TypeSpec, argument: typed.Expr, callee: Callee) -> None:
    """`normal(k, (M, N))`, as JAX has it, where a key is given by name."""
    if not isinstance(spec, ScalarSpec) or spec.kind != "Shape" or not isinstance(argument.type, TupleType):
        return
    key, *sizes = tuple_items(argument, argument.span) or (argument,)
    if key.type != KEY or not sizes:
        return
    taken = Edit(key.span._replace(end=sizes[0].span.start), "")
    given = Edit(Span(key.span.file, callee.span.end - 1, callee.span.end - 1), f", key={body.rules.text(key.span)}")
    draft.fix("a key has a name", taken, given)


def _fits(
    body: Body, signature: Signature, values: Sequence[typed.Expr], position: int, dims: tuple[Dim, ...]
) -> bool:
    """Whether the call would bind with these dims for one argument."""
    types = [value.type for value in values]
    old = types[position]
    assert isinstance(old, TensorType)
    types[position] = TensorType(dims, old.dtype, old.policy)
    return binds(body, signature, types)


def binds(body: Body, signature: Signature, types: Sequence[Type]) -> bool:
    """Whether a call with arguments of these types would bind."""
    binding = CallBinding(signature, body.facts)
    solver = binding.bind(types)
    return not binding.misfits and not solver.finish() and not solver.conflicts
