"""Loops over blocks: `for i in tile.range_n(shape, T.n)`.

Enters: the expression after `in`. Leaves: the block that the loop counts, and what of its dim it goes over.
"""

from __future__ import annotations

from tesserac.check.kernels.tiles import BOUNDS, RANGE_SLOTS, RANGES, block_range
from tesserac.check.model import typed
from tesserac.check.names.refs import NamespaceRef
from tesserac.check.state.arguments import Callee, check_arguments, sort_arguments
from tesserac.check.state.body import Body
from tesserac.syntax import ast
from tesserac.types.dims import Dim

Bounds = dict[str, typed.Expr]


def is_block_range(body: Body, node: ast.Expr) -> bool:
    match node:
        case ast.Call(function=ast.Attribute(value=ast.Name(id=name), name=function)):
            is_local = name in body.scope.bindings
            return function in RANGES and not is_local and body.rules.before_dot(name) == NamespaceRef("tile")
    return False


def read_block_range(body: Body, call: ast.Call) -> tuple[Dim, Bounds] | None:
    """The block that is counted, and where the loop starts and stops, if it says so; None after a diagnostic."""
    function = call.function
    assert isinstance(function, ast.Attribute)
    callee = Callee(function.name, function.name_span, call.span)
    given = sort_arguments(body, callee, check_arguments(body, call.arguments), RANGE_SLOTS)
    block = None if given is None else block_range(body, callee, given)
    return None if given is None or block is None else (block, {name: given[name] for name in BOUNDS if name in given})
