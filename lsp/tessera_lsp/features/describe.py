"""What items, operators, dtypes and builtins are, for hover and completion."""

from __future__ import annotations

from tessera_lsp.features.markdown import code, documentation, paragraphs
from tessera_lsp.features.meanings import (
    BuiltinMeaning,
    DTypeMeaning,
    GlobalMeaning,
    ItemMeaning,
    MemberMeaning,
    OperatorMeaning,
    checked_function,
)
from tesserac.base.source import SourceFile, Span
from tesserac.check.names.builtin_docs import BUILTIN_DOCS
from tesserac.ops.registry import Operator
from tesserac.syntax import ast
from tesserac.types.dtype import DType
from tesserac.types.ty import ErrorType

KINDS = {"f": "float", "i": "signed integer", "u": "unsigned integer", "b": "bool", "c": "complex"}


def describe(meaning: GlobalMeaning) -> str:
    match meaning:
        case ItemMeaning():
            return _item(meaning)
        case OperatorMeaning(op):
            return _operator(op)
        case DTypeMeaning(dtype):
            return _dtype(dtype)
        case BuiltinMeaning(name):
            return _builtin(name)


def _builtin(name: str) -> str:
    return paragraphs(code(BUILTIN_DOCS[name].usage), BUILTIN_DOCS[name].text)


def _operator(op: type[Operator]) -> str:
    return paragraphs(code(op.name), documentation(op.__doc__))


def _dtype(dtype: DType) -> str:
    bits = f"{dtype.significand} significant bits" if dtype.kind == "f" else ""
    largest = f"largest value {dtype.largest:g}" if dtype.kind in "fiu" else ""
    details = (f"{KINDS[dtype.kind]}, {dtype.bits} bits stored", bits, largest)
    return paragraphs(code(dtype.name), ", ".join(detail for detail in details if detail))


def _item(item: ItemMeaning) -> str:
    match item.node:
        case ast.FunctionDef() as node:
            return _function(item, node)
        case ast.StructDef() as node:
            return _struct(item, node)
    return code(_text(item, item.node.span))


def _function(item: ItemMeaning, node: ast.FunctionDef) -> str:
    checked = checked_function(node, item.result)
    inferred = f" -> {checked.result.show()}" if checked is not None and node.returns is None else ""
    effects = ", ".join(f"`{effect}`" for effect in sorted(checked.effects)) if checked is not None else ""
    guards = ", ".join(f"`{guard.text}`" for guard in checked.guards) if checked is not None else ""
    return paragraphs(
        code(header(item, node) + inferred),
        documentation(node.doc),
        f"Effects: {effects}" if effects else "",
        f"Checked on entry: {guards}" if guards else "",
    )


def header(item: ItemMeaning, node: ast.FunctionDef) -> str:
    """`def name(...) -> T where ... uses ...`, on one line."""
    after = [*node.where, *(node.uses or ()), *([node.returns] if node.returns else [])]
    if after:
        end = max(part.span.end for part in after)
    else:
        last = node.parameters[-1].span if node.parameters else node.name_span
        end = item.source.text.find(")", item.now(last).end) + 1 - item.shift
    return f"def {_text(item, Span(node.span.file, node.name_span.start, end))}"


def describe_member(member: MemberMeaning) -> str:
    """With its type where it is used, or as it was declared."""
    if isinstance(member.node, ast.FunctionDef):
        return paragraphs(code(header(member.owner, member.node)), documentation(member.node.doc))
    declared = _text(member.owner, member.node.span)
    if member.type is None or isinstance(member.type, ErrorType):
        return code(declared)
    owner = member.owner.source.slice(member.owner.span)
    return paragraphs(code(f"{member.node.name}: {member.type.show()}"), f"A field of `{owner}`: `{declared}`")


def _struct(item: ItemMeaning, node: ast.StructDef) -> str:
    sizes = f"[{', '.join(name.id for name in node.parameters)}]" if node.parameters else ""
    fields = "".join(f"\n    {_text(item, field.span)}" for field in node.fields)
    return paragraphs(code(f"struct {node.name}{sizes}:{fields}"), documentation(node.doc))


def _text(item: ItemMeaning, span: Span) -> str:
    return one_line(item.source, item.now(span))


def one_line(source: SourceFile, span: Span) -> str:
    return " ".join(source.slice(span).split())
