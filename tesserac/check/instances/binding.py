"""What one call makes of a signature: sizes for its symbols, and types for the body's instance.

Enters: a `Signature` and the types of the arguments, in the caller's sizes. Leaves: parameter types in the callee's
own symbols (the key of an instance), the caller's size for each symbol, and conflicts.
See Note [Two views of one argument].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import copysign, isfinite
from types import UnionType

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.instances.argument_sizes import has_operators, named_sizes, takes_any, with_one_name
from tesserac.check.model.library_annotations import KNOWN, annotation_of
from tesserac.check.model.operator_types import is_of, sized, with_policy
from tesserac.check.model.specs import (
    AnyDType,
    AnySpec,
    BareTensorSpec,
    BareTileSpec,
    DTypeOf,
    ErrorSpec,
    FunctionSpec,
    ListSpec,
    NoneSpec,
    OperatorSpec,
    OptionalSpec,
    RecordSpec,
    ScalarSpec,
    Signature,
    Storage,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
    dims_of,
)
from tesserac.check.model.struct_uses import field_specs
from tesserac.check.sizes.facts import Facts
from tesserac.check.values.scalars import is_one_float
from tesserac.ops.collective import FREE, free_size
from tesserac.types.dims import Dim
from tesserac.types.ty import (
    BoolType,
    ErrorType,
    FloatType,
    FunctionType,
    IntType,
    ListType,
    NoneType,
    OperatorType,
    RecordType,
    RunIntType,
    StrType,
    StructType,
    TensorType,
    TransformType,
    TupleType,
    Type,
    holds_operator,
    map_dims,
    open_floats,
)
from tesserac.types.unify import Bound, DimSolver

_FITTING: dict[type[TypeSpec], type | UnionType] = {
    BareTensorSpec: TensorType,
    BareTileSpec: TensorType,
    FunctionSpec: FunctionType | TransformType,
}
"""What an annotation without dims accepts."""
NO_AXES: Mapping[str, Dim] = {}


@dataclass(frozen=True)
class Reason:
    """Why a size of the signature is what it is: one axis of one argument."""

    parameter: int
    declared: Span


@dataclass(frozen=True)
class Misfit:
    """An argument that a parameter's annotation does not accept."""

    parameter: int
    spec: TypeSpec
    found: Type


