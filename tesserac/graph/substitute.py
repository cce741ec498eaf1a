"""Copies of operations in which symbols of sizes are replaced: what inlining and loops with a step need.

Enters: an operation, replacements of values and of symbols. Leaves: a deep copy, every type and attribute rewritten. A
branch whose sizes have no value with these replacements is never taken, and becomes one that gives zeros.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from operator import is_
from types import NoneType
from typing import cast

from tesserac.base.source import Span
from tesserac.graph.applying import apply_operator
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Op, Region, Value
from tesserac.ir.forms import SIZED
from tesserac.ir.types import TensorType, Type
from tesserac.ops.create import Zeros
from tesserac.types.dims import Dim, DimError
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy

Dims = Mapping[str, Dim]


class Replacements(dict[str, Dim]):
    """Replacements of symbols that stay as they are while operations are copied: a body has few sizes, and each of them
    many times, so each is computed once."""

    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self._known: dict[Dim, Dim] = {}

    def of(self, size: Dim) -> Dim:
        """Raises DimError where it has no value."""
        if size.symbols().isdisjoint(self):
            return size
        known = self._known.get(size)
        if known is None:
            known = self._known[size] = size.substitute(self)
        return known


def copy_op(op: Op, values: dict[Value, Value], dims: Dims) -> Op:
    """`values` gives the replacement of outside values and receives those of inside ones. Raises DimError where a size
    has no value."""
    results = [substitute_type(v.type, dims) for v in op.results]
    attrs = {name: substitute_attr(attr, dims) for name, attr in op.attrs.items()}
    regions = [Region(block) for block in _copied_regions(op, values, dims)]
    copy = Op(
        op.opdef,
        [values.get(v, v) for v in op.operands],
        results,
        attrs,
        regions,
        op.span,
        [v.name for v in op.results],
    )
    if op.name == "form.loop":
        copy.attrs["counter"] = _renamed(op.attrs["counter"], dims)
    values.update(zip(op.results, copy.results, strict=True))
    return copy


def replace_op(op: Op, name: str, attrs: Mapping[str, Attr]) -> None:
    """The same operands and results under another operation."""
    types, names = [v.type for v in op.results], [v.name for v in op.results]
    made = Builder.before(op).op(name, op.operands, types, attrs, (), names)
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses(new)
    op.erase()


def copy_block(block: Block, values: dict[Value, Value], dims: Dims) -> Block:
    dims = dims if isinstance(dims, Replacements) else Replacements(dims)
    copy = Block([substitute_type(v.type, dims) for v in block.args], [v.name for v in block.args])
    values.update(zip(block.args, copy.args, strict=True))
    try:
        for op in block.ops:
            copy.append(copy_op(op, values, dims))
    except DimError:
        copy.drop_all_uses()
        raise
    return copy


def _copied_regions(op: Op, values: dict[Value, Value], dims: Dims) -> list[Block]:
    made: list[Block] = []
    for region in op.regions:
        try:
            made.append(copy_block(region.block, values, dims))
        except DimError:
            if SIZED not in op.attrs:
                for block in made:
                    block.drop_all_uses()
                raise
            made.append(_never_taken(op, dims))
    return made


def _never_taken(op: Op, dims: Dims) -> Block:
    builder = Builder(Block(), op.span)
    types = [substitute_type(v.type, dims) for v in op.results]
    zeros = [Zeros(ty.dims, ty.dtype, ty.policy) for ty in types if isinstance(ty, TensorType)]
    builder.op("form.yield", [apply_operator(builder, operator) for operator in zeros])
    return builder.block


def _renamed(counter: Attr, dims: Dims) -> str:
    """A counter is bound by its loop, so what replaces it can only be another name."""
    assert isinstance(counter, str)
    new = dims[counter].symbol if counter in dims else counter
    assert new is not None, f"the counter {counter} cannot become {dims[counter]}"
    return new


def substitute_type(ty: Type, dims: Dims) -> Type:
    if not isinstance(ty, TensorType):
        return ty
    sizes = tuple([_substituted(d, dims) for d in ty.dims])
    return ty if _unchanged(sizes, ty.dims) else TensorType(sizes, ty.dtype, ty.policy)


def _substituted(size: Dim, dims: Dims) -> Dim:
    return dims.of(size) if isinstance(dims, Replacements) else size.substitute(dims)


def substitute_attr(attr: Attr, dims: Dims) -> Attr:
    """What does not change stays the object it is: most attributes are without symbols."""
    if isinstance(attr, Dim):
        return _substituted(attr, dims)
    if isinstance(attr, _PLAIN):
        return attr
    if isinstance(attr, tuple):
        items = [substitute_attr(a, dims) for a in attr]
        return attr if _unchanged(items, attr) else tuple.__new__(type(attr), items)
    if isinstance(attr, TensorType):
        return substitute_type(attr, dims)
    if dataclasses.is_dataclass(attr) and not isinstance(attr, type):
        old = {f.name: getattr(attr, f.name) for f in dataclasses.fields(attr)}
        fields = {name: substitute_attr(value, dims) for name, value in old.items()}
        same = _unchanged(list(fields.values()), list(old.values()))
        return attr if same else cast(Attr, dataclasses.replace(attr, **fields))
    return attr


_PLAIN = (int, float, str, NoneType, Span, DType, Policy)
"""Attributes in which there are no sizes."""


def _unchanged(new: Sequence[object], old: Sequence[object]) -> bool:
    return all(map(is_, new, old))


def mentions(op: Op, symbol: str) -> bool:
    """Whether a size in an operation, or in anything inside it, depends on a symbol."""
    marked = {symbol: Dim.sym(symbol + "'")}
    return any(
        any(substitute_type(v.type, marked) != v.type for v in inner.results)
        or any(substitute_attr(attr, marked) != attr for attr in inner.attrs.values())
        for inner in op.walk()
    )


def counters(op: Op) -> set[str]:
    """The counters of all loops inside an operation."""
    return {str(inner.attrs["counter"]) for inner in op.walk() if inner.name == "form.loop"}
