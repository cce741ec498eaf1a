"""Parses pieces of programs for tests, and shows trees briefly."""

from __future__ import annotations

from tesserac.base.source import SourceFile
from tesserac.syntax import ast
from tesserac.syntax.parse import ParseResult, parse_module
from tesserac.syntax.walk import field_names


def parse(text: str) -> ParseResult:
    return parse_module(SourceFile("t.tess", text))


def items(text: str) -> tuple[ast.Item, ...]:
    result = parse(text)
    assert not result.diagnostics, [d.title for d in result.diagnostics]
    return result.module.items


def expression(text: str) -> ast.Expr:
    (item,) = items(f"value = {text}\n")
    assert isinstance(item, ast.ConstDef)
    return item.value


def function(text: str) -> ast.FunctionDef:
    (item,) = items(text)
    assert isinstance(item, ast.FunctionDef)
    return item


def body(text: str) -> tuple[ast.Stmt, ...]:
    lines = "\n".join(f"    {line}" for line in text.strip("\n").splitlines())
    return function(f"def f(x):\n{lines}\n").body


def short(node: object) -> str:
    """A tree in one line, spans left out: `BinaryOp(x * 2)`."""
    match node:
        case ast.Name():
            return node.id
        case ast.IntLiteral() | ast.BoolLiteral() | ast.StringLiteral():
            return repr(node.value)
        case ast.FloatLiteral():
            return node.text
        case ast.NoneLiteral() | ast.EllipsisLiteral():
            return "None" if isinstance(node, ast.NoneLiteral) else "..."
        case ast.UnaryOp():
            return f"({node.op} {short(node.operand)})"
        case ast.BinaryOp() | ast.LogicalOp():
            return f"({short(node.left)} {node.op} {short(node.right)})"
        case ast.Argument():
            return short(node.value) if node.name is None else f"{node.name}={short(node.value)}"
        case ast.Node():
            fields = [short(getattr(node, f)) for f in field_names(type(node)) if not f.endswith("_span")]
            return f"{type(node).__name__}({', '.join(fields)})"
        case tuple():
            return f"[{' '.join(short(item) for item in node)}]"
        case _:
            return repr(node)
