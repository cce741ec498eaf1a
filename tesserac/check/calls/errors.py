"""Says why arguments do not fit a signature.

Enters: a conflict of sizes or an argument of the wrong kind. Leaves: one diagnostic that shows both the call and the
declaration.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.check.calls.field_sizes import show_field_size
from tesserac.check.calls.fixes import binds, suggest_key, suggest_move, suggest_operator, suggest_unit
from tesserac.check.calls.reasons import show_arguments
from tesserac.check.instances.binding import Misfit, Reason
from tesserac.check.instances.swaps import exchanged, only_exchange, suggest_exchange
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, storage_text, type_text
from tesserac.check.model.specs import ListSpec, OptionalSpec, ScalarSpec, Signature, Storage, TensorSpec, TypeSpec
from tesserac.check.names.cascades import DECLARED
from tesserac.check.names.foreign_operators import ITS_MATRIX, for_operators
from tesserac.check.operators.mismatch import suggest_divisors
from tesserac.check.provenance.creations import suggest_dtype
from tesserac.check.provenance.declared import show_declared
from tesserac.check.provenance.origins import trace
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.state.run_ints import refuse_run_int
from tesserac.check.values.tuple_fixes import suggest_tensor
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.precision import E0401, E0407
from tesserac.diag.codes.shapes import E0307, E0308, E0311
from tesserac.diag.sink import Draft
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import FloatType, IntType, OperatorType, RunIntType, TensorType, holds_error
from tesserac.types.unify import Conflict


def explain_conflict(
    body: Body, signature: Signature, conflict: Conflict[Reason], values: Sequence[typed.Expr], callee: Callee
) -> None:
    """Two arguments, or an argument and a number in the signature, disagree about a size."""
    position = conflict.reason.parameter
    argument, name = values[position], signature.parameters[position].name
    causes = [cause for cause in conflict.causes if cause[1].reason.parameter != position] or list(conflict.causes)
    if not causes:
        draft = body.sink.error(
            E0308, at=argument.span, expected=dim_text(conflict.bound), found=dim_text(conflict.found),
            label=_argument_label(body, argument),
        )  # fmt: skip
        draft.note(conflict.reason.declared, f"`{name}` of `{callee.name}` needs {dim_text(conflict.bound)} here")
        show_arguments(body, draft, (argument, conflict.found))
        suggest_divisors(body, draft, [(conflict.found, conflict.bound)])
        return
    symbol, bound = causes[0]
    known = {p.name: v.type.value for p, v in zip(signature.parameters, values, strict=True)
             if isinstance(v.type, IntType)}  # fmt: skip
    pattern = dim_text(conflict.pattern.substitute(known))
    draft = body.sink.error(
        E0307, at=argument.span, label=f"gives {pattern} = {dim_text(conflict.found)}",
        symbol=pattern, first=dim_text(conflict.bound), second=dim_text(conflict.found),
    )  # fmt: skip
    first = values[bound.reason.parameter]
    draft.note(first.span, f"gives {dim_text(Dim.sym(symbol))} = {dim_text(bound.value)}")
    draft.note(bound.reason.declared, f"bound here by `{signature.parameters[bound.reason.parameter].name}`")
    draft.note(conflict.reason.declared, f"and needed here by `{name}`")
    draft.because(f"{pattern} in `{callee.name}` is one size per call")
    show_arguments(body, draft, (first, bound.value), (argument, conflict.found))
    suggest_move(body, draft, signature, values, position, (conflict.found, conflict.bound))
    suggest_divisors(body, draft, [(conflict.found, bound.value)])
    pair = only_exchange(values, lambda types: binds(body, signature, types))
    if pair is not None and all(body.rules.text(value.span) for value in pair):
        suggest_exchange(body, draft, pair)
    show_field_size(body, draft, first, symbol, conflict.found)
    if conflict.pattern.substitute(known).symbol == symbol:
        _suggest_size(body, draft, argument, conflict.found, bound.value)
        _suggest_size(body, draft, first, bound.value, conflict.found)


def _argument_label(body: Body, argument: typed.Expr) -> str:
    return dims_text(argument.type.dims) if isinstance(argument.type, TensorType) else type_text(argument.type)


def _suggest_size(body: Body, draft: Draft, argument: typed.Expr, found: Dim, wanted: Dim) -> None:
    """A number in the annotation of the argument itself is easily the other one."""
    if found.constant is None or not isinstance(argument.type, TensorType) or argument.type.dims.count(found) != 1:
        return
    trail = trace(body, argument, argument.type.dims.index(found))
    if trail.declared is not None and not trail.steps and body.rules.text(trail.declared) == str(found):
        draft.replace(f"if `{trail.parameter}` is to fit, make this size {wanted}", trail.declared, str(wanted))


def explain_misfit(
    body: Body, signature: Signature, misfit: Misfit, values: Sequence[typed.Expr], callee: Callee
) -> None:
    """An argument of another kind, rank or dtype than the parameter's annotation."""
    argument, parameter = values[misfit.parameter], signature.parameters[misfit.parameter]
    if holds_error(argument.type):
        return
    spec = misfit.spec.inner if isinstance(misfit.spec, OptionalSpec) else misfit.spec
    if isinstance(spec, ListSpec | TensorSpec):
        body.judged.add(argument.span)
    model = _leading_model(signature, values)
    if isinstance(spec, TensorSpec) and spec.leading and isinstance(misfit.found, TensorType) and model is not None:
        own = misfit.found.dims[: max(misfit.found.rank - len(spec.dims), 0)]
        if len(own) != len(model.leading):
            _explain_leading(body, argument, own, model, callee)
            return
    if isinstance(spec, ScalarSpec) and isinstance(misfit.found, RunIntType):
        draft = refuse_run_int(body, argument, argument.span, f"`{parameter.name}`")
    elif isinstance(spec, TensorSpec) and isinstance(misfit.found, TensorType):
        draft = _explain_tensor(body, spec, misfit.found, argument, values)
    else:
        expected = _spec_text(body, spec)
        draft = body.sink.error(E0210, at=argument.span, expected=expected, found=type_text(misfit.found))
        if isinstance(spec, TensorSpec) and isinstance(misfit.found, FloatType | IntType):
            draft.remark("a number becomes a tensor without dims by `cast`, which says its dtype: `cast(0.5, f32)`")
        if isinstance(spec, TensorSpec) and isinstance(misfit.found, OperatorType):
            draft.remark(for_operators(callee.name) or ITS_MATRIX)
    of_tensors = isinstance(spec, TensorSpec) and isinstance(misfit.found, TensorType)
    _suggest_order(body, draft, signature, values, of_tensors)
    suggest_unit(body, draft, signature, values, misfit.parameter)
    suggest_operator(body, draft, spec, argument)
    suggest_tensor(body, draft, argument, spec)
    suggest_key(body, draft, spec, argument, callee)
    draft.note(parameter.span, f"`{parameter.name}` of `{callee.name}` {DECLARED}")
    show_declared(body, draft, argument, *(value for value in values if value is not argument))


