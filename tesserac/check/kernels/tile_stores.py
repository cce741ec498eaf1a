"""The statement `tile.store(out, acc)`.

Enters: such a call. Leaves: the parameter in its first argument, bound to the tile: updates are rebinding.
"""

from __future__ import annotations

from tesserac.check.kernels.tiles import kernel_of
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import Kernel
from tesserac.check.model.message_text import dims_text, type_text
from tesserac.check.names.refs import NamespaceRef
from tesserac.check.operators.apply import apply_operator
from tesserac.check.places.assignment import assign
from tesserac.check.state.arguments import Callee, Slot, check_arguments, sort_arguments
from tesserac.check.state.body import Body
from tesserac.diag.codes.kernels import E0522
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.shapes import E0308
from tesserac.ops.convert import Cast
from tesserac.syntax import ast
from tesserac.types.ty import ErrorType, TensorType

_SLOTS = (Slot("out", True, False), Slot("value", True, False))


def is_store(body: Body, node: ast.Expr) -> bool:
    match node:
        case ast.Call(function=ast.Attribute(value=ast.Name(id=name), name="store")):
            return name not in body.scope.bindings and body.rules.before_dot(name) == NamespaceRef("tile")
    return False


def check_store(body: Body, call: ast.Call) -> list[typed.Stmt]:
    callee = Callee("store", call.function.span, call.span)
    kernel = kernel_of(body, callee)
    given = sort_arguments(body, callee, check_arguments(body, call.arguments), _SLOTS)
    if kernel is None or given is None or any(isinstance(value.type, ErrorType) for value in given.values()):
        return []
    out, value = given["out"], given["value"]
    if not isinstance(out, typed.Local) or not isinstance(out.type, TensorType):
        body.sink.error(E0210, at=out.span, expected="a parameter that is a tensor", found=type_text(out.type))
        return []
    if body.flow.loops:
        body.sink.error(E0522, at=callee.at)
        return []
    rounded = apply_operator(body, Cast(out.type.dtype, out.type.policy), [value], callee.at, callee.span)
    if not _fits(body, kernel, out.type, rounded):
        return []
    kernel.stored[out.name] = rounded
    return assign(body, call.arguments[0].value, rounded, call.span)


def _fits(body: Body, kernel: Kernel, out: TensorType, tile: typed.Expr) -> bool:
    if not isinstance(tile.type, TensorType):
        return False
    sizes = kernel.sizes()
    dims = tuple(dim.substitute(sizes) for dim in tile.type.dims)
    if len(dims) == out.rank and all(map(body.facts.same, dims, out.dims)):
        return True
    body.sink.error(E0308, at=tile.span, expected=dims_text(out.dims), found=dims_text(dims))
    return False
