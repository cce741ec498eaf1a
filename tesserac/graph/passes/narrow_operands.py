"""Contractions read narrow numbers as they are stored, where both operands only widen them to the accumulation type,
and arrange them (windows of an image in its frame), or have zeros in place of some: what lies behind a length.

The products of two bf16, f16 or fp8 numbers are exact in f32, so a chain has the same bits; matrix units that take narrow
numbers then serve, in the order of their architecture, and half as much is read. What is summed stays wide: `wide(a) @ wide(b)` hands on its accumulator. A constant
that both types have counts as narrow, and so do integers that the other operand's type holds: a weight of i8 beside numbers of bf16.

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
from tesserac.ir.forms import Permute, indices, operand_maps, tensor_type
from tesserac.ir.passes import FORMS, pass_
from tesserac.ir.rewrite import Rewriter, at, erase_dead, rewrite
from tesserac.ir.types import TensorType
from tesserac.types.dtype import BF16, F16, FP8_E4M3, FP8_E5M2, DType
from tesserac.types.policy import Policy, compute_dtype

NARROW = (BF16, F16, FP8_E4M3, FP8_E5M2)
"""Types whose products are exact in the type that they are summed in."""
EXACT = (0, 1)
"""Constants that every type has."""
ARRANGED = ("form.view", "form.assemble")
"""Forms that only say where elements lie: windows of an image in a frame of zeros are as narrow as the image."""

Kind = tuple[DType, Policy]


@pass_(FORMS, FORMS, "narrow_operands")
def narrow_operands(module: Module) -> Module:
    rewrite(module, (contraction_reads_narrow,))
    while erase_dead(module):
        pass
    return module


@at("form.contract")
def contraction_reads_narrow(op: Op, rewriter: Rewriter) -> bool:
    accum = attr(op, "accum", DType)
    stored = {kind for value in op.operands for kind in _stored_kinds(value, accum)}
    kind = _common_kind(stored)
    if kind is None:
        return False
    for position, name in enumerate(("lhs", "rhs")):
        map_ = _widening(op.operands[position], accum)
        if map_ is None:
            op.set_operand(position, _narrowed(op.operands[position], kind))
            continue
        own, places = indices(op, name), tuple(place for place in operand_maps(map_)[0] if place is not None)
        stored_indices = tuple(own[place] for place in places)
        if name == "lhs" and _in_other_order(stored_indices, own, indices(op, "out")):
            op.set_operand(position, _permuted(map_, places))
            continue
        op.attrs[name] = stored_indices
        op.set_operand(position, map_.operands[0])
    return True


def _common_kind(stored: set[Kind | None]) -> Kind | None:
    """The one narrow type that holds all numbers that are read."""
    kinds = [kind for kind in stored if kind is not None]
    floats = [kind for kind in kinds if kind[0].is_float]
    if len(kinds) != len(stored) or len(floats) != 1:
        return None
    (kind,) = floats
    return kind if all(dtype.significand <= kind[0].significand for dtype, _ in kinds) else None


def _stored_kinds(value: Value, accum: DType) -> set[Kind | None]:
    """The narrow types of what a value only widens, and arranges among constants; with none, where it does more."""
    map_ = _widening(value, accum) or _whole_numbers(value, accum)
    if map_ is not None:
        ty = tensor_type(map_.operands[0])
        return {(ty.dtype, ty.policy)}
    made = value.defining_op
    if _is_exact(value):
        return set()
    picked = _picked(made)
    if made is None or (made.name not in ARRANGED and picked is None):
        return {None}
    return {kind for operand in picked or made.operands for kind in _stored_kinds(operand, accum)}


def _picked(op: Op | None) -> list[Value] | None:
    """Of a map that chooses between its operands and constants that every type has, the operands that it chooses from;
    None of any other."""
    if op is None or op.name != "form.map" or not op.operands:
        return None
    *constants, end = op.body.ops
    choice = constants.pop() if constants else end
    if choice.name != "scalar.select" or not all(map(_is_exact_number, constants)):
        return None
    picked = [op.operands[op.body.args.index(v)] for v in choice.operands[1:] if v in op.body.args]
    whole = all(None not in places and len(places) == tensor_type(op.result).rank for places in _places(op, picked))
    return picked if picked and whole and list(end.operands) == [choice.result] else None


def _places(op: Op, picked: list[Value]) -> list[tuple[int | None, ...]]:
    return [places for value, places in zip(op.operands, operand_maps(op), strict=True) if value in picked]


def _in_other_order(stored: tuple[int, ...], own: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether the terms of a chain, which the left operand orders, would come in another order."""
    return [i for i in stored if i not in out] != [i for i in own if i not in out]


