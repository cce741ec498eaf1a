"""Derivatives that a program writes itself: `@jvp_of(f)` and `@vjp_of(f)`.

Enters: a call of a function that has such rules. Leaves: the call, with the instances of its rules that fit it. A rule
of f stands in f's file; it takes the arguments of f, the result of f, and then

    @jvp_of(f)    a tangent for each argument that has one, and gives the tangent of the result;
    @vjp_of(f)    the cotangent of the result, and gives those of these arguments, a tuple if there are several.

A rule may call f: that call has its rules too, so a derivative of any order goes by them. Hence what a rule gives is
looked at only when no check is under way. Rules of the library are known to fit where they stand: their instances are
checked when somebody asks for them, since most programs take no derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tesserac.base.source import Span
from tesserac.check.analysis.linearity import nonlinearity
from tesserac.check.instances.binding import CallBinding, substitute_type
from tesserac.check.instances.checking import instance_symbol
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.names.refs import FORWARD_RULE, FunctionRef
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tangents import has_tangent, tangent_type
from tesserac.diag.codes.differentiation import E0705
from tesserac.diag.sink import Draft, Sink
from tesserac.ir.ordering import COLLECTIVE
from tesserac.types.dims import Dim
from tesserac.types.dtype import F64
from tesserac.types.ty import FloatType, NoneType, TensorType, TupleType, Type, parts


def with_rules(body: Body, call: typed.Call, ref: FunctionRef, callee: Callee) -> typed.Expr:
    """The call with the rules of its function; an error where one does not fit."""
    rules: list[typed.Rule] = []
    for kind, name in sorted(body.rules.derivative_rules(ref.owner, ref.name).items()):
        bound = _bind(body, call, FunctionRef(ref.owner, name), kind == FORWARD_RULE, callee)
        if bound is None:
            return body.error(callee.span)
        if not body.rules.promise(bound.ref, bound.types, bound.rule.function):
            body.rules.when_free(ref.owner, bound.types, body.sink, bound.check)
        rules.append(bound.rule)
    if not rules:
        return call
    implied = () if any(rule.forward for rule in rules) else call.rules
    return replace(call, rules=(*rules, *implied), closed=False)


def check_rules(body: Body, function: typed.TypedFunction, ref: FunctionRef) -> list[str]:
    """Holds the rules of a function to its definition; the names of those that do not fit, after a diagnostic each."""
    args = tuple(typed.Local(param.type, param.span, param.name) for param in function.params)
    call = typed.Call(function.result, function.span, function.symbol, args, ())
    wrong: list[str] = []
    for kind, name in sorted(body.rules.derivative_rules(ref.owner, ref.name).items()):
        at = body.rules.signature(ref.owner, name).node.name_span
        callee = Callee(ref.name, at, at)
        before = len(body.sink.diagnostics)
        bound = _bind(body, call, FunctionRef(ref.owner, name), kind == FORWARD_RULE, callee)
        if bound is not None:
            body.rules.when_free(ref.owner, bound.types, body.sink, bound.check)
        if bound is not None and bound.rule.forward:
            _check_linear(body, bound.rule, sum(has_tangent(param.type) for param in function.params))
        if len(body.sink.diagnostics) > before:
            wrong.append(name)
    return wrong


def _check_linear(body: Body, rule: typed.Rule, tangents: int) -> None:
    """A rule for both modes is linear in its tangents: in reverse it is transposed."""
    function = body.rules.known(rule.function)
    fault = None if function is None else nonlinearity(function, tangents, body.rules.known)
    if fault is None or function is None:
        return
    at = fault.at if fault.at.file == function.span.file else function.span
    problem = f"`{function.name}` is not linear in its tangents"
    draft = body.sink.error(E0705, at=at, label=fault.why if at == fault.at else "", problem=problem)
    for param in function.params[-tangents:]:
        draft.note(param.span, "a tangent")
    draft.fix("scale tangents by values that do not depend on them, and add what comes of that")


class _Bound(NamedTuple):
    """A rule as a call has it, the types of its arguments, and what looks at what it gives."""

    rule: typed.Rule
    ref: FunctionRef
    types: tuple[Type, ...]
    check: Callable[[Sink], None]


def _bind(body: Body, call: typed.Call, ref: FunctionRef, forward: bool, callee: Callee) -> _Bound | None:
    signature = body.rules.signature(ref.owner, ref.name)
    types = [arg.type for arg in call.args]
    smooth = [tangent_type(type_) for type_ in types if has_tangent(type_)]
    change, at = tangent_type(call.type), signature.node.name_span
    if not smooth or not has_tangent(call.type):
        what = "argument" if not smooth else "result"
        _refuse(body.sink, callee, at, f"`{callee.name}` has no {what} with a derivative, and so no rule", ())
        return None
    given = [*types, call.type, *(smooth if forward else [change])]
    if forward and len(signature.parameters) > len(given):
        given = [*types, call.type, *(tangent_type(type_) for type_ in types if _may_have_tangent(type_))]
    if len(signature.parameters) != len(given):
        problem = f"`{ref.name}` takes {len(signature.parameters)} arguments; a rule of `{callee.name}` takes"
        _refuse(body.sink, callee, at, f"{problem} {len(given)}", given)
        return None
    binding = CallBinding(signature, body.facts, body.devices.axes)
    solver = binding.bind(given)
    if binding.misfits or solver.finish() or solver.conflicts:
        _refuse(body.sink, callee, at, f"`{ref.name}` does not take what a rule of `{callee.name}` is given", given)
        return None
    sizes, own = solver.values(), tuple(binding.types)
    wanted = change if forward else smooth[0] if len(smooth) == 1 else TupleType(tuple(smooth))

    def check_result(sink: Sink) -> None:
        instance = body.rules.instance(ref.owner, ref.name, own)
        if instance.function is not None:
            _check_result(sink, instance.function, sizes, wanted, callee)
            _check_effects(sink, instance.function, body.rules.known(call.function), callee)
        for problem in instance.diagnostics[:1]:
            _refuse(sink, callee, problem.primary.span, f"`{ref.name}` does not fit: {problem.title}", ())

    rule = typed.Rule(forward, instance_symbol(ref.owner, signature, own), tuple(sorted(sizes.items())))
    return _Bound(rule, ref, own, check_result)


def _may_have_tangent(type_: Type) -> bool:
    """Whether an argument has a tangent, or would have one if it were given: then that is None, too."""
    return has_tangent(type_) or isinstance(type_, NoneType)


def _check_result(sink: Sink, rule: typed.TypedFunction, sizes: dict[str, Dim], wanted: Type, callee: Callee) -> None:
    """A rule gives what it should."""
    found = substitute_type(rule.result, sizes)
    if not _gives(found, wanted):
        problem = f"`{rule.name}` does not give what a rule of `{callee.name}` gives"
        draft = _refuse(sink, callee, rule.span, problem, ())
        draft.because(f"`{rule.name}` gives {type_text(found)}")
        draft.because(f"a rule gives {type_text(wanted)}, as the values have")


def _check_effects(sink: Sink, rule: typed.TypedFunction, of: typed.TypedFunction | None, callee: Callee) -> None:
    """A rule only computes. It may communicate across the axes of the function: then all devices come there."""
    known = {across.axis for across in of.collectives} if of is not None else set()
    more = [across.axis for across in rule.collectives if across.axis not in known]
    if rule.effects - {COLLECTIVE} or rule.reads:
        problem = f"`{rule.name}` has effects or reads params"
        _refuse(sink, callee, rule.span, problem, ())
    elif more:
        problem = f'`{rule.name}` communicates across "{more[0]}", which `{callee.name}` does not'
        _refuse(sink, callee, rule.span, problem, ())


def _gives(found: Type, wanted: Type) -> bool:
    """Whether a rule gives a tangent of this type; an integer may stand where a tangent has None, and one f64 number is
    a float."""
    if wanted == FloatType():
        return found in (wanted, TensorType((), F64))
    inner, theirs = parts(found), parts(wanted)
    if inner is None or theirs is None or type(found) is not type(wanted):
        return tangent_type(found) == wanted
    return len(inner) == len(theirs) and all(map(_gives, inner, theirs))


def _refuse(sink: Sink, callee: Callee, at: Span, problem: str, given: Sequence[Type]) -> Draft:
    draft = sink.error(E0705, at=callee.at, problem=problem)
    if at != callee.at:
        draft.note(at, "the rule")
    if given:
        draft.remark(f"it is given {', '.join(type_text(type_) for type_ in given)}")
    return draft
