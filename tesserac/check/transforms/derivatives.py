"""Derivatives as functions of functions: `grad(f)`, `value_and_grad(f)`, `jvp(f, x, dx)`, `vjp(f, x)`.

Enters: a function, and the arguments of a call. Leaves: a `Derivative` of the call of the function with names in place
of its arguments, or a diagnostic. What is known while compiling is passed on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body, is_static
from tesserac.check.state.evaluation import framed
from tesserac.check.transforms import auxiliary
from tesserac.check.transforms.auxiliary import HAS_AUX
from tesserac.check.transforms.checkpoints import CHECKPOINT, CHECKPOINTS
from tesserac.check.transforms.errors import report_flat, report_printing, report_shape
from tesserac.check.transforms.wrt import names_parameters, read_wrt
from tesserac.check.values.generic_items import lengths_in
from tesserac.check.values.opened import Opened
from tesserac.check.values.scalars import is_one_float
from tesserac.check.values.tangents import has_tangent, tangent_type
from tesserac.check.values.tuples import item_of, make_tuple, make_value, tuple_items
from tesserac.diag.codes.differentiation import E0704
from tesserac.diag.codes.names import E0205, E0210
from tesserac.types.ty import (
    Aggregate,
    BoolType,
    ErrorType,
    FloatType,
    FunctionType,
    IntType,
    NoneType,
    OperatorType,
    RunIntType,
    TensorType,
    TransformType,
    TupleType,
    Type,
    with_parts,
)

HOLOMORPHIC = "holomorphic"
_JACOBIANS = ("jacfwd", "jacrev", "hessian")
_SLOTS = (Slot("f", True, False), Slot("wrt", False, True))
_GRADIENTS = ("grad", "value_and_grad")

Call = Callable[[Body, typed.Expr, Sequence[Arg], Callee], typed.Expr]
"""Calls a function that is a value."""


def make_derivative(body: Body, name: str, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """`grad(f)` is a function, to be called with the arguments of f; `jvp(f, ...)` and `vjp(f, ...)` call f."""
    if name == "jvp":
        return _jvp(body, args, callee, call)
    if name == "vjp":
        return _vjp(body, args, callee, call)
    if name in CHECKPOINTS:
        return _checkpoint(body, args, callee)
    given = sort_arguments(body, callee, args, _slots(name))
    if given is None or not require_function(body, given["f"], callee):
        return body.error(callee.span)
    if "wrt" in given and not names_parameters(body, given["f"].type, given["wrt"]):
        return body.error(callee.span)
    said = given.get(HOLOMORPHIC)
    if said is not None and not isinstance(said.type, BoolType):
        body.sink.error(E0210, at=said.span, expected="True or False", found=type_text(said.type))
        return body.error(callee.span)
    if not auxiliary.reads_aux(body, given.get(HAS_AUX)):
        return body.error(callee.span)
    settings = tuple((setting, given[setting].type) for setting in ("wrt", HOLOMORPHIC, HAS_AUX) if setting in given)
    return make_value(TransformType(name, (given["f"].type,), settings), [given["f"]], callee.span)


def _slots(name: str) -> tuple[Slot, ...]:
    """What a transform takes besides a function."""
    if name in _JACOBIANS:
        return (*_SLOTS, Slot(HOLOMORPHIC, False, True))
    return (*_SLOTS, Slot(HAS_AUX, False, True)) if name in _GRADIENTS else _SLOTS


def call_derivative(body: Body, value: typed.Expr, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """A call of a function that is a derivative."""
    type_ = value.type
    assert isinstance(type_, TransformType)
    if type_.transform == "pullback":
        return _pull_back(body, value, args, callee, call)
    function, *_ = tuple_items(value, callee.span)
    if type_.transform == CHECKPOINT:
        called = call(body, function, args, callee)
        return typed.Checkpoint(called.type, callee.span, called)
    wrt = read_wrt(body, type_, args, callee)
    opened = None if wrt is None else open_call(body, function, args, callee, call)
    if wrt is None or opened is None:
        return body.error(callee.span)
    aux = auxiliary.has_aux(type_)
    if aux and not auxiliary.is_pair(body, function.type, opened.value.type, type_.transform, callee):
        return body.error(callee.span)
    result = item_of(opened.value, 0, callee.span).type if aux else opened.value.type
    if not _is_scalar(result):
        report_shape(body, function.type, result, type_.transform, callee)
        return body.error(callee.span)
    one = typed.Coerce(result, callee.span, typed.Static(FloatType(1.0), callee.span))
    pair = replace(opened, has_aux=aux).derivative(wrt, [one])
    found = _with_places(item_of(pair, 1, callee.span), opened.differentiated(wrt), callee.span)
    several = isinstance(type_.setting("wrt"), TupleType)
    gradient = found if several else item_of(found, 0, callee.span)
    value = item_of(pair, 0, callee.span)
    if type_.transform != "grad":
        return make_tuple([value, gradient], callee.span)
    return make_tuple([gradient, item_of(value, 1, callee.span)], callee.span) if aux else gradient


def _with_places(found: typed.Expr, primals: Sequence[typed.Expr], span: Span) -> typed.Expr:
    """The cotangent of an operator is an operator: where its numbers stand is where those of the operator do."""
    if not any(isinstance(primal.type, OperatorType) for primal in primals):
        return found
    items = [item_of(found, place, span) for place in range(len(primals))]
    for place, primal in enumerate(primals):
        if isinstance(primal.type, OperatorType):
            items[place] = _as_operator(items[place], primal, span)
    return make_tuple(items, span)


def _as_operator(found: typed.Expr, primal: typed.Expr, span: Span) -> typed.Expr:
    if isinstance(found.type, NoneType):
        return primal
    if not isinstance(primal.type, OperatorType | FunctionType | TransformType | TupleType):
        return found
    pairs = zip(tuple_items(found, span), tuple_items(primal, span), strict=True)
    items = [_as_operator(own, of, span) for own, of in pairs]
    assert isinstance(found.type, Aggregate)
    return make_value(with_parts(found.type, [item.type for item in items]), items, span)


# ------------------------------------------------------------------------------------------- both directions


def open_call(
    body: Body, function: typed.Expr, args: Sequence[Arg], callee: Callee, call: Call
) -> Opened | None:
    """The call of the function; None after a diagnostic, also where its result or an effect has no derivative."""
    params, values, places, named = list[str](), list[typed.Expr](), list[int | None](), list[Arg]()
    for position, arg in enumerate(args):
        for count in lengths_in(arg.value.type):
            if not body.wants_value(count):
                body.unknown_count(count, arg.value.span)
                return None
        if is_static(arg.value.type):
            places.append(None)
            named.append(arg)
            continue
        name = f"argument {position + 1} of {callee.span.start}"
        places.append(len(params))
        params.append(name)
        values.append(arg.value)
        named.append(Arg(arg.name, arg.span, typed.Local(arg.value.type, arg.value.span, name)))
    before, body.doing.effects = body.doing.effects, {}
    with framed(body):
        value = call(body, function, named, callee)
    own, body.doing.effects = body.doing.effects, {**body.doing.effects, **before}
    if isinstance(value.type, ErrorType):
        return None
    if "io" in own:
        advice = "take the `print` out, or differentiate a function that only computes"
        report_printing(body, E0704, function.type, value, callee, advice)
        return None
    if not has_tangent(value.type):
        report_flat(body, function.type, value.type, callee)
        return None
    asked = [] if body.flow.dead else body.asked
    return Opened(tuple(params), tuple(values), tuple(places), value, callee.span, asked)


def _jvp(body: Body, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """`jvp(f, (x, y), (dx, dy))` is the value of f and its change along (dx, dy)."""
    slots = [Slot(name, True, False) for name in ("f", "primals", "tangents")]
    given = sort_arguments(body, callee, args, slots)
    if given is None or not require_function(body, given["f"], callee):
        return body.error(callee.span)
    primals, tangents = (_listed(given[name]) for name in ("primals", "tangents"))
    if len(primals) != len(tangents):
        problem = f"`jvp` takes a tangent for each argument: {len(primals)} arguments, {len(tangents)} tangents"
        body.sink.error(E0205, at=callee.at, problem=problem)
        return body.error(callee.span)
    wrt = [place for place, primal in enumerate(primals) if has_tangent(primal.type)]
    seeds = [seed_of(body, tangents[place], primals[place].type) for place in wrt]
    opened = open_call(body, given["f"], [Arg(None, v.span, v) for v in primals], callee, call)
    if opened is None or any(seed is None for seed in seeds):
        return body.error(callee.span)
    return opened.derivative(wrt, [seed for seed in seeds if seed is not None], reverse=False)


def _vjp(body: Body, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """`y, back = vjp(f, x, w)`: the value of f, and the function from its cotangent to those of the arguments. With
    `has_aux=True` f gives a pair, and what is besides the value comes third."""
    said = next((arg.value for arg in args if arg.name == HAS_AUX), None)
    args = [arg for arg in args if arg.name != HAS_AUX]
    if not auxiliary.reads_aux(body, said):
        return body.error(callee.span)
    if not args or any(arg.name for arg in args) or not require_function(body, args[0].value, callee):
        if not args or any(arg.name for arg in args):
            body.sink.error(E0205, at=callee.at, problem="`vjp` takes a function and its arguments, by position")
        return body.error(callee.span)
    function, *values = args
    value = call(body, function.value, values, callee)
    if isinstance(value.type, ErrorType):
        return value
    captures = [function.value, *(arg.value for arg in values)]
    settings = () if said is None else ((HAS_AUX, said.type),)
    back = TransformType("pullback", tuple(captured.type for captured in captures), settings)
    pulled = make_value(back, captures, callee.span)
    if not auxiliary.has_aux(back):
        return make_tuple([value, pulled], callee.span)
    if not auxiliary.is_pair(body, function.value.type, value.type, "vjp", callee):
        return body.error(callee.span)
    return make_tuple([item_of(value, 0, callee.span), pulled, item_of(value, 1, callee.span)], callee.span)


def _pull_back(body: Body, value: typed.Expr, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    function, *primals = tuple_items(value, callee.span)
    given = sort_arguments(body, callee, args, (Slot("cotangent", True, False),))
    opened = open_call(body, function, [Arg(None, v.span, v) for v in primals], callee, call)
    if given is None or opened is None:
        return body.error(callee.span)
    if isinstance(value.type, TransformType) and auxiliary.has_aux(value.type):
        opened = replace(opened, value=item_of(opened.value, 0, callee.span))
    seed = seed_of(body, given["cotangent"], opened.value.type)
    if seed is None:
        return body.error(callee.span)
    wrt = [place for place, primal in enumerate(primals) if has_tangent(primal.type)]
    found = item_of(opened.derivative(wrt, [seed]), 1, callee.span)
    return _with_places(found, opened.differentiated(wrt), callee.span)


def _checkpoint(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`checkpoint(f)` computes what f does; a derivative keeps nothing of what is inside."""
    given = sort_arguments(body, callee, args, (Slot("f", True, False),))
    if given is None or not require_function(body, given["f"], callee):
        return body.error(callee.span)
    return make_value(TransformType(CHECKPOINT, (given["f"].type,)), [given["f"]], callee.span)


