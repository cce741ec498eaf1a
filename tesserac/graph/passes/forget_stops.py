"""Where no gradient flows is not told any more: derivatives have been here, and what is computed of a value is equal to
what is computed of it without its gradient.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.exp(%x) : tensor<[N], f32>
        %b = graph.stop_gradient(%a) : tensor<[N], f32>
        %c = graph.add(%a, %b) : tensor<[N], f32>
        graph.return(%c)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.exp(%x) : tensor<[N], f32>
        %c = graph.add(%a, %a) : tensor<[N], f32>
        graph.return(%c)
    }
"""

from __future__ import annotations

from tesserac.ir.core import Module
from tesserac.ir.passes import GRAPH, pass_

STOP = "graph.stop_gradient"


@pass_(GRAPH, GRAPH, "forget_stops")
def forget_stops(module: Module) -> Module:
    for op in [op for op in module.walk() if op.name == STOP]:
        op.result.replace_all_uses(op.operands[0])
        op.erase()
    return module
