"""Assignments: what binds a name, and what rebinds one.

Enters: assignments of the syntax tree. Leaves: typed bindings. A name that a loop carries keeps its type; `m.w = v` and
`x += v` bind the name on the left again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.declarations.annotations import AnnotationReader
from tesserac.check.instances.conform import conform
from tesserac.check.model import typed
from tesserac.check.model.message_text import change_texts, storage_text, structure_text, type_text
from tesserac.check.model.scope import HIDDEN, RESULT, Binding, Pinned
from tesserac.check.model.specs import StructDecl, TensorSpec, TypeSpec
from tesserac.check.model.struct_uses import field_spec
from tesserac.check.names.foreign_names import PLACES_OF
from tesserac.check.names.refs import StructRef
from tesserac.check.places.growing_lists import added_item, explain_rows
from tesserac.check.places.indexing import tuple_position
from tesserac.check.places.masks import Way
from tesserac.check.places.swapped_results import tell_of_swapped_names
from tesserac.check.places.updates import AUGMENTED, updated
from tesserac.check.state.body import Body, is_static
from tesserac.check.state.requests import ask_by_types
from tesserac.check.state.trials import rise
from tesserac.check.values.common_types import converted, meet
from tesserac.check.values.dicts import dict_with
from tesserac.check.values.generic_items import any_item
from tesserac.check.values.tuples import make_tuple, rebuilt, tuple_items
from tesserac.diag.codes.names import E0205, E0208, E0210, E0212, E0220
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import (
    DictType,
    ErrorType,
    FloatType,
    IntType,
    NoneType,
    OperatorType,
    RunIntType,
    StructType,
    TensorType,
    TupleType,
    Type,
)


def check_assignment(body: Body, node: ast.Assignment) -> list[typed.Stmt]:
    value = body.expression(node.value)
    for target in node.targets:
        tell_of_swapped_names(body, target, node.value)
    return [statement for target in node.targets for statement in assign(body, target, value, node.span)]


def assign(body: Body, target: ast.Expr, value: typed.Expr, span: Span) -> list[typed.Stmt]:
    if isinstance(target, ast.Name):
        return bind(body, target.id, target.span, value, span)
    if isinstance(target, ast.TupleExpr | ast.ListExpr):
        return _unpack(body, target, value, span)
    if isinstance(target, ast.Attribute):
        return _assign_field(body, target, value, span)
    if isinstance(target, ast.Subscript):
        return _assign_index(body, target, value, "set", span)
    return []  # the parser has said that this cannot be assigned to


def _assign_index(
    body: Body, target: ast.Subscript, value: typed.Expr, way: Way, span: Span
) -> list[typed.Stmt]:
    """`x[i] = v` rebinds `x` to a tensor that differs there."""
    whole = body.expression(target.value)
    changed = _with_item(body, whole, target, value) or updated(body, whole, target, value, way)
    return [] if isinstance(changed.type, ErrorType) else assign(body, target.value, changed, span)


def _with_item(body: Body, whole: typed.Expr, target: ast.Subscript, value: typed.Expr) -> typed.Expr | None:
    """A tuple or a dict with one item changed; None for anything else."""
    index = target.arguments[0].value
    if isinstance(value.type, ErrorType) or isinstance(whole.type, ErrorType):
        return body.error(target.span)
    if isinstance(whole.type, DictType):
        return dict_with(body, whole, index, value)
    if not isinstance(whole.type, TupleType):
        return None
    position = tuple_position(body, whole.type, [index], whole, is_read=False)
    if position is None:
        return body.error(target.span)
    items = list(tuple_items(whole, target.span))
    items[position] = value
    return make_tuple(items, target.span)


def _assign_field(body: Body, target: ast.Attribute, value: typed.Expr, span: Span) -> list[typed.Stmt]:
    """`m.w = v` rebinds `m` to a struct that differs in one field."""
    struct = body.expression(target.value)
    type_ = struct.type
    position = type_.position(target.name) if isinstance(type_, StructType) else None
    if not isinstance(type_, StructType) or position is None:
        if not isinstance(type_, ErrorType):
            draft = body.sink.error(E0208, at=target.name_span, what=type_text(type_), name=target.name)
            fields = [name for name, _ in type_.fields] if isinstance(type_, StructType) else []
            draft.did_you_mean(target.name, fields, target.name_span)
        return []
    decl = body.rules.own_struct(StructRef(type_.module, type_.name))
    assert decl is not None
    spec = field_spec(decl, type_.dims, position, target.span)
    items = list(tuple_items(struct, target.span))
    items[position] = conform(body, spec, value)
    if isinstance(items[position].type, ErrorType):
        return []
    return assign(body, target.value, rebuilt(struct, items), span)


def bind(body: Body, name: str, at: Span, value: typed.Expr, span: Span) -> list[typed.Stmt]:
    """`name = value`; a name that a loop carries keeps its type."""
    pinned = body.scope.pinned.get(name)
    type_ = value.type
    if pinned is not None:
        kept = kept_type(body, name, at, pinned, type_)
        value, type_ = (value, pinned.binding.type) if kept is None else (converted(body, value, kept), kept)
    body.scope.bind(Binding(name, type_, at, value))
    return [] if is_static(type_) else [typed.Bind(span, name, value)]


def kept_type(body: Body, name: str, at: Span, pinned: Pinned, found: Type) -> Type | None:
    """The type of a name that a loop carries, where it is bound to a value of this type. One that does not hold it
    makes the loop start further up; where nothing holds both there is a diagnostic."""
    before = pinned.binding.type
    kept = meet(body, before, found)
    if kept is None or (kept != before and not rise(body, name, pinned, kept)):
        _report_change(body, name, at, pinned.binding, found, pinned.loop)
        return None
    return kept


def _report_change(body: Body, name: str, at: Span, before: Binding, after: Type, loop: Span) -> None:
    shown = "the result" if name.startswith(RESULT) else name
    body.flow.changed.add(name)
    draft = body.sink.error(E0212, at=at, name=shown, **change_texts(before.type, after))
    if name.startswith(RESULT):
        draft.remark("what a loop returns has one type, wherever it does")
        return
    draft.note(before.span, f"this is {type_text(before.type)} when the loop starts")
    draft.note(loop, "every iteration starts with the same type")
    if item := added_item(before.type, after):
        explain_rows(body, draft, name, item)
    elif structure := structure_text(before.type, after):
        draft.remark(structure)
    if isinstance(after, TupleType):
        _suggest_names(body, draft, name, at, after)
    if before.value is None or not isinstance(after, TensorType):
        return
    if isinstance(before.type, TensorType) and before.type.rank == after.rank > 0 and before.type.dims != after.dims:
        draft.remark("a tensor has one shape in all iterations: make it whole before the loop, `y = zeros(T, D)`, "
                     "and write its parts, `y[t] = row`")  # fmt: skip
    if isinstance(before.type, IntType | RunIntType | FloatType | NoneType) and after.dims:
        _suggest_shape(body, draft, before.value, after)
    elif isinstance(before.type, TensorType) and before.type.dims == after.dims:
        _suggest_start(body, draft, before.value, storage_text(after))


def _suggest_names(body: Body, draft: Draft, name: str, at: Span, after: TupleType) -> None:
    """Several values that are like what a call was given, as a step of an optimiser gives weights and its state: each
    is bound to that again."""
    given = re.findall(r"\w+", body.rules.text(Span(at.file, at.end, sys.maxsize)).partition("\n")[0])
    names: list[str] = []
    for item in after.items:
        own = (n for n in given if n not in names and n in body.scope.bindings and body.scope.bindings[n].type == item)
        names += [next(own, "")]
    if names[:1] == [name] and all(names):
        draft.replace("each is bound again", at, ", ".join(names))


def _suggest_shape(body: Body, draft: Draft, start: typed.Expr, after: TensorType) -> None:
    """A number at every point of the tensor that iterations make of it."""
    text = body.rules.text(start.span)
    inside = any(body.facts.is_index(name) for dim in after.dims for name in dim.symbols())
    if not text or inside:
        return
    dims = ", ".join(map(str, after.dims))
    dtype = "" if (after.dtype, after.policy) == (F32, NO_POLICY) else f", dtype={storage_text(after)}"
    zero = (isinstance(start.type, IntType) and start.type.value == ZERO) or start.type == FloatType(0.0)
    zero = zero or isinstance(start.type, NoneType)
    made = f"zeros({dims}{dtype})" if zero else f"full(({dims},), {text}{dtype})"
    draft.replace(f"start with {type_text(after)}", start.span, made)


def _suggest_start(body: Body, draft: Draft, start: typed.Expr, storage: str) -> None:
    """The value before the loop in the dtype that iterations make of it; a cast there is replaced."""
    text = body.rules.text(start.span)
    own, comma, _ = text.removeprefix("cast(").rpartition(", ")
    written = own if comma and text.startswith("cast(") else text
    if text:
        draft.replace(f"start as {storage}", start.span, f"cast({written}, {storage})")


def _unpack(
    body: Body, target: ast.TupleExpr | ast.ListExpr, value: typed.Expr, span: Span
) -> list[typed.Stmt]:
    parts = _parts_for(body, target, value)
    names = [item for item in target.items if isinstance(item, ast.Name)]
    if len(names) != len(target.items):
        return _unpack_places(body, target.items, parts, value, span)
    if any(name.id in body.scope.pinned for name in names):
        return _unpack_places(body, target.items, parts, value, span)
    for name, part in zip(names, parts, strict=True):
        bind(body, name.id, name.span, part, span)
    if not isinstance(value.type, TupleType) or is_static(value.type):
        return []
    return [typed.BindTuple(span, tuple(name.id for name in names), value)]


def _parts_for(body: Body, target: ast.TupleExpr | ast.ListExpr, value: typed.Expr) -> Sequence[typed.Expr]:
    """One value per target; where they do not fit there is a diagnostic, and each is an error."""
    wanted, item = len(target.items), any_item(body, value, value.span)
    if item is not None:
        return [item] * wanted
    if isinstance(value.type, TupleType):
        if len(value.type.items) == wanted:
            return tuple_items(value, value.span)
        problem = f"{len(value.type.items)} values for {wanted} names"
        draft = body.sink.error(E0205, at=target.span, problem=problem)
        _suggest_nested(body, draft, target, value.type)
        more = len(value.type.items) - wanted
        if more > 0 and not body.rules.text(target.span).endswith((")", "]", ",")):
            end = Span(target.span.file, target.span.end, target.span.end)
            draft.replace("name all of them", end, ", _" * more)
    elif not isinstance(value.type, ErrorType):
        draft = body.sink.error(E0210, at=value.span, expected=f"a tuple of {wanted}", found=type_text(value.type))
        _say_parts(body, draft, value, wanted)
    return [body.error(value.span)] * wanted


def _suggest_nested(body: Body, draft: Draft, target: ast.TupleExpr | ast.ListExpr, type_: TupleType) -> None:
    """As many names as there are values when what is in tuples is counted: the names in tuples as well."""
    names, left = [], [body.rules.text(item.span) for item in target.items]
    for part in type_.items:
        count = len(part.items) if isinstance(part, TupleType) else 1
        taken, left = left[:count], left[count:]
        names.append(f"({', '.join(taken)})" if isinstance(part, TupleType) else ", ".join(taken))
    if not left and all(names) and any(isinstance(part, TupleType) for part in type_.items):
        draft.replace("some of them are tuples", target.span, ", ".join(names))


def _say_parts(body: Body, draft: Draft, value: typed.Expr, wanted: int) -> None:
    """What gives the parts of a tensor, or what PyTorch's function of this name gives beside it."""
    if isinstance(value.type, OperatorType) and value.type.tree.is_spectral:
        draft.remark("its parts have names: `.U`, `.S` and `.V`")
    if not isinstance(value.type, TensorType):
        return
    text = body.rules.text(value.span)
    called = re.match(r"(?:\w+\.)?(\w+)\(", text)
    if called is not None and called[1] in PLACES_OF:
        places = PLACES_OF[called[1]]
        draft.remark(f"`{called[1]}` gives the elements alone; their places are what `{places}` gives")
        if value.type.dims == (Dim.const(wanted),):
            draft.replace("take it apart", value.span, f"unbind({text})")
        elif places == f"arg{called[1]}":
            both = f"{text}, {text[: called.start(1)]}{places}{text[called.end(1) :]}"
            draft.replace("ask for both", value.span, both)
    else:
        draft.remark("the parts of a tensor along its first axis are `unbind(x)`")
        if value.type.dims[:1] == (Dim.const(wanted),):
            draft.replace("take it apart", value.span, f"unbind({text})")


