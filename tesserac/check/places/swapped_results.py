"""Warns where names say that a gradient comes first, and the value does: `g, l = value_and_grad(f)(w)` (W0217). Where
the loss is a number, a step with it has the right dims, and trains nothing.

Enters: an assignment of several names. Leaves: a warning whose fix exchanges them.
"""

from __future__ import annotations

import re

from tesserac.check.state.body import Body
from tesserac.diag.codes.names import W0217
from tesserac.diag.diagnostic import Edit
from tesserac.syntax import ast
from tesserac.types.ty import TransformType

_VALUE_AND_GRADIENT = "value_and_grad"
_OF_GRADIENTS = re.compile(r"g|gs|gw|dw|d?params|\w*grads?|gradients?|grads?_\w+")
_OF_VALUES = re.compile(r"l|v|val|values?|cost|energy|\w*loss(es)?|nll")


def tell_of_swapped_names(body: Body, target: ast.Expr, value: ast.Expr) -> None:
    """Of `target = value`."""
    match target:
        case ast.TupleExpr(items=(ast.Name() as first, ast.Name() as second)):
            misnamed = _OF_GRADIENTS.fullmatch(first.id) and _OF_VALUES.fullmatch(second.id)
            if misnamed and isinstance(value, ast.Call) and _gives_both(body, value.function):
                draft = body.sink.warning(W0217, at=first.span, first=first.id, second=second.id)
                draft.fix("exchange the names", Edit(first.span, second.id), Edit(second.span, first.id))


def _gives_both(body: Body, function: ast.Expr) -> bool:
    """Whether a function that is called is one of a value and its gradient, or a name of one."""
    if isinstance(function, ast.Call):
        made = function.function
        return isinstance(made, ast.Name) and made.id == _VALUE_AND_GRADIENT
    bound = body.scope.bindings.get(function.id) if isinstance(function, ast.Name) else None
    return bound is not None and isinstance(bound.type, TransformType) and bound.type.transform == _VALUE_AND_GRADIENT
