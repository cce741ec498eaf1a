"""Computes equal expressions once: an operation equal to an earlier one that is visible here gives way to it.

Equal means the same definition, operands, attributes and types; operations with bodies are left alone, since names in
the Graph have none and forms are merged where they are fused.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.exp(%x) : tensor<[N], f32>
        %b = graph.exp(%x) : tensor<[N], f32>
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

from collections import ChainMap
from collections.abc import Hashable

from tesserac.graph.autodiff.dialect import CHECKPOINT
from tesserac.ir.core import Block, Module, Op
from tesserac.ir.kernels import KERNEL
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.printer import print_attr


@pass_(GRAPH, GRAPH, "cse")
def cse(module: Module) -> Module:
    merge_equal(module)
    return module


def merge_equal(module: Module) -> None:
    for function in module.ops:
        for region in function.regions:
            _merge(region.block, ChainMap())


def _merge(block: Block, seen: ChainMap[Hashable, Op]) -> None:
    """`seen` has one map per block around: what is computed in one branch is not visible in the other, and what is to
    be computed again is not taken from where it is kept."""
    for op in list(block.ops):
        for region in op.regions:
            _merge(region.block, ChainMap() if op.name in (CHECKPOINT, KERNEL) else seen.new_child())
        if not op.opdef.pure or op.opdef.terminator or op.regions:
            continue
        earlier = seen.setdefault(_key(op), op)
        if earlier is not op:
            for old, new in zip(op.results, earlier.results, strict=True):
                old.replace_all_uses(new)
            op.erase()


def _key(op: Op) -> Hashable:
    """Attributes by their text: `1`, `1.0` and `true` are equal in Python, `0.0` and `-0.0` too."""
    attrs = tuple(sorted((name, print_attr(value)) for name, value in op.attrs.items()))
    return op.opdef.name, op.operands, attrs, tuple(v.type for v in op.results)
