"""Types of statements.

Enters: the statements of a body, in order. Leaves: typed statements in which branches and loops say what they carry.
A `return` in a branch takes what follows the branch into the other one, so that control stays structured.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check import typed
from tesserac.check.annotations import AnnotationReader
from tesserac.check.body import Body, is_static
from tesserac.check.conditions import decides_none, require_condition
from tesserac.check.conform import agree, conform
from tesserac.check.control import always_returns, may_return
from tesserac.check.loops import check_loop
from tesserac.check.printing import check_assert, check_print, is_print
from tesserac.check.resolve import StructRef
from tesserac.check.scope import Binding, Scope
from tesserac.check.specs import StructDecl, TensorSpec, TypeSpec, field_spec
from tesserac.check.tuples import rebuilt, tuple_items
from tesserac.check.words import type_text
from tesserac.diag.codes.names import E0205, E0208, E0210, E0211, E0212, E0299, W0201
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import BoolType, ErrorType, NoneType, StructType, TensorType, TupleType, Type

_UNSUPPORTED = {
    ast.Break: "break",
    ast.Continue: "continue",
    ast.With: "with",
    ast.FunctionDef: "a function inside a function",
}


def check_block(body: Body, statements: Sequence[ast.Stmt]) -> typed.Block:
    """The typed form of statements in sequence."""
    block: list[typed.Stmt] = []
    for position, statement in enumerate(statements):
        rest = statements[position + 1 :]
        if isinstance(statement, ast.If):
            block += _check_if(body, statement, rest)
            if may_return(statement):
                return tuple(block)
            continue
        block += _check_statement(body, statement)
        if isinstance(statement, ast.Return):
            return tuple(block)
    return tuple(block)


def _check_statement(body: Body, node: ast.Stmt) -> list[typed.Stmt]:
    match node:
        case ast.Assignment():
            return _assignment(body, node)
        case ast.AnnotatedAssignment():
            return _annotated(body, node)
        case ast.AugmentedAssignment():
            return _augmented(body, node)
        case ast.ExpressionStatement():
            return _expression(body, node)
        case ast.Return():
            return _return(body, node)
        case ast.Assert():
            return check_assert(body, node)
        case ast.For() | ast.While():
            return check_loop(body, node)
        case ast.Pass() | ast.ErrorStatement():
            return []
    body.sink.error(E0299, at=node.span, feature=f"`{_UNSUPPORTED[type(node)]}`")
    if isinstance(node, ast.With):
        return list(body.rules.block(body, node.body))
    return []


# ----------------------------------------------------------------------------------------------- assignment


def _assignment(body: Body, node: ast.Assignment) -> list[typed.Stmt]:
    value = body.expression(node.value)
    return [statement for target in node.targets for statement in _assign(body, target, value, node.span)]


def _assign(body: Body, target: ast.Expr, value: typed.Expr, span: Span) -> list[typed.Stmt]:
    if isinstance(target, ast.Name):
        return bind(body, target.id, target.span, value, span)
    if isinstance(target, ast.TupleExpr | ast.ListExpr):
        return _unpack(body, target, value, span)
    if isinstance(target, ast.Attribute):
        return _assign_field(body, target, value, span)
    body.sink.error(E0299, at=target.span, feature="`x[i] = v`")
    return []


def _assign_field(body: Body, target: ast.Attribute, value: typed.Expr, span: Span) -> list[typed.Stmt]:
    """`m.w = v` rebinds `m` to a struct that differs in one field."""
    struct = body.expression(target.value)
    type_ = struct.type
    position = type_.position(target.name) if isinstance(type_, StructType) else None
    if not isinstance(type_, StructType) or position is None:
        if not isinstance(type_, ErrorType):
            body.sink.error(E0208, at=target.name_span, what=type_text(type_), name=target.name)
        return []
    decl = body.rules.own_struct(StructRef(type_.module, type_.name))
    assert decl is not None
    spec = field_spec(decl, type_.dims, position, target.span)
    items = list(tuple_items(struct, target.span))
    items[position] = conform(body, spec, value)
    if isinstance(items[position].type, ErrorType):
        return []
    return _assign(body, target.value, rebuilt(struct, items), span)


def bind(body: Body, name: str, at: Span, value: typed.Expr, span: Span) -> list[typed.Stmt]:
    """`name = value`; a name that a loop carries keeps its type."""
    pinned = body.scope.pinned.get(name)
    type_ = value.type
    if pinned is not None:
        kept = agree(pinned.binding.type, type_)
        if kept is None:
            _report_change(body, name, at, pinned.binding, type_, pinned.loop)
            kept = pinned.binding.type
        type_ = kept
    body.scope.bind(Binding(name, type_, at, value))
    return [] if is_static(type_) else [typed.Bind(span, name, value)]


def _report_change(body: Body, name: str, at: Span, before: Binding, after: Type, loop: Span) -> None:
    draft = body.sink.error(E0212, at=at, name=name, before=before.type.show(), after=after.show())
    draft.note(before.span, f"this is {type_text(before.type)} when the loop starts")
    draft.note(loop, "every turn starts with the same type")
    if not isinstance(before.type, TensorType):
        draft.remark(f"start from a tensor, for example `{name} = cast(0.0, f32)` or `zeros(...)`")


def _unpack(
    body: Body, target: ast.TupleExpr | ast.ListExpr, value: typed.Expr, span: Span
) -> list[typed.Stmt]:
    type_ = value.type
    names = [item for item in target.items if isinstance(item, ast.Name)]
    if len(names) != len(target.items):
        body.sink.error(E0299, at=target.span, feature="unpacking into anything but names")
        return []
    if isinstance(type_, ErrorType):
        type_ = TupleType((ErrorType(),) * len(names))
    if not isinstance(type_, TupleType):
        body.sink.error(E0210, at=value.span, expected=f"a tuple of {len(names)}", found=type_text(type_))
        type_ = TupleType((ErrorType(),) * len(names))
    if len(type_.items) != len(names):
        problem = f"{len(type_.items)} values for {len(names)} names"
        body.sink.error(E0205, at=target.span, problem=problem)
        return []
    parts = tuple_items(value, value.span) if isinstance(value.type, TupleType) else [value] * len(names)
    for name, part in zip(names, parts, strict=True):
        bind(body, name.id, name.span, part, span)
    if is_static(type_):
        return []
    return [typed.BindTuple(span, tuple(name.id for name in names), value)]


class _LocalNames:
    """Names in an annotation inside a body: known sizes, or a new name for the size found there."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self.fresh: dict[str, Dim] = {}

    def alias(self, name: str) -> ast.Expr | None:
        return self._body.rules.alias(name)

    def is_reported(self, name: str) -> bool:
        return self._body.rules.is_reported(name)

    def struct(self, node: ast.Expr) -> StructDecl | None:
        return self._body.rules.struct(node)

    def dim(self, name: str, span: Span) -> Dim | None:
        known = self._body.symbols.get(name)
        if known is None:
            self.fresh[name] = Dim.sym(name)
        return known or Dim.sym(name)


