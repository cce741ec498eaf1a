"""Tiles that are not full: what lies beyond the valid part of a block.

Enters: a tile in the body of a kernel. Leaves: the same with what is beyond its extent replaced by a number.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import Kernel
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.ops.compare import Less
from tesserac.ops.create import Arange
from tesserac.ops.elementwise import Where
from tesserac.ops.shape import Reshape
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import I32
from tesserac.types.ty import FloatType, TensorType


def indices(kernel: Kernel, block: Dim, start: Dim, span: Span) -> typed.Expr:
    """The indices of a block."""
    made = typed.Apply(TensorType((block,), I32), span, Arange(start, start + block, 1, I32), ())
    kernel.reads.add(made)
    return made


def within(body: Body, tile: typed.Expr, identity: float, axes: tuple[int, ...], callee: Callee) -> typed.Expr:
    """A tile with what is beyond the valid part of these axes replaced."""
    kernel = body.kernel
    if kernel is None or not isinstance(tile.type, TensorType):
        return tile
    for axis in axes:
        dim = tile.type.dims[axis]
        if dim not in kernel.limits:
            continue
        shape = tuple(dim if place == axis else ONE for place in range(tile.type.rank))
        index: typed.Expr = indices(kernel, dim, kernel.start(dim), callee.span)
        index = typed.Apply(TensorType(shape, I32), callee.span, Reshape(shape), (index,))
        valid = apply_operator(body, Less(), [index, kernel.limits[dim]], callee.at, callee.span)
        outside = typed.Static(FloatType(identity), callee.span)
        tile = apply_operator(body, Where(), [valid, tile, outside], callee.at, callee.span)
    return tile
