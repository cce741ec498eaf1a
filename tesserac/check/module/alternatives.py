"""Other ways to compute a function: the kernels that implement it, for one instance of it.

Enters: an instance of a function, and the kernels of a program that implement it. Leaves: the instance with an
alternative for each of them, in the order of the program; where the kernel takes what the function takes, a function of
the same parameters that calls it,

    def f.by.k(x, ...): return k(x, ...)

whose guards are what the kernel asks of sizes and the function does not promise. Whether it is taken is for the passes
over the Graph to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.check.calls.functions import call_function
from tesserac.check.instances.checking import enter, instance_symbol
from tesserac.check.kernels.implementing import same_type
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.model.specs import Signature
from tesserac.check.names.refs import FunctionRef
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.check.state.rules import Rules
from tesserac.check.transforms.meaning_rule import stored
from tesserac.diag.diagnostic import Severity
from tesserac.diag.sink import Sink


@dataclass(frozen=True)
class Implementer:
    """A kernel that stands for a function, with the rules of its module and what its decorator says."""

    rules: Rules
    ref: FunctionRef
    target: str
    within: float | None


def with_alternatives(
    function: typed.TypedFunction, signature: Signature, kernels: list[Implementer]
) -> tuple[typed.TypedFunction, list[typed.TypedFunction]]:
    """The function with its alternatives, and the functions that these are."""
    ways, made = list[typed.Alternative](), list[typed.TypedFunction]()
    for kernel in kernels:
        way = _call(function, signature, kernel)
        if isinstance(way, str):
            ways.append(typed.Alternative(kernel.ref.name, "", kernel.target, kernel.within, way))
        else:
            ways.append(typed.Alternative(kernel.ref.name, way.symbol, kernel.target, kernel.within, ""))
            made.append(way)
    return replace(function, alternatives=tuple(ways)), made


def is_instance(function: typed.TypedFunction, owner: str, signature: Signature) -> bool:
    """Whether a function is an instance of the one with this signature, and not a part of it."""
    types = tuple(param.type for param in function.params)
    return function.name == signature.name and function.symbol == instance_symbol(owner, signature, types)


def _call(function: typed.TypedFunction, signature: Signature, kernel: Implementer) -> typed.TypedFunction | str:
    """A function that calls the kernel; why there is none, for people."""
    body = Body(kernel.rules, Sink(), function.name)
    enter(body, signature, tuple(param.type for param in function.params))
    span = function.span
    args = [
        Arg(own.name if own.keyword_only else None, span, typed.Local(param.type, span, param.name))
        for own, param in zip(signature.parameters, function.params, strict=True)
    ]
    value = call_function(body, kernel.ref, args, Callee(kernel.ref.name, span, span))
    said = [d.title for d in body.sink.diagnostics if d.severity is Severity.ERROR]
    if said or not isinstance(value, typed.Call):
        return said[0] if said else "it computes nothing in a run"
    why = next(_misfits(function, body, value), "")
    if why:
        return why
    return replace(
        function,
        symbol=f"{function.symbol}.by.{kernel.ref.owner}.{kernel.ref.name}",
        guards=tuple(body.sizes.guards.values()),
        body=(typed.Return(span, stored(function.result, value)),),
        exported=False,
        promises=(),
        requests=(),
    )


def _misfits(function: typed.TypedFunction, body: Body, value: typed.Call) -> Iterator[str]:
    """Why a call of a kernel cannot stand for the function."""
    if body.doing.effects or function.effects:
        yield f"it has the effect {min({*body.doing.effects, *function.effects})}"
    if body.doing.reads or function.reads:
        yield "it reads params of the module"
    if not same_type(body, value.type, function.result):
        yield f"it gives {type_text(value.type)} here, not {type_text(function.result)}"