def _annotated(body: Body, node: ast.AnnotatedAssignment) -> list[typed.Stmt]:
    names = _LocalNames(body)
    spec = AnnotationReader(names, body.sink).read(node.annotation, node.target.span)
    if node.value is None or not isinstance(node.target, ast.Name):
        body.sink.error(E0299, at=node.span, feature="an annotation without a value")
        return []
    value = body.expression(node.value)
    _name_sizes(body, names.fresh, spec, value)
    return bind(body, node.target.id, node.target.span, conform(body, spec, value), node.span)


def _name_sizes(body: Body, fresh: dict[str, Dim], spec: TypeSpec, value: typed.Expr) -> None:
    """A new dim name in the annotation is from here on a name of the size it meets."""
    if isinstance(spec, TensorSpec) and isinstance(value.type, TensorType) and len(spec.dims) == value.type.rank:
        for dim, found in zip(spec.dims, value.type.dims, strict=True):
            if dim.dim.symbol in fresh and dim.dim.symbol is not None:
                body.symbols.setdefault(dim.dim.symbol, found)


def _augmented(body: Body, node: ast.AugmentedAssignment) -> list[typed.Stmt]:
    combined = ast.BinaryOp(node.span, node.target, node.op, node.op_span, node.value)
    return _assign(body, node.target, body.expression(combined), node.span)


