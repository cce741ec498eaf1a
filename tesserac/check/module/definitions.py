"""One definition as its decorators make it: a function, a kernel, one that is verified, donates or asks for something.

Enters: a body, the signature, the types of its parameters, and what its decorators say. Leaves: the typed function, or
None after diagnostics.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.base.resources import of_library
from tesserac.check.analysis.range_warnings import warn_of_ranges
from tesserac.check.declarations.decorators import Decorations, is_kernel
from tesserac.check.declarations.donation import with_donation
from tesserac.check.declarations.expected_sizes import check_sizes, refuse_for_kernel
from tesserac.check.declarations.schedules import check_pinned, settings_of
from tesserac.check.instances.checking import check_instance
from tesserac.check.instances.verify import verified
from tesserac.check.kernels.implementing import implementing
from tesserac.check.kernels.laws import with_law
from tesserac.check.model import typed
from tesserac.check.model.specs import Signature
from tesserac.check.state.body import Body
from tesserac.check.state.requests import ask_by_types
from tesserac.diag.codes.names import E0229
from tesserac.diag.codes.shapes import E0316
from tesserac.types.dims import TooComplex
from tesserac.types.ty import DTypeType, FunctionType, OperatorType, TransformType, Type, parts


def check_definition(
    body: Body,
    signature: Signature,
    types: tuple[Type, ...],
    symbol: str,
    said: Decorations,
) -> typed.TypedFunction | None:
    try:
        return _check_kind(body, signature, types, symbol, said)
    except TooComplex as problem:
        where = signature.node.where
        at = where[0].span.to(where[-1].span) if where else signature.node.name_span
        body.sink.error(E0316, at=at, label=str(problem))
        return None


def _check_kind(
    body: Body,
    signature: Signature,
    types: tuple[Type, ...],
    symbol: str,
    said: Decorations,
) -> typed.TypedFunction | None:
    _note_effects(body, signature, said)
    if is_kernel(signature.node):
        refuse_for_kernel(body, said.sizes)
        function = _check_kernel(body, signature, types, symbol, said)
        if function is not None and said.implements is not None:
            function = implementing(body, signature, function, said.implements, said.tolerance)
    else:
        function = check_instance(body, signature, types, symbol)
        if body.at_definition:
            check_sizes(body, signature, said.sizes)
        if function is not None and said.law is not None:
            function = with_law(body, function, said.tolerance)
    if function is None or body.needs_value:
        return function
    if body.at_definition and not is_kernel(signature.node) and not of_library(function.span.file):
        warn_of_ranges(body, function, body.rules.known)
    _require_result(body, signature, function)
    ask_by_types(body, signature.attributes)
    asked = tuple(dict.fromkeys([*said.requests, *body.requests]))
    expected = tuple((each.name, each.value) for each in said.sizes if each.name in function.symbols)
    function = replace(function, within=said.within, graph=said.graph, requests=asked, expected=expected)
    function = with_donation(body, function, said.donated)
    return function if said.bounds is None else verified(body, function, said.bounds, body.rules.known)


def _require_result(body: Body, signature: Signature, function: typed.TypedFunction) -> None:
    """What a program exports is called from outside, where there are no functions of the language."""
    inside = _inside(function.result) if function.exported and body.at_definition else None
    if inside is not None:
        at = signature.node.name_span
        draft = body.sink.error(E0229, at=at, function=signature.name, found=_kind(inside))
        draft.remark("call it where it is made, as in `vjp(f, x)[1](dy)`, or leave `@export` out")


def _kind(type_: Type) -> str:
    return "a dtype" if isinstance(type_, DTypeType) else "a function"


def _inside(type_: Type) -> Type | None:
    """The part of a result that has no meaning outside."""
    if isinstance(type_, FunctionType | TransformType | DTypeType):
        return type_
    held = type_.leaves if isinstance(type_, OperatorType) else parts(type_) or ()
    return next((found for part in held if (found := _inside(part)) is not None), None)


def _note_effects(body: Body, signature: Signature, said: Decorations) -> None:
    for effect in said.effects:
        body.add_effect(effect, signature.node.name_span)


def _check_kernel(
    body: Body,
    signature: Signature,
    types: tuple[Type, ...],
    symbol: str,
    said: Decorations,
) -> typed.TypedFunction | None:
    """A kernel whose result depends on blocks means them: it is checked again, with their sizes."""
    from tesserac.check.kernels.programs import check_kernel, meant_blocks

    function = check_kernel(body, signature, types, symbol, said.schedule, said.space)
    meant = None if function is None else meant_blocks(body, body.rules.known, said.pins)
    if meant:
        body.restart()
        _note_effects(body, signature, said)
        function = check_kernel(body, signature, types, symbol, said.schedule, said.space, meant)
        if function is not None and function.program is not None and said.schedule is not None:
            settings, at = settings_of(said.schedule), said.said_at or signature.node.name_span
            check_pinned(body, function.name, function.program.pinned, settings, at)
    if function is None or function.program is None or meant is None:
        return None if meant is None else function
    program = replace(function.program, cache=said.cache, said_at=said.said_at)
    return replace(function, program=program)
