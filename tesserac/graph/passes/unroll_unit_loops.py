"""A loop of one iteration is its body: what a kernel's loop over blocks becomes where one block spans its dim. In tile
programs loops of few iterations are written out too.

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

from collections.abc import Iterable, Sequence

from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Module, Op, Value
from tesserac.ir.index import dim_value
from tesserac.ir.kernels import block_loop
from tesserac.ir.passes import GRAPH, pass_
from tesserac.types.dims import Dim, DimError

MOST_ITERATIONS = 32
"""Those of a loop in a tile program that are written out: more is code that no one waits for gladly."""


@pass_(GRAPH, GRAPH, "unroll_unit_loops")
def unroll_unit_loops(module: Module) -> Module:
    _unroll_all(reversed(list(module.walk())), 1)  # loops inside first, so that what is copied has none left
    return module


def unroll_short_loops(block: Block) -> None:
    """Writes out the loops of a tile program that have few iterations and go over no blocks: what they carry is tiles
    then that are made of each other, as everything else in it. One whose steps may change nothing stays a loop, so that
    a program passes over these."""
    loops = [op for outer in block.ops for op in outer.walk() if block_loop(op) is None and not _may_be_idle(op)]
    _unroll_all(reversed(loops), MOST_ITERATIONS)


def _may_be_idle(op: Op) -> bool:
    """Whether a loop has products in it, and its steps keep what it carries where one condition does not hold."""
    if op.name != "form.loop" or not any(block_loop(inner) is not None for inner in op.walk()):
        return False
    pairs = zip(op.body.args[1:], op.body.terminator.operands, strict=True)
    conditions = {_condition(arg, value) for arg, value in pairs if value is not arg}
    return len(conditions) == 1 and None not in conditions


def _condition(carried: Value, value: Value) -> Value | None:
    op = value.defining_op
    return op.operands[0] if op is not None and op.name == "graph.where" and op.operands[2] is carried else None


def _unroll_all(ops: Iterable[Op], most: int) -> None:
    for op in ops:
        if op.name == "form.loop" and op.parent is not None:
            low, high = (_bound(bound) for bound in op.operands[:2])
            count = None if low is None or high is None else (high - low).constant
            if low is not None and count is not None and 1 <= count <= most:
                _unroll(op, [low + number for number in range(count)])


def _bound(value: Value) -> Dim | None:
    op = value.defining_op
    dim = op.attrs.get("dim") if op is not None else None
    return dim if isinstance(dim, Dim) else None


def _unroll(loop: Op, places: Sequence[Dim]) -> None:
    block, iteration = loop.parent, loop.body
    assert block is not None
    copies, carried = Block(), list(loop.operands[2:])
    for place in places:
        number = loop.operands[0] if place is places[0] else dim_value(Builder(copies, loop.span), place)
        values: dict[Value, Value] = dict(zip(iteration.args, (number, *carried), strict=True))
        try:
            for op in iteration.ops[:-1]:
                copies.append(copy_op(op, values, {str(loop.attrs["counter"]): place}))
        except DimError:
            copies.drop_all_uses()
            return  # a size has no value, so that no call comes here
        carried = [values.get(value, value) for value in iteration.terminator.operands]
    for op in list(copies.ops):
        op.detach()
        block.insert(block.place(loop), op)
    for old, new in zip(loop.results, carried, strict=True):
        new.name = new.name or old.name
        old.replace_all_uses(new)
    loop.erase()
