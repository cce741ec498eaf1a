"""Which of a function's symbols may be negative.

Enters: the types of its parameters. Leaves: facts. A symbol that is the size of something is at least 0; the value of
an `int` argument is any number, until a use as a size, a bound or a count demands more: then that is proved, refuted or
checked on entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.check.state.body import Body
from tesserac.types.dims import ZERO, Dim
from tesserac.types.ty import IntType, ListType, StructType, TensorType, Type, parts


def enter_signs(body: Body, types: Sequence[Type]) -> frozenset[str]:
    """Ints may be negative unless they are sizes too; a size made of them is none the less one. Gives those ints."""
    sizes = [dim for type_ in types for dim in _extents(type_)]
    ints = {name for type_ in types for dim in _ints(type_) for name in dim.symbols()}
    ints -= {dim.symbol for dim in sizes if dim.symbol is not None}
    body.facts.allow_negative(ints)
    for dim in dict.fromkeys(sizes):
        if not ints.isdisjoint(dim.symbols()):
            body.facts.state("at_least", dim, ZERO)
    return frozenset(ints)


def _extents(type_: Type) -> Iterator[Dim]:
    """The sizes of what there is: dims of tensors, lengths of lists, sizes of structs."""
    if isinstance(type_, TensorType | StructType):
        yield from type_.dims
    if isinstance(type_, ListType):
        yield type_.count
        yield from _extents(type_.item)
    for part in parts(type_) or ():
        yield from _extents(part)


def _ints(type_: Type) -> Iterator[Dim]:
    if isinstance(type_, IntType):
        yield type_.value
    if isinstance(type_, ListType):
        yield from _ints(type_.item)
    for part in parts(type_) or ():
        yield from _ints(part)
