"""A function mapped over a dim, in Graph IR: an operation whose region is the function for one element.

graph.vmap(x...) {in_axes, out_axes, size, across} { ^(a...): ... form.yield(y...) } : r...
    `in_axes` says for each `x` which of its dims is mapped, of the given size: `a` is `x` without it. One that is none
    is not mapped, and `a` is `x`. Each `r` is `y` with the mapped dim at its place in `out_axes`; where that is none,
    `y` is the same for all elements, and `r` is it. Where `across` names an axis of a mesh, elements are its devices:
    collectives across it inside are what they compute together.

The pass `transforms` leaves none of them.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.ir.core import Op, attr, define_op, optional_ints
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.types.dims import Dim

VMAP = "graph.vmap"


class MappedResult(Exception):
    """A result that should be the same for all elements depends on the element."""

    def __init__(self, span: Span) -> None:
        super().__init__("`out_axes` is None for a result that depends on the element")
        self.span = span


def in_axes(op: Op) -> tuple[int | None, ...]:
    return optional_ints(op.attrs["in_axes"])


def out_axes(op: Op) -> tuple[int | None, ...]:
    return optional_ints(op.attrs["out_axes"])


def mesh_axis(op: Op) -> str:
    """The axis of a mesh whose devices are the elements; empty where they are none."""
    axis = op.attrs.get("across", "")
    assert isinstance(axis, str)
    return axis


def mapped_dim(op: Op) -> Dim:
    return attr(op, "size", Dim)


def without_dim(type_: TensorType, axis: int | None) -> TensorType:
    """The type of one element."""
    if axis is None:
        return type_
    return TensorType((*type_.dims[:axis], *type_.dims[axis + 1 :]), type_.dtype, type_.policy)


def with_dim(type_: TensorType, axis: int | None, size: Dim) -> TensorType:
    """The type of all elements."""
    if axis is None:
        return type_
    return TensorType((*type_.dims[:axis], size, *type_.dims[axis:]), type_.dtype, type_.policy)


def _verify(op: Op) -> None:
    args, outputs = op.body.args, op.body.terminator.operands
    require(isinstance(op.attrs.get("size"), Dim), "needs the size of the mapped dim", op)
    require(len(op.operands) == len(args) == len(in_axes(op)), "needs one value and one axis per argument", op)
    elements = [without_dim(tensor_type(v), axis) for v, axis in zip(op.operands, in_axes(op), strict=True)]
    require([a.type for a in args] == elements, "takes one element of each value", op)
    axes = out_axes(op)
    require(len(axes) == len(outputs) == len(op.results), "needs one axis per result", op)
    wholes = [with_dim(tensor_type(v), axis, mapped_dim(op)) for v, axis in zip(outputs, axes, strict=True)]
    require([v.type for v in op.results] == wholes, "gives all elements of each result", op)


define_op(VMAP, pure=True, verify=_verify)
