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
    LAW,
    MEANS,
    MEANT,
    NUMERICS,
    PATTERN,
    PREFIX,
    SCHEDULE,
    Alternative,
    alternatives_of,
    is_operator,
)
from tesserac.graph.passes.choose_rewrites import refusal, tell
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.inline import erase_unreached, inline_call
from tesserac.graph.substitute import copy_block, substitute_attr, substitute_type
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value
from tesserac.ir.forms import Guard, tensor_type
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.printer import print_module
from tesserac.ops.elementwise import Add, Mul
from tesserac.types.dims import Dim

COMMUTES = {f"{PREFIX}{operator.name}" for operator in (Add, Mul)}
"""Operators whose operands may be exchanged."""
APART = (NUMERICS, SCHEDULE, MEANT)
"""Attributes of an operation that is computed as it stands."""


@pass_(GRAPH, GRAPH, "match_kernels")
def match_kernels(module: Module) -> Module:
    patterns = [function for function in module.ops if PATTERN in function.attrs]
    if not patterns:
        return module
    for pattern in patterns:
        pattern.attrs[MEANS] = pattern.attrs.pop(PATTERN)
    patterns = _merged(module, [pattern for pattern in patterns if _is_expression(pattern)])
    for function in [f for f in module.ops if f.attrs["entry"] is True]:
        for op in list(function.walk()):
            if op.parent is not None and len(op.results) == 1:
                _replace(module, function, op, patterns)
    erase_unreached(module)
    order_effects(module)
    return module


@pass_(GRAPH, GRAPH, "apply_laws")
def apply_laws(module: Module) -> Module:
    """What the library says of expressions, before derivatives are taken: they are those of what is computed."""
    laws = [function for function in module.ops if LAW in function.attrs]
    if not laws:
        return module
    for law in laws:
        law.attrs[MEANS] = law.attrs.pop(PATTERN)
    sides = {law.symbol for law in laws} | {way.symbol for law in laws for way in alternatives_of(law)}
    patterns = [law for law in laws if _is_expression(law)]
    for function in [f for f in module.ops if f.symbol not in sides]:
        for op in list(function.walk()):
            if op.parent is not None and len(op.results) == 1:
                _replace(module, function, op, patterns)
    for law in laws:
        del law.attrs[ALTERNATIVES]
    erase_unreached(module)
    order_effects(module)
    return module


def _is_expression(pattern: Op) -> bool:
    """Whether a pattern computes one value by operators alone; a parameter by itself is everywhere."""
    made = pattern.body.terminator.operands
    return len(made) == 1 and made[0].defining_op is not None and all(map(is_operator, pattern.body.ops[:-1]))


def _merged(module: Module, patterns: Sequence[Op]) -> list[Op]:
    """Patterns of one expression are one, with the kernels of all."""
    kept: list[Op] = []
    for pattern in patterns:
        for first in kept:
            found = _matched(pattern, first.body.terminator.operands[0])
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
        found = _matched(pattern, op.result)
        if found is None or found.is_read_elsewhere(op):
            continue
        dims = tuple(sorted(found.dims.items()))
        attrs: dict[str, Attr] = {"callee": pattern.symbol, "dims": dims}
        builder, operands = Builder.before(op), found.arguments(pattern)
        call = builder.op(KERNEL_CALL, operands, [op.result.type], attrs, (), [op.result.name])
        op.result.replace_all_uses(call.result)
        for inner in reversed(found.ops):
            inner.erase()
        _take_rewrite(module, function, call, pattern)
        return


def _take_rewrite(module: Module, function: Op, call: Op, pattern: Op) -> None:
    """A kernel with other bits is taken by the program alone."""
    for way in alternatives_of(pattern):
        why = refusal(way, call) if way.rewrite else ""
        if way.rewrite:
            tell(function, pattern, way, not why, why or "it is within its tolerance")
        if way.rewrite and not why:
            inline_call(call, module.lookup(way.symbol), function)
            return


# ------------------------------------------------------------------------------------------------------- the matching


