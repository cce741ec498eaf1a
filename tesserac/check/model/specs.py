"""Signatures as written: types with dims that a call determines, before anything is known of a call.

Enters: built by `declarations` from the syntax tree. Leaves: read by `calls` (what a call binds) and
`instances` (what a body is checked with). See Note [Which functions are generic].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Literal

from tesserac.base.dataclass import dataclass
from tesserac.base.late import Late
from tesserac.base.source import Span
from tesserac.check.model.control import tested_names
from tesserac.check.model.typed import GuardKind
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy
from tesserac.types.unify import DimSolver


@dataclass(frozen=True)
class DimSpec:
    """One dim of an annotation, with the place where it stands."""

    dim: Dim
    span: Span


@dataclass(frozen=True)
class DTypeOf:
    """`x.dtype`: the dtype and policy of a parameter."""

    parameter: str


@dataclass(frozen=True)
class Storage:
    """A dtype and policy that stand in the annotation."""

    dtype: DType
    policy: Policy

    def __str__(self) -> str:
        return f"{self.dtype}{self.policy}"


@dataclass(frozen=True)
class AnyDType:
    """No dtype is written: generic in dtype and policy."""


@dataclass(frozen=True)
class ErrorElement:
    """A dtype whose policy has a diagnostic already."""


Element = Storage | DTypeOf | AnyDType | ErrorElement


@dataclass(frozen=True)
class TensorSpec:
    """`Tensor[..., dims, element]`; `leading` where it starts with `...`. `is_tile`: written `Tile` or `KTile`."""

    span: Span
    leading: bool
    dims: tuple[DimSpec, ...]
    element: Element
    element_span: Span
    is_tile: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class BareTensorSpec:
    """`Tensor` alone: any dims, any dtype."""

    span: Span


@dataclass(frozen=True)
class BareTileSpec:
    """`Tile` alone: a tile of any dims and dtype, which each call of the kernel gives."""

    span: Span


@dataclass(frozen=True)
class ScalarSpec:
    """A compile-time kind. An `Axis` is an int that may be given as the name of a dim of the first tensor; a `Shape` is
    a tuple of sizes, or all positional arguments from its place on: `normal((D, H))`, `normal(D, H)`."""

    span: Span
    kind: Literal["int", "bool", "str", "float", "Axis", "Shape"]


@dataclass(frozen=True)
class NoneSpec:
    span: Span


@dataclass(frozen=True)
class OptionalSpec:
    """`T | None`, decided per call site."""

    span: Span
    inner: TypeSpec


@dataclass(frozen=True)
class TupleSpec:
    span: Span
    items: tuple[TypeSpec, ...]


@dataclass(frozen=True)
class ListSpec:
    """`List[N, T]`: a fixed number of values of one type."""

    span: Span
    count: DimSpec
    item: TypeSpec


@dataclass(frozen=True)
class FieldSpec:
    """A field of a struct, in the struct's own sizes; `init` is its value where none is given."""

    name: str
    spec: TypeSpec
    init: ast.Expr | None
    span: Span
    is_buffer: bool = False

    @property
    def is_float(self) -> bool:
        """Whether it is a setting of the run, as an int is one of compiling, and no weight."""
        spec = self.spec.inner if isinstance(self.spec, OptionalSpec) else self.spec
        return isinstance(spec, ScalarSpec) and spec.kind == "float"


@dataclass(frozen=True, eq=False)
class StructDecl:
    """A struct as declared in the module `owner`."""

    owner: str
    name: str
    parameters: tuple[str, ...]
    fields: tuple[FieldSpec, ...]
    methods: frozenset[str]
    span: Span

    @property
    def buffers(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if field.is_buffer or field.is_float)


@dataclass(frozen=True)
class StructSpec:
    """`MLP[D, H, C]`; without arguments, `MLP` alone, any of its sizes. `storage` is the element of the fields that are
    declared without a dtype, where it is written: `KVCache[B, H, S, D, bf16]`."""

    span: Span
    decl: StructDecl
    args: tuple[DimSpec, ...] | None
    storage: Storage | None = None
    tree: TypeSpec | None = None
    """What each `Tree` of its fields is, if it is there, where that is said: `OptimizerState[Net[D]]`."""
    has_masters: bool = False
    """Whether it says `@fp32_master`: its `master` is there just if some weight has fewer bits than f32."""
    is_wide: bool = False
    """Whether its numbers have at least the bits of f32, whatever it declares: it is a tree of an optimiser's."""
    unit: int | None = None
    """The axis along which its matrices have a size of 1, whatever it declares: `Tree[-1]`."""


