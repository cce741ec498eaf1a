"""Algebra as a table: local rewrites of operators, each row an equation that holds to the bit.

Enters: a module of Graph IR. Leaves: the same with every left side replaced by its right side, until none is left. In a
row a call is an operator without static attributes and a name stands for any value.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.neg(%x) : tensor<[N], f32>
        %b = graph.neg(%a) : tensor<[N], f32>
        %c = graph.abs(%b) : tensor<[N], f32>
        graph.return(%c)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %c = graph.abs(%x) : tensor<[N], f32>
        graph.return(%c)
    }
"""

from __future__ import annotations

import ast

from tesserac.graph.dialect import PREFIX
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.rewrite import Pattern, Rewriter, erase_dead, rewrite

RULES: tuple[tuple[str, str], ...] = (
    ("neg(neg(x))", "x"),
    ("abs(neg(x))", "abs(x)"),
    ("abs(abs(x))", "abs(x)"),
    ("bitwise_not(bitwise_not(x))", "x"),
    ("rint(rint(x))", "rint(x)"),
    ("rint(floor(x))", "floor(x)"),
    ("floor(floor(x))", "floor(x)"),
    ("maximum(x, x)", "x"),
    ("minimum(x, x)", "x"),
)


@pass_(GRAPH, GRAPH, "rules")
def apply_rules(module: Module) -> Module:
    rewrite(module, _PATTERNS)
    while erase_dead(module):
        pass
    return module


def parse_term(text: str) -> ast.expr:
    """A side of a rule: names and calls only."""
    term = ast.parse(text, mode="eval").body
    for node in ast.walk(term):
        assert isinstance(node, ast.Name | ast.Call | ast.Load), f"`{text}` is not a term"
    return term


def _pattern(left: ast.expr, right: ast.expr) -> Pattern:
    assert isinstance(left, ast.Call) and isinstance(left.func, ast.Name)
    root = PREFIX + left.func.id

    def apply(op: Op, rewriter: Rewriter) -> bool:
        bound: dict[str, Value] = {}
        if not _matches(left, op.results[0], bound):
            return False
        value = _build(right, bound, op, rewriter)
        if value.type != op.result.type:
            return False
        rewriter.replace(op, (value,))
        return True

    return Pattern(root, apply)


def _matches(term: ast.expr, value: Value, bound: dict[str, Value]) -> bool:
    if isinstance(term, ast.Name):
        return bound.setdefault(term.id, value) is value
    assert isinstance(term, ast.Call) and isinstance(term.func, ast.Name)
    op = value.defining_op
    if op is None or op.name != PREFIX + term.func.id or len(op.operands) != len(term.args):
        return False
    return all(_matches(arg, operand, bound) for arg, operand in zip(term.args, op.operands, strict=True))


def _build(term: ast.expr, bound: dict[str, Value], op: Op, rewriter: Rewriter) -> Value:
    """All operators of the table keep the type of their operands, so new values have the type of the old."""
    if isinstance(term, ast.Name):
        return bound[term.id]
    assert isinstance(term, ast.Call) and isinstance(term.func, ast.Name)
    operands = [_build(arg, bound, op, rewriter) for arg in term.args]
    return rewriter.builder(op).value(PREFIX + term.func.id, operands, op.result.type, hint=op.result.name)


_PATTERNS: tuple[Pattern, ...] = tuple(_pattern(parse_term(left), parse_term(right)) for left, right in RULES)