class _Match:
    """What the parameters and sizes of a pattern are in a graph, and the operations that it covers, the root last."""

    def __init__(self) -> None:
        self.dims: dict[str, Dim] = {}
        self.ops: list[Op] = []
        self._values: dict[Value, Value] = {}

    def arguments(self, pattern: Op) -> list[Value]:
        return [self._values[arg] for arg in pattern.body.args]

    def is_whole(self, pattern: Op) -> bool:
        """Whether it is known what all parameters and sizes of the pattern are."""
        sizes = {name for arg in pattern.body.args for dim in tensor_type(arg).dims for name in dim.symbols()}
        return sizes <= self.dims.keys() and all(arg in self._values for arg in pattern.body.args)

    def is_read_elsewhere(self, root: Op) -> bool:
        """Whether anything but the pattern reads what is inside of it."""
        inside = set(self.ops)
        return any(user not in inside for op in self.ops if op is not root for user, _ in op.result.uses)

    def value(self, wanted: Value, found: Value) -> bool:
        if wanted in self._values:
            return self._values[wanted] is found
        if wanted.defining_op is None:
            if not self._type(wanted, found):
                return False
        elif found.defining_op is None or not self._op(wanted.defining_op, found.defining_op):
            return False
        self._values[wanted] = found
        return True

    def _type(self, wanted: Value, found: Value) -> bool:
        own, given = tensor_type(wanted), tensor_type(found)
        if (own.dtype, own.policy, own.rank) != (given.dtype, given.policy, given.rank):
            return False
        for dim, size in zip(own.dims, given.dims, strict=True):
            if dim.symbol is not None:
                self.dims.setdefault(dim.symbol, size)
        return True

    def _op(self, wanted: Op, found: Op) -> bool:
        if not is_operator(found) or len(found.operands) != len(wanted.operands) or len(found.results) != 1:
            return False
        if any(name in found.attrs for name in APART) or not _is_like(wanted, found):
            return False
        operands = self._operands(wanted, found)
        if operands is None or not self._fits(wanted, operands):
            return False
        if substitute_type(wanted.result.type, self.dims) != found.result.type:
            return False
        attrs = {name: substitute_attr(attr, self.dims) for name, attr in wanted.attrs.items()}
        if (wanted.name, attrs) != (found.name, found.attrs) and self._forms(wanted) != self._forms(found):
            return False
        if found not in self.ops:
            self.ops.append(found)
        return True

    def _operands(self, wanted: Op, found: Op) -> Sequence[Value] | None:
        """What the operands of a pattern are: in their order, or in the other one where that gives the same bits."""
        before = (dict(self.dims), list(self.ops), dict(self._values))
        orders = [found.operands, found.operands[::-1]] if found.name in COMMUTES else [found.operands]
        for given in orders:
            if all(self.value(*pair) for pair in zip(wanted.operands, given, strict=True)):
                return given
            self.dims, self.ops, self._values = dict(before[0]), list(before[1]), dict(before[2])
        return None

    def _fits(self, wanted: Op, operands: Sequence[Value]) -> bool:
        """Whether operands have the sizes that the pattern says, now that its symbols are known."""
        pairs = zip(wanted.operands, operands, strict=True)
        return all(substitute_type(own.type, self.dims) == given.type for own, given in pairs)

    def _forms(self, op: Op) -> str:
        """The forms that an operator is, in the sizes of the graph."""
        block = Block([substitute_type(v.type, self.dims) for v in op.operands])
        builder = Builder(block, op.span)
        attrs = {name: substitute_attr(attr, self.dims) for name, attr in op.attrs.items()}
        made = builder.op(op.name, block.args, [substitute_type(op.result.type, self.dims)], attrs)
        builder.op("graph.return", made.results)
        params = tuple(f"x{place}" for place in range(len(block.args)))
        said: dict[str, Attr] = {"sym_name": "f", "params": params, "guards": (), "entry": True}
        alone = Module([Op(OPDEFS["graph.func"], (), (), said, [Region(block)], op.span)])
        return print_module(generalize.run(alone))


def _is_like(wanted: Op, found: Op) -> bool:
    """Whether two operators may have the same forms: elementwise ones under one name have, others are looked at."""
    return wanted.name == found.name or not ({wanted.name, found.name} & COMMUTES)


def _matched(pattern: Op, value: Value) -> _Match | None:
    """How a value is the pattern's; None where it is not."""
    match = _Match()
    found = match.value(pattern.body.terminator.operands[0], value) and match.is_whole(pattern)
    return match if found else None