@dataclass(frozen=True)
class FunctionSpec:
    """`fn(A) -> B`: a function; each call of it in the body is held against this."""

    span: Span
    parameters: tuple[TypeSpec, ...]
    result: TypeSpec


@dataclass(frozen=True)
class OperatorSpec:
    """`Operator[Din, Dout]`, `SpectralOperator[D]`; without arguments, any sizes. Which operator it is, a call says."""

    span: Span
    args: tuple[DimSpec, ...]
    element: Storage | None = None
    """That of its numbers; None where they may be any."""
    is_spectral: bool = False


@dataclass(frozen=True)
class RecordSpec:
    """`Mesh`, `Schedule`: a compile-time value of this kind. Which one it is, a call says."""

    span: Span
    kind: str


@dataclass(frozen=True)
class AnySpec:
    """No annotation, or `Tree`: whatever the call gives. In a struct `S[T]`, `Tree` is like T, `Tree[-1]` like T with a
    size of 1 along that axis of what has two dims, and `Tree[...]` is not told by T."""

    span: Span
    unit: int | None = None
    is_apart: bool = False


@dataclass(frozen=True)
class ErrorSpec:
    """An annotation that has a diagnostic already."""

    span: Span


TypeSpec = (
    TensorSpec
    | BareTensorSpec
    | BareTileSpec
    | ScalarSpec
    | NoneSpec
    | OptionalSpec
    | TupleSpec
    | ListSpec
    | StructSpec
    | FunctionSpec
    | OperatorSpec
    | RecordSpec
    | AnySpec
    | ErrorSpec
)


_TOLD_BY_CALLS = (AnySpec, FunctionSpec, OperatorSpec, RecordSpec, ErrorSpec)


@dataclass(frozen=True)
class ParameterSpec:
    name: str
    spec: TypeSpec
    default: ast.Expr | None
    keyword_only: bool
    span: Span


@dataclass(frozen=True)
class Fact:
    """A `where` clause: left equals right, left divides right, or left is at least right."""

    kind: GuardKind
    left: Dim
    right: Dim
    span: Span


@dataclass(frozen=True)
class Signature(Late):
    """`symbols` are the sizes it quantifies over, in order of first appearance among the parameters.

    `unbound` are names of sizes that only the result has; they have a diagnostic already. `hidden` are names that stand
    in products only, `B*H`: each such product is one of the symbols, `BH`. `attributes` are what stands after the `@`
    of its types and asks where or how a value is kept, `spans` where each symbol is written.
    """

    node: ast.FunctionDef
    parameters: tuple[ParameterSpec, ...]
    result: TypeSpec
    symbols: tuple[str, ...]
    facts: tuple[Fact, ...]
    unbound: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    attributes: tuple[ast.Expr, ...] = ()
    spans: dict[str, list[Span]] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def deciding(self) -> frozenset[str]:
        """The floats that a test of the body asks for by name."""
        floats = {p.name for p in self.parameters if isinstance(p.spec, ScalarSpec) and p.spec.kind == "float"}
        return frozenset(floats & tested_names(self.node.body)) if floats else frozenset()

    @property
    def has_open_parameters(self) -> bool:
        """Whether some parameter can only be known from a call."""
        return any(
            is_bare(p.spec) or (p.default is None and isinstance(p.spec, _TOLD_BY_CALLS)) for p in self.parameters
        )


def is_bare(spec: TypeSpec) -> bool:
    """Whether a type stands without its arguments: `Tensor`, or a struct without its sizes."""
    match spec:
        case StructSpec():
            return spec.args is None or has_trees(spec) or holds_operators(spec)
        case OptionalSpec():
            return is_bare(spec.inner)
        case ListSpec():
            return is_bare(spec.item)
        case TupleSpec():
            return any(map(is_bare, spec.items))
    return isinstance(spec, BareTensorSpec | BareTileSpec)


