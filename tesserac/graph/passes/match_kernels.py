"""Parts of a graph that are what a kernel implements become calls of it: an operator, or several in one another.

Enters: a module without calls but of kernels, in which functions that are patterns say what kernels of the program
implement, each an expression of its parameters. Leaves: entries in which every such expression is a call of the
pattern, so that `choose_kernels.py` may take one of its kernels, and no patterns. Two operators are the same where they
generalise to the same forms. What is also read elsewhere is no part of an expression, and what a program schedules
itself, or what a kernel is compared with, stays as it is.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[2*N], f32>):
        %y = graph.exp(%x) : tensor<[2*N], f32>
        graph.return(%y)
    }
    graph.func @pattern {
          alternatives = [#alternative<kernel="k", symbol="", target="", rewrite=false, guards=[], why="no">],
          entry = false, guards = [], params = ["v"], pattern = "exp"} {
      ^(%v: tensor<[M], f32>):
        %0 = graph.exp(%v) : tensor<[M], f32>
        graph.return(%0)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[2*N], f32>):
        %y = graph.kernel(%x) {callee = "pattern", dims = [["M", `2*N`]]} : tensor<[2*N], f32>
        graph.return(%y)
    }
    graph.func @pattern {
          alternatives = [#alternative<kernel="k", symbol="", target="", rewrite=false, guards=[], why="no">],
          entry = false, guards = [], means = "exp", params = ["v"]} {
      ^(%v: tensor<[M], f32>):
        %0 = graph.exp(%v) : tensor<[M], f32>
        graph.return(%0)
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.graph.dialect import (
    ALTERNATIVES,
    KERNEL_CALL,
    MEANS,
    PATTERN,
    Alternative,
    alternatives_of,
)
from tesserac.graph.matching import is_part, matched
from tesserac.graph.passes.choose_rewrites import refusal, tell
from tesserac.graph.passes.inline import erase_unreached, inline_call
from tesserac.graph.substitute import copy_block, substitute_attr
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Module, Op, Region, Value
from tesserac.ir.effects import COMPARES
from tesserac.ir.forms import Guard
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import GRAPH, pass_
from tesserac.types.dims import Dim


@pass_(GRAPH, GRAPH, "match_kernels")
def match_kernels(module: Module) -> Module:
    patterns = [function for function in module.ops if PATTERN in function.attrs]
    if not patterns:
        return module
    for pattern in patterns:
        pattern.attrs[MEANS] = pattern.attrs.pop(PATTERN)
    patterns = _merged(module, [pattern for pattern in patterns if is_expression(pattern)])
    for function in [f for f in module.ops if f.attrs["entry"] is True]:
        for op in list(function.walk()):
            if op.parent is not None and len(op.results) == 1 and not _is_only_compared(op.result):
                _replace(module, function, op, patterns)
    erase_unreached(module)
    order_effects(module)
    return module


def _is_only_compared(value: Value) -> bool:
    """Whether a debug build computes a value for nothing but to compare it with what a kernel gives: that is the
    meaning itself, never another kernel of it."""
    users = [user for user, _ in value.uses]
    return bool(users) and all(COMPARES in user.attrs or _leads_to_comparisons(user) for user in users)


def _leads_to_comparisons(op: Op) -> bool:
    return len(op.results) == 1 and not op.regions and _is_only_compared(op.result)


def is_expression(pattern: Op) -> bool:
    """Whether a pattern computes one value by operators and sizes alone; a parameter by itself is everywhere."""
    made = pattern.body.terminator.operands
    return len(made) == 1 and made[0].defining_op is not None and all(map(is_part, pattern.body.ops[:-1]))


def _merged(module: Module, patterns: Sequence[Op]) -> list[Op]:
    """Patterns of one expression are one, with the kernels of all."""
    kept: list[Op] = []
    for pattern in patterns:
        for first in kept:
            found = matched(pattern, first.body.terminator.operands[0])
            if found is not None and found.arguments(pattern) == list(first.body.args):
                ways = [_seen_from(module, way, first, found.dims) for way in alternatives_of(pattern)]
                first.attrs[ALTERNATIVES] = (*alternatives_of(first), *ways)
                break
        else:
            kept.append(pattern)
    return kept


def _seen_from(module: Module, way: Alternative, first: Op, dims: dict[str, Dim]) -> Alternative:
    """An alternative of one pattern for another one that is the same, in that one's sizes."""
    body = copy_block(module.lookup(way.symbol).body, {}, dims)
    symbol = f"{first.symbol}.{way.symbol}"
    attrs: dict[str, Attr] = {**module.lookup(way.symbol).attrs, "sym_name": symbol}
    module.block.append(Op(OPDEFS["graph.func"], (), (), attrs, [Region(body)], first.span))
    guards = [substitute_attr(guard, dims) for guard in way.guards]
    return replace(way, symbol=symbol, guards=tuple(guard for guard in guards if isinstance(guard, Guard)))


def _replace(module: Module, function: Op, op: Op, patterns: Sequence[Op]) -> None:
    for pattern in patterns:
        found = matched(pattern, op.result)
        if found is None or found.is_read_elsewhere(op):
            continue
        dims = tuple(sorted(found.dims.items()))
        attrs: dict[str, Attr] = {"callee": pattern.symbol, "dims": dims}
        builder, operands = Builder.before(op), found.arguments(pattern)
        call = builder.op(KERNEL_CALL, operands, [op.result.type], attrs, (), [op.result.name])
        op.result.replace_all_uses(call.result)
        for inner in reversed(found.ops):
            inner.erase()
        take_rewrite(module, function, call, pattern)
        return


def take_rewrite(module: Module, function: Op, call: Op, pattern: Op) -> None:
    """A kernel with other bits is taken by the program alone."""
    for way in alternatives_of(pattern):
        why = refusal(way, call) if way.rewrite else ""
        if way.rewrite:
            tell(function, pattern, way, not why, why or "it is within its tolerance")
        if way.rewrite and not why:
            inline_call(call, module.lookup(way.symbol), function)
            return
