"""Params of a module: weights that are set from outside, and the sizes that they share.

Enters: the `param` items of a module. Leaves: their types, in sizes of the module. A dim name in a param is one size
for the whole module; wherever a function mentions it, it means that size. Params and sizes of a module that another one
imports have the module's name before theirs: `layers.W` of size `layers.D`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.check.declarations.annotations import AnnotationReader
from tesserac.check.declarations.signatures import SignatureNames
from tesserac.check.model import typed
from tesserac.check.model.specs import (
    BareTensorSpec,
    ErrorSpec,
    ListSpec,
    OperatorSpec,
    ScalarSpec,
    Storage,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
    dims_of,
    holds_operators,
    substitute_spec,
)
from tesserac.check.model.struct_uses import field_specs, leaves_dtype_open
from tesserac.check.names.type_attributes import refuse_attributes
from tesserac.diag.codes.names import E0204
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.ty import ErrorType, FloatType, StructType, TensorType, TupleType, Type


@dataclass(frozen=True)
class ModuleParams:
    """By their names in the module: its params, their types as written, and its sizes; `tellers` says for each size, as
    types have it, which param to ask for it."""

    params: Mapping[str, typed.Param] = field(default_factory=dict)
    specs: Mapping[str, TypeSpec] = field(default_factory=dict)
    sizes: Mapping[str, Dim] = field(default_factory=dict)
    tellers: Mapping[str, typed.Param] = field(default_factory=dict)


def read_params(
    nodes: Mapping[str, ast.ParamDecl], names: SignatureNames, qualifier: str, sink: Sink
) -> ModuleParams:
    """`qualifier` stands before every name outside the module."""
    reader = AnnotationReader(names, sink)
    read = {name: _read(reader, node, sink) for name, node in nodes.items()}
    refuse_attributes(sink, reader.attributes, "a param")
    sizes = {name: Dim.sym(f"{qualifier}{name}") for name in names.spans}
    specs = {name: substitute_spec(spec, sizes) for name, spec in read.items()}
    params = {
        name: typed.Param(f"{qualifier}{name}", _type(spec), nodes[name].name_span) for name, spec in specs.items()
    }
    tellers: dict[str, typed.Param] = {}
    for name in sorted(specs, key=lambda name: nodes[name].init is not None):  # a given one tells more
        for dim in dims_of(specs[name]):
            if dim.dim.symbol is not None:
                tellers.setdefault(dim.dim.symbol, params[name])
    untold = {size: spans[0] for size, spans in names.spans.items() if f"{qualifier}{size}" not in tellers}
    unread = [nodes[name].annotation.span for name, spec in specs.items() if isinstance(spec, ErrorSpec)]
    for size, span in untold.items():
        if any(place.start <= span.start < place.end for place in unread):
            continue  # that was reported, and would have told it
        draft = sink.error(E0204, at=span, problem=f"no param has the size `{size}` by itself")
        draft.remark(f"a product does not tell its factors; another param may have `{size}` as a dim of its own")
    return ModuleParams(params, specs, sizes, tellers)


def _read(reader: AnnotationReader, node: ast.ParamDecl, sink: Sink) -> TypeSpec:
    spec = reader.read(node.annotation, node.name_span)
    if isinstance(spec, ErrorSpec):
        return spec
    made_of_parts = isinstance(spec, TensorSpec | BareTensorSpec | StructSpec | OperatorSpec | ListSpec | TupleSpec)
    problem = _open_part(spec) if made_of_parts else "it is neither a tensor nor a struct, nor a list of those"
    if not problem:
        return spec
    draft = sink.error(E0204, at=node.annotation.span, problem=f"the type of the param `{node.name}` is not complete")
    draft.because(problem)
    if isinstance(spec, OperatorSpec):
        draft.remark(_made_where_used(node, spec))
        draft.remark("or functions take it as a field of a struct, by which `grad` keeps its structure")
    elif holds_operators(spec):
        draft.remark("make a tensor the field, and the operator in a method; or functions take the struct")
    else:
        draft.remark("a param is a tensor with its dims and dtype, a struct of tensors with its sizes, or a list")
    return ErrorSpec(spec.span)


_OF_ONE_TENSOR = {"diag": 1, "circulant": 1, "dense": 2}
"""Constructors of operators that take one tensor, with its number of dims."""


def _made_where_used(node: ast.ParamDecl, spec: OperatorSpec) -> str:
    """What to write for a param that is an operator, as far as its initial value shows it."""
    maker = _constructor(node.init) if node.init is not None else "" if spec.is_spectral else "dense"
    if maker not in _OF_ONE_TENSOR or not spec.args:
        return "make params of the tensors in it, and a function without parameters that gives the operator of them"
    sizes = [str(dim.dim) for dim in reversed(spec.args)][: _OF_ONE_TENSOR[maker]]  # a matrix has rows first
    tensor = f"Tensor[{', '.join([*sizes, str(spec.element or F32)])}]"
    made = f"`op.{maker}({node.name})`"
    return f"make a param of its numbers, `param {node.name}: {tensor}`, and the operator where it is used: {made}"


def _constructor(value: ast.Expr) -> str:
    """The name of the constructor `op.name(...)` that a value is a call of; empty for any other."""
    match value:
        case ast.Call(function=ast.Attribute(value=ast.Name(id="op"), name=name)):
            return name
    return ""


def _open_part(spec: TypeSpec) -> str:
    """What its declaration leaves open: sizes, a dtype, how many items a list has, a value; empty where nothing."""
    match spec:
        case StructSpec(args=None):
            return f"`{spec.decl.name}` stands without its sizes"
        case StructSpec():
            fields = field_specs(spec)
            untold = [f"`{f.name}` has no dtype" for f in fields if leaves_dtype_open(f.spec)]
            return next(filter(None, (*untold, *(_open_part(f.spec) for f in fields))), "")
        case OperatorSpec():
            return "the type of an operator is what it is made of, and that of a param is known before its value"
        case ListSpec(count=count) if count.dim.constant is None:
            return f"the number of items of a list, `{count.dim}`, is known while compiling: write a number"
        case ListSpec(item=item):
            return _open_part(item)
        case TupleSpec(items=items):
            return next(filter(None, map(_open_part, items)), "")
        case TensorSpec() | BareTensorSpec():
            return _open_tensor(spec)
        case ErrorSpec() | ScalarSpec(kind="float"):
            return ""
    return "a weight has no value that is known while compiling"


def _open_tensor(spec: TensorSpec | BareTensorSpec) -> str:
    if isinstance(spec, BareTensorSpec):
        return "a tensor has neither dims nor a dtype"
    if not isinstance(spec.element, Storage):
        return "a tensor has no dtype"
    return "dims that `...` stands for differ from call to call" if spec.leading else ""


def _type(spec: TypeSpec) -> Type:
    match spec:
        case TensorSpec(element=Storage() as element):
            return TensorType(tuple(dim.dim for dim in spec.dims), element.dtype, element.policy)
        case StructSpec(args=args) if args is not None:
            fields = tuple((f.name, _type(f.spec)) for f in field_specs(spec))
            decl = spec.decl
            return StructType(decl.owner, decl.name, tuple(arg.dim for arg in args), fields, decl.buffers)
        case ListSpec(count=count) if count.dim.constant is not None:
            return TupleType((_type(spec.item),) * count.dim.constant)
        case TupleSpec(items=items):
            return TupleType(tuple(map(_type, items)))
    return FloatType() if not isinstance(spec, ErrorSpec) else ErrorType()
