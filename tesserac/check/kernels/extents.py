"""Tiles that are not full: what lies beyond the valid part of a block.

Enters: a tile in the body of a kernel. Leaves: the same with what is beyond its extent replaced by a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import Kernel
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.kernels import E0524
from tesserac.ops.compare import BitAnd, Less, LessEqual
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


def loaded(body: Body, tile: typed.Expr, callee: Callee) -> typed.Expr:
    """A tile that is read from a cache, with 0 beyond its length."""
    assert body.kernel is not None and isinstance(tile.type, TensorType)
    tests = list(_within_limits(body, body.kernel, tile.type, 0, callee))
    return _replaced(body, tile, tests, 0.0, callee)


def within(body: Body, tile: typed.Expr, identity: float, axes: tuple[int, ...], callee: Callee) -> typed.Expr:
    """A tile with what is beyond the valid part of these axes replaced."""
    kernel = body.kernel
    if kernel is None or not isinstance(tile.type, TensorType):
        return tile
    for axis in axes:
        limits = _within_limits(body, kernel, tile.type, axis, callee)
        tests = [*limits, *_within_part(body, kernel, tile.type, axis, callee)]
        tile = _replaced(body, tile, tests, identity, callee)
    return tile


def _within_limits(
    body: Body, kernel: Kernel, type_: TensorType, axis: int, callee: Callee
) -> Iterator[typed.Expr]:
    dim = type_.dims[axis]
    if dim in kernel.limits:
        index = _along(indices(kernel, dim, kernel.start(dim), callee.span), type_, axis, callee)
        yield apply_operator(body, Less(), [index, kernel.limits[dim]], callee.at, callee.span)


def _within_part(body: Body, kernel: Kernel, type_: TensorType, axis: int, callee: Callee) -> Iterator[typed.Expr]:
    """Whether positions are in the part of the dim that the loop goes over, those of each row."""
    dim = type_.dims[axis]
    if dim not in kernel.parts:
        return
    index = _along(indices(kernel, dim, kernel.start(dim), callee.span), type_, axis, callee)
    part, rows = kernel.parts[dim], kernel.blocks["m"]
    at = next((place for place, other in enumerate(type_.dims) if other == rows and place != axis), None)
    for bound, test, is_start in ((part.start, LessEqual(), True), (part.stop, Less(), False)):
        if bound is None:
            continue
        if isinstance(bound.type, TensorType) and bound.type.rank:
            if at is None:
                name = "start" if is_start else "stop"
                body.sink.error(E0524, at=callee.at, bound=name).note(bound.span, "a position for each row")
                return
            bound = _along(bound, type_, at, callee)
        sides = [bound, index] if is_start else [index, bound]
        yield apply_operator(body, test, sides, callee.at, callee.span)


def _along(vector: typed.Expr, type_: TensorType, axis: int, callee: Callee) -> typed.Expr:
    """A vector along one axis of a tile."""
    assert isinstance(vector.type, TensorType)
    shape = tuple(dim if place == axis else ONE for place, dim in enumerate(type_.dims))
    return typed.Apply(TensorType(shape, vector.type.dtype), callee.span, Reshape(shape), (vector,))


def _replaced(
    body: Body, tile: typed.Expr, tests: list[typed.Expr], identity: float, callee: Callee
) -> typed.Expr:
    """A tile with a number where one of the tests fails."""
    if not tests:
        return tile
    both = lambda one, other: apply_operator(body, BitAnd(), [one, other], callee.at, callee.span)  # noqa: E731
    outside = typed.Static(FloatType(identity), callee.span)
    return apply_operator(body, Where(), [reduce(both, tests), tile, outside], callee.at, callee.span)
