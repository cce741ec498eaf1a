"""Where no gradient flows is not told any more: derivatives have been here, and what is computed of a value is equal to
what is computed of it without its gradient. What was a choice between the two is the value.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.exp(%x) : tensor<[N], f32>
        %b = graph.stop_gradient(%a) : tensor<[N], f32>
        %c = graph.add(%a, %b) : tensor<[N], f32>
        %d = graph.less(%x, %c) : tensor<[N], bool>
        %e = graph.where(%d, %a, %b) : tensor<[N], f32>
        %f = graph.sub(%c, %e) : tensor<[N], f32>
        graph.return(%f)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.exp(%x) : tensor<[N], f32>
        %c = graph.add(%a, %a) : tensor<[N], f32>
        %d = graph.less(%x, %c) : tensor<[N], bool>
        %f = graph.sub(%c, %a) : tensor<[N], f32>
        graph.return(%f)
    }
"""

from __future__ import annotations

from tesserac.graph.autodiff.writing import writer
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import GRAPH, pass_

STOP, WHERE = "graph.stop_gradient", "graph.where"


@pass_(GRAPH, GRAPH, "forget_stops")
def forget_stops(module: Module) -> Module:
    for op in [op for op in module.walk() if op.name == STOP]:
        users = [user for user, _ in op.result.uses if user.name == WHERE]
        op.result.replace_all_uses(op.operands[0])
        op.erase()
        for user in users:
            _forget_choice(user)
    return module


def _forget_choice(op: Op) -> None:
    """Drops a choice between a value and itself."""
    _, yes, no = op.operands
    if yes is no:
        whole = writer(Builder.before(op), {}).expand(yes, tensor_type(op.result).dims)
        op.result.replace_all_uses(whole)
        op.erase()
