"""Which instance of a function a call from Python means.

Enters: a signature and the compile-time choices of a call. Leaves: one type per parameter: as declared, or as chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace

from tessera.interface import (
    APART,
    DICT,
    OF_FUNCTION,
    OPERATOR,
    UNIT,
    ArrayKind,
    Choice,
    Number,
    Specialization,
    Tree,
    chosen_relations,
    exact_size,
)
from tessera.programs import BUILT_IN, MAIN, TRANSFORM
from tesserac.base.dataclass import dataclass
from tesserac.check.algebra.encoding import decoded
from tesserac.check.calls.construct import fields_signature
from tesserac.check.declarations.decorators import is_kernel
from tesserac.check.expressions.closures import find_inner
from tesserac.check.infer import CheckResult
from tesserac.check.instances.entry import any_size_binding
from tesserac.check.model.specs import (
    AnySpec,
    ListSpec,
    OptionalSpec,
    ParameterSpec,
    ScalarSpec,
    Storage,
    StructDecl,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
)
from tesserac.check.model.struct_uses import field_specs, leaves_dtype_open
from tesserac.check.module.checker import ModuleChecker
from tesserac.entry.interface import struct_key
from tesserac.entry.settings import read_settings, static_type
from tesserac.types import dtype as dtypes
from tesserac.types.dims import ONE, Dim
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import (
    DictType,
    FloatType,
    FunctionType,
    NoneType,
    OperatorType,
    RunIntType,
    StructType,
    TensorType,
    TransformType,
    TupleType,
    Type,
    parts,
)


def argument_types(
    result: CheckResult, name: str, chosen: Specialization, module: FindModule | None = None
) -> tuple[list[Type], dict[str, Dim]]:
    """One type per parameter, and declared sizes that are another one in this call. `module` finds those that functions
    among the arguments are of."""
    choices, checker = dict(chosen), result.checker
    reader = _Reader(_structs(checker), module or _no_module)
    definer, local = checker.definer(name) or (checker, name)
    signature = definer.own_signature(local)
    parameters = signature.parameters
    alone = [reader.parameter(p, choices) for p in parameters]
    if is_kernel(signature.node):
        return alone, {}  # leading dims of its arguments are programs, however many, and meet none of the same axis
    places = _declared_places([leaf for type_ in alone for leaf in _leaves(type_)], chosen)
    types = [replace(reader, places=places).parameter(p, choices) for p in parameters] if places else alone
    return types, _equal_sizes(places, definer.module_sizes().keys())


def _equal_sizes(places: Mapping[int, Sequence[_Place]], module: Set[str]) -> dict[str, Dim]:
    """Declared sizes that an array without declared dims has too, and that are equal in this call, are one size: which
    of them such an array has, nobody could say. Sizes of the module stay what they are."""
    equal: dict[str, Dim] = {}
    for number, found in places.items():
        size = exact_size(number)
        if size is not None:
            equal |= {name: number for place in found for name, number in _solved(place.size, size)}
            continue
        names = {place.size.symbol for place in found if place.size.symbol is not None}
        first, *others = [*sorted(names & module), *sorted(names - module)] or [""]
        equal |= {name: Dim.sym(first) for name in others if name not in module}
    return equal


def _solved(declared: Dim, size: int) -> Iterator[tuple[str, Dim]]:
    """What the one symbol of a declared size is, of which that is a multiple and a rest: `2*D + 1` of 7."""
    names = sorted(declared.symbols())
    if len(names) == 1:
        first, second, third = (declared.substitute({names[0]: Dim.const(n)}) - Dim.const(size) for n in range(3))
        step = (second - first).constant
        if step and first.constant is not None and third - second == second - first and first.constant % step == 0:
            yield names[0], Dim.const(-first.constant // step)


FindModule = Callable[[str, str], ModuleChecker]
"""The checker of a module of a program, by the key of that program and the name that the module has in it."""


def _no_module(key: str, module: str) -> ModuleChecker:
    raise KeyError(f"no program {key} is known")


def _structs(checker: ModuleChecker) -> dict[str, StructDecl]:
    """The structs that a program sees, by the names that callers have for them."""
    return {struct_key(checker.name, decl.owner, decl.name): decl for decl in checker.structs()}


@dataclass(frozen=True)
class _Place:
    """Where a declared array has a size: what it is there, and the axis, also counted from the right."""

    size: Dim
    axis: int
    from_right: int


def _declared_places(leaves: list[TensorType | None], chosen: Specialization) -> dict[int, list[_Place]]:
    """By number, where declared arrays have a size that an array without declared dims has too."""
    found: dict[int, list[_Place]] = {}
    for leaf, numbers in chosen_relations(chosen).items():
        type_ = leaves[leaf]
        for axis, number in enumerate(numbers if type_ is not None and len(type_.dims) == len(numbers) else ()):
            assert type_ is not None
            size = type_.dims[axis]
            is_plain = size.symbol is not None or size.constant is not None
            if number != APART and (is_plain or exact_size(number) is not None):
                found.setdefault(number, []).append(_Place(size, axis, len(numbers) - axis))
    return found


def _leaves(type_: Type) -> Iterator[TensorType | None]:
    """What compiled code takes for a parameter of this type, in order; None for a number, or for scales."""
    match type_:
        case TensorType():
            yield type_
            yield from [None] * type_.is_scaled
        case RunIntType() | FloatType(value=None):
            yield None
        case TupleType(items=items):
            for item in items:
                yield from _leaves(item)
        case StructType(fields=fields):
            for _, field in fields:
                yield from _leaves(field)
        case OperatorType() | DictType() | FunctionType() | TransformType():
            for part in parts(type_) or ():
                yield from _leaves(part)


@dataclass(frozen=True)
class _Reader:
    """`places` are the declared sizes of the call that arrays without declared dims may share."""

    structs: dict[str, StructDecl]
    module: FindModule
    is_wide: bool = False
    """Whether f32 stands in place of floats of fewer bits: within a `Tree`."""
    places: Mapping[int, Sequence[_Place]] = field(default_factory=dict)

    def parameter(self, parameter: ParameterSpec, choices: dict[str, Choice]) -> Type:
        if parameter.name in choices:
            return self._chosen(parameter.name, parameter.spec, choices[parameter.name])
        return self._declared(parameter.spec)

    def _declared(self, spec: TypeSpec) -> Type:
        """The type that an annotation gives by itself."""
        match spec:
            case TensorSpec(element=Storage() as element):
                return TensorType(tuple(d.dim for d in spec.dims), element.dtype, element.policy)
            case TupleSpec():
                return TupleType(tuple(map(self._declared, spec.items)))
            case ListSpec(count=count) if count.dim.constant is not None:
                return TupleType((self._declared(spec.item),) * count.dim.constant)
            case StructSpec(args=args) if args is not None:
                fields = tuple((f.name, self._declared(f.spec)) for f in field_specs(spec))
                return _struct_type(spec.decl, tuple(arg.dim for arg in args), fields)
        return FloatType()

    def _chosen(self, name: str, spec: TypeSpec, choice: Choice) -> Type:
        match spec, choice:
            case OptionalSpec(), _:
                return NoneType() if choice is None else self._chosen(name, spec.inner, choice)
            case StructSpec(args=args), Tree(items=items) if args is not None:
                pairs = zip(field_specs(spec), items, strict=True)
                fields = tuple((f.name, self._chosen_field(f"{name}.{f.name}", f.spec, item)) for f, item in pairs)
                return _struct_type(spec.decl, tuple(arg.dim for arg in args), fields)
            case TupleSpec(), Tree(items=items):
                owned = zip(spec.items, items, strict=True)
                return TupleType(tuple(self._chosen(name, own, item) for own, item in owned))
            case ListSpec(), Tree(items=items):
                return TupleType(tuple(self._chosen(name, spec.item, item) for item in items))
            case (ScalarSpec(kind="float"), _) | (TensorSpec(element=Storage(), leading=False), _):
                return self._declared(spec)
        return self._open(name, choice)

    def _chosen_field(self, name: str, spec: TypeSpec, choice: Choice) -> Type:
        """A field of a struct of declared sizes; what has no dtype in the declaration has that of the value."""
        if leaves_dtype_open(spec) and isinstance(choice, ArrayKind):
            return TensorType(tuple(d.dim for d in spec.dims), _dtype_of(choice.dtype))
        return self._chosen(name, spec, choice)

    def _open(self, name: str, choice: Choice) -> Type:
        """The type that a value alone gives."""
        match choice:
            case ArrayKind():
                return TensorType(self._dims(name, choice), _dtype_of(choice.dtype))
            case Number():
                return FloatType()
            case Tree(struct="", items=items):
                return TupleType(tuple(self._open(name, item) for item in items))
            case Tree(struct=key, items=items) if key.startswith(OPERATOR):
                return OperatorType(decoded(key[len(OPERATOR) :]), tuple(self._open(name, item) for item in items))
            case Tree(struct=key, items=items) if key.startswith(OF_FUNCTION):
                return self._function(name, json.loads(key[len(OF_FUNCTION) :]), items)
            case Tree(struct=key, items=items) if key.startswith(DICT):
                keys = json.loads(key[len(DICT) :])
                return DictType(tuple((own, self._open(name, item)) for own, item in zip(keys, items, strict=True)))
            case Tree(struct=key, items=items):
                return self._open_struct(name, self.structs[key], items)
        assert choice is None or isinstance(choice, int | float | str), f"{choice} says no type"
        return static_type(choice)

    def _function(self, name: str, form: list[str], items: tuple[Choice, ...]) -> Type:
        """A function of a program, and what it captured, which is of that program's structs."""
        key, kind, *rest = form
        if kind == TRANSFORM:
            captured = replace(self, structs=_structs(self.module(key, MAIN)))
            return TransformType(rest[0], tuple(captured._open(name, item) for item in items), read_settings(rest[1]))
        module, function, *names = rest
        if module == BUILT_IN:
            return FunctionType(module, function)
        owner, captured = self.module(key, module), replace(self, structs=_structs(self.module(key, MAIN)))
        captures = tuple((own, captured._open(name, item)) for own, item in zip(names, items, strict=True))
        find_inner(owner, function, captures)
        return FunctionType(owner.name, function, captures)

    def _open_struct(self, name: str, decl: StructDecl, items: tuple[Choice, ...]) -> Type:
        """A struct whose sizes follow from those of its fields."""
        pairs = zip(decl.fields, items, strict=True)
        types = [self._field(f"{name}.{f.name}", f.spec, item) for f, item in pairs]
        solved = any_size_binding(fields_signature(decl, decl.fields), types)
        dims = tuple(solved.get(parameter, Dim.sym(f"{name}.{parameter}")) for parameter in decl.parameters)
        fields = tuple((f.name, type_) for f, type_ in zip(decl.fields, types, strict=True))
        return _struct_type(decl, dims, fields)

    def _field(self, name: str, spec: TypeSpec, choice: Choice) -> Type:
        """A field of a struct of any sizes: of the declared element, of the sizes that the value has."""
        if isinstance(spec, TensorSpec) and isinstance(spec.element, Storage) and isinstance(choice, ArrayKind):
            element = self._element(spec.element, choice)
            dims = self._dims(name, choice)
            if len(dims) == len(spec.dims):  # what is declared as a number is one
                pairs = zip(spec.dims, dims, strict=True)
                dims = tuple(found if own.dim.constant is None or found == ONE else own.dim for own, found in pairs)
            return TensorType(dims, element.dtype, element.policy)
        if isinstance(spec, AnySpec):
            return replace(self, is_wide=True)._open(name, choice)
        return FloatType() if isinstance(spec, ScalarSpec) and spec.kind == "float" else self._open(name, choice)

    def _element(self, declared: Storage, choice: ArrayKind) -> Storage:
        """As declared, but for copies that an optimiser keeps of numbers of few bits."""
        given = _dtype_of(choice.dtype)
        is_copy = self.is_wide and declared.dtype.is_float and declared.dtype.bits < given.bits
        return Storage(given, NO_POLICY) if is_copy else declared

    def _dims(self, name: str, choice: ArrayKind) -> tuple[Dim, ...]:
        """Symbols for the sizes of an array; where the call numbers them, equal sizes are one, and a declared one is
        that. Of several declared ones that are equal in this call, the one of the same axis is meant."""
        if len(choice.sizes) == choice.rank:
            return tuple(self._dim(number, axis, choice.rank) for axis, number in enumerate(choice.sizes))
        return tuple(Dim.sym(f"{name.capitalize()}{axis}") for axis in range(choice.rank))

    def _dim(self, number: int, axis: int, rank: int) -> Dim:
        size = exact_size(number)
        if size is not None:
            return Dim.const(size)
        places = self.places.get(number, ())
        aligned = [p for p in places if p.axis == axis] or [p for p in places if p.from_right == rank - axis]
        if number == UNIT:  # a 1 stretches, unless it stands where a declared size does
            return aligned[0].size if aligned else ONE
        return [*aligned, *places][0].size if places else Dim.sym(f"size{number}")


def _struct_type(decl: StructDecl, dims: tuple[Dim, ...], fields: tuple[tuple[str, Type], ...]) -> StructType:
    return StructType(decl.owner, decl.name, dims, fields, decl.buffers)


def _dtype_of(numpy_name: str) -> dtypes.DType:
    found = next((d for d in dtypes.ALL if d.numpy_name == numpy_name), None)
    if found is None:
        raise KeyError(f"no dtype is stored as {numpy_name}")
    return found
