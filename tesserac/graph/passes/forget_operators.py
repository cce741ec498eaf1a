"""Where operators without a matrix are applied is not told any more: the laws have been here, and what is computed in the
same way for two of them is to be computed once.

Before:
    graph.func @f {entry = true, guards = [], params = ["x", "p"]} {
      ^(%x: tensor<[N], f32>, %p: tensor<[N], i64>):
        %0 = graph.operator_in(%x, %p) {flags = ["unitary"], inverse = false, kind = "permutation(0)", sizes = [], turned = false} : tensor<[N], f32>
        %1 = graph.gather(%0, %p) {axis = 0} : tensor<[N], f32>
        %2 = graph.operator_out(%1, %p) {flags = ["unitary"], inverse = false, kind = "permutation(0)", sizes = [], turned = false} : tensor<[N], f32>
        graph.return(%2)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x", "p"]} {
      ^(%x: tensor<[N], f32>, %p: tensor<[N], i64>):
        %2 = graph.gather(%x, %p) {axis = 0} : tensor<[N], f32>
        graph.return(%2)
    }
"""  # noqa: E501 (pictures)

from __future__ import annotations

from tesserac.graph.algebra.applications import IN, OUT
from tesserac.ir.core import Module
from tesserac.ir.passes import GRAPH, pass_


@pass_(GRAPH, GRAPH, "forget_operators")
def forget_operators(module: Module) -> Module:
    for op in [op for op in module.walk() if op.name in (IN, OUT)]:
        value = op.operands[0]
        value.name = value.name or op.result.name
        op.result.replace_all_uses(value)
        op.erase()
    return module
