"""What is built of a typed value: values of the graph, what is known while compiling, tuples of both.

Enters: types and leaves. Leaves: `Built`, grown out of its leaves, and the names under which the builder finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model.typed import STREAM
from tesserac.graph.autodiff.dialect import smooth
from tesserac.ir.core import Block, Value
from tesserac.types.dims import Dim
from tesserac.types.leaves import run_time_parts, run_time_type
from tesserac.types.ty import Aggregate, BoolType, FloatType, IntType, TensorType, Type, parts


class Unsupported(Exception):
    """The program is right, but the compiler cannot build this part of it yet."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span


@dataclass(frozen=True)
class Known:
    """A value that exists only while compiling; its type carries it."""

    type: Type


Built = Value | Known | tuple["Built", ...]
Names = Mapping[str, Built]


def weight_name(name: str) -> str:
    """Params of the module stand beside local names, which may be the same."""
    return f"param {name}"


def has_stream(names: Names) -> bool:
    """Whether the function has a random stream."""
    return weight_name(STREAM) in names


def stream_of(names: Names) -> Value:
    stream = names[weight_name(STREAM)]
    assert isinstance(stream, Value)
    return stream


def add_arguments(block: Block, name: str, ty: Type) -> Built:
    """Block arguments for the leaves of a parameter; a static one has none."""
    if (inner := run_time_parts(ty)) is not None:
        return tuple(add_arguments(block, f"{name}.{part}", item) for part, item in inner)
    tensor = run_time_type(ty)
    return Known(ty) if tensor is None else block.add_arg(tensor, name)


def leaves_of(built: Built) -> list[Value]:
    if isinstance(built, tuple):
        return [leaf for item in built for leaf in leaves_of(item)]
    return [built] if isinstance(built, Value) else []


def moves(built: Built, tangent: Type) -> list[bool]:
    """Of each leaf that could have a tangent, whether this type of one has it: a buffer has none."""
    if isinstance(built, tuple):
        inner = run_time_parts(tangent)
        types = [tangent] * len(built) if inner is None else [part for _, part in inner]
        return [flag for item, part in zip(built, types, strict=True) for flag in moves(item, part)]
    return [run_time_type(tangent) is not None for _ in smooth(leaves_of(built))]


def moving_leaves(built: Built, tangent: Type) -> list[Value]:
    """The leaves that have a tangent."""
    return list(compress(smooth(leaves_of(built)), moves(built, tangent)))


def regrow(ty: Type, leaves: Iterator[Value]) -> Built:
    """The inverse of `leaves_of`, for a value of this type."""
    if (inner := run_time_parts(ty)) is not None:
        return tuple(regrow(item, leaves) for _, item in inner)
    return Known(ty) if run_time_type(ty) is None else next(leaves)


def replant(shape: Built, leaves: Iterator[Value]) -> Built:
    """`shape` with its leaves replaced in order."""
    if isinstance(shape, tuple):
        return tuple(replant(item, leaves) for item in shape)
    return next(leaves) if isinstance(shape, Value) else shape


def is_scaled(ty: Type) -> bool:
    return isinstance(ty, TensorType) and ty.is_scaled


def known_of(ty: Type) -> Built:
    """A static value; a tuple of them is a tuple like any other."""
    return tuple(map(known_of, parts(ty) or ())) if isinstance(ty, Aggregate) else Known(ty)


def number_of(ty: Type) -> int | float | bool | Dim:
    if isinstance(ty, IntType):
        constant = ty.value.constant
        return ty.value if constant is None else constant
    assert isinstance(ty, BoolType | FloatType) and ty.value is not None, f"{ty} is not a number"
    return ty.value