def has_trees(spec: TypeSpec) -> bool:
    """Whether some field of a struct is a `Tree`: of the type that each value of the struct has there."""
    if isinstance(spec, StructSpec) and spec.tree is not None:
        return any(isinstance(field.spec, AnySpec) and field.spec.is_apart for field in spec.decl.fields)
    if isinstance(spec, StructSpec):
        return any(isinstance(field.spec, AnySpec) or has_trees(field.spec) for field in spec.decl.fields)
    if isinstance(spec, TupleSpec):
        return any(map(has_trees, spec.items))
    return has_trees(spec.item) if isinstance(spec, ListSpec) else False


def holds_operators(spec: TypeSpec) -> bool:
    """Whether some part of a struct, tuple or list is an operator: which one, each value of that type says."""
    match spec:
        case StructSpec():
            return any(isinstance(f.spec, OperatorSpec) or holds_operators(f.spec) for f in spec.decl.fields)
        case TupleSpec():
            return any(isinstance(item, OperatorSpec) or holds_operators(item) for item in spec.items)
        case ListSpec(item=item):
            return isinstance(item, OperatorSpec) or holds_operators(item)
    return False


def leaves_dims(spec: TypeSpec) -> bool:
    """Whether an annotation says nothing of the dims of its argument."""
    return is_bare(spec) or isinstance(spec, AnySpec)


def dims_of(spec: TypeSpec) -> tuple[DimSpec, ...]:
    """Every dim written in an annotation, from left to right."""
    if isinstance(spec, TensorSpec):
        return spec.dims
    if isinstance(spec, OptionalSpec):
        return dims_of(spec.inner)
    if isinstance(spec, TupleSpec):
        return tuple(dim for item in spec.items for dim in dims_of(item))
    if isinstance(spec, ListSpec):
        return (spec.count, *dims_of(spec.item))
    within = dims_of(spec.tree) if isinstance(spec, StructSpec) and spec.tree is not None else ()
    return (*(spec.args or ()), *within) if isinstance(spec, StructSpec | OperatorSpec) else ()


def untold_sizes(sizes: frozenset[str], specs: Iterable[TypeSpec]) -> frozenset[str]:
    """The sizes that do not follow from values of these types: `A` and `B`, where all there is has the size `A*B`."""
    solver: DimSolver[None] = DimSolver(sizes, lambda left, right: True)
    for place, dim in enumerate(dim for spec in specs for dim in dims_of(spec)):
        solver.require(dim.dim, Dim.sym(f"size of {place}"), None)
    return solver.finish()


def substitute_spec(spec: TypeSpec, sizes: Mapping[str, Dim]) -> TypeSpec:
    """The annotation with other sizes for the names in it; places stay those where it is written."""
    match spec:
        case TensorSpec():
            return replace(spec, dims=_substitute(spec.dims, sizes))
        case OperatorSpec():
            return replace(spec, args=_substitute(spec.args, sizes))
        case StructSpec():
            tree = None if spec.tree is None else substitute_spec(spec.tree, sizes)
            return replace(spec, args=None if spec.args is None else _substitute(spec.args, sizes), tree=tree)
        case ListSpec():
            [count] = _substitute((spec.count,), sizes)
            return ListSpec(spec.span, count, substitute_spec(spec.item, sizes))
        case TupleSpec():
            return TupleSpec(spec.span, tuple(substitute_spec(item, sizes) for item in spec.items))
        case OptionalSpec():
            return OptionalSpec(spec.span, substitute_spec(spec.inner, sizes))
    return spec


def _substitute(dims: tuple[DimSpec, ...], sizes: Mapping[str, Dim]) -> tuple[DimSpec, ...]:
    return tuple(DimSpec(dim.dim.substitute(sizes), dim.span) for dim in dims)


# Note [Which functions are generic]
# A body is checked once per instance: once per combination of dtypes, policies, ranks, static values and function
# arguments. Dims never make an instance; they are symbols in the body and solved at each call. A function whose
# annotations leave nothing open has exactly one instance.
