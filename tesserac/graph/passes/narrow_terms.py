"""Terms of a softmax of narrow numbers, all of which goes on to narrow results, say so, and quotients of them too: also
those of sums of terms in attention, where queries, keys and values are narrow.

Elementary functions of narrow types may be what a target's hardware has, where that is right to 2^-16: LANGUAGE.md,
"Same bits everywhere". Which they are follows from the program alone, hence here, before any schedule: scores are read
from a bf16 or f16, and whatever is computed of the terms ends in one. A target without such an instruction computes
them as any others.

Before:
    func.func @f {guards = [], params = ["x", "m"]} {
      ^(%x: tensor<[N], bf16 @accum(f32)>, %m: tensor<[], f32>):
        %0 = form.map(%x, %m) {maps = [[0], []]} : tensor<[N], bf16 @accum(f32)> {
          ^(%a: scalar<f32>, %b: scalar<f32>):
            %1 = scalar.exp_term(%a, %b) : scalar<f32>
            form.yield(%1)
        }
        func.return(%0)
    }
After:
    func.func @f {guards = [], params = ["x", "m"]} {
      ^(%x: tensor<[N], bf16 @accum(f32)>, %m: tensor<[], f32>):
        %0 = form.map(%x, %m) {maps = [[0], []]} : tensor<[N], bf16 @accum(f32)> {
          ^(%a: scalar<f32>, %b: scalar<f32>):
            %1 = scalar.exp_term(%a, %b) {narrow = true} : scalar<f32>
            form.yield(%1)
        }
        func.return(%0)
    }
"""

from __future__ import annotations

from tesserac.ir.core import Module, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import FORMS, pass_
from tesserac.ir.types import ScalarType, TensorType
from tesserac.types.dtype import BF16, F16, F32, DType

NARROW = (BF16, F16)
CARRYING = ("form.map", "form.reduce", "form.view")
"""Forms whose results are made of their operands' elements and of nothing that could tell how these were computed."""


TERM = "scalar.exp_lifted"
"""A term of attention."""


@pass_(FORMS, FORMS, "narrow_terms")
def narrow_terms(module: Module) -> Module:
    maps_ = [op for op in module.walk() if op.name == "form.map"]
    _mark_terms(maps_)
    if any(op.name == TERM for map_ in maps_ for op in map_.body.ops):
        _mark_quotients(maps_)
    return module


def _mark_terms(maps_: list[Op]) -> None:
    for map_ in maps_:
        terms = [op for op in map_.body.ops if op.name == "scalar.exp_term" and _is_single(op)]
        terms = [op for op in terms if _is_read_narrow(map_, op.operands[0])]
        maps = _maps_to_narrow(map_) if terms else None
        if maps is not None:
            computed = [op for reached in maps for op in reached.body.ops]
            for op in (*terms, *(op for op in computed if op.name == "scalar.div" and _is_single(op))):
                op.attrs["narrow"] = True


def _mark_quotients(maps_: list[Op]) -> None:
    for map_ in maps_:
        quotients = [op for op in map_.body.ops if op.name == "scalar.div" and _is_single(op)]
        if quotients and _maps_to_narrow(map_) is not None and _is_of_narrow_terms(map_.result):
            for op in quotients:
                op.attrs["narrow"] = True


def _is_of_narrow_terms(value: Value) -> bool:
    """Whether a number is made of narrow numbers alone, and some of them are terms of attention."""
    seen: set[Value] = set()
    waiting, of_terms = [value], False
    while waiting:
        number = waiting.pop()
        if number in seen or not _is_wide(number):
            of_terms |= _is_term(number)
            continue
        seen.add(number)
        maker = number.owner if isinstance(number.owner, Op) else number.owner.parent_op
        if maker is None or maker.name == "func.func":
            return False
        waiting += maker.operands
        if maker.name != "form.map":
            waiting += [result for region in maker.regions for result in region.block.terminator.operands]
    return of_terms


def _is_term(value: Value) -> bool:
    """Whether a block of numbers is one of terms, perhaps rounded."""
    made = value.defining_op
    if made is None or made.name != "form.map":
        return False
    return any(op.name == TERM for op in made.body.ops) or (len(made.body.ops) == 1 and _is_term(made.operands[0]))


def _is_wide(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype.is_float and not _is_narrow(value.type.dtype)


def _is_single(op: Op) -> bool:
    return op.result.type == ScalarType(F32)


def _is_narrow(dtype: DType) -> bool:
    return dtype in NARROW


def _is_read_narrow(map_: Op, value: Value) -> bool:
    """Whether a value in the body of a map is an element of a narrow tensor, widened, or chosen among such and
    constants."""
    made = value.defining_op
    if made is None:
        return _is_widened(map_.operands[map_.body.args.index(value)])
    match made.name:
        case "scalar.cast":
            return _is_read_narrow(map_, made.operands[0])
        case "scalar.select":
            return all(_is_read_narrow(map_, operand) for operand in made.operands[1:])
    return made.name == "scalar.constant"


def _is_widened(value: Value) -> bool:
    if not isinstance(value.type, TensorType) or _is_narrow(value.type.dtype):
        return isinstance(value.type, TensorType)
    made = value.defining_op
    if made is None or made.name not in ("form.map", "form.view"):
        return False
    if made.name == "form.view":
        return _is_widened(made.operands[0])
    return _is_read_narrow(made, made.body.terminator.operands[0])


def _maps_to_narrow(map_: Op) -> list[Op] | None:
    """The maps through which all that a map gives goes to narrow tensors, itself first; None where some of it goes
    elsewhere."""
    reached, waiting = [map_], [map_.result]
    while waiting:
        value = waiting.pop()
        if _is_narrow(tensor_type(value).dtype):
            continue
        for user, _ in value.uses:
            if user.name not in CARRYING or tensor_type(user.result).dtype not in (F32, *NARROW):
                return None
            if user not in reached:
                reached.append(user)
                waiting.append(user.result)
    return [op for op in reached if op.name == "form.map"]