def _permuted(map_: Op, places: tuple[int, ...]) -> Value:
    """What a map widens, in the order of its result."""
    source, dims = tensor_type(map_.operands[0]), tensor_type(map_.result).dims
    if places == tuple(range(len(places))):
        return map_.operands[0]
    view = Permute(tuple(places.index(i) for i in range(len(places))))
    ty = TensorType(dims, source.dtype, source.policy)
    return Builder.before(map_).value("form.view", (map_.operands[0],), ty, {"view": view}, hint=map_.result.name)


def _widening(value: Value, accum: DType) -> Op | None:
    """The map that widens narrow numbers to `accum` and does nothing else; it may permute them."""
    op = value.defining_op
    if op is None or op.name != "form.map" or len(op.operands) != 1 or len(op.body.ops) != 1:
        return None
    source = tensor_type(op.operands[0])
    widens = source.dtype in NARROW and compute_dtype(source.dtype, source.policy) == accum == tensor_type(value).dtype
    return op if widens and _only_permutes(op) else None


def _whole_numbers(value: Value, accum: DType) -> Op | None:
    """The map that makes floats of integers and does nothing else; it may permute them."""
    op = value.defining_op
    if op is None or op.name != "form.map" or len(op.operands) != 1 or len(op.body.ops) != 2:
        return None
    cast, end = op.body.ops
    converts = cast.name == "scalar.cast" and [*cast.operands, *end.operands] == [*op.body.args, *cast.results]
    whole = tensor_type(op.operands[0]).dtype.is_integer and tensor_type(value).dtype == accum
    return op if converts and whole and _only_permutes(op) else None


def _only_permutes(map_: Op) -> bool:
    places = operand_maps(map_)[0]
    return None not in places and len(places) == tensor_type(map_.result).rank


def _is_exact(value: Value) -> bool:
    op = value.defining_op
    if op is None or op.name != "form.map" or op.operands or len(op.body.ops) != 2:
        return False
    return _is_exact_number(op.body.ops[0])


def _is_exact_number(op: Op) -> bool:
    return op.name == "scalar.constant" and op.attrs["value"] in EXACT


def _narrowed(value: Value, kind: Kind) -> Value:
    """The same value as a narrow tensor."""
    made = value.defining_op
    assert made is not None
    dtype, policy = kind
    ty = TensorType(tensor_type(value).dims, dtype, policy)
    if made.name in ARRANGED:
        operands = [_narrowed(operand, kind) for operand in made.operands]
        return Builder.before(made).value(made.name, operands, ty, made.attrs, hint=value.name)
    picked = _picked(made)
    if picked is not None:
        operands = [_narrowed(operand, kind) if operand in picked else operand for operand in made.operands]
        return Builder.before(made).value("form.map", operands, ty, made.attrs, (_copied(made.body),), value.name)
    if made.operands and len(made.body.ops) == 1:
        return _permuted(made, tuple(place for place in operand_maps(made)[0] if place is not None))
    return Builder.before(made).value("form.map", made.operands, ty, made.attrs, (_copied(made.body),), value.name)


def _copied(body: Block) -> Block:
    block = Block([arg.type for arg in body.args], [arg.name for arg in body.args])
    values: dict[Value, Value] = dict(zip(body.args, block.args, strict=True))
    for inner in body.ops:
        block.append(clone_op(inner, values))
    return block
