"""Computes before a loop what is the same in every iteration: derivatives then keep nothing of it per iteration.

Moved is what only computes, from values and sizes of outside, and cannot fail however often the loop runs: no effect,
no assertion, no index that may be out of range, no size that only an iteration has. What is cheap and larger than all
that it is made of (a constant, an outer sum) stays, since its readers compute it; others take a copy of it along.

Before:
    graph.func @f {entry = true, guards = [], params = ["x", "c"]} {
      ^(%x: tensor<[N], f32>, %c: tensor<[N], f32>):
        %0 = index.dim() {dim = `0`} : index
        %1 = index.dim() {dim = `8`} : index
        %y = form.loop(%0, %1, %x) {counter = "i"} : tensor<[N], f32> {
          ^(%i: index, %a: tensor<[N], f32>):
            %k = graph.power(%c) {exponent = 2} : tensor<[N], f32>
            %2 = graph.mul(%a, %k) : tensor<[N], f32>
            form.yield(%2)
        }
        graph.return(%y)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x", "c"]} {
      ^(%x: tensor<[N], f32>, %c: tensor<[N], f32>):
        %0 = index.dim() {dim = `0`} : index
        %1 = index.dim() {dim = `8`} : index
        %k = graph.power(%c) {exponent = 2} : tensor<[N], f32>
        %y = form.loop(%0, %1, %x) {counter = "i"} : tensor<[N], f32> {
          ^(%i: index, %a: tensor<[N], f32>):
            %2 = graph.mul(%a, %k) : tensor<[N], f32>
            form.yield(%2)
        }
        graph.return(%y)
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.dialect import is_operator, operator_of
from tesserac.graph.substitute import copy_op, mentions
from tesserac.ir.core import Block, Module, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import block_loop
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.rewrite import is_pure
from tesserac.types.dims import ONE
from tesserac.types.ty import TensorType

LOOPS = ("form.loop", "form.while")
SIZE = "graph.size"


@pass_(GRAPH, GRAPH, "hoist")
def hoist(module: Module) -> Module:
    for loop in reversed(list(module.walk())):  # loops inside first: what leaves them may leave those around too
        if loop.name in LOOPS:
            for region in loop.regions:
                _hoist(loop, region.block)
    return module


def _hoist(loop: Op, body: Block) -> None:
    cut = block_loop(loop)
    turning = [str(loop.attrs.get("counter", "")), *([cut.block.symbol or ""] if cut is not None else ())]
    invariant: set[Op] = set()
    moved: dict[Value, Value] = {}
    for op in list(body.ops[:-1]):
        if not _is_invariant(op, body, invariant, turning):
            continue
        invariant.add(op)
        if op.name == SIZE or not (operator_of(op).again and _grows(op)):
            _move(body, loop, op, moved)
    for old, new in moved.items():
        old.replace_all_uses(new)
    for op in reversed(list(body.ops[:-1])):
        if op in invariant and not op.result.uses:
            op.erase()


def _is_invariant(op: Op, body: Block, invariant: set[Op], turning: Sequence[str]) -> bool:
    """Whether an operation gives the same in every iteration, and may as well be done where there is none. What has the
    size of a block belongs to it: the last block is smaller than the others."""
    if not (is_operator(op) or op.name == SIZE) or not is_pure(op) or any(mentions(op, name) for name in turning):
        return False
    if op.name != SIZE and operator_of(op).may_fail(tuple(tensor_type(v) for v in op.operands)):
        return False
    return all(v.owner is not body and (v.defining_op in invariant or _is_outside(v, body)) for v in op.operands)


def _is_outside(value: Value, body: Block) -> bool:
    made = value.defining_op
    return made is None or made.parent is not body


def _grows(op: Op) -> bool:
    """Whether a value is larger than each of those that it is made of."""
    sizes = [_real(tensor_type(v)) for v in op.operands]
    return bool(_real(tensor_type(op.result))) and _real(tensor_type(op.result)) not in sizes


def _real(ty: TensorType) -> tuple[object, ...]:
    return tuple(sorted(str(dim) for dim in ty.dims if dim != ONE))


def _move(body: Block, loop: Op, op: Op, moved: dict[Value, Value]) -> None:
    """A copy before the loop, with what it is made of."""
    block = loop.parent
    assert block is not None
    for value in op.operands:
        made = value.defining_op
        if value not in moved and made is not None and made.parent is body:
            _move(body, loop, made, moved)
    if op.result not in moved:
        block.insert(block.ops.index(loop), copy_op(op, moved, {}))
