"""What the oracle makes of expressions: names, arithmetic, comparisons, calls, attributes and subscripts."""

from __future__ import annotations

import re
from functools import cache

from tesserac.base.resources import stdlib_files
from tesserac.base.source import SourceFile
from tesserac.ops.registry import OPERATORS
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module
from tests.mutation.annotations import Signatures
from tests.mutation.natives import NATIVES, call_native
from tests.mutation.rules import COMPARISONS, binary, indexed, undivided
from tests.mutation.values import (
    FLOATS,
    INTEGERS,
    NAMES,
    Array,
    Closure,
    DType,
    Rejected,
    Struct,
    StructType,
    Unjudged,
    Value,
    type_of,
)

Names = dict[str, Value]
LITERALS = (ast.IntLiteral, ast.FloatLiteral, ast.BoolLiteral, ast.StringLiteral)
UNJUDGED = (
    "range", "len", "narrow", "print", "transpose", "op", "tuple", "str", "int", "bool", "Axis", "Shape",
    "Key", "isinstance", "key", "next_key",
)  # fmt: skip
"""Names of the language that have no rule here."""


Definition = ast.FunctionDef | ast.StructDef


def definition(name: str) -> Definition | None:
    """What the library calls so, from its text. Only the file that has it is parsed: all take seconds."""
    path = _places().get(name)
    return None if path is None else _definitions(path).get(name)


@cache
def _places() -> dict[str, str]:
    """The file of each definition."""
    return {name: path for path, text in stdlib_files().items() for name in _DEFINED.findall(text)}


@cache
def _definitions(path: str) -> dict[str, Definition]:
    items = parse_module(SourceFile(path, stdlib_files()[path])).module.items
    return {item.name: item for item in items if isinstance(item, Definition)}


_DEFINED = re.compile(r"^(?:def|struct) (\w+)", re.MULTILINE)


