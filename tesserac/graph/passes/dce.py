"""Removes what nobody uses: pure operations whose results have no use.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.exp(%x) : tensor<[N], f32>
        %b = graph.log(%a) : tensor<[N], f32>
        graph.return(%x)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        graph.return(%x)
    }
"""

from __future__ import annotations

from tesserac.ir.core import Module
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.rewrite import erase_dead


@pass_(GRAPH, GRAPH, "dce")
def dce(module: Module) -> Module:
    while erase_dead(module):
        pass
    return module
