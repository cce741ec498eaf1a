"""Which rule a function of functions has: `grad`, `vmap`, `scan` and the others, by name.

Enters: a call of one of them, or of a function that one of them made. Leaves: what its rule gives.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.declarations.schedules import WITH_SCHEDULE, scheduled
from tesserac.check.model import typed
from tesserac.check.operators.pattern_calls import call_pattern, has_pattern
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body
from tesserac.check.transforms.derivatives import Call, call_derivative, make_derivative, require_function
from tesserac.check.transforms.folds import reduce, scan
from tesserac.check.transforms.jacobians import call_jacobian
from tesserac.check.transforms.mapping import call_vmap, make_vmap, map_elements
from tesserac.check.values.methods import as_function
from tesserac.check.values.tuples import tuple_items
from tesserac.types.ty import ErrorType, TransformType


def _compiled(body: Body, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """`jit(f)` and `autodiff(f)` are f: every function is compiled, and has its derivatives."""
    given = sort_arguments(body, callee, args, (Slot("f", True, False),))
    is_function = given is not None and require_function(body, given["f"], callee)
    return given["f"] if given is not None and is_function else body.error(callee.span)


_CALLS = {"scan": scan, "reduce": reduce, "map": map_elements, "jit": _compiled, "autodiff": _compiled}
"""Those that make no other function of the one they are given."""
_MAPS = ("vmap", "pmap")
_JACOBIANS = ("jacfwd", "jacrev", "hessian", "hvp")


def make_transform(body: Body, name: str, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """A call of a function of functions."""
    if any(isinstance(arg.value.type, ErrorType) for arg in args):
        return body.error(callee.span)
    if name == "reduce" and has_pattern(args):
        return call_pattern(body, args, callee)
    args = [_callable(body, arg) if arg.name == "f" or not place else arg for place, arg in enumerate(args)]
    if name in _CALLS:
        return _CALLS[name](body, args, callee, call)
    return make_vmap(body, name, args, callee) if name in _MAPS else make_derivative(body, name, args, callee, call)


def _callable(body: Body, arg: Arg) -> Arg:
    return Arg(arg.name, arg.span, as_function(body, arg.value))


def call_transform(body: Body, value: typed.Expr, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """A call of a function that a transform made."""
    type_ = value.type
    assert isinstance(type_, TransformType)
    if any(isinstance(arg.value.type, ErrorType) for arg in args):
        return body.error(callee.span)
    if type_.transform == WITH_SCHEDULE:
        (function,) = tuple_items(value, callee.span)
        return scheduled(body, type_, call(body, function, args, callee))
    if type_.transform in _MAPS:
        return call_vmap(body, value, args, callee, call)
    rule = call_jacobian if type_.transform in _JACOBIANS else call_derivative
    return rule(body, value, args, callee, call)
