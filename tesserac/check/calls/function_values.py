"""Calls of function values: what a name bound to a function, a lambda or an operator does when it is called.

Enters: a value of a function type and a call of it. Leaves: the call of the function, with what it captured as its
first arguments. A parameter declared `fn(A) -> B` is held against that declaration at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tesserac.check.calls.errors import explain_conflict, explain_misfit
from tesserac.check.calls.functions import call_function, meet_spec
from tesserac.check.instances.binding import CallBinding
from tesserac.check.instances.conform import conform
from tesserac.check.model import typed
from tesserac.check.model.specs import (
    AnySpec,
    FunctionSpec,
    ParameterSpec,
    Signature,
    TypeSpec,
    dims_of,
    substitute_spec,
)
from tesserac.check.names.refs import FunctionRef
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import tuple_items
from tesserac.diag.codes.names import E0205
from tesserac.syntax import ast
from tesserac.types.ty import ErrorType, FunctionType

Call = Callable[[Sequence[Arg]], typed.Expr]


def call_closure(body: Body, value: typed.Expr, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """A function of a module with what it captured. Messages name it, also where a transform calls it."""
    assert isinstance(value.type, FunctionType)
    name = value.type.name.partition("$")[0]
    callee = callee if name == "lambda" else replace(callee, name=name)
    captured = [Arg(None, callee.at, item) for item in tuple_items(value, callee.at)]
    return call_function(body, FunctionRef(value.type.module, value.type.name), [*captured, *args], callee)


def call_declared(body: Body, spec: FunctionSpec, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """A call of a parameter declared `fn(A) -> B`; `call` makes it once the arguments are what it says."""
    if len(args) != len(spec.parameters) or any(arg.name for arg in args):
        count = len(spec.parameters)
        problem = f"`{callee.name}` takes {count} argument{'' if count == 1 else 's'}, by position"
        body.sink.error(E0205, at=callee.at, problem=problem).note(spec.span, "declared here")
        return body.error(callee.span)
    signature = _signature(body, spec)
    values = [meet_spec(body, p.spec, arg.value) for p, arg in zip(signature.parameters, args, strict=True)]
    if any(isinstance(value.type, ErrorType) for value in values):
        return body.error(callee.span)
    binding = CallBinding(signature, body.facts)
    solver = binding.bind([value.type for value in values])
    solver.finish()
    if binding.misfits:
        explain_misfit(body, signature, binding.misfits[0], values, callee)
    elif solver.conflicts:
        explain_conflict(body, signature, solver.conflicts[0], values, callee)
    else:
        given = [Arg(None, arg.span, value) for arg, value in zip(args, values, strict=True)]
        return conform(body, substitute_spec(signature.result, solver.values()), call(given))
    return body.error(callee.span)


def _signature(body: Body, spec: FunctionSpec) -> Signature:
    """The declaration as a signature; sizes that the function around it does not know are its own."""
    specs: list[TypeSpec] = [substitute_spec(parameter, body.sizes.symbols) for parameter in spec.parameters]
    named = {name for own in spec.parameters for dim in dims_of(own) for name in dim.dim.symbols()}
    parameters = tuple(ParameterSpec(f"argument {i + 1}", own, None, False, own.span) for i, own in enumerate(specs))
    node = ast.FunctionDef(spec.span, (), "fn", spec.span, (), None, (), None, None, ())
    result = spec.result if not isinstance(spec.result, AnySpec) else AnySpec(spec.span)
    symbols = tuple(sorted(named - body.sizes.symbols.keys()))
    return Signature(node, parameters, substitute_spec(result, body.sizes.symbols), symbols, ())
