"""Quotients without jumps. Enters: divisions in the body of a map. Leaves: reciprocals and multiplications.

The hardware has no division: each costs a reciprocal, steps that correct it and a jump for numbers at the ends of the
range, one after the other. Whether any element is at an end of the range is a rare program's question of the whole map
instead, so that the divisions of many elements run side by side. Where many elements have the same divisor, a row its
sum, the reciprocal is asked for once, and an element takes five instructions. Where some of those numerators are so
small that remainders would underflow, as terms of a softmax are whose scores lie far apart, an element takes eleven.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import ScalarType
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32, I32, Value, const_float, const_int
from tesserac.types.dtype import F32 as F32_TYPE

SMALLEST, LARGEST = 2.0**-60, 2.0**62
"""Between which numerators and divisors are, so that no quotient and no remainder leaves the normal range."""
LEAST, LEAST_QUOTIENT = 2.0**-100, 2.0**-122
"""What numerators and quotients are at least, where many have one divisor."""
SCALE, DIVISORS = 2.0**64, (2.0**-10, 2.0**40)
"""By what small numerators are multiplied, and between which their divisors are; the numerators end there, too."""


def shared_divisions(ops: Sequence[Op], of_rows: Sequence[IRValue]) -> frozenset[Op]:
    """Divisions whose divisor is known from arguments that many elements share."""
    known: set[IRValue] = set(of_rows)
    found: set[Op] = set()
    for op in ops[:-1]:
        numerator, *divisor = op.operands if op.name == "scalar.div" else (None,)
        if divisor and divisor[0] in known and numerator not in known and _is_single(op):
            found.add(op)
        if all(operand in known for operand in op.operands):
            known.add(op.result)
    return frozenset(found)


def single_divisions(ops: Sequence[Op]) -> frozenset[Op]:
    """Divisions of f32."""
    return frozenset(op for op in ops if op.name == "scalar.div" and _is_single(op))


def _is_single(op: Op) -> bool:
    return isinstance(op.result.type, ScalarType) and op.result.type.dtype == F32_TYPE


def divide(b: Builder, x: Value, y: Value, rare: list[Value]) -> Value:
    """x / y, rounded once: see Note [Quotients]. Where the conditions in `rare` hold it is not."""
    smallest = b.fmul(y, const_float(F32, LEAST_QUOTIENT))
    least = const_float(F32, LEAST)
    smallest = b.select(b.fcmp("ogt", smallest, least), smallest, least)
    rare += [_beyond(b, y, signed=True), _beyond(b, x, signed=False, smallest=smallest)]
    return _corrected(b, x, y, b.fdiv(const_float(F32, 1.0), y))


def divide_small(b: Builder, x: Value, y: Value, rare: list[Value]) -> Value:
    """The same for numerators and quotients as small as any: see Note [Small quotients]."""
    rare.append(_outside(b, y, *DIVISORS))
    rare.append(b.fcmp("ugt", b.intrinsic("llvm.fabs", F32, [x], [F32]), const_float(F32, DIVISORS[1])))
    reciprocal, larger = b.fdiv(const_float(F32, 1.0), y), b.fmul(x, const_float(F32, SCALE))
    first = _step(b, larger, y, reciprocal, b.fmul(larger, reciprocal))
    quotient = b.fmul(first, const_float(F32, 1.0 / SCALE))
    excess = b.fma(b.fmul(quotient, const_float(F32, SCALE)), y, b.fneg(larger))
    rest = _step(b, excess, y, reciprocal, b.fmul(excess, reciprocal))
    return b.fma(rest, const_float(F32, -1.0 / SCALE), quotient)


def divide_any(b: Builder, x: Value, y: Value, rare: list[Value]) -> Value:
    """The same for a divisor of its own and of any sign."""
    sign = b.binary("and", b.cast("bitcast", y, I32), const_int(I32, -(2**31)))
    size = b.intrinsic("llvm.fabs", F32, [y], [F32])
    signed = b.cast("bitcast", b.binary("xor", b.cast("bitcast", x, I32), sign), F32)
    rare += [_beyond(b, size, signed=True), _beyond(b, x, signed=False)]
    return divide_near(b, signed, size)


def divide_near(b: Builder, x: Value, y: Value) -> Value:
    """x / y, rounded once, of numbers that are known to lie within the range, y above 0."""
    guess = b.intrinsic("llvm.nvvm.rcp.approx.ftz.f", F32, [y])
    error = b.fma(b.fneg(y), guess, const_float(F32, 1.0))
    return _corrected(b, x, y, b.fma(error, guess, guess))


def divide_narrow(b: Builder, x: Value, y: Value, rare: list[Value] | None, total: Value | None = None) -> Value:
    """x / y to 2^-22, of a quotient that goes on to narrow numbers alone: a product with the hardware's reciprocal. A
    divisor whose reciprocal is no normal number is a rare case; it alone decides, so that no schedule shows. If x is
    `total + 0`, the sum is part of the product."""
    reciprocal = b.intrinsic("llvm.nvvm.rcp.approx.ftz.f", F32, [y])
    near = b.fmul(x, reciprocal) if total is None else b.fma(total, reciprocal, const_float(F32, 0.0))
    size = b.intrinsic("llvm.fabs", F32, [y], [F32])
    outside = [b.fcmp("ult", size, const_float(F32, 2.0**-126)), b.fcmp("ugt", size, const_float(F32, 2.0**126))]
    beyond = b.binary("or", *outside)
    if rare is not None:
        rare.append(beyond)
        return near
    return b.select(beyond, b.fdiv(x, y), near)


def _corrected(b: Builder, x: Value, y: Value, reciprocal: Value) -> Value:
    quotient = b.fmul(x, reciprocal)
    for _ in range(2):
        quotient = _step(b, x, y, reciprocal, quotient)
    return quotient


def _step(b: Builder, x: Value, y: Value, reciprocal: Value, quotient: Value) -> Value:
    excess = b.fma(quotient, y, b.fneg(x))
    return b.fma(b.fneg(excess), reciprocal, quotient)


def _beyond(b: Builder, x: Value, signed: bool, smallest: Value | None = None) -> Value:
    """Whether a divisor, or the magnitude of a numerator that is not 0, leaves the range. Once 1 is taken off, the bits
    of 0 are the largest number; without their sign those of a NaN are larger than any other's."""
    if signed:
        return _outside(b, x, SMALLEST, LARGEST)
    magnitude = b.intrinsic("llvm.fabs", F32, [x], [F32])
    least = b.cast("bitcast", const_float(F32, SMALLEST) if smallest is None else smallest, I32)
    small = b.icmp("ult", b.sub(b.cast("bitcast", magnitude, I32), const_int(I32, 1)), least)
    return b.binary("or", small, b.fcmp("ugt", magnitude, const_float(F32, LARGEST)))


