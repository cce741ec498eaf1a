"""Types of values in a program: tensors, and the kinds that exist only while compiling.

Enters: dims, dtypes and policies. Leaves: frozen types compared by value. `TensorType` is the tensor type of
every IR level too; the other kinds stop at the typed AST, except where an IR says otherwise.
See Note [A compile-time kind carries its value].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.types.algebra import Tree, said_dtypes
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, DType
from tesserac.types.policy import NO_POLICY, Policy

Key = int | str | bool
"""What names an entry of a dict."""


@dataclass(frozen=True)
class TensorType:
    """A tensor value: every dim, the dtype it is stored as, and its precision policy."""

    dims: tuple[Dim, ...]
    dtype: DType
    policy: Policy = NO_POLICY

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def is_scaled(self) -> bool:
        """Whether a value is {q, scale}: numbers of the dtype, and one f32 per index of an axis to multiply them by."""
        return self.policy.scale_axis is not None

    def __str__(self) -> str:
        """The IR's spelling; `show` gives the language's."""
        return f"tensor<[{', '.join(map(str, self.dims))}], {self.dtype}{self.policy}>"

    def show(self) -> str:
        return f"Tensor[{', '.join([*map(str, self.dims), f'{self.dtype}{self.policy}'])}]"


@dataclass(frozen=True)
class IntType:
    """An integer known as a size: a literal, a dim, a loop index, or arithmetic on them."""

    value: Dim

    def show(self) -> str:
        return f"int ({self.value})"


@dataclass(frozen=True)
class RunIntType:
    """An integer that only a run knows: what a loop or a branch makes of ints. Like a float it has no dtype, and takes
    the one it meets; until then it is an i64. It is never a size."""

    def show(self) -> str:
        return "int"


@dataclass(frozen=True)
class FloatType:
    """An untyped scalar, which takes the float dtype it meets; `value` is None where only a run knows it."""

    value: float | None = None

    def show(self) -> str:
        return "float" if self.value is None else f"float ({self.value!r})"


@dataclass(frozen=True)
class BoolType:
    """A compile-time bool. A condition that only a run can decide is a `Tensor[bool]`."""

    value: bool

    def show(self) -> str:
        return f"bool ({self.value})"


@dataclass(frozen=True)
class StrType:
    """A compile-time string."""

    value: str

    def show(self) -> str:
        return f"str ({self.value!r})"


@dataclass(frozen=True)
class NoneType:
    """The value None: an absent optional argument, or the result of a call made for its effect."""

    def show(self) -> str:
        return "None"


@dataclass(frozen=True)
class DTypeType:
    """A dtype used as a value: `bf16 @accum(f32)` as an argument, or `x.dtype`."""

    dtype: DType
    policy: Policy = NO_POLICY

    def show(self) -> str:
        return f"dtype ({self.dtype}{self.policy})"


@dataclass(frozen=True)
class TupleType:
    """A tuple, or a list literal: a fixed number of values, each with its own type."""

    items: tuple[Type, ...]

    def show(self) -> str:
        return f"({', '.join(item.show() for item in self.items)}{',' if len(self.items) == 1 else ''})"


@dataclass(frozen=True)
class DictType:
    """A dict: keys that are known while compiling, in the order written, each with the type of its value."""

    entries: tuple[tuple[Key, Type], ...]

    def position(self, key: Key) -> int | None:
        return next((i for i, (own, _) in enumerate(self.entries) if own == key), None)

    def show(self) -> str:
        return f"{{{', '.join(f'{key!r}: {value.show()}' for key, value in self.entries)}}}"


@dataclass(frozen=True)
class ListType:
    """`List[N, T]` where N is not known yet: its items cannot be told apart. A known list is a tuple."""

    count: Dim
    item: Type

    def show(self) -> str:
        return f"List[{self.count}, {self.item.show()}]"


@dataclass(frozen=True)
class StructType:
    """A struct of a module: the sizes of its parameters, and its fields in order, whose types follow from them."""

    module: str
    name: str
    dims: tuple[Dim, ...]
    fields: tuple[tuple[str, Type], ...]
    buffers: frozenset[str]
    """The fields that no derivative is taken by, which are no weights: running means, tables."""

    def position(self, field: str) -> int | None:
        return next((i for i, (name, _) in enumerate(self.fields) if name == field), None)

    def show(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.dims))}]" if self.dims else self.name


@dataclass(frozen=True)
class FunctionType:
    """A function used as a value, with what it captured of the place where it was written."""

    module: str
    name: str
    captures: tuple[tuple[str, Type], ...] = ()

    def show(self) -> str:
        return f"function `{self.name}`"


@dataclass(frozen=True)
class TransformType:
    """A function made of another, `grad(f)`: `captures` are the function and what else was given to the transform,
    `settings` what is known of it while compiling."""

    transform: str
    captures: tuple[Type, ...]
    settings: tuple[tuple[str, Type], ...] = ()

    def setting(self, name: str) -> Type | None:
        return next((type_ for own, type_ in self.settings if own == name), None)

    def show(self) -> str:
        return f"function `{self.transform}({self.captures[0].show().removeprefix('function ').strip('`')})`"


@dataclass(frozen=True)
class OperatorType:
    """An operator: the expression it is, over the values at its leaves, which are its parts."""

    tree: Tree
    leaves: tuple[Type, ...]

    @property
    def shape(self) -> tuple[Dim | None, Dim | None]:
        return self.tree.shape(self.leaves)

    def show(self) -> str:
        sizes = ["any" if size is None else str(size) for size in self.shape]
        leaves = sorted(number_types(self.leaves), key=lambda leaf: not leaf.dtype.is_complex)
        numbers = [*(f"{leaf.dtype}{leaf.policy}" for leaf in leaves), *said_dtypes(self.tree)][:1]
        head, shown = ("SpectralOperator", sizes[:1]) if self.tree.is_spectral else ("Operator", sizes)
        return f"{head}[{', '.join([*shown, *numbers])}]"


def number_types(leaves: Iterable[Type]) -> Iterator[TensorType]:
    """Of what an operator is made of, the tensors that hold its numbers, not places or sizes."""
    tensors = (leaf for leaf in leaves if isinstance(leaf, TensorType))
    return (leaf for leaf in tensors if leaf.dtype.is_float or leaf.dtype.is_complex)


@dataclass(frozen=True)
class RecordType:
    """A compile-time value of a kind that the language itself has: a schedule, a mesh, the context of a kernel."""

    kind: str
    fields: tuple[tuple[str, Type], ...] = ()

    def field(self, name: str) -> Type | None:
        return next((type_ for own, type_ in self.fields if own == name), None)

    def show(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={type_.show()}' for name, type_ in self.fields)})"


@dataclass(frozen=True)
class ErrorType:
    """The type of an expression that has a diagnostic already; it agrees with every other type."""

    def show(self) -> str:
        return "<error>"


def scaled_parts(type_: TensorType) -> TupleType:
    """What a scaled value consists of."""
    axis = type_.policy.scale_axis
    assert axis is not None, f"{type_} has no scale"
    plain = replace(type_.policy, scale_axis=None)
    return TupleType((TensorType(type_.dims, type_.dtype, plain), TensorType((type_.dims[axis],), F32)))


SCALED_NAMES = ("q", "scale")
"""What the parts of a scaled value are called."""

Scalar = IntType | RunIntType | FloatType | BoolType | StrType | NoneType | DTypeType | RecordType
Aggregate = TupleType | DictType | StructType | FunctionType | TransformType | OperatorType
Type = TensorType | Scalar | ListType | Aggregate | ErrorType


def parts(type_: Type) -> tuple[Type, ...] | None:
    """The types of the values that a value of this type consists of; None where it is not made of others."""
    if isinstance(type_, TupleType):
        return type_.items
    if isinstance(type_, StructType):
        return tuple(field for _, field in type_.fields)
    if isinstance(type_, DictType):
        return tuple(value for _, value in type_.entries)
    if isinstance(type_, OperatorType):
        return type_.leaves
    if isinstance(type_, TransformType):
        return type_.captures
    return tuple(captured for _, captured in type_.captures) if isinstance(type_, FunctionType) else None


def setting_fields(type_: Type) -> tuple[bool, ...]:
    """Of each field of a struct whether it is a float. Like an int it is a setting of the struct and no weight: no
    derivative is taken by it, and what goes over weights leaves it."""
    return tuple(isinstance(field, FloatType) for _, field in type_.fields) if isinstance(type_, StructType) else ()


def holds_error(type_: Type) -> bool:
    """Whether something has been said of a part of it."""
    return isinstance(type_, ErrorType) or any(map(holds_error, parts(type_) or ()))


def holds_operator(type_: Type) -> bool:
    return isinstance(type_, OperatorType) or any(map(holds_operator, parts(type_) or ()))


def part_names(type_: Aggregate) -> tuple[str, ...]:
    """What the parts are called; those without names by their position."""
    if isinstance(type_, TupleType | DictType | OperatorType | TransformType):
        return tuple(map(str, range(len(parts(type_) or ()))))
    named = type_.fields if isinstance(type_, StructType) else type_.captures
    return tuple(name for name, _ in named)


def with_parts(type_: Aggregate, new: Iterable[Type]) -> Aggregate:
    """The same kind of value made of parts of other types."""
    if isinstance(type_, TupleType):
        return TupleType(tuple(new))
    if isinstance(type_, DictType):
        return DictType(tuple((key, value) for (key, _), value in zip(type_.entries, new, strict=True)))
    if isinstance(type_, OperatorType):
        return OperatorType(type_.tree, tuple(new))
    if isinstance(type_, TransformType):
        return TransformType(type_.transform, tuple(new), type_.settings)
    named = tuple(zip(part_names(type_), new, strict=True))
    if isinstance(type_, StructType):
        return StructType(type_.module, type_.name, type_.dims, named, type_.buffers)
    return FunctionType(type_.module, type_.name, named)


def with_other_numbers(type_: Aggregate, new: Iterable[Type]) -> Aggregate:
    """The type of what is computed from the parts of such a value: what was promised of an operator is gone."""
    made = with_parts(type_, new)
    return OperatorType(made.tree.unpromised(), made.leaves) if isinstance(made, OperatorType) else made


def map_dims(type_: Type, change: Callable[[Dim], Dim]) -> Type:
    """The type with every size in it changed."""
    match type_:
        case TensorType():
            return TensorType(tuple(map(change, type_.dims)), type_.dtype, type_.policy)
        case IntType():
            return IntType(change(type_.value))
        case ListType():
            return ListType(change(type_.count), map_dims(type_.item, change))
        case StructType():
            fields = tuple((name, map_dims(field, change)) for name, field in type_.fields)
            return StructType(type_.module, type_.name, tuple(map(change, type_.dims)), fields, type_.buffers)
        case RecordType():
            return RecordType(type_.kind, tuple((name, map_dims(field, change)) for name, field in type_.fields))
        case TupleType() | DictType() | FunctionType() | TransformType() | OperatorType():
            return with_parts(type_, (map_dims(part, change) for part in parts(type_) or ()))
    return type_


def open_floats(type_: Type) -> Type:
    """The type with every float as one that only a run knows."""
    inner = parts(type_)
    if inner is None:
        return FloatType() if isinstance(type_, FloatType) else type_
    assert isinstance(type_, Aggregate)
    return with_parts(type_, map(open_floats, inner))


def sizes_in(type_: Type) -> tuple[Dim, ...]:
    """Every size that a type mentions, from left to right."""
    found: list[Dim] = []

    def note(dim: Dim) -> Dim:
        found.append(dim)
        return dim

    map_dims(type_, note)
    return tuple(found)


def modules_in(type_: Type) -> Iterator[str]:
    """The modules whose functions and structs a type mentions."""
    return (module for module, _ in mentioned_in(type_))


def mentioned_in(type_: Type) -> Iterator[tuple[str, str]]:
    """The functions and structs that a type mentions, each with its module."""
    if isinstance(type_, FunctionType | StructType):
        yield type_.module, type_.name
    for inner in (type_.item,) if isinstance(type_, ListType) else parts(type_) or ():
        yield from mentioned_in(inner)


# Note [A compile-time kind carries its value]
# An int is always known as a polynomial in the function's symbols and loop indices, so `x[i*4:(i + 1)*4]` has
# four rows without any analysis of values; an integer that only data determines is a `Tensor[i32]`. For the
# same reason a loop cannot carry an int that changes: its type, which holds its value, would change. Such an int is a
# `RunIntType` from the start of the loop on.
