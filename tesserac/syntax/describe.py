"""Nodes and tokens in the words of a message: "a call", "`if`", "the end of the line"."""

from __future__ import annotations

from tesserac.syntax import ast
from tesserac.syntax.lexer import Token

_EXPRESSIONS: dict[type, str] = {
    ast.Name: "a name",
    ast.IntLiteral: "a number",
    ast.FloatLiteral: "a number",
    ast.NoneLiteral: "`None`",
    ast.EllipsisLiteral: "`...`",
    ast.StringLiteral: "a string",
    ast.FString: "an f-string",
    ast.TupleExpr: "a tuple",
    ast.ListExpr: "a list",
    ast.DictExpr: "a dict",
    ast.ListComprehension: "a comprehension",
    ast.DictComprehension: "a comprehension",
    ast.Comparison: "a comparison",
    ast.Conditional: "a conditional expression",
    ast.Lambda: "a lambda",
    ast.Call: "the result of a call",
    ast.Attribute: "an attribute",
    ast.Subscript: "an element",
    ast.Slice: "a slice",
    ast.FunctionType: "a function type",
}

_STATEMENTS: dict[type, str] = {
    ast.ExpressionStatement: "an expression on its own",
    ast.Assignment: "an assignment",
    ast.AnnotatedAssignment: "a name without a value",
    ast.AugmentedAssignment: "an update",
    ast.Import: "`import`",
    ast.FromImport: "`from ... import`",
    ast.ParamDecl: "`param`",
    ast.BufferDecl: "`buffer`",
    ast.StructDef: "`struct`",
    ast.TestBlock: "`test`",
    ast.FunctionDef: "`def`",
    ast.ConstDef: "a constant",
}

_TOKENS = {
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "_NEWLINE": "the end of the line",
    "_INDENT": "an indented block",
    "_DEDENT": "the end of the block",
    "$END": "the end of the item",
    "AUGMENTED": "an update such as `+=`",
    "_WHERE": "`where`",
    "_USES": "`uses`",
}


def describe_expression(expression: ast.Expr) -> str:
    if isinstance(expression, ast.BoolLiteral):
        return f"`{expression.value}`"
    if isinstance(expression, ast.UnaryOp | ast.BinaryOp | ast.LogicalOp):
        return f"the result of `{expression.op}`"
    return _EXPRESSIONS[type(expression)]


def dotted_name(node: ast.Expr) -> str:
    """`kernel.auto` for itself and for calls of it."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, name=name):
            return f"{dotted_name(value)}.{name}"
        case ast.Call(function=function):
            return dotted_name(function)
    return "of this form"


def describe_statement(statement: ast.Stmt | ast.Item) -> str:
    """Statements that are not in the table are named by their keyword."""
    return _STATEMENTS.get(type(statement), f"`{type(statement).__name__.lower()}`")


def describe_kind(kind: str) -> str:
    """A terminal of the grammar, as something that was expected."""
    return _TOKENS.get(kind, f"`{kind}`")


def describe_token(token: Token) -> str:
    """A token, as something that was found."""
    if token.kind in ("NAME", "INT", "FLOAT", "AUGMENTED", "RESERVED") or (token.kind.startswith("_") and token.text):
        return f"`{token.text}`" if len(token.text) <= 30 else describe_kind(token.kind)
    return describe_kind(token.kind)