def _outside(b: Builder, x: Value, least: float, most: float) -> Value:
    inside = b.binary("and", b.fcmp("oge", x, const_float(F32, least)), b.fcmp("ole", x, const_float(F32, most)))
    return b.binary("xor", inside, const_int(inside.type, 1))


# Note [Quotients]
# With r = 1 / y rounded, x * r is less than two units in the last place from x / y. Its remainder x - q y is exact in
# an fma, and q + r (x - q y) is next to the quotient: one of the two numbers that enclose it. The same step once more
# rounds correctly (Markstein): its remainder is exact too, and the one rounding of the last fma is that of x / y but
# for an error of 2^-47 of it, less than the distance of any quotient of two f32 to a number halfway between two f32.
# All of it needs remainders without underflow, which the range of x and y is for: a remainder is a multiple of the last
# places of q and y together, 2^-46 of x or 2^-47, so that 2^-100 is enough for x where q is known to be normal. The
# remainder is taken as q y - x and subtracted: so a quotient of -0 stays -0.
#
# A divisor of its own has the hardware's reciprocal, which is right to one unit in the last place, and one step of
# Newton's: the steps by which the vendor's correctly rounded division goes, without the question and the jump in it.

# Note [Small quotients]
# With X = 2^64 x nothing underflows: one step gives Q next to X / y. q = 2^-64 Q is rounded where it is subnormal; it
# is a quotient to one unit in its own last place, or nearer. E = 2^64 q y - X is exact, and c = E / y, rounded once, as
# by Note [Quotients]. So q - 2^-64 c, an fma, is rounded once but for what c lost, 2^-25 of it. That does not matter:
# were E / y half a unit of q but for so little, E would lie nearer to half of y than 2^-24 of that, which numbers of 24
# bits do not, unless it is half, which c is then as well: a tie is seen as one.