class Expressions:
    """The rules of expressions; `call` is of whoever runs functions."""

    def __init__(self) -> None:
        self.globals: Names = {"INF": float("inf")}
        self.constants: dict[str, ast.Expr] = {}

    def call(self, function: Value, positional: list[Value], named: Names) -> Value:
        raise NotImplementedError

    def name(self, name: str, names: Names) -> Value:
        if name in names:
            return names[name]
        if name in self.globals:
            return self.globals[name]
        if name in self.constants:
            return self.expression(self.constants[name], self.globals)
        if name in NAMES:
            return DType(NAMES[name])
        if name in NATIVES:
            return Closure(name, None, {})
        found = definition(name)
        if isinstance(found, ast.StructDef):
            return StructType(found)
        if found is not None:
            return Closure(name, found, self.globals)
        if name in OPERATORS or name in UNJUDGED:
            raise Unjudged(name)
        raise Rejected(f"no `{name}`")

    def expression(self, node: ast.Expr, names: Names) -> Value:
        if isinstance(node, LITERALS):
            return node.value
        if isinstance(node, ast.Name):
            return self.name(node.id, names)
        if isinstance(node, ast.TupleExpr | ast.ListExpr):
            items = [self.expression(item, names) for item in node.items]
            return items if isinstance(node, ast.ListExpr) else tuple(items)
        match node:
            case ast.BinaryOp(left=left, op=op, right=right):
                return self.binary(node, op, left, right, names)
            case ast.UnaryOp(op=op, operand=operand):
                return self.unary(op, self.expression(operand, names))
            case ast.Comparison(first=first, links=links):
                return self.comparison(self.expression(first, names), links, names)
            case ast.Call():
                return self.called(node, names)
            case ast.Attribute(value=value, name=name):
                return self.attribute(self.expression(value, names), name)
            case ast.Subscript():
                return self.subscript(node, names)
            case _:
                return self.rarer(node, names)

    def rarer(self, node: ast.Expr, names: Names) -> Value:
        match node:
            case ast.NoneLiteral():
                return None
            case ast.LogicalOp(left=left, op=op, right=right):
                return self.logical(op, self.expression(left, names), self.expression(right, names))
            case ast.Conditional(then=then, test=test, otherwise=otherwise):
                chosen = self.expression(test, names)
                if not isinstance(chosen, Array):
                    return self.expression(then if chosen else otherwise, names)
                ways = self.expression(then, names), self.expression(otherwise, names)
                if type_of(ways[0]) != type_of(ways[1]):
                    raise Rejected("two types")
                return ways[0]
            case ast.Lambda():
                return Closure("lambda", node, names)
            case ast.ListComprehension(element=element, clauses=(clause,)) if not clause.conditions:
                return self.comprehension(element, clause, names)
            case _:
                raise Unjudged(type(node).__name__)

    def logical(self, op: str, left: Value, right: Value) -> Value:
        for side in (left, right):
            self.condition(side)
        if isinstance(left, Array) or isinstance(right, Array):
            return Array((), DType("bool"))
        return (left and right) if op == "and" else (left or right)

    def comprehension(self, element: ast.Expr, clause: ast.ComprehensionClause, names: Names) -> Value:
        over = self.expression(clause.iterable, names)
        if not isinstance(over, range | list | tuple):
            raise Rejected("not to be iterated")
        results: list[Value] = []
        for value in over:
            inner = dict(names)
            self.assign(clause.target, value, inner)
            results.append(self.expression(element, inner))
        return results

    def binary(self, node: ast.Expr, op: str, left: ast.Expr, right: ast.Expr, names: Names) -> Value:
        first = self.expression(left, names)
        if op == "@" and isinstance(first, DType):
            return Signatures(self).dtype(node, names)
        return self.operate(op, first, self.expression(right, names))

    def operate(self, op: str, left: Value, right: Value) -> Value:
        if isinstance(left, Struct) or isinstance(right, Struct):
            return self.vector(op, left, right)
        if isinstance(left, Array) or isinstance(right, Array):
            if op == "**":
                return left
            return binary(op, left, right)
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            if isinstance(left, list) and isinstance(right, list) and op == "+":
                return [*left, *right]
            raise Rejected("not numbers")
        return self.number(op, left, right)

    def number(self, op: str, left: float, right: float) -> Value:
        if op == "/" and isinstance(left, int) and isinstance(right, int):
            if not right or left % right:
                raise undivided(left, right)
            return left // right
        if op in ("/", "//", "%") and not right:
            raise Rejected("division by zero")
        table = {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
                 "/": lambda: left / right, "//": lambda: left // right, "%": lambda: left % right,
                 "**": lambda: left**right if abs(right) < 50 else 1}  # fmt: skip
        if op not in table:
            raise Unjudged(op)
        return table[op]()

    def vector(self, op: str, left: Value, right: Value) -> Value:
        """Structs of tensors add; a number scales them."""
        if isinstance(left, Struct) and isinstance(right, Struct):
            if op not in "+-" or type_of(left) != type_of(right):
                raise Rejected("two structs")
            return left
        struct, other = (left, right) if isinstance(left, Struct) else (right, left)
        if op not in "*/" or (isinstance(other, Array) and other.shape):
            raise Rejected("a struct is a vector")
        return struct

    def unary(self, op: str, value: Value) -> Value:
        if isinstance(value, Array):
            allowed = {"~": (*INTEGERS, "bool"), "not": ("bool",)}.get(op, (*FLOATS, *INTEGERS, "c64", "c128"))
            if value.dtype.name not in allowed:
                raise Rejected(f"{op} of {value.dtype.name}")
            return value
        if isinstance(value, Struct):
            return value
        if op == "not":
            return not value
        if not isinstance(value, int | float):
            raise Rejected("not a number")
        return -value if op == "-" else value

    def comparison(self, left: Value, links: tuple[ast.ComparisonLink, ...], names: Names) -> Value:
        result: Value = True
        for link in links:
            right = self.expression(link.operand, names)
            if link.op in ("is", "is not"):
                result = (left is right) == (link.op == "is")
            elif link.op not in COMPARISONS:
                raise Unjudged(link.op)
            elif isinstance(left, Array) or isinstance(right, Array):
                result = binary(link.op, left, right)
            else:
                result = _compare(link.op, left, right)
            left = right
        return result

    def called(self, node: ast.Call, names: Names) -> Value:
        name = node.function.id if isinstance(node.function, ast.Name) else ""
        if name in ("range", "len") and name not in names:
            return self.counted(name, [self.expression(a.value, names) for a in node.arguments])
        positional = [self.argument(a, names) for a in node.arguments if a.name is None]
        named = {a.name: self.argument(a, names) for a in node.arguments if a.name is not None}
        if isinstance(node.function, ast.Attribute):
            owner = self.expression(node.function.value, names)
            if isinstance(owner, Array) and node.function.name not in ("T", "shape", "dtype"):
                return self.call(self.name(node.function.name, {}), [owner, *positional], named)
            return self.call(self.attribute(owner, node.function.name), positional, named)
        return self.call(self.expression(node.function, names), positional, named)

    def argument(self, argument: ast.Argument, names: Names) -> Value:
        """An axis may be the name of a dim in quotes."""
        if argument.name in ("axis", "dim") and isinstance(argument.value, ast.StringLiteral):
            return self.name(argument.value.value, names)
        return self.expression(argument.value, names)

    def counted(self, name: str, given: list[Value]) -> Value:
        if name == "len":
            if not isinstance(given[0], tuple | list | Array):
                raise Rejected("a number has no length")
            return len(given[0]) if isinstance(given[0], tuple | list) else given[0].shape[0]
        if any(isinstance(v, Array) for v in given):
            if any(isinstance(v, Array) and (v.shape or v.dtype.name not in INTEGERS) for v in given):
                raise Rejected("not an integer")
            return range(2)  # type: ignore[return-value]
        if not all(isinstance(v, int) for v in given):
            raise Rejected("range of ints")
        return range(*given)  # type: ignore[arg-type, return-value]

    def attribute(self, owner: Value, name: str) -> Value:
        if isinstance(owner, Array):
            if name == "T":
                return call_native("transpose", [owner], {})
            if name in ("shape", "dtype"):
                return owner.shape if name == "shape" else owner.dtype
            return Closure(name, None, {}, native=None)
        if isinstance(owner, Struct):
            if name in owner.fields:
                return owner.fields[name]
            methods = [m for m in owner.of.methods if m.name == name]
            if not methods:
                raise Rejected(f"no field `{name}`")
            return Closure(name, methods[0], self.globals, owner)
        raise Unjudged(f".{name}")

    def subscript(self, node: ast.Subscript, names: Names) -> Value:
        owner = self.expression(node.value, names)
        if isinstance(owner, StructType):
            sizes = [self.expression(a.value, names) for a in node.arguments]
            if len(sizes) != len(owner.definition.parameters) or not all(isinstance(s, int) for s in sizes):
                raise Rejected("sizes of a struct")
            return StructType(owner.definition, tuple(sizes))  # type: ignore[arg-type]
        items = [self.index(a.value, names) for a in node.arguments]
        if isinstance(owner, Array):
            return indexed(owner, items)
        if isinstance(owner, tuple | list) and len(items) == 1 and isinstance(items[0], int):
            if not -len(owner) <= items[0] < len(owner):
                raise Rejected("no such item")
            return owner[items[0]]
        raise Unjudged("a subscript")

    def index(self, node: ast.Expr, names: Names) -> Value:
        if isinstance(node, ast.EllipsisLiteral):
            return Ellipsis  # type: ignore[return-value]
        if isinstance(node, ast.Slice):
            parts = (node.start, node.stop, node.step)
            return slice(*(None if part is None else self.expression(part, names) for part in parts))
        return self.expression(node, names)


def _compare(op: str, left: Value, right: Value) -> bool:
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        if op in ("==", "!="):
            return (left == right) == (op == "==")
        raise Rejected("no order")
    return {
        "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right, "==": left == right,
        "!=": left != right,
    }[op]  # fmt: skip