def seed_of(body: Body, seed: typed.Expr, of: Type) -> typed.Expr | None:
    """What is given as a tangent or cotangent of a value has its type; a number is one of a single number."""
    wanted = tangent_type(of)
    if isinstance(wanted, TensorType) and not wanted.dims and isinstance(seed.type, IntType | RunIntType | FloatType):
        return typed.Coerce(wanted, seed.span, seed)
    if seed.type == wanted:
        return seed
    body.sink.error(E0210, at=seed.span, expected=f"{type_text(wanted)}, as the value has", found=type_text(seed.type))
    return None


def _listed(value: typed.Expr) -> tuple[typed.Expr, ...]:
    return tuple_items(value, value.span) if isinstance(value.type, TupleType) else (value,)


# ------------------------------------------------------------------------------------------ functions, wrt


def is_function(type_: Type) -> bool:
    return isinstance(type_, FunctionType | TransformType)


def require_function(body: Body, value: typed.Expr, callee: Callee) -> bool:
    if is_function(value.type):
        return True
    draft = body.sink.error(E0210, at=value.span, expected="a function", found=type_text(value.type))
    text = body.rules.text(value.span)
    called = re.match(r"[\w.]+(?=\()", text)
    if called and text.endswith(")") and body.rules.text(callee.span).endswith(f"({text})"):
        split = f"{called[0]}){text[called.end() : -1]}"
        draft.replace("pass the function, and its arguments to what is made of it", value.span, split)
    return False


def _is_scalar(type_: Type) -> bool:
    return is_one_float(type_) or type_ == FloatType()
