"""Says why a function that is right by itself does not work with the arguments of a call.

Enters: a call, and what is wrong with the callee's body for these types. Leaves: one diagnostic at the call. The body
of a function of the user's is shown, since either may have to change. The library is not the user's to change: the
message names the argument that it does not take, and where in the library that shows is a reason among others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.instances.swaps import exchanged, places_text, suggest_exchange
from tesserac.check.instances.unit_dims import merged_dims, unit_dims
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text
from tesserac.check.model.specs import OptionalSpec, ScalarSpec
from tesserac.check.names.foreign_operators import for_operators
from tesserac.check.names.refs import FunctionRef
from tesserac.check.operators.apply import fits_dtype, scalar_fits
from tesserac.check.provenance.declared import show_declared
from tesserac.check.provenance.in_use import in_use
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.state.rules import Instance
from tesserac.diag.codes.names import E0216, E0217
from tesserac.diag.codes.shapes import E0315
from tesserac.diag.diagnostic import Diagnostic, Fix, Label, Severity
from tesserac.diag.sink import Draft
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, I32, DType
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import (
    BoolType,
    FloatType,
    IntType,
    OperatorType,
    RunIntType,
    TensorType,
    TupleType,
    Type,
    holds_operator,
)

_SHAPES, _NAMES = "E03", "E02"
METHOD = "."
"""What a method of a struct has in its name: a model has one caller."""
_QUOTED = re.compile('"([^"]*)"')
_NUMBERS = (IntType, RunIntType, FloatType, BoolType)


@dataclass(frozen=True)
class _Cause:
    """What is wrong within a body, and where: in the innermost of the calls that fail one because of another."""

    code: str
    text: str
    span: Span
    label: str
    more: tuple[Label, ...] = ()
    fixes: tuple[Fix, ...] = ()

    @property
    def reason(self) -> str:
        """What stands at the call: of an assertion what it says, not that it is one."""
        return self.text.removeprefix(f"{E0216.title}: ")


def report_instance(
    body: Body,
    ref: FunctionRef,
    instance: Instance,
    types: tuple[Type, ...],
    values: Sequence[typed.Expr],
    callee: Callee,
) -> None:
    """A body that fails only for these types is reported where they were given."""
    errors = [d for d in instance.diagnostics if d.severity is Severity.ERROR]
    if not errors:
        return
    named = body.rules.recheck(ref.owner, ref.name, types)
    found = _cause(next((d for d in named if d.severity is Severity.ERROR), errors[0]))
    cause = replace(found, text=_in_words_of_caller(found.text, types, [value.type for value in values]))
    method_of_library = METHOD in ref.name and of_library(body.rules.signature(ref.owner, ref.name).node.span.file)
    if body.rules.library(ref.name) == ref or method_of_library:
        _report_argument(body, ref, cause, types, values, callee)
        return
    draft = body.sink.error(E0217, at=callee.at, name=callee.name, label=cause.reason)
    own = next((d for d in named if d.severity is Severity.ERROR), errors[0]).primary.span
    draft.note(own if of_library(cause.span.file) else cause.span, cause.label or "here")
    for label in cause.more:
        if label.span.file == callee.at.file and label.span != cause.span:
            draft.note(label.span, label.text)
    if cause.reason != cause.text:
        draft.because(cause.text, cause.span)
    _show_arguments(body, draft, values, callee)
    function = body.rules.signature(ref.owner, ref.name).node.span
    for fix in cause.fixes:
        says_the_same = bool(fix.advice) and cause.code.startswith((_NAMES, E0315.id))  # whoever calls it
        if says_the_same or METHOD in ref.name or _is_outside(fix, function):
            draft.fix(fix.title, *fix.edits, advice=fix.advice)


def _show_arguments(body: Body, draft: Draft, values: Sequence[typed.Expr], callee: Callee) -> None:
    """What is given, where it is computed in the call, and the parameters that it is made of."""
    for value in values:
        is_named = isinstance(value, typed.Local) or value.span == callee.at  # a name that the function sees around it
        if isinstance(value.type, TensorType) and not is_named and value.span.file == callee.at.file:
            draft.because(f"`{body.rules.text(value.span)}` is {dims_text(value.type.dims)}", value.span)
    show_declared(body, draft, *values)


def _is_outside(fix: Fix, function: Span) -> bool:
    """Whether a fix changes nothing within a function, which is right for other calls: the field of a struct, say."""
    spans = [edit.span for edit in fix.edits if edit.span.file == function.file]
    return len(spans) == len(fix.edits) > 0 and not any(function.start <= s.start <= function.end for s in spans)


def _in_words_of_caller(text: str, own: Sequence[Type], given: Sequence[Type]) -> str:
    """A message in which sizes have the names that they have in the call, not those of the function."""
    names = dict(pair for pairs in map(_sizes_of, own, given) for pair in pairs)
    return _QUOTED.sub(lambda match: names.get(match[1], match[0]), text)


def _sizes_of(own: Type, given: Type) -> Iterator[tuple[str, str]]:
    """Names of sizes of a parameter, and what the argument has there."""
    match own, given:
        case TensorType(), TensorType() if own.rank == given.rank:
            yield from ((str(name), dim_text(dim)) for name, dim in zip(own.dims, given.dims, strict=True))
        case OperatorType(), OperatorType() if len(own.leaves) == len(given.leaves):
            for pairs in map(_sizes_of, own.leaves, given.leaves):
                yield from pairs


def _cause(first: Diagnostic) -> _Cause:
    if first.code == E0217.id and first.secondary:
        inner, *more = first.secondary
        return _Cause(first.code, first.primary.text, inner.span, inner.text, tuple(more), first.fixes)
    if first.code == E0217.id and first.because:
        return _Cause(first.code, first.because[0].text, first.because[0].span, "")
    if first.code == E0216.id and first.primary.text:  # what the assertion itself says is the reason
        return _Cause(first.code, f"{first.title}: {first.primary.text}", first.primary.span, first.primary.text)
    return _Cause(first.code, first.title, first.primary.span, first.primary.text, first.secondary, first.fixes)


def _report_argument(
    body: Body,
    ref: FunctionRef,
    cause: _Cause,
    types: tuple[Type, ...],
    values: Sequence[typed.Expr],
    callee: Callee,
) -> None:
    """What the library does not take: a number that no element can be, several dims for one, or the argument with its
    dtype or its lack of dims, then what that breaks."""
    misfit = next(_misfits(body, ref, types, values, callee.at.file), None)
    axes = next(_several_axes(body, ref, types), None)
    if misfit is not None:
        fits_dtype(body, misfit[0], misfit[1], values)
    elif axes is not None:
        draft = body.sink.error(E0217, at=callee.at, name=callee.name)
        draft.note(values[axes].span, f"this is one dim here, not {len(_items(types[axes]))}")
        _show_arguments(body, draft, values, callee)
    else:
        _report_breach(body, ref, cause, types, values, callee)


def _report_breach(
    body: Body,
    ref: FunctionRef,
    cause: _Cause,
    types: tuple[Type, ...],
    values: Sequence[typed.Expr],
    callee: Callee,
) -> None:
    """The argument that does not fit with its dtype or its lack of dims, and what that breaks."""
    pair = exchanged(body, values, types, lambda tried: _is_right(body, ref, tried))
    def would_be_right(place: int, type_: Type) -> bool:
        return _is_right(body, ref, _with(types, place, type_))

    shaped = list(unit_dims(body, values, would_be_right)) or list(merged_dims(body, values, would_be_right))
    asserted = cause.code == E0216.id  # what the assertion itself says is the reason
    trial = None if pair is not None or (shaped and not asserted) else next(_right(body, ref, types), None)
    if pair is not None:
        told = places_text(body, pair)
    elif shaped:
        told = "" if asserted else next(_dims_texts(body, shaped[0][1], values), "")
    else:
        told = _no_dims_text(body, cause, values) if trial is None else _dtypes_text(body, callee, trial, values)
    draft = body.sink.error(E0217, at=callee.at, name=callee.name, label=told or cause.reason)
    draft.because(cause.text, cause.span)
    _show_arguments(body, draft, values, callee)
    if any(holds_operator(type_) for type_ in types) and (there := for_operators(callee.name)) is not None:
        draft.remark(there)
    if pair is not None:
        suggest_exchange(body, draft, pair)
    for title, span, text in shaped if pair is None else ():
        draft.replace(title, span, text)
    if trial is not None and len(trial.places) == 1 and _element(types[trial.places[0]]).kind != "c":
        span = values[trial.places[0]].span
        text = body.rules.text(span)
        if text:
            draft.replace(f"cast it to {trial.dtype}", span, f"cast({text}, {trial.dtype})")


def _misfits(
    body: Body, ref: FunctionRef, types: tuple[Type, ...], values: Sequence[typed.Expr], file: str
) -> Iterator[tuple[typed.Expr, DType]]:
    """Plain numbers of the call, each with the dtype of a tensor beside it that cannot be it, where with one that can
    the body would be right. What is declared a bool is no element, and a default no mistake of the call."""
    dtypes = dict.fromkeys(type_.dtype for type_ in types if isinstance(type_, TensorType))
    parameters = body.rules.signature(ref.owner, ref.name).parameters
    for place, value in enumerate(values):
        spec = parameters[place].spec
        is_flag = isinstance(spec, ScalarSpec) and spec.kind == "bool"
        if not isinstance(types[place], _NUMBERS) or value.span.file != file or is_flag:
            continue
        for dtype in dtypes:
            tried = (*types[:place], _number_of(dtype), *types[place + 1 :])
            if not scalar_fits(value.type, dtype) and _is_right(body, ref, tried):
                yield value, dtype


def _several_axes(body: Body, ref: FunctionRef, types: tuple[Type, ...]) -> Iterator[int]:
    """Places of several dims, where with one of them the body would be right."""
    for place, parameter in enumerate(body.rules.signature(ref.owner, ref.name).parameters):
        spec = parameter.spec.inner if isinstance(parameter.spec, OptionalSpec) else parameter.spec
        several = _items(types[place]) if isinstance(spec, ScalarSpec) and spec.kind == "Axis" else ()
        if len(several) > 1 and _is_right(body, ref, _with(types, place, several[0])):
            yield place


def _items(type_: Type) -> tuple[Type, ...]:
    return type_.items if isinstance(type_, TupleType) else ()


def _number_of(dtype: DType) -> Type:
    """A plain number that an element of the dtype can be."""
    if dtype.kind == "b":
        return BoolType(False)
    return IntType(Dim.const(1)) if dtype.is_integer else FloatType(1.0)


def _is_right(body: Body, ref: FunctionRef, types: tuple[Type, ...]) -> bool:
    return not any(d.severity is Severity.ERROR for d in body.rules.recheck(ref.owner, ref.name, types))


@dataclass(frozen=True)
class _Trial:
    """Arguments, and a dtype that they might have."""

    places: tuple[int, ...]
    dtype: DType


def _right(body: Body, ref: FunctionRef, types: tuple[Type, ...]) -> Iterator[_Trial]:
    """The arguments with which, were they floats and not ints or the other way round, the body would be right."""
    for trial in _trials(types, in_use(body, "f", F32), in_use(body, "iu", I32)):
        tried = tuple(_with_dtype(type_, trial.dtype) if place in trial.places else type_
                      for place, type_ in enumerate(types))  # fmt: skip
        if _is_right(body, ref, tried):
            yield trial


def _with(types: tuple[Type, ...], place: int, type_: Type) -> tuple[Type, ...]:
    return (*types[:place], type_, *types[place + 1 :])


def _trials(types: tuple[Type, ...], real: DType, whole: DType) -> Iterator[_Trial]:
    """Each tensor by itself, then all of a kind; with the dtype that others beside it have, or that is in use."""
    elements = {place: type_.dtype for place, type_ in enumerate(types) if isinstance(type_, TensorType)}
    floats = tuple(place for place, dtype in elements.items() if dtype.is_float)
    others = tuple(place for place in elements if place not in floats)
    for places, like, default in ((others, floats, real), (floats, others, whole)):
        wanted = next((elements[place] for place in like), default)
        groups = dict.fromkeys([*((place,) for place in places), places])
        yield from (_Trial(group, wanted) for group in groups if group)


def _with_dtype(type_: Type, dtype: DType) -> Type:
    return replace(type_, dtype=dtype, policy=NO_POLICY) if isinstance(type_, TensorType) else type_


def _element(type_: Type) -> DType:
    assert isinstance(type_, TensorType)
    return type_.dtype


def _dtypes_text(body: Body, callee: Callee, trial: _Trial, values: Sequence[typed.Expr]) -> str:
    given = [f"`{body.rules.text(values[place].span)}` is {_element(values[place].type)}" for place in trial.places]
    wanted = "floats" if trial.dtype.is_float else "ints" if trial.dtype.is_integer else str(trial.dtype)
    return f"{', '.join(given)}: `{callee.name}` takes {wanted}"


def _dims_texts(body: Body, span: Span, values: Sequence[typed.Expr]) -> Iterator[str]:
    for value in values:
        if value.span == span and isinstance(value.type, TensorType):
            yield f"`{body.rules.text(span)}` is {dims_text(value.type.dims)}"


def _no_dims_text(body: Body, cause: _Cause, values: Sequence[typed.Expr]) -> str:
    bare = [value for value in values if isinstance(value.type, TensorType) and not value.type.dims]
    if not bare or not cause.code.startswith((_SHAPES, E0217.id)):
        return ""
    return f"`{body.rules.text(bare[0].span)}` has no dims"
