"""What kernels mean: their bodies with blocks that span their dims, in place of their calls.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %y = graph.kernel(%x) {callee = "twice", dims = [["M", `N`]]} : tensor<[N], f32>
        graph.return(%y)
    }
    graph.func @twice {entry = false, guards = [], params = ["v"]} {
      ^(%v: tensor<[M], f32>):
        %0 = graph.add(%v, %v) : tensor<[M], f32>
        graph.return(%0)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %0 = graph.add(%x, %x) : tensor<[N], f32>
        graph.return(%0)
    }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.graph.dialect import KERNEL_CALL, runs
from tesserac.graph.passes.inline import erase_unreached, inline_call
from tesserac.graph.shared_values import take_shared
from tesserac.graph.substitute import copy_block
from tesserac.ir.calls import CALLED, call_dims
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region
from tesserac.ir.passes import GRAPH, Pass, pass_, run_passes


@pass_(GRAPH, GRAPH, "kernels_as_meant")
def kernels_as_meant(module: Module) -> Module:
    """For whoever runs no tiles."""
    for function in [f for f in module.ops if runs(f)]:
        for op in kernel_calls(function):
            mean(module, function, op)
    erase_unreached(module)
    return module


def kernel_calls(function: Op) -> list[Op]:
    return [op for op in function.walk() if op.name == KERNEL_CALL]


def mean(module: Module, function: Op, call: Op) -> None:
    """The meaning of a kernel, in which there may be others."""
    callee = module.lookup(str(call.attrs["callee"]))
    for op in kernel_calls(callee):
        mean(module, callee, op)
    inline_call(call, callee, function)


def meaning_cost(module: Module, call: Op, passes: Sequence[Pass], cost: Callable[[Module], int]) -> int:
    """What the body of a function or kernel costs once the passes have taken it to forms."""
    callee = module.lookup(str(call.attrs["callee"]))
    return _cost(module, callee, copy_block(callee.body, {}, call_dims(call)), passes, cost)


def rest_cost(module: Module, call: Op, passes: Sequence[Pass], cost: Callable[[Module], int]) -> int | None:
    """The same where the caller is at hand for what it computes itself, as a derivative does: what is left then; None
    where it computes nothing of it."""
    callee = module.lookup(str(call.attrs["callee"]))
    body = copy_block(callee.body, {}, call_dims(call))
    return _cost(module, callee, body, passes, cost) if take_shared(body, call) else None


def _cost(module: Module, callee: Op, body: Block, passes: Sequence[Pass], cost: Callable[[Module], int]) -> int:
    others = module.clone()
    for op in others.ops:
        op.attrs["entry"] = False
        op.attrs.pop(CALLED, None)
    params = tuple(f"x{place}" for place in range(len(body.args)))
    attrs: dict[str, Attr] = {"sym_name": f"{callee.symbol}.cost", "params": params, "entry": True, "guards": ()}
    others.block.append(Op(OPDEFS["graph.func"], (), (), attrs, [Region(body)], callee.span))
    return cost(run_passes(others, passes, verify=False))
