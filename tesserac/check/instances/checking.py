"""Checks the body of one instance of a function.

Enters: a signature and the types of its parameters, in its own symbols. Leaves: a `TypedFunction`, or none where
there were errors. A definition alone is checked with a representative: f32, rank 2, every optional argument given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.analysis.uniformity import agrees
from tesserac.check.guards.contradictions import report_contradiction
from tesserac.check.guards.parameter_sizes import enter_sizes, enter_tensor
from tesserac.check.guards.signs import enter_signs
from tesserac.check.guards.undecided import STATED
from tesserac.check.instances.conform import expected_storage
from tesserac.check.instances.returned import result_type, returning
from tesserac.check.model import typed
from tesserac.check.model.control import always_returns
from tesserac.check.model.library_annotations import COLUMNS, annotation_of
from tesserac.check.model.scope import Binding
from tesserac.check.model.specs import (
    AnySpec,
    BareTensorSpec,
    DimSpec,
    DTypeOf,
    FunctionSpec,
    ListSpec,
    NoneSpec,
    OptionalSpec,
    ScalarSpec,
    Signature,
    Storage,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
    dims_of,
    leaves_dims,
    untold_sizes,
)
from tesserac.check.model.struct_uses import field_specs
from tesserac.check.names.struct_items import is_test
from tesserac.check.sizes.facts import Why
from tesserac.check.state.body import Body
from tesserac.check.state.effects import check_effects
from tesserac.check.state.parts import WherePlace
from tesserac.check.values.rewriting import indentation
from tesserac.diag.codes.names import E0211
from tesserac.diag.diagnostic import Edit
from tesserac.syntax import ast
from tesserac.syntax.walk import is_broken
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import (
    BoolType,
    ErrorType,
    FloatType,
    FunctionType,
    IntType,
    ListType,
    NoneType,
    OperatorType,
    StrType,
    StructType,
    TensorType,
    TransformType,
    TupleType,
    Type,
    parts,
    sizes_in,
)

MAX_DOUBTED_FACTS = 64
"""A signature is searched for a fact that contradicts those before it as far as this: more are written by a program."""


def check_instance(
    body: Body, signature: Signature, types: tuple[Type, ...], symbol: str
) -> typed.TypedFunction | None:
    """Checks the body with these parameter types. None after errors."""
    node = signature.node
    enter(body, signature, types)
    block = body.rules.block(body, node.body)
    check_end(body, signature)
    check_effects(body, node)
    result = result_type(body)
    block = returning(body, block, result)
    if body.sink.has_errors or (body.is_broken and not body.needs_value):
        return None
    guards = where_guards(body, signature)
    return typed_function(body, signature, types, symbol, block, result, symbols_of(types), guards)


def enter(body: Body, signature: Signature, types: tuple[Type, ...]) -> None:
    """Binds parameters and sizes, and states the `where` facts."""
    names = (*signature.symbols, *symbols_of(types))
    body.sizes.symbols = {**body.rules.module_sizes(), **{name: Dim.sym(name) for name in names}}
    mentioned = [name for p in signature.parameters for dim in dims_of(p.spec) for name in dim.dim.symbols()]
    body.sizes.own_symbols = frozenset(signature.symbols)
    body.sizes.has_open = any(leaves_dims(parameter.spec) for parameter in signature.parameters)
    for name in sorted({*mentioned, *symbols_of(types)}):
        body.mention(name)
    told = {p.name for p in signature.parameters if isinstance(p.spec, ScalarSpec)}
    untold = untold_sizes(frozenset(signature.symbols) - told, [p.spec for p in signature.parameters])
    body.sizes.untold_symbols = untold | frozenset(signature.hidden)
    body.declared.dim_spans = signature.spans
    body.declared.where_at = _where_place(body, signature.node)
    body.sizes.static_symbols = frozenset(
        name
        for p, type_ in zip(signature.parameters, types, strict=True)
        for name in (_int_symbols(type_) if isinstance(p.spec, AnySpec) else _static_symbols(p.name, type_))
    )
    for parameter, type_ in zip(signature.parameters, types, strict=True):
        body.scope.bind(Binding(parameter.name, type_, parameter.span, None))
        spec = parameter.spec.inner if isinstance(parameter.spec, OptionalSpec) else parameter.spec
        if isinstance(spec, FunctionSpec):
            body.declared.function_specs[parameter.name] = spec
        if isinstance(type_, IntType) and parameter.name in body.sizes.symbols:
            body.sizes.symbols[parameter.name] = type_.value
        if isinstance(spec, TensorSpec):
            enter_tensor(body, parameter.name, spec, type_)
        else:
            enter_sizes(body, spec, type_)
    for name in signature.unbound:
        body.scope.bind(Binding(name, ErrorType(), signature.node.name_span, None))
    signed = enter_signs(body, types)
    for number, fact in enumerate(signature.facts):
        left, right = fact.left.substitute(body.sizes.symbols), fact.right.substitute(body.sizes.symbols)
        doubted = body.at_definition and number < MAX_DOUBTED_FACTS
        if doubted and body.facts.refutes(fact.kind, left, right):
            report_contradiction(body, signed, signature.facts[: number + 1])
            break
        body.facts.state(fact.kind, left, right, Why(f"`where {body.rules.text(fact.span)}`", fact.span))
    body.declared.result_spec = None if isinstance(signature.result, AnySpec) else signature.result
    if isinstance(signature.result, TensorSpec):
        body.declared.result_storage = expected_storage(body, signature.result)
        body.declared.element_spans.append(signature.result.element_span)


def _static_symbols(name: str, type_: Type) -> Iterator[str]:
    """Symbols that stand for values known while compiling, where only a call knows them: ints, lengths of lists. An
    int parameter may be given a size, which is no such symbol then; the ints of a struct always are."""
    match type_:
        case IntType(value=value) if value.symbol == name:
            yield name
        case ListType():
            yield from type_.count.symbols()
            yield from _static_symbols(name, type_.item)
        case StructType():
            yield from _int_symbols(type_)
        case TupleType(items=items):
            for item in items:
                yield from _static_symbols(name, item)


def _int_symbols(type_: Type) -> Iterator[str]:
    """All ints, by whatever names they go: of structs, and of an argument whose parameter has no type."""
    match type_:
        case IntType(value=value):
            yield from value.symbols()
        case ListType():
            yield from type_.count.symbols()
            yield from _int_symbols(type_.item)
        case TupleType() | StructType():
            for item in parts(type_) or ():
                yield from _int_symbols(item)


def _where_place(body: Body, node: ast.FunctionDef) -> WherePlace | None:
    """The place after the signature, found in the text between its last part and the body."""
    if node.where:
        end = node.where[-1].span
        return WherePlace(Span(end.file, end.end, end.end), ", {fact}")
    last = node.returns or (node.parameters[-1] if node.parameters else None)
    if last is None or not node.body:
        return None
    after = body.rules.text(Span(last.span.file, last.span.end, node.body[0].span.start))
    offset = 0 if node.returns else after.find(")") + 1
    if not node.returns and offset == 0:
        return None
    place = last.span.end + offset
    return WherePlace(Span(last.span.file, place, place), " where {fact}")


def typed_function(
    body: Body,
    signature: Signature,
    types: Sequence[Type],
    symbol: str,
    block: typed.Block,
    result: Type,
    symbols: tuple[str, ...],
    guards: tuple[typed.Guard, ...],
) -> typed.TypedFunction:
    """The function that a checked body makes."""
    node = signature.node
    params = zip(signature.parameters, types, strict=True)
    return typed.TypedFunction(
        symbol=symbol,
        name=node.name,
        params=tuple(typed.Param(p.name, type_, p.span) for p, type_ in params),
        result=result,
        symbols=symbols,
        guards=guards,
        effects=frozenset(body.doing.effects),
        reads=tuple(body.doing.reads.values()),
        body=block,
        span=node.name_span,
        collectives=tuple(_across(body, axis, found.devices) for axis, found in body.devices.collectives.items()),
        exported=any(is_export(decorator.expression) for decorator in node.decorators),
        doc=node.doc or "",
        columns=annotation_of(node, COLUMNS) is not None,
    )


def _across(body: Body, axis: str, devices: Dim) -> typed.Across:
    return typed.Across(axis, devices, all(agrees(body, value, axis) for value in body.flow.returns))


def symbols_of(types: tuple[Type, ...]) -> tuple[str, ...]:
    """The sizes that parameter types mention, in order."""
    return tuple(dict.fromkeys(n for type_ in types for dim in sizes_in(type_) for n in sorted(dim.symbols())))


def check_end(body: Body, signature: Signature) -> None:
    """A function that says what it returns returns on every path."""
    node = signature.node
    if always_returns(node.body) or isinstance(signature.result, AnySpec | NoneSpec):
        return
    if is_broken(node):
        return
    draft = body.sink.error(E0211, at=node.name_span, function=node.name)
    draft.note(signature.result.span, "this says that it returns one")
    last = node.body[-1] if node.body else None  # where it has a docstring alone
    if isinstance(last, ast.Assignment) and len(last.targets) == 1 and isinstance(last.targets[0], ast.Name):
        end, name = last.span._replace(start=last.span.end), last.targets[0].id
        draft.replace(f"return `{name}`", end, f"\n{indentation(body, last.span)}return {name}")
    elif isinstance(last, ast.ExpressionStatement):
        draft.fix("return what it computes", Edit(last.span._replace(end=last.span.start), "return "))


def where_guards(body: Body, signature: Signature) -> tuple[typed.Guard, ...]:
    """The `where` facts come first: what follows from them is not checked again."""
    stated: list[typed.Guard] = []
    for fact in signature.facts:
        left, right = fact.left.substitute(body.sizes.symbols), fact.right.substitute(body.sizes.symbols)
        stated.append(typed.Guard(fact.kind, left, right, fact.span, STATED))
    return (*stated, *body.sizes.guards.values())


def is_export(node: ast.Expr) -> bool:
    function = node.function if isinstance(node, ast.Call) else node
    return isinstance(function, ast.Name) and function.id == "export"


# ---------------------------------------------------------------------------------- representatives, names


@dataclass(frozen=True)
class _Around:
    """What a representative has in common with the others of its signature: the sizes, and the rank of `...`."""

    symbols: tuple[str, ...]
    leading: int


def representative(body: Body, signature: Signature) -> tuple[Type, ...]:
    """Parameter types with which a definition is checked before anyone calls it."""
    storages: dict[str, Storage] = {}
    types: list[Type] = []
    around = _Around(signature.symbols, _leading_rank(signature))
    sizes = {name for p in signature.parameters for dim in dims_of(p.spec) for name in dim.dim.symbols()}
    for parameter in signature.parameters:
        spec, default = parameter.spec, parameter.default
        if default is not None and isinstance(spec, AnySpec):
            types.append(_open_float(body.rules.expression(body, default).type))
            continue
        type_ = _representative(parameter.name, spec, storages, around)
        in_dims = parameter.name in sizes  # then it is any number, as a size is, not the default alone
        if default is not None and isinstance(spec, ScalarSpec) and spec.kind != "float" and not in_dims:
            type_ = body.rules.expression(body, default).type
        types.append(type_)
    return tuple(types)


def without_optionals(signature: Signature, types: tuple[Type, ...]) -> tuple[Type, ...]:
    """The same with None for every parameter that may be absent."""
    return tuple(
        NoneType() if isinstance(parameter.spec, OptionalSpec) else type_
        for parameter, type_ in zip(signature.parameters, types, strict=True)
    )


def _open_float(type_: Type) -> Type:
    return FloatType() if isinstance(type_, FloatType) else type_


def _representative(
    name: str, spec: TypeSpec, storages: dict[str, Storage], around: _Around
) -> Type:
    match spec:
        case TensorSpec():
            return _representative_tensor(name, spec, storages, around)
        case BareTensorSpec():
            storages[name] = Storage(F32, NO_POLICY)
            return TensorType(_new_dims(2, around), F32)
        case ScalarSpec():
            kinds: dict[str, Type] = {
                "int": IntType(Dim.sym(name)),
                "bool": BoolType(False),
                "str": StrType(""),
                "float": FloatType(),
                "Axis": IntType(Dim.const(0)),
                "Shape": TupleType((IntType(Dim.const(2)), IntType(Dim.const(3)))),
            }
            return kinds[spec.kind]
        case OptionalSpec():
            return _representative(name, spec.inner, storages, around)
        case TupleSpec():
            return TupleType(tuple(_representative(name, item, storages, around) for item in spec.items))
        case ListSpec():
            return _representative_list(name, spec, storages, around)
        case StructSpec():
            return _representative_struct(name, spec, storages, around)
        case NoneSpec():
            return NoneType()
    return ErrorType()


def _representative_list(
    name: str, spec: ListSpec, storages: dict[str, Storage], around: _Around
) -> Type:
    item = _representative(name, spec.item, storages, around)
    count = spec.count.dim.constant
    return ListType(spec.count.dim, item) if count is None else TupleType((item,) * count)


def _representative_struct(
    name: str, spec: StructSpec, storages: dict[str, Storage], around: _Around
) -> Type:
    if spec.args is None:
        sizes = _new_dims(len(spec.decl.parameters), around)
        spec = StructSpec(spec.span, spec.decl, tuple(DimSpec(size, spec.span) for size in sizes))
    assert spec.args is not None
    fields = [(f.name, _representative(f"{name}.{f.name}", f.spec, storages, around)) for f in field_specs(spec)]
    sizes, decl = tuple(arg.dim for arg in spec.args), spec.decl
    return StructType(decl.owner, decl.name, sizes, tuple(fields), decl.buffers)


def _representative_tensor(
    name: str, spec: TensorSpec, storages: dict[str, Storage], around: _Around
) -> TensorType:
    element = spec.element
    if isinstance(element, DTypeOf):
        element = storages.get(element.parameter, Storage(F32, NO_POLICY))
    storage = element if isinstance(element, Storage) else Storage(F32, NO_POLICY)
    storages[name] = storage
    leading = _new_dims(around.leading, around) if spec.leading else ()
    return TensorType((*leading, *(dim.dim for dim in spec.dims)), storage.dtype, storage.policy)


def _leading_rank(signature: Signature) -> int:
    """How many dims `...` stands for: the same everywhere, and every tensor has rank 2 at least where it can."""
    specs = [p.spec.inner if isinstance(p.spec, OptionalSpec) else p.spec for p in signature.parameters]
    followed = [spec.dims for spec in specs if isinstance(spec, TensorSpec) and spec.leading]
    return 1 if any(followed) else 2


def _new_dims(count: int, around: _Around) -> tuple[Dim, ...]:
    free = (f"D{number}" for number in range(1, 100) if f"D{number}" not in around.symbols)
    return tuple(Dim.sym(next(free)) for _ in range(count))


def instance_symbol(module: str, signature: Signature, types: tuple[Type, ...]) -> str:
    """The name of an instance: readable, unique, the same in every run."""
    name = signature.name
    if is_test(name):  # a title is any text, a symbol is a name
        name = f"test_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    base = f"{module}.{name}"
    decided = any(isinstance(type_, FloatType) and type_.value is not None for type_ in types)
    if not is_generic(signature) and not decided:
        return base
    parts = [_slug(type_) for type_ in types]
    digest = hashlib.sha256("; ".join(map(_key, types)).encode()).hexdigest()[:6]
    return ".".join([base, *(part for part in parts if part), digest])


def _key(type_: Type) -> str:
    """The type in full: what a struct holds and a function captured count too, and the expression that an operator
    is."""
    inner = parts(type_)
    if inner is None:
        return type_.show()
    of = f"{type_.module}." if isinstance(type_, FunctionType | StructType) else ""
    # a tangent of an operator may lack what has its size: its expression and its parts are all that it is
    of = repr(type_.tree) if isinstance(type_, OperatorType) else of + type_.show()
    settings = type_.settings if isinstance(type_, TransformType) else ()
    named = [f"{name}={_key(setting)}" for name, setting in settings]
    return f"{of}({'; '.join([*map(_key, inner), *named])})"


def _slug(type_: Type) -> str:
    if isinstance(type_, TensorType):
        return f"{type_.dtype}_{type_.rank}d"
    if isinstance(type_, IntType):
        return str(type_.value.constant) if type_.value.constant is not None else ""
    if isinstance(type_, StrType):
        return "".join(c for c in type_.value if c.isascii() and c.isalnum())
    return str(type_.value) if isinstance(type_, BoolType) else ""


def is_generic(signature: Signature) -> bool:
    """Whether calls decide more than sizes: dtypes, ranks, values known while compiling."""
    return any(_leaves_open(parameter.spec) for parameter in signature.parameters)


def _leaves_open(spec: TypeSpec) -> bool:
    if isinstance(spec, TensorSpec):
        return spec.leading or not isinstance(spec.element, Storage)
    if isinstance(spec, ScalarSpec):
        return spec.kind != "float"
    if isinstance(spec, TupleSpec):
        return any(_leaves_open(item) for item in spec.items)
    if isinstance(spec, StructSpec) and spec.args is not None:
        return any(_leaves_open(field.spec) for field in spec.decl.fields)
    return not isinstance(spec, NoneSpec)