class CallBinding:
    """Matches arguments with parameters, one by one, then solves the sizes. `axes` are those of meshes around the call,
    with the numbers of their devices: in the callee these go by names that all functions have for them."""

    def __init__(self, signature: Signature, facts: Facts, axes: Mapping[str, Dim] = NO_AXES) -> None:
        self._signature = signature
        self._devices = {free_size(axis): devices for axis, devices in axes.items()}
        self._renamed = {size.symbol: name for name, size in self._devices.items() if size.symbol is not None}
        self._fresh = 0
        self._leading: tuple[Dim, ...] | None = None
        self._expressions: dict[Dim, Dim] = {}
        self._spelled: list[tuple[Dim, Dim]] = []
        self._untyped = any(takes_any(parameter.spec) for parameter in signature.parameters)
        self._keeps_floats = annotation_of(signature.node, KNOWN) is not None
        self._storages: dict[str, Storage] = {}
        self._known: dict[str, Dim] = {}
        self._flexible = set(signature.symbols)
        self._solver: DimSolver[Reason] = DimSolver(frozenset(), facts.same)
        self._facts = facts
        self.misfits: list[Misfit] = []
        self.types: list[Type] = []

    def bind(self, types: Sequence[Type]) -> DimSolver[Reason]:
        """Binds all arguments; `types` has one entry per parameter."""
        if self._untyped:
            types = with_one_name(types, self._facts)
        self._bind_known_ints(types)
        around = Reason(0, self._signature.node.name_span)
        requirements = [(own, size, around) for own, size in self._spelled]
        for position, (parameter, found) in enumerate(zip(self._signature.parameters, types, strict=True)):
            own = self._adapt(parameter.name, parameter.spec, found, position, requirements)
            if own is None:
                self.misfits.append(Misfit(position, parameter.spec, found))
                own = ErrorType()
            self.types.append(own)
        self._solver = DimSolver(frozenset(self._flexible), self._facts.same)
        self._solver.bound.update((name, Bound(size, around)) for name, size in self._devices.items())
        for pattern, size, reason in requirements:
            self._solver.require(pattern, size, reason)
        return self._solver

    def _bind_known_ints(self, types: Sequence[Type]) -> None:
        pairs = list(zip(self._signature.parameters, types, strict=True))
        in_parts = any(isinstance(parameter.spec, AnySpec) and holds_operator(found) for parameter, found in pairs)
        for parameter, found in sorted(pairs, key=lambda pair: not has_operators(pair[0].spec)):
            self._bind_known(parameter.name, parameter.spec, found)
            self._bind_names(parameter.spec, found, in_parts or has_operators(parameter.spec))
        for parameter, found in zip(self._signature.parameters, types, strict=True):
            if isinstance(parameter.spec, TensorSpec) and parameter.spec.leading and isinstance(found, TensorType):
                self._leading_dims(found.dims[: max(found.rank - len(parameter.spec.dims), 0)])

    def _bind_known(self, name: str, spec: TypeSpec, found: Type) -> None:
        """What is known while compiling: ints, and how many items a list has."""
        match spec, found:
            case ScalarSpec(kind="int"), IntType(value=value) if name:
                self._bind_known_int(name, value)
            case ListSpec(), TupleType():
                symbol = spec.count.dim.symbol
                if symbol is not None:
                    self._known[symbol] = Dim.const(len(found.items))
                for item in found.items:
                    self._bind_known("", spec.item, item)
            case StructSpec(), StructType() if spec.decl.name == found.name:
                for field, (_, type_) in zip(field_specs(spec), found.fields, strict=True):
                    self._bind_known("", field.spec, type_)
            case TupleSpec(), TupleType():
                for own, item in zip(spec.items, found.items, strict=False):
                    self._bind_known("", own, item)
            case OptionalSpec(), _:
                self._bind_known(name, spec.inner, found)

    def _bind_known_int(self, name: str, value: Dim) -> None:
        """A size that is passed as an int has that parameter's name in the sizes of other arguments too; one that is
        passed twice has the first name, which the second int is then."""
        if value.constant is not None:
            self._known[name] = value
        elif value.symbol is not None and name in self._signature.symbols:
            first = self._renamed.setdefault(value.symbol, name)
            if first != name:
                self._known[name] = Dim.sym(first)

    def _bind_names(self, spec: TypeSpec, found: Type, in_parts: bool) -> None:
        """A size of the caller that a dim of the signature names has that name in all other arguments: in those without
        a type, and in what a function captured. `in_parts`: see `_bind_name`."""
        for own, size in named_sizes(spec, found):
            if own.dim.symbol is not None:
                self._bind_name(own.dim.symbol, size, in_parts=in_parts)

    def _bind_name(self, name: str, size: Dim, *, in_parts: bool = False) -> None:
        """`in_parts`: what has that size may be made of parts that have its factors (`kronecker(A, B)`), and in the
        callee it goes by those."""
        if size.symbol is not None and not self._untyped:
            self._renamed.setdefault(size.symbol, name)
        elif size.symbol is not None:
            self._known.setdefault(name, Dim.sym(self._renamed.setdefault(size.symbol, name)))
        elif self._untyped and size.constant is not None:
            self._known.setdefault(name, size)
        elif self._untyped:
            own = self._by_own_names(size) if in_parts else Dim.sym(name)
            self._known.setdefault(name, self._expressions.setdefault(size, own))

    def _by_own_names(self, size: Dim) -> Dim:
        for name in sorted(size.symbols()):
            if name not in self._renamed and not name.startswith(FREE):
                self._renamed[name] = self._new_symbol()
                self._spelled.append((Dim.sym(self._renamed[name]), Dim.sym(name)))
        return size.substitute({name: Dim.sym(self._renamed.get(name, name)) for name in size.symbols()})

    def _adapt(
        self, name: str, spec: TypeSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        """The parameter's type in the callee's symbols; None if the argument does not fit."""
        match spec:
            case _ if isinstance(found, ErrorType):
                return found
            case TensorSpec():
                return self._adapt_tensor(name, spec, found, position, out)
            case BareTensorSpec() | BareTileSpec() | FunctionSpec() | AnySpec():
                fits = isinstance(found, _FITTING.get(type(spec), object))
                return self._rename(found, Reason(position, spec.span), out) if fits else None
            case OperatorSpec():
                return self._adapt_operator(spec, found, position, out)
            case ScalarSpec():
                return self._adapt_scalar(name, spec, found, position, out)
            case OptionalSpec():
                is_none = isinstance(found, NoneType)
                return found if is_none else self._adapt(name, spec.inner, found, position, out)
            case TupleSpec() | ListSpec() | StructSpec():
                return self._adapt_aggregate(name, spec, found, position, out)
            case NoneSpec() | RecordSpec() | ErrorSpec():
                return _adapt_known(spec, found)

    def _adapt_operator(
        self, spec: OperatorSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        """The operator that the call gives; its sizes are those of the signature."""
        if not isinstance(found, OperatorType) or not is_of(spec, found):
            return None
        for own, size in sized(spec, found):
            out.append((own.dim, size, Reason(position, own.span)))
        return self._rename(with_policy(spec, found), Reason(position, spec.span), out)

    def _adapt_aggregate(
        self,
        name: str,
        spec: TupleSpec | ListSpec | StructSpec,
        found: Type,
        position: int,
        out: list[tuple[Dim, Dim, Reason]],
    ) -> Type | None:
        if isinstance(spec, TupleSpec):
            return self._adapt_items(name, spec.items, found, position, out)
        if isinstance(spec, ListSpec):
            return self._adapt_list(name, spec, found, position, out)
        return self._adapt_struct(name, spec, found, position, out)

    def _adapt_items(
        self, name: str, specs: Sequence[TypeSpec], found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        if not isinstance(found, TupleType) or len(found.items) != len(specs):
            return None
        pairs = zip(specs, found.items, strict=True)
        items = [self._adapt(name, own, item, position, out) for own, item in pairs]
        return None if None in items else TupleType(tuple(item for item in items if item is not None))

    def _adapt_list(
        self, name: str, spec: ListSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        """Items of one type each; how many there are is known, unless the caller does not know it either."""
        if isinstance(found, ListType):
            out.append((spec.count.dim, found.count, Reason(position, spec.count.span)))
            item = self._adapt(name, spec.item, found.item, position, out)
            return None if item is None else ListType(spec.count.dim, item)
        if not isinstance(found, TupleType):
            return None
        number = Dim.const(len(found.items))
        out.append((spec.count.dim, number, Reason(position, spec.count.span)))
        return self._adapt_items(name, [spec.item] * len(found.items), found, position, out)

    def _adapt_struct(
        self, name: str, spec: StructSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        if not isinstance(found, StructType) or (found.module, found.name) != (spec.decl.owner, spec.decl.name):
            return None
        if spec.args is None:
            return self._rename(found, Reason(position, spec.span), out)
        for arg, size in zip(spec.args, found.dims, strict=True):
            out.append((arg.dim, size, Reason(position, arg.span)))
        pairs = zip(field_specs(spec), found.fields, strict=True)
        fields = [self._adapt(f"{name}.{f.name}", f.spec, type_, position, out) for f, (_, type_) in pairs]
        if None in fields:
            return None
        named = tuple((f.name, type_) for f, type_ in zip(spec.decl.fields, fields, strict=True) if type_ is not None)
        dims = tuple(arg.dim.substitute(self._known) for arg in spec.args)
        return StructType(found.module, found.name, dims, named, found.buffers)

    def _adapt_scalar(
        self, name: str, spec: ScalarSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        if spec.kind == "int" and isinstance(found, IntType) and name not in self._signature.symbols:
            return self._rename(found, Reason(position, spec.span), out)
        if spec.kind == "int" and isinstance(found, IntType):
            out.append((Dim.sym(name), found.value, Reason(position, spec.span)))
            return IntType(self._known.get(name, Dim.sym(name)))
        if spec.kind == "float" and (isinstance(found, FloatType | IntType | RunIntType) or is_one_float(found)):
            return self._adapt_float(name, found)
        if spec.kind == "int" and isinstance(found, RunIntType) and name not in _sizes_of(self._signature):
            self._flexible.discard(name)
            return found
        if spec.kind == "Axis" and isinstance(found, IntType | TupleType):
            return found
        if spec.kind == "Shape" and isinstance(found, TupleType) and all(isinstance(i, IntType) for i in found.items):
            return self._rename(found, Reason(position, spec.span), out)
        fits = {"bool": BoolType, "str": StrType}.get(spec.kind)
        return found if fits is not None and isinstance(found, fits) else None

    def _adapt_float(self, name: str, found: Type) -> Type:
        """A number that only a run knows, but for one that a test of the callee asks for and the caller knows: then
        compiling decides. No type tells 0.0 from -0.0, nor a NaN from itself."""
        value = found.value if isinstance(found, FloatType) else None
        if isinstance(found, IntType) and found.value.constant is not None:
            value = float(found.value.constant)
        known = value is not None and isfinite(value) and (value != 0.0 or copysign(1.0, value) > 0.0)
        return FloatType(value if known and name in self._signature.deciding else None)

    def _adapt_tensor(
        self, name: str, spec: TensorSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        if not isinstance(found, TensorType):
            return None
        extra = found.rank - len(spec.dims)
        if extra < 0 or (extra > 0 and not spec.leading):
            return None
        storage = self._storage(name, spec, found)
        if storage is None:
            return None
        leading = self._leading_dims(found.dims[:extra]) if spec.leading else ()
        if len(leading) != extra:
            return None
        for own_size, size in zip(leading, found.dims, strict=False):
            out.append((own_size, size, Reason(position, spec.span)))
        for dim, size in zip(spec.dims, found.dims[extra:], strict=True):
            out.append((dim.dim, size, Reason(position, dim.span)))
        own = [dim.dim.substitute(self._known) for dim in spec.dims]
        return TensorType((*leading, *own), storage.dtype, storage.policy)

    def _storage(self, name: str, spec: TensorSpec, found: TensorType) -> Storage | None:
        """The element of the parameter: as written, or the argument's where the annotation leaves it open."""
        actual = Storage(found.dtype, found.policy)
        wanted = actual
        if isinstance(spec.element, Storage):
            wanted = spec.element
        elif isinstance(spec.element, DTypeOf):
            wanted = self._storages.get(spec.element.parameter, actual)
        self._storages.setdefault(name, wanted)
        takes_policy = actual.dtype == wanted.dtype and not str(actual.policy) and wanted.policy.scale_axis is None
        return wanted if actual == wanted or takes_policy or isinstance(spec.element, AnyDType) else None

    def _leading_dims(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """What `...` stands for, the same for every parameter."""
        if self._leading is None:
            self._leading = tuple(map(self._leading_dim, sizes))
        return self._leading

    def _leading_dim(self, size: Dim) -> Dim:
        """A symbol; see Note [Two views of one argument] for what it is where a parameter has no type."""
        if self._untyped and size.constant is not None:
            return size
        if self._untyped and size.symbol in self._renamed:
            return Dim.sym(self._renamed[size.symbol])
        symbol = self._new_symbol()
        if self._untyped:
            self._bind_name(symbol, size)
        return Dim.sym(symbol)

    def _new_symbol(self) -> str:
        self._fresh += 1
        while f"D{self._fresh}" in self._flexible:
            self._fresh += 1
        name = f"D{self._fresh}"
        self._flexible.add(name)
        return name

    def _rename(self, found: Type, reason: Reason, out: list[tuple[Dim, Dim, Reason]]) -> Type:
        """The argument's type with the caller's symbols under names of the callee's own."""
        renamed = map_dims(found, lambda dim: self._rename_dim(dim, reason, out))
        return renamed if self._keeps_floats else open_floats(renamed)

    def _rename_dim(self, dim: Dim, reason: Reason, out: list[tuple[Dim, Dim, Reason]]) -> Dim:
        if dim in self._expressions:
            return self._expressions[dim]
        for name in sorted(dim.symbols()):
            if name.startswith(FREE):
                self._renamed.setdefault(name, name)
            elif name not in self._renamed:
                self._renamed[name] = self._new_symbol()
                out.append((Dim.sym(self._renamed[name]), Dim.sym(name), reason))
        return dim.substitute({name: Dim.sym(self._renamed[name]) for name in dim.symbols()})


def _sizes_of(signature: Signature) -> frozenset[str]:
    """The names in dims and `where` facts of a signature."""
    specs = (*(parameter.spec for parameter in signature.parameters), signature.result)
    dims = [dim.dim for spec in specs for dim in dims_of(spec)]
    dims += [side for fact in signature.facts for side in (fact.left, fact.right)]
    return frozenset(name for dim in dims for name in dim.symbols())


def _adapt_known(spec: NoneSpec | RecordSpec | ErrorSpec, found: Type) -> Type | None:
    """What a type that says everything makes of an argument."""
    match spec, found:
        case ErrorSpec(), _:
            return ErrorType()
        case NoneSpec(), NoneType():
            return found
        case RecordSpec(), RecordType() if found.kind == spec.kind:
            return found
    return None


def substitute_type(type_: Type, values: dict[str, Dim]) -> Type:
    """A type of the callee in the caller's sizes. Raises DimError for a division by zero."""
    return map_dims(type_, lambda dim: dim.substitute(values))


# Note [Two views of one argument]
# The body of the callee is checked with the callee's own symbols, so that one instance serves every caller: an
# annotation `Tensor[B, D]` means those two symbols whatever the argument is. The caller's view, what B and D are in
# this call, is the solver's. Where an annotation is missing, the argument's type itself is taken over with its symbols
# renamed in order of appearance, which keeps what is equal equal. For that, the parameters beside one without an
# annotation keep their numbers as numbers, and a size that one of them names, `2*M` say, has that name in the others.