def _unpack_places(
    body: Body, targets: Sequence[ast.Expr], parts: Sequence[typed.Expr], value: typed.Expr, span: Span
) -> list[typed.Stmt]:
    """`x[0], y = a, b`: all values are there before the first of them is put in its place."""
    hidden = [f"{HIDDEN}{target.span.start}" for target in targets]
    block: list[typed.Stmt] = []
    if isinstance(value.type, TupleType) and not is_static(value.type):
        block.append(typed.BindTuple(span, tuple(hidden), value))
    for name, target, part in zip(hidden, targets, parts, strict=True):
        body.scope.bind(Binding(name, part.type, part.span, part))
        block += assign(body, target, body.local(name, part.span), span)
        body.scope.bindings.pop(name)
    return block


class _LocalNames:
    """Names in an annotation inside a body: known sizes, or a new name for the size found there."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self.fresh: dict[str, Dim] = {}

    def is_size(self, name: str) -> bool:
        return name in self._body.sizes.symbols

    def alias(self, name: str) -> ast.Expr | None:
        return self._body.rules.alias(name)

    def is_reported(self, name: str) -> bool:
        return self._body.rules.is_reported(name)

    def struct(self, node: ast.Expr) -> StructDecl | None:
        return self._body.rules.struct(node)

    def type_names(self, module: str = "") -> Sequence[str]:
        return self._body.rules.type_names(module)

    def dim(self, name: str, span: Span) -> Dim | None:
        known = self._body.sizes.symbols.get(name)
        if known is None:
            self.fresh[name] = Dim.sym(name)
        return known or Dim.sym(name)


def check_annotated(body: Body, node: ast.AnnotatedAssignment) -> list[typed.Stmt]:
    names = _LocalNames(body)
    reader = AnnotationReader(names, body.sink)
    spec = reader.read(node.annotation, node.target.span)
    ask_by_types(body, reader.attributes)
    if node.value is None or not isinstance(node.target, ast.Name):
        body.sink.error(E0220, at=node.span).remark("a name gets its type together with its value: `x: T = value`")
        return []
    value = body.expression(node.value)
    _name_sizes(body, names.fresh, spec, value)
    return bind(body, node.target.id, node.target.span, conform(body, spec, value), node.span)


def _name_sizes(body: Body, fresh: dict[str, Dim], spec: TypeSpec, value: typed.Expr) -> None:
    """A new dim name in the annotation is from here on a name of the size it meets."""
    if isinstance(spec, TensorSpec) and isinstance(value.type, TensorType) and len(spec.dims) == value.type.rank:
        for dim, found in zip(spec.dims, value.type.dims, strict=True):
            if dim.dim.symbol in fresh and dim.dim.symbol is not None:
                body.sizes.symbols.setdefault(dim.dim.symbol, found)


def check_augmented(body: Body, node: ast.AugmentedAssignment) -> list[typed.Stmt]:
    if isinstance(node.target, ast.Subscript) and node.op in AUGMENTED and _is_tensor(body, node.target.value):
        return _assign_index(body, node.target, body.expression(node.value), AUGMENTED[node.op], node.span)
    combined = body.expression(ast.BinaryOp(node.span, node.target, node.op, node.op_span, node.value))
    if isinstance(node.target, ast.Subscript):
        return _assign_index(body, node.target, combined, "rebind", node.span)
    return assign(body, node.target, combined, node.span)


def _is_tensor(body: Body, node: ast.Expr) -> bool:
    return isinstance(body.expression(node).type, TensorType | ErrorType)
