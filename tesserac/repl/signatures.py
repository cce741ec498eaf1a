"""Names described: a function by its signature and documentation, a struct by its fields, an operator by its rule."""

from __future__ import annotations

import inspect

from tesserac.check.model.specs import StructDecl
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.names.builtin_docs import BUILTIN_DOCS
from tesserac.check.names.refs import BuiltinRef, ConstantRef, FunctionRef, OperatorRef, StructRef
from tesserac.repl.engine import Engine
from tesserac.syntax import ast


def describe_name(engine: Engine, name: str, *, doc: bool = False) -> str | None:
    """What a name that is not a value stands for; None for any other text."""
    checker = engine.checker()
    match checker.resolve(name) if name not in engine.workspace.values else None:
        case FunctionRef(owner=owner, name=known):
            node = checker.signature(owner, known).node
            return _lines(_header(checker, node), (node.doc or "") if doc else "")
        case StructRef() as ref:
            declared = checker.own_struct(ref)
            return f"struct {name}\n" if declared is None else _lines(_struct(checker, declared), "")
        case OperatorRef(op=op):
            return _lines("\n".join(name + rule for rule in op.signatures), (inspect.getdoc(op) or "") if doc else "")
        case BuiltinRef(name=known) if known in BUILTIN_DOCS:
            return _lines(BUILTIN_DOCS[known].usage, BUILTIN_DOCS[known].text if doc else "")
        case ConstantRef(owner=owner) if owner == checker.name:
            return f"{checker.text(checker.names.constants[name].span)}\n"
    return None


def _lines(head: str, doc: str) -> str:
    return f"{head}\n{doc.strip()}\n" if doc else f"{head}\n"


def _header(checker: ModuleChecker, node: ast.FunctionDef) -> str:
    """The first line of a definition, as it would be on one line."""
    parameters = [checker.text(p.span) for p in node.parameters]
    first = next((i for i, p in enumerate(node.parameters) if p.keyword_only), None)
    if first is not None:
        parameters.insert(first, "*")
    result = f" -> {checker.text(node.returns.span)}" if node.returns is not None else ""
    return " ".join(f"{node.name}({', '.join(parameters)}){result}".split())


def _struct(checker: ModuleChecker, declared: StructDecl) -> str:
    sizes = f"[{', '.join(declared.parameters)}]" if declared.parameters else ""
    fields = (f"    {field.name}: {checker.text(field.spec.span)}" for field in declared.fields)
    return "\n".join([f"struct {declared.name}{sizes}", *fields])
