"""Declarations of structs.

Enters: a struct of the syntax tree and what names mean in its module. Leaves: a `StructDecl`, whose fields have
complete types in the struct's own sizes, or are a `Tree`, which is what each value of the struct has there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.declarations.annotations import AnnotationReader
from tesserac.check.declarations.signatures import SignatureNames
from tesserac.check.model.specs import (
    AnyDType,
    AnySpec,
    ErrorSpec,
    FieldSpec,
    ListSpec,
    OperatorSpec,
    ScalarSpec,
    Storage,
    StructDecl,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
    untold_sizes,
)
from tesserac.check.names.foreign_names import PYTHON_METHODS
from tesserac.check.names.struct_items import COMPILE_TIME, SELF, forgotten_self
from tesserac.check.names.type_attributes import refuse_attributes
from tesserac.diag.codes.names import E0201, E0202, E0204, E0221
from tesserac.diag.diagnostic import Applicability, Edit
from tesserac.diag.sink import Sink
from tesserac.syntax import ast


def read_struct(node: ast.StructDef, owner: str, names: SignatureNames, sink: Sink) -> StructDecl:
    """`names` knows the struct's parameters as ints; any other new name of a size is a mistake."""
    reader = AnnotationReader(names, sink, lambda size: _added(node, [size]))
    fields = tuple(_field(reader, field, sink) for field in node.fields)
    refuse_attributes(sink, reader.attributes, "a field")
    parameters = tuple(parameter.id for parameter in node.parameters)
    _check_names(node, sink)
    _check_sizes(node, names, fields, sink)
    for method in node.methods:
        _check_self(method, sink)
    methods = frozenset(method.name for method in node.methods)
    return StructDecl(owner, node.name, parameters, fields, methods, node.name_span)


def _check_self(method: ast.FunctionDef, sink: Sink) -> None:
    used = forgotten_self(method)
    if used is None:
        return
    draft = sink.error(E0201, at=used.span, name=SELF)
    draft.note(method.name_span, f"a method has `{SELF}` as its first parameter")
    if method.parameters:
        first = method.parameters[0].span
        before = first._replace(end=first.start)
        draft.replace(f"give it `{SELF}`", before, f"{SELF}, ", applicability=Applicability.SAFE)


def _field(reader: AnnotationReader, node: ast.FieldDef, sink: Sink) -> FieldSpec:
    spec = reader.read(node.annotation, node.name_span)
    if not _is_complete(spec):
        problem = f"the type of the field `{node.name}` is not complete"
        draft = sink.error(E0204, at=node.annotation.span, problem=problem)
        draft.remark(
            "a field is a tensor with its dims, a number, a struct or operator with its sizes, or a list of one"
        )
        spec = ErrorSpec(spec.span)
    if node.is_buffer and isinstance(spec, ScalarSpec) and spec.kind in COMPILE_TIME:
        problem = f"`{node.name}` is known while compiling, and no buffer"
        word = node.span._replace(end=node.name_span.start)
        draft = sink.error(E0204, at=word, problem=problem)
        draft.replace("leave `buffer` out", word, "", applicability=Applicability.SAFE)
    return FieldSpec(node.name, spec, node.init, node.name_span, node.is_buffer)


def _is_complete(spec: TypeSpec) -> bool:
    match spec:
        case TensorSpec():
            return isinstance(spec.element, Storage | AnyDType) and not spec.leading
        case StructSpec():
            return spec.args is not None
        case ListSpec():
            return _is_complete(spec.item)
        case TupleSpec():
            return all(map(_is_complete, spec.items))
        case ScalarSpec():
            return spec.kind not in ("Axis", "Shape")
        case OperatorSpec():
            return bool(spec.args)
    return isinstance(spec, AnySpec | ErrorSpec)


def _check_names(node: ast.StructDef, sink: Sink) -> None:
    """Parameters, fields and methods share one set of names."""
    seen: dict[str, Span] = {}
    named = [(p.id, p.span) for p in node.parameters]
    named += [(field.name, field.name_span) for field in node.fields]
    named += [(method.name, method.name_span) for method in node.methods]
    for name, span in named:
        if name in seen:
            sink.error(E0202, at=span, name=name).note(seen[name], "first defined here")
        seen.setdefault(name, span)
    for method in node.methods:
        if method.name.startswith("__"):
            _refuse_special(method, "apply" in seen, sink)


def _refuse_special(method: ast.FunctionDef, has_apply: bool, sink: Sink) -> None:
    """Python calls `__init__` and its kin by itself; here nothing would."""
    draft = sink.error(E0221, at=method.name_span, name=method.name)
    if method.name in PYTHON_METHODS:
        draft.remark(PYTHON_METHODS[method.name])
    if method.name == "__call__" and not has_apply:
        draft.replace("call it `apply`", method.name_span, "apply", applicability=Applicability.SAFE)


def _added(node: ast.StructDef, sizes: Sequence[str]) -> Edit:
    """What declares more sizes of a struct."""
    last = node.parameters[-1].span if node.parameters else node.name_span
    listed = ", ".join(sizes)
    return Edit(last._replace(start=last.end), f", {listed}" if node.parameters else f"[{listed}]")


def _check_sizes(node: ast.StructDef, names: SignatureNames, fields: tuple[FieldSpec, ...], sink: Sink) -> None:
    """Sizes of fields are the struct's, and each of the struct's sizes is that of some field."""
    parameters = [parameter.id for parameter in node.parameters]
    missing = [name for name in names.spans if name not in parameters and name not in names.refused]
    declared = f"{node.name}[{', '.join([*parameters, *missing])}]"
    for name in missing:
        at = names.spans[name][0]
        draft = sink.error(E0204, at=at, problem=f"`{name}` is not a size of `{node.name}`")
        draft.did_you_mean(name, parameters, at)
        draft.fix(f"sizes stand behind the name: `struct {declared}`", _added(node, missing))
    broken = any(isinstance(field.spec, ErrorSpec) for field in fields) or not names.spans.keys() <= set(parameters)
    untold = frozenset() if broken else untold_sizes(frozenset(parameters), [field.spec for field in fields])
    for parameter in node.parameters:
        if parameter.id in untold:
            problem = f"no field of `{node.name}` tells the size `{parameter.id}`"
            draft = sink.error(E0204, at=parameter.span, problem=problem)
            draft.remark("a number that is no size, as that of heads, is a parameter of methods: `heads: int`")