def _suggest_order(
    body: Body, draft: Draft, signature: Signature, values: Sequence[typed.Expr], of_tensors: bool
) -> None:
    """Two arguments in each other's place: of floats and of ints, or tensors that fit so and no other way."""
    pair = exchanged(body, values, [value.type for value in values], lambda types: binds(body, signature, types))
    if pair is None and of_tensors:
        pair = only_exchange(values, lambda types: binds(body, signature, types))
    if pair is not None and all(body.rules.text(value.span) for value in pair):
        suggest_exchange(body, draft, pair)


@dataclass(frozen=True)
class _Leading:
    """The first argument whose leading dims all others must have."""

    name: str
    argument: typed.Expr
    leading: tuple[Dim, ...]


def _leading_model(signature: Signature, values: Sequence[typed.Expr]) -> _Leading | None:
    for parameter, value in zip(signature.parameters, values, strict=True):
        if isinstance(parameter.spec, TensorSpec) and parameter.spec.leading and isinstance(value.type, TensorType):
            count = max(value.type.rank - len(parameter.spec.dims), 0)
            return _Leading(parameter.name, value, value.type.dims[:count])
    return None


def _explain_leading(
    body: Body, argument: typed.Expr, own: tuple[Dim, ...], model: _Leading, callee: Callee
) -> None:
    """Arguments that must have the same shape, or the same leading dims, have not even as many."""
    problem = f"`{callee.name}` needs tensors of one shape, found {dims_text(model.leading)} and {dims_text(own)}"
    draft = body.sink.error(E0311, at=argument.span, label=_argument_label(body, argument), problem=problem)
    draft.note(model.argument.span, _argument_label(body, model.argument))
    draft.because(f"`{callee.name}` does not broadcast: element by element means equal shapes")
    for longer, dims, shorter in ((model.argument, model.leading, own), (argument, own, model.leading)):
        text = body.rules.text(longer.span)
        if dims == (*shorter, ONE) and text:
            whole = text if re.fullmatch(r"[\w.]+", text) else f"({text})"
            draft.replace("drop the unit dim", longer.span, f"{whole}[{', '.join([':'] * len(shorter) + ['0'])}]")


def _other_dtype(spec: TensorSpec, argument: typed.Expr, values: Sequence[typed.Expr]) -> str:
    """The dtype of the first tensor beside an argument that has another one."""
    others = [v.type for v in values if v is not argument and isinstance(v.type, TensorType)]
    own = argument.type
    return next((storage_text(o) for o in others if isinstance(own, TensorType) and o.dtype != own.dtype), "")


def _explain_tensor(
    body: Body, spec: TensorSpec, found: TensorType, argument: typed.Expr, values: Sequence[typed.Expr]
) -> Draft:
    rank, least = found.rank, len(spec.dims)
    if rank < least or (rank > least and not spec.leading):
        wanted = dims_text(dim.dim for dim in spec.dims)
        leading = "at least " if spec.leading else ""
        problem = f"expected {leading}{least} dims {wanted}, found {rank}: {dims_text(found.dims)}"
        return body.sink.error(E0311, at=argument.span, label=f"this is {dims_text(found.dims)}", problem=problem)
    if isinstance(spec.element, Storage) and spec.element.dtype == found.dtype:
        return body.sink.error(
            E0401, at=argument.span, operation="this call", left=storage_text(found), right=str(spec.element)
        )
    expected = str(spec.element) if isinstance(spec.element, Storage) else "the dtype of another argument"
    draft = body.sink.error(E0407, at=argument.span, expected=expected, found=storage_text(found))
    text = body.rules.text(argument.span)
    if isinstance(spec.element, Storage):
        suggest_dtype(body, draft, argument, replace(found, dtype=spec.element.dtype, policy=spec.element.policy))
    if isinstance(spec.element, Storage) and text:
        draft.replace(f"cast it to {spec.element.dtype}", argument.span, f"cast({text}, {spec.element})")
    elif text and isinstance(argument.type, TensorType) and (other := _other_dtype(spec, argument, values)):
        draft.replace(f"cast it to {other}", argument.span, f"cast({text}, {other})")
    if isinstance(spec.element, Storage) and spec.element_span.file == argument.span.file:
        draft.replace(f"declare it {found.dtype}", spec.element_span, storage_text(found))
    return draft


def _spec_text(body: Body, spec: TypeSpec) -> str:
    text = body.rules.text(spec.span)
    return f"`{text}`" if text else "another kind of value"
