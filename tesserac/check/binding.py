"""What one call makes of a signature: sizes for its symbols, and types for the body's instance.

Enters: a `Signature` and the types of the arguments, in the caller's sizes. Leaves: parameter types in the callee's
own symbols (the key of an instance), the caller's size for each symbol, and conflicts.
See Note [Two views of one argument].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tesserac.base.source import Span
from tesserac.check.facts import Facts
from tesserac.check.specs import (
    AnyDType,
    AnySpec,
    BareTensorSpec,
    DTypeOf,
    ErrorSpec,
    FunctionSpec,
    NoneSpec,
    OptionalSpec,
    ScalarSpec,
    Signature,
    Storage,
    TensorSpec,
    TupleSpec,
    TypeSpec,
)
from tesserac.types.dims import Dim
from tesserac.types.ty import (
    BoolType,
    ErrorType,
    FloatType,
    FunctionType,
    IntType,
    NoneType,
    StrType,
    TensorType,
    TupleType,
    Type,
)
from tesserac.types.unify import DimSolver


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
    """Matches arguments with parameters, one by one, then solves the sizes."""

    def __init__(self, signature: Signature, facts: Facts) -> None:
        self._signature = signature
        self._renamed: dict[str, str] = {}
        self._fresh = 0
        self._leading: tuple[str, ...] | None = None
        self._storages: dict[str, Storage] = {}
        self._constants: dict[str, Dim] = {}
        self._flexible = set(signature.symbols)
        self._solver: DimSolver[Reason] = DimSolver(frozenset(), facts.same)
        self._facts = facts
        self.misfits: list[Misfit] = []
        self.types: list[Type] = []

    def bind(self, types: Sequence[Type]) -> DimSolver[Reason]:
        """Binds all arguments; `types` has one entry per parameter."""
        self._bind_known_ints(types)
        requirements: list[tuple[Dim, Dim, Reason]] = []
        for position, (parameter, found) in enumerate(zip(self._signature.parameters, types, strict=True)):
            own = self._adapt(parameter.name, parameter.spec, found, position, requirements)
            if own is None:
                self.misfits.append(Misfit(position, parameter.spec, found))
                own = ErrorType()
            self.types.append(own)
        self._solver = DimSolver(frozenset(self._flexible), self._facts.same)
        for pattern, size, reason in requirements:
            self._solver.require(pattern, size, reason)
        return self._solver

    def _bind_known_ints(self, types: Sequence[Type]) -> None:
        for parameter, found in zip(self._signature.parameters, types, strict=True):
            is_int = isinstance(parameter.spec, ScalarSpec) and parameter.spec.kind == "int"
            if is_int and isinstance(found, IntType) and found.value.constant is not None:
                self._constants[parameter.name] = found.value

    def _adapt(
        self, name: str, spec: TypeSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        """The parameter's type in the callee's symbols; None if the argument does not fit."""
        match spec:
            case _ if isinstance(found, ErrorType):
                return found
            case TensorSpec():
                return self._adapt_tensor(name, spec, found, position, out)
            case BareTensorSpec() | AnySpec():
                fits = isinstance(found, TensorType) or isinstance(spec, AnySpec)
                return self._rename(found, Reason(position, spec.span), out) if fits else None
            case ScalarSpec():
                return self._adapt_scalar(name, spec, found, position, out)
            case OptionalSpec():
                is_none = isinstance(found, NoneType)
                return found if is_none else self._adapt(name, spec.inner, found, position, out)
            case TupleSpec():
                return self._adapt_tuple(name, spec, found, position, out)
            case FunctionSpec():
                return found if isinstance(found, FunctionType) else None
            case NoneSpec():
                return found if isinstance(found, NoneType) else None
            case ErrorSpec():
                return ErrorType()

    def _adapt_tuple(
        self, name: str, spec: TupleSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        if not isinstance(found, TupleType) or len(found.items) != len(spec.items):
            return None
        pairs = zip(spec.items, found.items, strict=True)
        items = [self._adapt(name, own, item, position, out) for own, item in pairs]
        return None if None in items else TupleType(tuple(item for item in items if item is not None))

    def _adapt_scalar(
        self, name: str, spec: ScalarSpec, found: Type, position: int, out: list[tuple[Dim, Dim, Reason]]
    ) -> Type | None:
        if spec.kind == "int" and isinstance(found, IntType):
            out.append((Dim.sym(name), found.value, Reason(position, spec.span)))
            return IntType(self._constants.get(name, Dim.sym(name)))
        if spec.kind == "float" and isinstance(found, FloatType | IntType):
            return FloatType()
        if spec.kind == "Axis" and isinstance(found, IntType | TupleType):
            return found
        fits = {"bool": BoolType, "str": StrType}.get(spec.kind)
        return found if fits is not None and isinstance(found, fits) else None

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
        leading = self._leading_symbols(extra) if spec.leading else ()
        if len(leading) != extra:
            return None
        for symbol, size in zip(leading, found.dims, strict=False):
            out.append((Dim.sym(symbol), size, Reason(position, spec.span)))
        for dim, size in zip(spec.dims, found.dims[extra:], strict=True):
            out.append((dim.dim, size, Reason(position, dim.span)))
        own = [dim.dim.substitute(self._constants) for dim in spec.dims]
        return TensorType((*map(Dim.sym, leading), *own), storage.dtype, storage.policy)

    def _storage(self, name: str, spec: TensorSpec, found: TensorType) -> Storage | None:
        """The element of the parameter: as written, or the argument's where the annotation leaves it open."""
        actual = Storage(found.dtype, found.policy)
        wanted = actual
        if isinstance(spec.element, Storage):
            wanted = spec.element
        elif isinstance(spec.element, DTypeOf):
            wanted = self._storages.get(spec.element.parameter, actual)
        self._storages.setdefault(name, wanted)
        takes_policy = actual.dtype == wanted.dtype and not str(actual.policy)
        return wanted if actual == wanted or takes_policy or isinstance(spec.element, AnyDType) else None

    def _leading_symbols(self, count: int) -> tuple[str, ...]:
        """The symbols that `...` stands for, the same for every parameter."""
        if self._leading is None:
            self._leading = tuple(self._new_symbol() for _ in range(count))
        return self._leading

    def _new_symbol(self) -> str:
        self._fresh += 1
        while f"D{self._fresh}" in self._flexible:
            self._fresh += 1
        name = f"D{self._fresh}"
        self._flexible.add(name)
        return name

    def _rename(self, found: Type, reason: Reason, out: list[tuple[Dim, Dim, Reason]]) -> Type:
        """The argument's type with the caller's symbols under names of the callee's own."""
        if isinstance(found, TensorType):
            return TensorType(tuple(self._rename_dim(d, reason, out) for d in found.dims), found.dtype, found.policy)
        if isinstance(found, IntType):
            return IntType(self._rename_dim(found.value, reason, out))
        if isinstance(found, TupleType):
            return TupleType(tuple(self._rename(item, reason, out) for item in found.items))
        return FloatType() if isinstance(found, FloatType) else found

    def _rename_dim(self, dim: Dim, reason: Reason, out: list[tuple[Dim, Dim, Reason]]) -> Dim:
        for name in sorted(dim.symbols()):
            if name not in self._renamed:
                self._renamed[name] = self._new_symbol()
                out.append((Dim.sym(self._renamed[name]), Dim.sym(name), reason))
        return dim.substitute({name: Dim.sym(self._renamed[name]) for name in dim.symbols()})


def substitute_type(type_: Type, values: dict[str, Dim]) -> Type:
    """A type of the callee in the caller's sizes. Raises DimError for a division by zero."""
    if isinstance(type_, TensorType):
        return TensorType(tuple(dim.substitute(values) for dim in type_.dims), type_.dtype, type_.policy)
    if isinstance(type_, IntType):
        return IntType(type_.value.substitute(values))
    if isinstance(type_, TupleType):
        return TupleType(tuple(substitute_type(item, values) for item in type_.items))
    return type_


# Note [Two views of one argument]
# The body of the callee is checked with the callee's own symbols, so that one instance serves every caller: an
# annotation `Tensor[B, D]` means those two symbols whatever the argument is. The caller's view, what B and D are in
# this call, is the solver's. Where an annotation is missing, the argument's type itself is taken over with its symbols
# renamed in order of appearance, which keeps what is equal equal.
