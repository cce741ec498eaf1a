"""Forms that compute on whole short lines of tensors: a butterfly of a Fourier transform is one.

    form.lines(x...) {maps, out} { ^(a, ...): ... form.yield(r, ...) }
        One scalar computation at every point of a space, which reads and writes several elements there. `maps[i][j]` is
        the dim of the space that dim j of operand i follows, or none where the point reads all of that dim, whose size
        is then a number; `out[j]` says the same of what it writes. The body takes the elements of each operand and
        yields those of the result, in row-major order. Where a `codelet` says what a point computes, there is no body:
        who needs the scalars has them written (`lines_body`). Most of what handles a long transform never does.

A point shares what its elements have in common: as one map per element, each would compute all of it.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Protocol, cast

from tesserac.ir.core import Block, Op, define_op, optional_ints
from tesserac.ir.forms import compute_type, operand_maps, tensor_type
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.types.dims import Dim

LINES, CODELET = "form.lines", "codelet"
DimMap = tuple[int | None, ...]
Place = tuple[int, ...]


class Codelet(Protocol):
    """What a point computes, by a rule; an attribute, equal for what is the same."""

    @property
    def work(self) -> int:
        """About how many operations it has."""

    def block(self) -> Block:
        """The body. Nobody changes it, so one may be for all."""


def codelet_of(op: Op) -> Codelet | None:
    found = op.attrs.get(CODELET)
    return cast(Codelet, found) if found is not None else None


def lines_body(op: Op) -> Block:
    """What a point computes, as scalars."""
    codelet = codelet_of(op)
    return op.body if codelet is None else codelet.block()


def lines_out(op: Op) -> DimMap:
    """The dim of the space that each dim of the result follows; none where a point writes all of it."""
    return optional_ints(op.attrs["out"])


def lines_space(op: Op) -> tuple[Dim, ...]:
    """The dims of the space."""
    dims = tensor_type(op.result).dims
    sizes = {axis: dim for axis, dim in zip(lines_out(op), dims, strict=True) if axis is not None}
    return tuple(sizes[axis] for axis in range(len(sizes)))


def line_places(ty: TensorType, dim_map: DimMap) -> list[Place]:
    """Where the elements of one point stand along the dims that it reads or writes whole, in order."""
    sizes = [_size(dim) for dim, axis in zip(ty.dims, dim_map, strict=True) if axis is None]
    return list(product(*map(range, sizes)))


def line_length(ty: TensorType, dim_map: DimMap) -> int:
    """How many elements of a tensor belong to one point."""
    return prod(_size(dim) for dim, axis in zip(ty.dims, dim_map, strict=True) if axis is None)


def line_elements(op: Op) -> int:
    """How many elements a point reads and writes."""
    values, maps = (*op.operands, op.result), (*operand_maps(op), lines_out(op))
    return sum(line_length(tensor_type(v), m) for v, m in zip(values, maps, strict=True))


def _size(dim: Dim) -> int:
    size = dim.constant
    assert size is not None, "a line has a known size"
    return size


def _verify_lines(op: Op) -> None:
    values = (*op.operands, *op.results)
    require(all(isinstance(v.type, TensorType) for v in values), "works on tensors", op)
    maps, out = operand_maps(op), lines_out(op)
    followed = [axis for axis in out if axis is not None]
    require(len(maps) == len(op.operands), "needs one index map per operand", op)
    require(sorted(followed) == list(range(len(followed))), "writes each point once", op)
    elements = []
    for value, dim_map in zip((*op.operands, op.result), (*maps, out), strict=True):
        require(len(dim_map) == tensor_type(value).rank, "an index map has another rank than its tensor", op)
        for dim, axis in zip(tensor_type(value).dims, dim_map, strict=True):
            known = dim.constant is not None if axis is None else dim == lines_space(op)[axis]
            require(known, "dim {} is no line and meets another size", op, dim)
        elements.append([compute_type(value)] * line_length(tensor_type(value), dim_map))
    *taken, written = elements
    body = lines_body(op)
    require([a.type for a in body.args] == [t for each in taken for t in each], "its body takes every element", op)
    require([v.type for v in body.terminator.operands] == written, "its body yields every element", op)


define_op(LINES, pure=True, verify=_verify_lines)
