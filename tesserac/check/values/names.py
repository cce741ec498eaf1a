"""Names in a function that only a call can complete.

Enters: a function with parameters that have no annotation. Leaves: diagnostics for names that nothing defines: the
one kind of mistake that shows without types. All other functions have their names checked with their types.
"""

from __future__ import annotations

from tesserac.check.model.control import assigned_names
from tesserac.check.model.scope import Binding
from tesserac.check.model.specs import Signature, StructSpec
from tesserac.check.names.struct_items import SELF
from tesserac.check.state.body import Body
from tesserac.check.values.kinds import asks_kind
from tesserac.check.values.unknown_names import tell_of_other_module, unknown_name
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tesserac.types.ty import ErrorType


def check_names(body: Body, signature: Signature) -> None:
    """Reports every name in the body that is neither local nor known outside."""
    node = signature.node
    bound = [parameter.name for parameter in signature.parameters] + assigned_names(node.body)
    for name in [*bound, *signature.symbols, *_inner_names(node)]:
        body.scope.bind(Binding(name, ErrorType(), node.name_span, None))
    skipped, own = _annotation_names(node), _own_names(signature)
    calls: dict[ast.Name, ast.Call] = {}
    for statement in node.body:
        for inner in descendants(statement):
            if isinstance(inner, ast.Call) and isinstance(inner.function, ast.Name):
                calls[inner.function] = inner
            if isinstance(inner, ast.Call) and isinstance(inner.function, ast.Attribute):
                tell_of_other_module(body, inner.function, inner)
            if isinstance(inner, ast.Attribute) and tell_of_other_module(body, inner) is not None:
                continue  # what is within it would be told at the same place, in fewer words
            if isinstance(inner, ast.Name) and inner not in skipped and not _is_known(body, inner.id):
                unknown_name(body, inner, calls.get(inner), own=own)


def _own_names(signature: Signature) -> frozenset[str]:
    """Those of the fields and methods of the struct that a function is a method of."""
    first = signature.parameters[0] if signature.parameters else None
    if first is None or first.name != SELF or not isinstance(first.spec, StructSpec):
        return frozenset()
    return frozenset(field.name for field in first.spec.decl.fields) | first.spec.decl.methods


def _is_known(body: Body, name: str) -> bool:
    return name in body.scope.bindings or body.rules.resolve(name) is not None


def _inner_names(node: ast.FunctionDef) -> list[str]:
    """What functions inside bind, and targets of comprehensions."""
    names: list[str] = []
    for inner in descendants(node):
        if isinstance(inner, ast.Lambda | ast.FunctionDef):
            names += [parameter.name for parameter in inner.parameters]
            names += assigned_names(inner.body) if isinstance(inner, ast.FunctionDef) else []
        elif isinstance(inner, ast.ComprehensionClause):
            names += [name.id for name in descendants(inner.target) if isinstance(name, ast.Name)]
    return names


def _annotation_names(node: ast.FunctionDef) -> set[ast.Name]:
    """Names in annotations, policies and `isinstance`, which follow rules of their own."""
    found: set[ast.Name] = set()
    for inner in descendants(node):
        if isinstance(inner, ast.AnnotatedAssignment):
            found.update(n for n in descendants(inner.annotation) if isinstance(n, ast.Name))
        elif isinstance(inner, ast.FunctionDef) and inner is not node:
            signature = [*(p.annotation for p in inner.parameters), inner.returns, *inner.where]
            found.update(n for part in signature if part for n in descendants(part) if isinstance(n, ast.Name))
        elif isinstance(inner, ast.BinaryOp) and inner.op == "@" and isinstance(inner.right, ast.Call | ast.Name):
            head = inner.right.function if isinstance(inner.right, ast.Call) else inner.right
            found.update({head} if isinstance(head, ast.Name) else ())
        elif asks_kind(inner):
            found.update(n for n in descendants(inner.arguments[-1]) if isinstance(n, ast.Name))
    return found
