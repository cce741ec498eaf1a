"""Which arguments a derivative is by: what `wrt=` says, and what is wrong with it.

Enters: a function, what `wrt` names of its parameters, and the arguments of a call. Leaves: positions among these, or a
diagnostic at the word that is wrong, with the parameters that would do.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.base.spelling import closest
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.model.specs import ScalarSpec
from tesserac.check.names.refs import OperatorRef, StructRef
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.check.state.settings import setting_span, word_span
from tesserac.check.values.globals import BUILT_IN
from tesserac.check.values.tangents import has_tangent
from tesserac.check.values.tuples import tuple_items
from tesserac.diag.codes.differentiation import E0703
from tesserac.diag.codes.names import E0210
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.types.dims import ZERO
from tesserac.types.ty import FunctionType, IntType, StrType, StructType, TransformType, TupleType, Type, setting_fields

WRT = "wrt"


def function_name(type_: Type) -> str:
    if isinstance(type_, FunctionType):
        name = type_.name.partition("$")[0]
        return "the lambda" if name == "lambda" else f"`{name}`"
    return type_.show().removeprefix("function ")


def parameter_names(body: Body, type_: Type) -> list[str]:
    """The parameters of a function that is a value, without those that it captured."""
    if isinstance(type_, TransformType):
        return parameter_names(body, type_.captures[0])
    assert isinstance(type_, FunctionType)
    if type_.module != BUILT_IN:
        parameters = body.rules.signature(type_.module, type_.name).parameters
        return [parameter.name for parameter in parameters[len(type_.captures) :]]
    meaning = body.rules.library(type_.name)
    return [o.name for o in meaning.op.parsed[0].operands] if isinstance(meaning, OperatorRef) else []


def names_parameters(body: Body, function: Type, wrt: typed.Expr) -> bool:
    """Whether all that `wrt` says are names of parameters, or positions."""
    names = parameter_names(body, function)
    for one in tuple_items(wrt, wrt.span) if isinstance(wrt.type, TupleType) else (wrt,):
        if isinstance(one.type, StrType) and one.type.value not in names:
            at = word_span(body, wrt.span, one.type) or wrt.span
            problem = f"{function_name(function)} has no parameter `{one.type.value}`"
            draft = body.sink.error(E0703, at=at, problem=problem)
            draft.remark(f"its parameters are {_listed(names)}")
            draft.did_you_mean(one.type.value, names, at, written='"{}"')
            if names and closest(one.type.value, names) is None:
                draft.replace(f"take the derivative by `{names[0]}`, the first of them", at, f'"{names[0]}"')
            return False
        if not isinstance(one.type, StrType | IntType):
            found = type_text(one.type)
            body.sink.error(E0210, at=wrt.span, expected="the name or position of a parameter", found=found)
            return False
    return True


def read_wrt(body: Body, type_: TransformType, args: Sequence[Arg], callee: Callee) -> list[int] | None:
    """The positions, among the arguments, of those that `wrt` names: the first unless it says otherwise."""
    wrt = type_.setting(WRT)
    wanted: list[Type] = [IntType(ZERO)] if wrt is None else list(wrt.items) if isinstance(wrt, TupleType) else [wrt]
    names = parameter_names(body, type_.captures[0])
    given = [arg.name or (names[i] if i < len(names) else "") for i, arg in enumerate(args)]
    found: list[int] = []
    for one in wanted:
        place = _place(one, given)
        if place is None:
            _report_missing(body, one, type_, args, given, callee)
            return None
        if not has_tangent(args[place].value.type):
            _report_still(body, one, type_, args, given, place, callee)
            return None
        found.append(place)
    return found


def _place(wanted: Type, given: Sequence[str]) -> int | None:
    if isinstance(wanted, StrType):
        return given.index(wanted.value) if wanted.value in given else None
    number = wanted.value.constant if isinstance(wanted, IntType) else None
    return number if number is not None and 0 <= number < len(given) else None


# ---------------------------------------------------------------------------------------------------- messages


def _report_missing(
    body: Body, wanted: Type, type_: TransformType, args: Sequence[Arg], given: Sequence[str], callee: Callee
) -> None:
    """A position that there is not, or a parameter that the call does not give."""
    function, at = function_name(type_.captures[0]), setting_span(body, callee, WRT, wanted)
    if isinstance(wanted, StrType):
        draft = body.sink.error(E0703, at=callee.at, problem=f"`{wanted.value}` of {function} is not given here")
        draft.fix(f"give it by name: `{wanted.value}=`")
        return
    number = wanted.value if isinstance(wanted, IntType) else ""
    count = "1 argument" if len(given) == 1 else f"{len(given)} arguments"
    problem = f"`{WRT}={number}` is beyond the {count} of {function}"
    draft = body.sink.error(E0703, at=at or callee.at, problem=problem)
    draft.remark(f"positions count from 0: {', '.join(f'`{name}` is {i}' for i, name in enumerate(given))}")
    smooth = [place for place, arg in enumerate(args) if has_tangent(arg.value.type)]
    if at is not None and smooth:
        draft.replace(f"take the derivative by `{given[smooth[-1]]}`", at, str(smooth[-1]))


def _report_still(
    body: Body,
    wanted: Type,
    type_: TransformType,
    args: Sequence[Arg],
    given: Sequence[str],
    place: int,
    callee: Callee,
) -> None:
    """An argument that does not change smoothly."""
    value, name = args[place].value, given[place] or f"argument {place + 1}"
    at = setting_span(body, callee, WRT, wanted)
    problem = f"`{name}` of {function_name(type_.captures[0])} has no derivative: it is {type_text(value.type)}"
    draft = body.sink.error(E0703, at=at or callee.at, problem=problem)
    draft.note(value.span, f"this is {type_text(value.type)}")
    draft.remark("what has a derivative is a float or complex tensor, or a value with such tensors in it")
    _learn_floats(body, draft, value.type)
    smooth = [name for name, arg in zip(given, args, strict=True) if name and has_tangent(arg.value.type)]
    if smooth and len(given) > 1:
        _suggest(body, draft, at, smooth[0], callee)


def _learn_floats(body: Body, draft: Draft, type_: Type) -> None:
    """A struct whose numbers are settings: they are weights where the struct says a dtype."""
    if not any(setting_fields(type_)):
        return
    assert isinstance(type_, StructType)
    draft.remark("a field that is a `float` is a setting; one that is an `f32` is a number that is learned")
    decl = body.rules.own_struct(StructRef(type_.module, type_.name))
    spans = [] if decl is None else [f.spec.span for f in decl.fields if isinstance(f.spec, ScalarSpec) and f.is_float]
    if spans:
        edits = [Edit(span, "f32") for span in spans]
        draft.fix(f"learn the numbers of `{type_.name}`", *edits)


def _suggest(body: Body, draft: Draft, at: Span | None, name: str, callee: Callee) -> None:
    """Another argument in its place."""
    title, end = f"take the derivative by `{name}`", Span(callee.at.file, callee.at.end - 1, callee.at.end)
    if at is not None:
        draft.replace(title, at, f'"{name}"')
    elif body.rules.text(end) == ")" and f"{WRT}=" not in body.rules.text(callee.at):
        draft.replace(title, end, f', {WRT}="{name}")')


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
