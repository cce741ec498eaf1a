"""Functions of narrow numbers by what a GPU has for them: between bf16 and bf16, what is f32 needs no 24 bits.

    %w = form.map(%x) {...} : tensor<[N], f32>            %x is bf16
    %e = form.map(%w) {...  scalar.exp(%w) ...} : tensor<[N], f32>
    %y = form.map(%e) {...  scalar.div(%one, %e) ...} : tensor<[N], bf16>
  becomes the same with `scalar.exp(%w) {near = true}` and `scalar.div(%one, %e) {near = true}`

Enters: forms, before any of them is fused. Leaves: the same, with marks that a target may take or leave. A function is
marked where its map reads only what comes from narrow numbers, and where all that it gives goes on, by arithmetic, to
be rounded to narrow numbers. A quotient is marked where, besides, one of its operands has passed such a function. So
marks depend on the program alone and no schedule shows, on one architecture; relative errors are below 2**-16, as
LANGUAGE has it for narrow types (`target/nvptx/registers/approximations.py` has the bounds). What is compared, or cut
to a whole number, is never marked: there a small error may become a large one.
"""

from __future__ import annotations

from tesserac.ir.core import Module, Op, Value
from tesserac.ir.passes import FORMS, pass_
from tesserac.ir.types import ScalarType, TensorType
from tesserac.types.dtype import BF16, F16, F32, FP8_E4M3, FP8_E5M2

NEAR = "near"
"""The attribute of a function whose value is only ever rounded to narrow numbers."""
NARROW = (BF16, F16, FP8_E4M3, FP8_E5M2)
FUNCTIONS = ("scalar.exp", "scalar.exp2", "scalar.tanh", "scalar.xndtr")
QUOTIENT = "scalar.div"
LIFTED = "scalar.exp_lifted"
"""A function where its second operand is 0. Elsewhere that is a maximum, which may depend on where blocks end: terms by
different maxima must differ by exact powers of two."""
STEPS = tuple(f"scalar.{name}" for name in ("add", "sub", "mul", "div", "fma", "neg", "abs", "select", "min", "max"))
"""What an approximate number may pass on its way: a small error stays one, beside what it is added to."""


@pass_(FORMS, FORMS, "approximate_functions")
def approximate_functions(module: Module) -> Module:
    for function in module.ops:
        ops = list(function.walk())
        _Marks(ops).set()
    return module


class _Marks:
    def __init__(self, ops: list[Op]) -> None:
        self.ops = ops
        self.rounded: dict[Value, bool] = {}
        """Whether all that a number becomes is rounded to narrow numbers."""
        self.from_narrow: set[Value] = set()
        self.approximate: set[Value] = set()

    def set(self) -> None:
        if not any(map(_is_function, self.ops)):
            return
        for op in reversed(self.ops):  # whoever reads a number comes before it
            for value in op.results:
                self._is_rounded(value)
        for op in self.ops:
            if op.name == "form.map" and all(map(self._comes_from_narrow, op.operands)):
                self.from_narrow.add(op.result)
                self._mark(op)
            elif op.name == "form.view" and self._comes_from_narrow(op.operands[0]):
                self.from_narrow.add(op.result)
                self.approximate.update(op.results if op.operands[0] in self.approximate else ())

    def _mark(self, map_: Op) -> None:
        for arg, operand in zip(map_.body.args, map_.operands, strict=True):
            if operand in self.approximate:
                self.approximate.add(arg)
        for op in map_.body.ops[:-1]:
            passed = not self.approximate.isdisjoint(op.operands)
            named = _is_function(op) or (op.name == QUOTIENT and passed)
            if named and self.rounded[op.result] and op.result.type == ScalarType(F32):
                op.attrs[NEAR] = True
                passed = True
            if passed:
                self.approximate.add(op.result)
        if not self.approximate.isdisjoint(map_.body.terminator.operands) and not _is_narrow(map_.result):
            self.approximate.add(map_.result)

    def _comes_from_narrow(self, value: Value) -> bool:
        return _is_narrow(value) or value in self.from_narrow

    def _is_rounded(self, value: Value) -> bool:
        if value not in self.rounded:
            used = bool(value.uses) and all(self._goes_on(user, place) for user, place in value.uses)
            self.rounded[value] = _is_narrow(value) or used
        return self.rounded[value]

    def _goes_on(self, user: Op, place: int) -> bool:
        match user.name:
            case "form.yield":
                holder = user.parent.parent_op if user.parent is not None else None
                return holder is not None and holder.name == "form.map" and self._is_rounded(holder.result)
            case "form.map":
                return self._is_rounded(user.body.args[place])
            case "form.view":
                return self._is_rounded(user.result)
            case "scalar.round" | "scalar.cast":
                return user.attrs["dtype"] in NARROW
        return (user.name in STEPS or _is_function(user)) and self._is_rounded(user.result)


def _is_function(op: Op) -> bool:
    if op.name != LIFTED:
        return op.name in FUNCTIONS
    made = op.operands[1].defining_op
    return made is not None and made.name == "scalar.constant" and made.attrs["value"] == 0


def _is_narrow(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype in NARROW


def near_work(op: Op) -> int | None:
    """The work of a function that is marked, in units of a fused multiply-add; None of others."""
    return WORK[op.name] if NEAR in op.attrs else None


WORK = {"scalar.exp": 3, LIFTED: 3, "scalar.exp2": 2, "scalar.tanh": 12, "scalar.xndtr": 18, QUOTIENT: 3}
