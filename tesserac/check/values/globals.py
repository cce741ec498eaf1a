"""Names as values: locals, sizes, constants, functions, dtypes.

Enters: a name of the syntax tree. Leaves: the value it has here, or a diagnostic with the name most likely meant.
"""

from __future__ import annotations

import re

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.scope import Lost
from tesserac.check.names.foreign_names import (
    NEEDLESS_PARAMETERS,
)
from tesserac.check.names.refs import (
    ALGEBRA,
    COLLECTIVES,
    TRANSFORMS,
    BuiltinRef,
    ConstantRef,
    DTypeRef,
    FunctionRef,
    LibraryRef,
    ModuleRef,
    NamespaceRef,
    OperatorRef,
    ParamRef,
    ReportedRef,
    Resolved,
    StructRef,
)
from tesserac.check.state.body import Body
from tesserac.check.values.unknown_names import unknown_name
from tesserac.diag.codes.names import E0203, E0299
from tesserac.diag.codes.shapes import E0306
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.types.ty import DTypeType, ErrorType, FunctionType, IntType

BUILT_IN = "built in"
"""The module that operators are functions of, where they are values."""


def infer_name(body: Body, node: ast.Name) -> typed.Expr:
    scope, name = body.scope, node.id
    if name in scope.bindings:
        return body.local(name, node.span)
    if name in scope.half_bound:
        _explain_lost(body, node, scope.half_bound[name])
        return body.error(node.span)
    if name in body.sizes.untold_symbols:
        draft = body.sink.error(E0306, at=node.span, name=name)
        draft.remark("it may stand in types; take it as an int parameter to have its value")
        return body.error(node.span)
    if name in body.sizes.symbols:
        for size in sorted(body.sizes.symbols[name].symbols()):
            body.mention(size)
        return typed.Static(IntType(body.sizes.symbols[name]), node.span)
    return global_value(body, node, body.rules.resolve(name))


def _explain_lost(body: Body, node: ast.Name, lost: Lost) -> None:
    """Of a name that only a branch or an iteration binds."""
    draft = body.sink.error(E0203, at=node.span, name=node.id)
    draft.note(lost.span, "it has a value only after this")
    if lost.loop is None:
        return
    advice = "a loop may run no iteration: give the name a value before it"
    if not lost.initial:
        draft.remark(advice)
        return
    line = body.rules.text(Span(lost.loop.file, 0, lost.loop.start)).rpartition("\n")[2]
    start, indent = lost.loop.start - len(line), line[: len(line) - len(line.lstrip())]
    before = Span(lost.loop.file, start, start)
    draft.replace(advice, before, f"{indent}{node.id} = {lost.initial}\n", advice=advice, is_one_way=True)


def global_value(body: Body, node: ast.Name, meaning: Resolved | None) -> typed.Expr:
    built_in = _built_in(node, meaning)
    if built_in:
        return typed.Static(FunctionType(BUILT_IN, built_in), node.span)
    match meaning:
        case ConstantRef(owner, name):
            return body.rules.constant(body, owner, name, node.span)
        case FunctionRef(owner, name):
            return typed.Static(FunctionType(owner, name), node.span)
        case ParamRef(owner, name):
            param = body.rules.param(owner, name)
            body.read(param)
            known = not isinstance(param.type, ErrorType)
            return typed.Weight(param.type, node.span, param.name) if known else body.error(node.span)
        case DTypeRef(dtype):
            return typed.Static(DTypeType(dtype), node.span)
        case BuiltinRef() | LibraryRef() | StructRef() | ModuleRef() | NamespaceRef():
            draft = body.sink.error(E0299, at=node.span, feature=f"`{node.id}` as a value")
            _suggest_leaving_out(body, draft, node.span)
            if node.id in _OF_NUMPY:
                draft.replace(f"NumPy's `{node.id}` is the dtype {_OF_NUMPY[node.id]}", node.span, _OF_NUMPY[node.id])
        case ReportedRef():
            pass
        case None:
            told = unknown_name(body, node)
            return body.error(node.span) if told.instead is None else body.expression(told.instead)
    return body.error(node.span)


_OF_NUMPY = {"int": "i64", "float": "f64"}
"""Types of Python that NumPy takes for dtypes."""


def _suggest_leaving_out(body: Body, draft: Draft, value: Span) -> None:
    """`device=device`, where that is nothing that the program has made: it needs no saying."""
    before = body.rules.text(Span(value.file, 0, value.start))
    named = re.search(r",?\s*(\w+)\s*=\s*\Z", before)
    if named is not None and named[1] in NEEDLESS_PARAMETERS:
        whole = Span(value.file, value.start - len(named[0]), value.end)
        draft.replace(f"leave `{named[1]}` out", whole, "", advice=f"leave `{named[1]}` out")


def _built_in(node: ast.Name, meaning: Resolved | None) -> str:
    """The name of a function of the language itself that may be a value; empty where there is none."""
    match meaning:
        case OperatorRef(op):
            return op.name
        case BuiltinRef(name) if name.startswith(ALGEBRA) or name in (*TRANSFORMS, *COLLECTIVES):
            return name
    return ""
