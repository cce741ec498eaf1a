"""Debug builds: an operator that makes inf or NaN of finite numbers ends the call, and is named.

Behind every operator with numbers in and out stands an assertion: its results are finite, or an operand was not. It
says the operator and its place in the program, on every target. What is computed keeps its bits.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %0 = graph.log(%x) : tensor<[N], f32>
        graph.return(%0)
    }
After:
    graph.func @f {effects = ["io"], entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %0 = graph.log(%x) : tensor<[N], f32>
        %1 = graph.isfinite(%0) : tensor<[N], bool>
        %2 = graph.all(%1) {axes = [0], keep = false} : tensor<[], bool>
        %3 = graph.isfinite(%x) : tensor<[N], bool>
        %4 = graph.all(%3) {axes = [0], keep = false} : tensor<[], bool>
        %5 = graph.bitwise_not(%4) : tensor<[], bool>
        %6 = graph.bitwise_or(%2, %5) : tensor<[], bool>
        form.assert(%6) {io = [0], text = "`log` makes inf or NaN of finite numbers", watched = true}
        graph.return(%0)
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.writing import writer
from tesserac.graph.dialect import PREFIX, is_operator
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.effects import WATCHED
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.types import TensorType
from tesserac.ops.calculus import Writer


@pass_(GRAPH, GRAPH, "watch")
def watch(module: Module) -> Module:
    for function in module.ops:
        for op in list(function.walk()):
            if is_operator(op) and any(map(_is_float, op.results)) and any(map(_is_float, op.operands)):
                _watch(op)
    order_effects(module)
    return module


def _watch(op: Op) -> None:
    block = op.parent
    assert block is not None
    builder = Builder.before(block.ops[block.place(op) + 1])
    with builder.spanned(op.span):
        write = writer(builder, {})
        made = _all_finite(write, op.results)
        given = _all_finite(write, list(dict.fromkeys(op.operands)))
        holds = write("bitwise_or", made, write("bitwise_not", given))
        text = f"`{op.name.removeprefix(PREFIX)}` makes inf or NaN of finite numbers"
        builder.op("form.assert", (holds,), (), {"text": text, WATCHED: True})


def _all_finite(write: Writer, values: Sequence[Value]) -> Value:
    flags = [_is_finite(write, value) for value in values if _is_float(value)]
    found = flags[0]
    for flag in flags[1:]:
        found = write("bitwise_and", found, flag)
    return found


def _is_finite(write: Writer, value: Value) -> Value:
    flags = write("isfinite", value)
    assert isinstance(flags.type, TensorType)
    return write("all", flags, axes=tuple(range(len(flags.type.dims)))) if flags.type.dims else flags


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype.is_float