def _expression(body: Body, node: ast.ExpressionStatement) -> list[typed.Stmt]:
    if isinstance(node.value, ast.StringLiteral | ast.EllipsisLiteral):
        return []
    if is_print(body, node.value):
        return check_print(body, node.value)
    before = len(body.effects)
    value = body.expression(node.value)
    if isinstance(value.type, ErrorType):
        return []
    has_effect = len(body.effects) > before or _calls_with_effect(body, value)
    if not has_effect:
        body.sink.warning(W0201, at=node.span).remark("bind it to a name, or remove the statement")
        return []
    return [typed.Evaluate(node.span, value)]


def _calls_with_effect(body: Body, value: typed.Expr) -> bool:
    return isinstance(value, typed.Call) and bool(body.effects)


# ---------------------------------------------------------------------------------------- return, branches


def _return(body: Body, node: ast.Return) -> list[typed.Stmt]:
    if body.loops:
        draft = body.sink.error(E0211, at=node.span, problem="`return` inside a loop")
        draft.remark("bind the result to a name that lives before the loop, and return it after")
        return []
    value = typed.Static(NoneType(), node.span) if node.value is None else body.expression(node.value)
    if body.result_spec is not None:
        value = conform(body, body.result_spec, value)
    if body.dead == 0:
        body.returns.append(value)
    return [typed.Return(node.span, value)]


def _check_if(body: Body, node: ast.If, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    test = require_condition(body, body.expression(node.test))
    if isinstance(test.type, BoolType):
        return _decided_if(body, node, test.type.value, rest)
    if may_return(node):
        return _returning_if(body, node, test, rest)
    before = body.scope
    body.scope = then_scope = before.snapshot()
    then = body.rules.block(body, node.body)
    body.scope = else_scope = before.snapshot()
    otherwise = body.rules.block(body, node.otherwise)
    body.scope = before
    results = _join(body, then_scope, else_scope)
    if isinstance(test.type, ErrorType):
        return []
    return [typed.If(node.span, test, then, otherwise, results)]


def _decided_if(body: Body, node: ast.If, truth: bool, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    """Both branches are checked, one is kept; a test for None rules out the other."""
    kept, other = (node.body, node.otherwise) if truth else (node.otherwise, node.body)
    if not decides_none(node.test):
        saved, body.scope = body.scope, body.scope.snapshot()
        body.dead += 1
        body.rules.block(body, other)
        body.dead -= 1
        body.scope = saved
    if not may_return(node):
        return list(body.rules.block(body, kept))
    return list(body.rules.block(body, kept if always_returns(kept) else (*kept, *rest)))


def _returning_if(body: Body, node: ast.If, test: typed.Expr, rest: Sequence[ast.Stmt]) -> list[typed.Stmt]:
    """What follows belongs to each branch that does not return."""
    before = body.scope
    blocks = []
    for branch in (node.body, node.otherwise):
        body.scope = before.snapshot()
        blocks.append(body.rules.block(body, branch if always_returns(branch) else (*branch, *rest)))
    body.scope = before
    if isinstance(test.type, ErrorType):
        return []
    return [typed.If(node.span, test, blocks[0], blocks[1], ())]


def _join(body: Body, then: Scope, otherwise: Scope) -> tuple[typed.Carried, ...]:
    """Names after a branch: those bound on both sides, with one type; those bound on one side have no value."""
    results: list[typed.Carried] = []
    before = dict(body.scope.bindings)
    for name in dict.fromkeys([*then.bindings, *otherwise.bindings]):
        left, right = then.bindings.get(name), otherwise.bindings.get(name)
        if left is right and left is not None:
            continue
        if left is None or right is None:
            only = left or right
            assert only is not None
            body.scope.lose(name, only.span)
            continue
        carried = _join_name(body, name, left, right, before.get(name))
        results += [] if carried is None or is_static(carried.type) else [carried]
    return tuple(results)


def _join_name(
    body: Body, name: str, left: Binding, right: Binding, before: Binding | None
) -> typed.Carried | None:
    type_ = agree(left.type, right.type)
    later = right if right is not before else left
    if type_ is None:
        other = left if later is right else right
        draft = body.sink.error(E0212, at=later.span, name=name, before=other.type.show(), after=later.type.show())
        draft.note(other.span, f"here it is {type_text(other.type)}")
        type_ = ErrorType()
    body.scope.bind(Binding(name, type_, later.span, None))
    return typed.Carried(name, type_)
