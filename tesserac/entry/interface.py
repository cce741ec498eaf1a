"""How a module looks from outside the language: its functions and structs, as the runtime sees them.

Enters: a checked module. Leaves: the runtime's `ModuleInterface`, and the shape of a function's result.
"""

from __future__ import annotations

from collections.abc import Iterator

from tessera.interface import (
    MISSING,
    Compound,
    Computed,
    FunctionInterface,
    Kind,
    Missing,
    ModuleInterface,
    Parameter,
    ParamInterface,
    Specialization,
    Static,
    StructInterface,
    read_functions,
)
from tessera.programs import FUNCTION, TRANSFORM
from tessera.returned import VALUE, Returned
from tessera.signature import TensorSpec as ArraySpec
from tesserac.check.algebra.encoding import encoded
from tesserac.check.infer import CheckResult
from tesserac.check.model.specs import (
    BareTensorSpec,
    FieldSpec,
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
from tesserac.check.model.struct_uses import field_specs
from tesserac.check.model.typed import Param
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.names.struct_items import default_name, is_test
from tesserac.entry.settings import NotReturnable, setting_text
from tesserac.ir.types import element
from tesserac.target.sizes import size_of
from tesserac.types.dims import Dim
from tesserac.types.ty import (
    BoolType,
    DictType,
    FloatType,
    FunctionType,
    IntType,
    NoneType,
    OperatorType,
    RunIntType,
    StrType,
    StructType,
    TensorType,
    TransformType,
    TupleType,
    Type,
)

__all__ = ["ModuleInterface", "NotReturnable", "Specialization", "interface_of", "returned_of", "struct_key"]


def interface_of(result: CheckResult) -> ModuleInterface:
    """Every function that a caller may name, private ones left out, and all structs that they may speak of."""
    checker = result.checker
    names = [name for name in checker.names.functions if not name.startswith("_")]
    structs = tuple(_struct(checker, decl) for decl in checker.structs())
    functions = tuple(_function(checker.name, checker, name) for name in names)
    return ModuleInterface(functions, (), structs, tuple(_hidden(checker)), tuple(_params(checker)))


def _hidden(checker: ModuleChecker) -> Iterator[FunctionInterface]:
    """What structs and params are made of, and tests; of files imported all but the tests, under qualified names."""
    yield from (_function(checker.name, checker, name) for name in checker.names.hidden)
    for other in checker.imported()[1:]:
        yield from read_functions(other.offered) if other.offered else hidden_of(other, checker.name)


def hidden_of(other: ModuleChecker, module: str) -> tuple[FunctionInterface, ...]:
    """What structs and params of a file that `module` imports are made of."""
    names = [name for name in other.names.hidden if not is_test(name)]
    return tuple([_function(module, other, name)._replace(name=f"{other.name}.{name}") for name in names])


def _params(checker: ModuleChecker) -> Iterator[ParamInterface]:
    for other in checker.imported():
        params = other.params()
        for name, spec in params.specs.items():
            initial, param = other.names.params[name].init is not None, params.params[name]
            kind = _kind(checker.name, spec)
            tensor = _array(param) if kind == "tensor" else None
            yield ParamInterface(param.name, kind, initial, param.type.show(), tensor)


def _array(param: Param) -> ArraySpec:
    ty = param.type
    assert isinstance(ty, TensorType)
    sizes = tuple(size_of(dim) for dim in ty.dims)
    return ArraySpec(param.name, sizes, ty.dtype.numpy_name, element(ty.dtype, ty.policy))


def struct_key(module: str, owner: str, name: str) -> str:
    """What a struct is called from outside of `module`: by its name, or with the module it comes from."""
    return name if owner == module else f"{owner}.{name}"


def _struct(checker: ModuleChecker, decl: StructDecl) -> StructInterface:
    key = struct_key(checker.name, decl.owner, decl.name)
    fields = tuple((field.name, _kind(checker.name, field.spec)) for field in decl.fields)
    initial = tuple(field.name for field in decl.fields if _is_initial(field))
    seen = tuple(_seen(decl, size) for size in decl.parameters)
    return StructInterface(key, decl.parameters, seen, fields, initial, tuple(sorted(decl.methods)))


def _seen(decl: StructDecl, size: str) -> tuple[str, int] | None:
    """The first field and axis whose size is just this one."""
    tensors = [(field.name, field.spec.dims) for field in decl.fields if isinstance(field.spec, TensorSpec)]
    places = [(name, axis) for name, dims in tensors for axis, dim in enumerate(dims) if dim.dim == Dim.sym(size)]
    return places[0] if places else None


def _is_initial(field: FieldSpec) -> bool:
    """Whether a field has a value where none is given: its own, or that of the struct it is."""
    inner = field.spec.item if isinstance(field.spec, ListSpec) else field.spec
    return field.init is not None or (isinstance(inner, StructSpec) and all(map(_is_initial, inner.decl.fields)))


def _function(module: str, owner: ModuleChecker, name: str) -> FunctionInterface:
    """A function of `owner`, which is `module` or a file that it imports."""
    signature = owner.own_signature(name)
    parameters = tuple(_parameter(module, owner, name, p) for p in signature.parameters)
    return FunctionInterface(name, parameters, signature.node.doc or "")


def _parameter(module: str, owner: ModuleChecker, function: str, parameter: ParameterSpec) -> Parameter:
    kind = _kind(module, parameter.spec)
    return Parameter(parameter.name, kind, parameter.keyword_only, _default(owner, function, parameter))


def _kind(module: str, spec: TypeSpec) -> Kind:
    match spec:
        case ScalarSpec():
            return "int" if spec.kind in ("Axis", "Shape") else spec.kind
        case TensorSpec(element=Storage(policy=policy)) if policy.scale_axis is not None:
            return Compound("scaled")
        case TensorSpec():
            return "tensor" if not spec.leading and isinstance(spec.element, Storage) else "generic"
        case OptionalSpec():
            return Compound("optional", (_kind(module, spec.inner),))
        case TupleSpec():
            return Compound("tuple", tuple(_kind(module, item) for item in spec.items))
        case ListSpec():
            number = spec.count.dim.constant
            items = (_kind(module, spec.item),) * (1 if number is None else number)
            return Compound("list" if number is None else "tuple", items)
        case StructSpec():
            key = struct_key(module, spec.decl.owner, spec.decl.name)
            items = tuple(_kind(module, field.spec) for field in field_specs(spec))
            declared = tuple(_kind(module, field.spec) for field in spec.decl.fields)
            kind = "any struct" if spec.args is None else "struct"
            return Compound(kind, () if items == declared else items, key)
        case BareTensorSpec():
            return "open"
    return "open"


def _default(checker: ModuleChecker, function: str, parameter: ParameterSpec) -> Static | Missing | Computed:
    """The value of a default, where it is a number, a string, a bool or None; the function that makes a tensor."""
    if parameter.default is None:
        return MISSING
    type_, maker = checker.default(checker.name, parameter.default).type, default_name(function, parameter.name)
    if isinstance(type_, TensorType) and maker in checker.names.hidden:
        return Computed(maker)
    return MISSING if not isinstance(type_, _SIMPLE) else _constant(type_, MISSING)


_SIMPLE = (IntType, FloatType, BoolType, StrType, NoneType)


def _constant(type_: Type, otherwise: Static | Missing) -> Static | Missing:
    match type_:
        case IntType(value=size):
            return otherwise if size.constant is None else size.constant
        case FloatType(value=number):
            return otherwise if number is None else number
        case BoolType(value=flag):
            return flag
        case StrType(value=text):
            return text
        case NoneType():
            return None
    return otherwise


def returned_of(type_: Type, module: str) -> Returned:
    """How a result is put together from the values that compiled code returns. Raises NotReturnable."""
    match type_:
        case TensorType(is_scaled=True):
            return Returned("scaled", (VALUE, VALUE))
        case TensorType() | RunIntType() | FloatType(value=None):
            return VALUE
        case TupleType(items=items):
            return Returned("tuple", tuple(returned_of(item, module) for item in items))
        case DictType(entries=entries):
            values = tuple(returned_of(value, module) for _, value in entries)
            return Returned("dict", values, tuple(key for key, _ in entries))
        case StructType(fields=fields):
            parts = tuple(returned_of(field, module) for _, field in fields)
            key = struct_key(module, type_.module, type_.name)
            return Returned("struct", parts, tuple(name for name, _ in fields), key)
        case OperatorType(tree=tree, leaves=leaves):
            return Returned("operator", tuple(_held(leaf, module) for leaf in leaves), (), encoded(tree))
        case IntType(value=size) if size.constant is None:
            return Returned("size", detail=size_of(size))
    constant = _constant(type_, MISSING)
    if isinstance(constant, Missing):
        raise NotReturnable(type_.show())
    return Returned("constant", detail=constant)


def _held(type_: Type, module: str) -> Returned:
    """A part of an operator, or what a function that it is made of captured. A number that takes the dtype it meets
    does so again where the operator comes back. Raises NotReturnable."""
    match type_:
        case FloatType(value=None):
            return Returned("number", (VALUE,))
        case FunctionType(module=owner, name=name, captures=captures):
            items = tuple(_held(item, module) for _, item in captures)
            return Returned(FUNCTION, items, (owner, name, *(captured for captured, _ in captures)))
        case TransformType(transform=name, captures=parts, settings=settings):
            return Returned(TRANSFORM, tuple(_held(item, module) for item in parts), (name, setting_text(settings)))
        case TupleType(items=parts):
            return Returned("tuple", tuple(_held(item, module) for item in parts))
    return returned_of(type_, module)


def holds_function(returned: Returned) -> bool:
    """Whether a function of the program is part of a result, which is nothing without the program."""
    return returned.kind in (FUNCTION, TRANSFORM) or any(map(holds_function, returned.items))
