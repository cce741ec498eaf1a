"""Contractions read narrow numbers as they are stored, where both operands only widen them to the accumulation type.

The products of two bf16 or f16 numbers are exact in f32, so a chain has the same bits; matrix units that take narrow
numbers then serve, in the order of their architecture, and half as much is read. What is summed stays wide: `wide(a) @ wide(b)` hands on its accumulator. A constant
that both types have counts as narrow.

Before:
    func.func @f {guards = [], params = ["a", "b"]} {
      ^(%a: tensor<[M, K], bf16 @accum(f32)>, %b: tensor<[K, N], bf16 @accum(f32)>):
        %0 = form.map(%a) {maps = [[0, 1]]} : tensor<[M, K], f32> {
          ^(%x: scalar<f32>):
            form.yield(%x)
        }
        %1 = form.map(%b) {maps = [[0, 1]]} : tensor<[K, N], f32> {
          ^(%y: scalar<f32>):
            form.yield(%y)
        }
        %2 = form.contract(%0, %1) {accum = dtype<f32>, lhs = [0, 2], order = #chain<length=4096>, out = [0, 1], rhs = [2, 1]} : tensor<[M, N], f32>
        func.return(%2)
    }
After:
    func.func @f {guards = [], params = ["a", "b"]} {
      ^(%a: tensor<[M, K], bf16 @accum(f32)>, %b: tensor<[K, N], bf16 @accum(f32)>):
        %0 = form.contract(%a, %b) {accum = dtype<f32>, lhs = [0, 2], order = #chain<length=4096>, out = [0, 1], rhs = [2, 1]} : tensor<[M, N], f32>
        func.return(%0)
    }
"""  # noqa: E501

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Module, Op, Value, attr, clone_op
from tesserac.ir.forms import indices, operand_maps, tensor_type
from tesserac.ir.passes import FORMS, pass_
from tesserac.ir.rewrite import Rewriter, at, erase_dead, rewrite
from tesserac.ir.types import TensorType
from tesserac.types.dtype import BF16, F16, DType
from tesserac.types.policy import compute_dtype

NARROW = (BF16, F16)
"""Types whose products are exact in the type that they are summed in."""
EXACT = (0, 1)
"""Constants that every type has."""


@pass_(FORMS, FORMS, "narrow_operands")
def narrow_operands(module: Module) -> Module:
    rewrite(module, (contraction_reads_narrow,))
    while erase_dead(module):
        pass
    return module


@at("form.contract")
def contraction_reads_narrow(op: Op, rewriter: Rewriter) -> bool:
    accum = attr(op, "accum", DType)
    maps = [_widening(value, accum) for value in op.operands]
    stored = [tensor_type(map_.operands[0]) for map_ in maps if map_ is not None]
    if len({(ty.dtype, ty.policy) for ty in stored}) != 1:
        return False
    if not all(map_ is not None or _is_exact(value) for value, map_ in zip(op.operands, maps, strict=True)):
        return False
    for position, (name, map_) in enumerate(zip(("lhs", "rhs"), maps, strict=True)):
        if map_ is None:
            op.set_operand(position, _narrowed(op.operands[position], stored[0]))
            continue
        own = indices(op, name)
        op.attrs[name] = tuple(own[place] for place in operand_maps(map_)[0] if place is not None)
        op.set_operand(position, map_.operands[0])
    return True


def _widening(value: Value, accum: DType) -> Op | None:
    """The map that widens narrow numbers to `accum` and does nothing else; it may permute them."""
    op = value.defining_op
    if op is None or op.name != "form.map" or len(op.operands) != 1 or len(op.body.ops) != 1:
        return None
    source, places = tensor_type(op.operands[0]), operand_maps(op)[0]
    widens = source.dtype in NARROW and compute_dtype(source.dtype, source.policy) == accum == tensor_type(value).dtype
    permuted = None not in places and len(places) == tensor_type(value).rank
    return op if widens and permuted else None


def _is_exact(value: Value) -> bool:
    op = value.defining_op
    if op is None or op.name != "form.map" or op.operands or len(op.body.ops) != 2:
        return False
    return op.body.ops[0].name == "scalar.constant" and op.body.ops[0].attrs["value"] in EXACT


def _narrowed(constant: Value, like: TensorType) -> Value:
    """The same constant as a narrow tensor."""
    made = constant.defining_op
    assert made is not None
    block, values = Block(), dict[Value, Value]()
    for inner in made.body.ops:
        block.append(clone_op(inner, values))
    ty = TensorType(tensor_type(constant).dims, like.dtype, like.policy)
    return Builder.before(made).value("form.map", (), ty, {"maps": ()}, (block,), constant.name)
