"""A loop of one iteration is its body: what a kernel's loop over blocks becomes where one block spans its dim.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %0 = index.dim() {dim = `0`} : index
        %1 = index.dim() {dim = `1`} : index
        %y = form.loop(%0, %1, %x) {counter = "i"} : tensor<[N], f32> {
          ^(%i: index, %a: tensor<[N], f32>):
            %2 = graph.add(%a, %x) : tensor<[N], f32>
            form.yield(%2)
        }
        graph.return(%y)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %0 = index.dim() {dim = `0`} : index
        %1 = index.dim() {dim = `1`} : index
        %2 = graph.add(%x, %x) : tensor<[N], f32>
        graph.return(%2)
    }
"""

from __future__ import annotations

from tesserac.graph.substitute import copy_op
from tesserac.ir.core import Block, Module, Op, Value
from tesserac.ir.passes import GRAPH, pass_
from tesserac.types.dims import ONE, Dim, DimError


@pass_(GRAPH, GRAPH, "unroll_unit_loops")
def unroll_unit_loops(module: Module) -> Module:
    for op in reversed(list(module.walk())):  # loops inside first, so that what is copied has none left
        if op.name == "form.loop" and op.parent is not None:
            low, high = (_bound(bound) for bound in op.operands[:2])
            if low is not None and high is not None and high - low == ONE:
                _unroll(op, low)
    return module


def _bound(value: Value) -> Dim | None:
    op = value.defining_op
    dim = op.attrs.get("dim") if op is not None else None
    return dim if isinstance(dim, Dim) else None


def _unroll(loop: Op, low: Dim) -> None:
    block, iteration = loop.parent, loop.body
    assert block is not None
    values: dict[Value, Value] = dict(zip(iteration.args, (loop.operands[0], *loop.operands[2:]), strict=True))
    dims = {str(loop.attrs["counter"]): low}
    copies = Block()
    try:
        for op in iteration.ops[:-1]:
            copies.append(copy_op(op, values, dims))
    except DimError:
        copies.drop_all_uses()
        return  # a size has no value, so that no call comes here
    for op in list(copies.ops):
        op.detach()
        block.insert(block.place(loop), op)
    for old, new in zip(loop.results, iteration.terminator.operands, strict=True):
        replacement = values.get(new, new)
        replacement.name = replacement.name or old.name
        old.replace_all_uses(replacement)
    loop.erase()
