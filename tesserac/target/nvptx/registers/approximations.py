"""Functions that are only ever rounded to narrow numbers, by the approximations of the hardware.

Enters: a scalar operation that `schedule/costs/approximate_functions.py` has marked, and its operands, all f32.
Leaves: its value. Bounds, relative, from those that NVIDIA states for `ex2.approx` (2**-22) and `rcp.approx` (2**-23):

| function   | bound  | corner cases                                                                          |
|------------|--------|---------------------------------------------------------------------------------------|
| exp        | 2**-16 | 2**-21 for abs(x) < 4; below 2**-126 it is 0; NaN, infinities and overflow as of exp  |
| exp2       | 2**-21 | the same                                                                              |
| exp_lifted | 2**-16 | exp times 2**32, where nothing is subtracted: the same, 0 below 2**-158               |
| tanh       | 2**-18 | odd, also for -0                                                                      |
| xndtr      | 2**-16 | 2**-19 for abs(x) < 4; below 2**-126 times x it is 0; zeros keep signs, -inf gives -0 |
| div        | 2**-22 | by numbers up to 2**126; by larger ones 0                                             |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op
from tesserac.numerics.exponential import LIFT
from tesserac.numerics.formats import parts
from tesserac.schedule.costs.approximate_functions import NEAR
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32 as SINGLE
from tesserac.target.llvm_types import Value
from tesserac.target.nvptx.registers.conversions import constant
from tesserac.types.dtype import F32

TANH = (-0.33333334, 0.13333334, -0.05396825)
"""The terms of its series behind the first, in x**2."""
TANH_NEAR = 0.25
"""Up to which they are enough: what is left out is 2**-21 of it."""

NORMAL = (
    0.10456006228923798, 0.10746856033802032, 0.07840850949287415, 0.1535937637090683, -0.08505814522504807,
    0.21122436225414276, -0.07019674777984619,
)  # fmt: skip
"""Of t = 1 / (1 + NORMAL_RATE z), from the first power on: the normal distribution at -z times exp(z**2 / 2), to a
relative error of 2**-20 up to z = 14, fitted by weighted least squares. Beyond it is 0 in f32."""
NORMAL_RATE = 0.2625
NORMAL_END = -32.0


def near_value(b: Builder, op: Op, args: Sequence[Value]) -> Value | None:
    """The value of a function that is marked; None of others."""
    return FUNCTIONS[op.name](b, *args) if NEAR in op.attrs else None


def exp2(b: Builder, x: Value) -> Value:
    return b.intrinsic("llvm.nvvm.ex2.approx.ftz.f", SINGLE, [x])


def exp(b: Builder, x: Value) -> Value:
    return exp2(b, b.fmul(x, constant(F32, parts("log2e", F32)[0])))


def exp_lifted(b: Builder, x: Value, _: Value) -> Value:
    """What is marked has nothing to subtract."""
    return exp2(b, b.fma(x, constant(F32, parts("log2e", F32)[0]), constant(F32, float(LIFT))))


def reciprocal(b: Builder, x: Value) -> Value:
    return b.intrinsic("llvm.nvvm.rcp.approx.ftz.f", SINGLE, [x])


def divide(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, reciprocal(b, y))


def tanh(b: Builder, x: Value) -> Value:
    """Its series near 0, 1 - 2 / (exp(2 x) + 1) elsewhere, where nothing is lost by the difference."""
    square = b.fmul(x, x)
    rest = constant(F32, TANH[-1])
    for coefficient in reversed(TANH[:-1]):
        rest = b.fma(rest, square, constant(F32, coefficient))
    near = b.fma(b.fmul(x, square), rest, x)
    power = exp2(b, b.fmul(x, constant(F32, 2.0 * parts("log2e", F32)[0])))
    inverse = reciprocal(b, b.fadd(power, constant(F32, 1.0)))
    far = b.fma(inverse, constant(F32, -2.0), constant(F32, 1.0))
    size = b.intrinsic("llvm.fabs", SINGLE, [x], [SINGLE])
    return b.select(b.fcmp("olt", size, constant(F32, TANH_NEAR)), near, far)


def xndtr(b: Builder, x: Value) -> Value:
    """x times the normal distribution, which is the small part of it left of 0 and what it lacks to 1 on the right."""
    size = b.intrinsic("llvm.fabs", SINGLE, [x], [SINGLE])
    t = reciprocal(b, b.fma(size, constant(F32, NORMAL_RATE), constant(F32, 1.0)))
    small = constant(F32, NORMAL[-1])
    for coefficient in reversed(NORMAL[:-1]):
        small = b.fma(small, t, constant(F32, coefficient))
    scaled = b.fmul(x, constant(F32, -0.5 * parts("log2e", F32)[0]))
    small = b.fmul(b.fmul(small, t), exp2(b, b.fmul(scaled, x)))
    share = b.select(b.fcmp("olt", x, constant(F32, 0.0)), small, b.fsub(constant(F32, 1.0), small))
    ends = b.intrinsic("llvm.maximum", SINGLE, [x, constant(F32, NORMAL_END)], [SINGLE])  # no infinity times 0
    return b.fmul(ends, share)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "scalar.exp": exp,
    "scalar.exp2": exp2,
    "scalar.exp_lifted": exp_lifted,
    "scalar.tanh": tanh,
    "scalar.xndtr": xndtr,
    "scalar.div": divide,
}
