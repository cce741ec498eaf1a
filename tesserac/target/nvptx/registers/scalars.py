"""Scalar primitives as PTX-ready LLVM instructions: correctly rounded, no approximation, no contraction.

Enters: `scalar.*` operations inside the body of a map, and values of their operands. Leaves: LLVM values. Elementary
functions are expanded from their programs in `numerics/`, primitive by primitive, as on every other target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import ScalarType
from tesserac.numerics.elementary import PROGRAMS, program, program_dtype
from tesserac.numerics.exponential import TERM_LIFT
from tesserac.numerics.formats import format_of, parts
from tesserac.numerics.program import Program, cut_of
from tesserac.target.cpu.elements.registers import narrow_fma, wrap_nibble
from tesserac.target.flow import choose
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32 as SINGLE
from tesserac.target.llvm_types import I1, I8, I32, LType, Value, const_float, const_int, integer
from tesserac.target.nvptx.context import Context
from tesserac.target.nvptx.registers.approximations import near_value
from tesserac.target.nvptx.registers.conversions import bitcast, constant, convert
from tesserac.target.nvptx.registers.quotients import divide, divide_any, divide_narrow, divide_near, divide_small
from tesserac.target.scalar_rows import FLOAT, Row, intrinsic, whole_rows
from tesserac.tile.bodies import constant_scalar, is_plus_zero
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.types.dims import Dim
from tesserac.types.dtype import BF16, F16, F32, F64, I64, DType
from tesserac.types.dtype import I32 as I32_TYPE
from tesserac.types.policy import Policy

Rare = list[Value] | None
"""Conditions under which what was written is not right, since rare programs were left out; None where they are not."""


@dataclass(frozen=True)
class Emission:
    """How a body is written. `stored` is the narrow type that it is rounded to; a body that `yields_term` then lacks
    what `missing_lift` says. `shared` are divisions by what many elements have in common, `small` those of any
    numerators, `divided` others that many elements have side by side. Comparisons that are `true` are known to hold.
    `terms` are those of a softmax that the hardware's power of two is near enough for. Of a body that is `unrounded`
    the last cast is left to the caller."""

    rare: Rare = None
    stored: DType | None = None
    shared: frozenset[Op] = frozenset()
    divided: frozenset[Op] = frozenset()
    small: frozenset[Op] = frozenset()
    true: frozenset[IRValue] = frozenset()
    terms: frozenset[Op] = frozenset()
    unrounded: bool = False


PLAIN, TRUE = Emission(), const_int(I1, 1)


def emit_body(
    ctx: Context, block_args: Sequence[IRValue], ops: Sequence[Op], args: Sequence[Value], how: Emission = PLAIN
) -> Value:
    """Runs the body of a map on one element of each operand."""
    values = dict(zip(block_args, args, strict=True))
    lift = 1.0 if yields_term(ops) else TERM_LIFT
    for op in ops[:-1]:
        values[op.result] = TRUE if op.result in how.true else _step(ctx, op, values, how, lift)
    last = ops[-1].operands[0].defining_op
    return values[last.operands[0] if last is not None and how.unrounded else ops[-1].operands[0]]


def _step(ctx: Context, op: Op, values: Mapping[IRValue, Value], how: Emission, lift: float) -> Value:
    operands = [values[v] for v in op.operands]
    if (near := near_value(ctx.b, op, operands)) is not None:
        return near
    if (found := _compared_place(ctx, op, operands)) is not None:
        return found
    if op.name == "scalar.div" and "narrow" in op.attrs:
        total = _before_plus_zero(op.operands[0])
        before = None if total is None else values[total]
        return divide_narrow(ctx.b, operands[0], operands[1], how.rare, before)
    if how.rare is not None and op in how.shared:
        return divide(ctx.b, operands[0], operands[1], how.rare)
    if how.rare is not None and op in how.small:
        return divide_small(ctx.b, operands[0], operands[1], how.rare)
    if how.rare is not None and op in how.divided:
        return divide_any(ctx.b, operands[0], operands[1], how.rare)
    if op in how.terms:
        return _near_term(ctx, op, values, how.rare)
    if how.stored == BF16 and _dtype(op.result) == F32:
        return _for_narrow(ctx, op, values, how.rare, lift)
    if (plain := _scaled_sum(op)) is not None:
        return ctx.b.fma(values[plain[0]], values[plain[1]], constant(_dtype(op.result), 0.0))
    return emit_scalar(ctx, op, operands, how.rare)


def _compared_place(ctx: Context, op: Op, operands: Sequence[Value]) -> Value | None:
    """Whether a number is the place of an element: the number less what all registers of a thread have in common is
    compared with a constant, which takes one instruction and no register for any of them. Made again where it is asked
    for again: LLVM would keep more answers than there are predicates."""
    if op.name == "scalar.cast" and operands[0] in ctx.steps and _dtype(op.result) == I32_TYPE:
        place = emit_scalar(ctx, op, operands, None)
        ctx.steps[place] = ctx.steps[operands[0]]
        return place
    if op.name != "scalar.eq" or operands[0].type != I32:
        return None
    for place, number in (operands, operands[::-1]):
        if place in ctx.steps and number not in ctx.steps:
            first, step = ctx.steps[place]
            return ctx.b.icmp("eq", ctx.b.sub(number, first), const_int(I32, step))
    return None


def _scaled_sum(op: Op) -> tuple[IRValue, IRValue] | None:
    """x and c of `(x + 0) * c` with a constant c > 0. It is fma(x, c, 0) to the bit: what `+ 0` is for, a zero that is
    not negative, an fma of +0 gives as well, and a product that is not 0 is rounded as without it."""
    if op.name != "scalar.mul" or _dtype(op.result) not in (F32, F64):
        return None
    total, factor = _before_plus_zero(op.operands[0]), op.operands[1]
    scale = constant_scalar(factor)
    return None if total is None or scale is None or not 0.0 < scale < inf else (total, factor)


def _before_plus_zero(value: IRValue) -> IRValue | None:
    """x of `x + 0`."""
    added = value.defining_op
    is_sum = added is not None and added.name == "scalar.add" and is_plus_zero(added.operands[1])
    return added.operands[0] if added is not None and is_sum else None


def yields_term(ops: Sequence[Op]) -> bool:
    """Whether the body of a map gives a term of attention, perhaps scaled, and nothing comes after it."""
    value, _ = _lowered(ops[-1].operands[0])
    made = value.defining_op
    if made is not None and made.name == "scalar.ldexp":
        return _term_of(made.operands[0]) is not None
    return _term_of(value) is not None


def missing_lift(ops: Sequence[Op]) -> float:
    """What the body of a map to bf16 lacks to what it means: terms come without their lift."""
    _, factor = _lowered(ops[-1].operands[0])
    return TERM_LIFT * factor if yields_term(ops) else 1.0


def _lowered(value: IRValue) -> tuple[IRValue, float]:
    """A value that is one times a factor, or times 1."""
    made = value.defining_op
    factor = constant_scalar(made.operands[1]) if made is not None and made.name == "scalar.mul" else None
    return (value, 1.0) if made is None or factor is None else (made.operands[0], factor)


def _for_narrow(ctx: Context, op: Op, values: Mapping[IRValue, Value], rare: Rare, lift: float) -> Value:
    """In the body of a map to bf16: approximate terms, and no rounding to what the result is rounded to anyway. Between
    the two there are selections and powers of two, which keep what rounding gives; a power of two is part of the term
    that it scales."""
    args = [values[v] for v in op.operands]
    if lift == 1.0 and op.name == "scalar.mul" and all(user.name == "form.yield" for user, _ in op.result.uses):
        return args[0]  # the factor is part of what the term lacks
    if op.name == "scalar.exp_lifted":
        return _narrow_term(ctx, op, values, None, lift, rare)
    if op.name == "scalar.round" and op.attrs["dtype"] == BF16 and _only_scaled(op.result):
        return args[0]
    if op.name == "scalar.ldexp" and (term := _term_of(op.operands[0])) is not None:
        return _narrow_term(ctx, term, values, args[1], lift, rare)
    return emit_scalar(ctx, op, args, rare)


def _term_of(value: IRValue) -> Op | None:
    """The term that a value is, but for rounding that is left out. One of a narrower type is rounded to it at once and
    lacks nothing."""
    made = value.defining_op
    if made is not None and made.name == "scalar.round" and made.attrs["dtype"] == BF16 and _only_scaled(value):
        made = made.operands[0].defining_op
    term = made is not None and made.name == "scalar.exp_lifted" and _dtype(made.result) == F32
    return made if term else None


def _only_scaled(value: IRValue) -> bool:
    """Whether a value goes to the result of its map by selections and powers of two alone."""
    exact = ("scalar.select", "scalar.ldexp")
    uses = [(op, place) for op, place in value.uses if op.name != "form.yield"]
    uses = [(op, place) for op, place in uses if constant_scalar(op.operands[-1]) != 1.0 / TERM_LIFT]
    steps = all(op.name in exact and (op.name != "scalar.ldexp" or place == 0) for op, place in uses)
    return steps and all(_only_scaled(op.result) for op, _ in uses)


def emit_scalar(ctx: Context, op: Op, args: Sequence[Value], rare: Rare = None) -> Value:
    name, dtype = op.name.removeprefix("scalar."), _dtype(op.result)
    match name:
        case "constant":
            value = op.attrs["value"]
            assert isinstance(value, int | float)
            return constant(dtype, value)
        case "cast":
            return convert(ctx.b, args[0], _dtype(op.operands[0]), dtype)
        case "bitcast":
            return bitcast(ctx.b, args[0], dtype)
        case "round":
            stored, policy = op.attrs["dtype"], op.attrs["policy"]
            assert isinstance(stored, DType) and isinstance(policy, Policy)
            narrow = convert(ctx.b, args[0], dtype, stored, policy)
            return convert(ctx.b, narrow, stored, dtype)
        case "dim":
            dim = attr(op, "dim", Dim)
            return convert(ctx.b, ctx.dim(dim), I64, dtype)
    if name in PROGRAMS:
        return _expanded(ctx.b, name, dtype, args, rare)
    rule_dtype = _dtype(op.operands[-1])  # of select, whose first operand is a bool
    return emit_rule(ctx.b, name, rule_dtype, args)


def _expanded(b: Builder, name: str, dtype: DType, args: Sequence[Value], rare: Rare) -> Value:
    """Narrower types compute in f32 and round."""
    wide = program_dtype(dtype)
    inputs = [convert(b, arg, dtype, wide) for arg in args]
    if name == "ldexp" and rare is not None:
        result = _scaled(b, wide, inputs, rare)
    else:
        result = expand(b, program(name, wide), inputs, rare)
    return convert(b, result, wide, dtype)


GRID = 1.5 * 2.0**9
"""Added to a number below 256 and taken off again, it leaves the nearest multiple of 2^-14; see Note [Terms]."""
EXPONENTS, MAXIMA = 512.0, 350.0
"""Up to which exponent a term is approximate, and up to which maximum no other is different from 0."""


def _narrow_term(
    ctx: Context, term: Op, values: Mapping[IRValue, Value], power: Value | None, lift: float, rare: Rare
) -> Value:
    """exp_lifted, times a power of two, where it is rounded to bf16: see Note [Terms]. It lacks TERM_LIFT / lift."""
    b, (x, m) = ctx.b, (values[v] for v in term.operands)
    m = m if power is None else b.fsub(m, power)
    score, factor = _scaled_score(term.operands[0])
    rate = constant(F32, factor * parts("log2e", F32)[0])
    if rare is not None:
        rare.append(_at_least(b, m, MAXIMA))
        return approximate_term(b, values[score], rate, m, lift)
    exact = b.fmul(emit_scalar(ctx, term, [x, m]), constant(F32, lift / TERM_LIFT))
    beyond = _at_least(b, b.fmul(values[score], rate), EXPONENTS)
    return b.select(beyond, exact, approximate_term(b, values[score], rate, m, lift))


def _near_term(ctx: Context, term: Op, values: Mapping[IRValue, Value], rare: Rare) -> Value:
    """exp_term by the hardware's power of two, to 2^-16. Its maximum is that of a whole row, so that no schedule shows;
    a maximum from MAXIMA on is one of the rare cases, and so is no number. A score that is so far below one that is not
    is 0 in both ways."""
    b, (x, m) = ctx.b, (values[v] for v in term.operands)
    scaled, shift = _less(term.operands[0])
    score, factor = _scaled_score(scaled)
    log2e = parts("log2e", F32)[0]
    if shift is not None:
        m = b.fma(values[shift], constant(F32, log2e), m)
    below = b.fma(values[score], constant(F32, factor * log2e), b.fneg(m))
    near = b.intrinsic("llvm.nvvm.ex2.approx.ftz.f", SINGLE, [below])
    beyond = _at_least(b, m, MAXIMA)
    if rare is not None:
        rare.append(beyond)
        return near
    return b.select(beyond, emit_scalar(ctx, term, [x, values[term.operands[1]]]), near)


def _less(x: IRValue) -> tuple[IRValue, IRValue | None]:
    """A score less what its row has, if anything."""
    made = x.defining_op
    return (made.operands[0], made.operands[1]) if made is not None and made.name == "scalar.sub" else (x, None)


def _scaled_score(x: IRValue) -> tuple[IRValue, float]:
    """A score as something times a constant, which is part of its exponent."""
    made = x.defining_op
    factor = constant_scalar(made.operands[1]) if made is not None and made.name == "scalar.mul" else None
    return (made.operands[0], factor) if made is not None and factor is not None and 0 < factor < inf else (x, 1.0)


def _at_least(b: Builder, x: Value, limit: float) -> Value:
    """Whether a magnitude is as large, or no number."""
    return b.fcmp("uge", b.intrinsic("llvm.fabs", x.type, [x], [x.type]), constant(F32, limit))


def approximate_term(b: Builder, score: Value, rate: Value, m: Value, lift: float) -> Value:
    """2 to the power of `rate` times the score, by the hardware, `lift` times: right to 2^-14."""
    on_grid = b.fma(score, rate, constant(F32, GRID))
    shifted = b.fsub(on_grid, b.fadd(m, constant(F32, GRID + 1.0)))
    power = b.intrinsic("llvm.nvvm.ex2.approx.ftz.f", SINGLE, [shifted])
    return power if lift == 1.0 else b.fmul(power, constant(F32, lift))


def _scaled(b: Builder, dtype: DType, inputs: Sequence[Value], rare: list[Value]) -> Value:
    """ldexp by one product, which rounds as three do, unless the power of two is no normal number."""
    x, k = inputs
    ends = format_of(dtype)
    low, high = constant(dtype, ends.lowest_exponent), constant(dtype, ends.highest_exponent)
    power = b.select(b.fcmp("ogt", k, low), k, low)
    power = b.select(b.fcmp("olt", power, high), power, high)
    rare.append(b.fcmp("une", k, power))
    return b.fmul(x, _pow2(b, power))


def emit_rule(b: Builder, name: str, dtype: DType, args: Sequence[Value]) -> Value:
    """One primitive on values of `dtype`. Narrow floats compute in f32 and round, which for all but fma equals rounding
    once; the hardware has their fma."""
    if dtype in (BF16, F16) and name == "fma":
        return b.fma(*args)
    if name == "select" or not (dtype.is_float and dtype.bits < 32):
        result = _row(name, dtype)(b, *args)
        return wrap_nibble(b, result, dtype) if dtype.is_nibble and result.type == I8 else result
    wide = [convert(b, arg, dtype, F32) for arg in args]
    result = narrow_fma(b, wide[0], wide[1], wide[2], dtype) if name == "fma" else _row(name, F32)(b, *wide)
    return convert(b, result, F32, dtype) if result.type.is_float else result


def _dtype(value: IRValue) -> DType:
    assert isinstance(value.type, ScalarType)
    return value.type.dtype


def expand(b: Builder, steps: Program, inputs: Sequence[Value], rare: Rare = None) -> Value:
    """An elementary function, step by step."""
    values = list(inputs)
    for step in steps.steps:
        operands = [values[i] for i in step.args]
        if step.op == "constant":
            values.append(constant(steps.dtype, step.value))
        elif step.op == "part" and step.program is not None:
            values.append(expand(b, step.program, operands, rare))
        elif step.program is not None:
            values.append(_when(b, step.program, operands, rare))
        elif step.near and steps.dtype == F32:
            values.append(divide_near(b, *operands))
        elif steps.dtype == F32 and (cut := cut_of(steps, step)) is not None:
            values.append(b.intrinsic(f"llvm.{cut}", SINGLE, operands[1:], [SINGLE]))
        else:
            values.append(emit_rule(b, step.op, steps.dtype, operands))
    return values[-1]


def _when(b: Builder, program_: Program, operands: Sequence[Value], rare: Rare) -> Value:
    """A thread jumps over the rare program unless it needs it, or whoever asks sees to that."""
    condition, otherwise, *inputs = operands
    if rare is not None:
        rare.append(condition)
        return otherwise
    [value] = choose(b, condition, lambda: [expand(b, program_, inputs)], lambda: [otherwise], rare=True)
    return value


def _row(name: str, dtype: DType) -> Row:
    row = (_FLOAT if dtype.is_float else whole_rows(dtype)).get(name)
    if name == "select":
        return Builder.select
    if row is None:
        raise LoweringError(f"no rule for scalar.{name} of {dtype.name} on a GPU")
    return row


def _bits(b: Builder, x: Value) -> Value:
    return b.cast("bitcast", x, integer(x.type.bits))


class _Shape:
    """Where sign, exponent and fraction stand in the bits of a float type."""

    def __init__(self, ty: LType) -> None:
        self.fraction = 52 if ty.bits == 64 else 23
        self.bias = 1023 if ty.bits == 64 else 127
        self.word = integer(ty.bits)


def _pow2(b: Builder, x: Value) -> Value:
    """2**n by an addition that leaves the biased exponent in the low bits, and a shift."""
    shape = _Shape(x.type)
    return _exponent(b, b.fadd(x, const_float(x.type, 1.5 * 2.0**shape.fraction + shape.bias)))


def _exponent(b: Builder, biased: Value) -> Value:
    shape = _Shape(biased.type)
    shifted = b.binary("shl", _bits(b, biased), const_int(shape.word, shape.fraction))
    return b.cast("bitcast", shifted, biased.type)


def _logb(b: Builder, x: Value) -> Value:
    shape = _Shape(x.type)
    exponent = b.binary("lshr", _bits(b, x), const_int(shape.word, shape.fraction))
    return b.cast("sitofp", b.sub(exponent, const_int(shape.word, shape.bias)), x.type)


def _significand(b: Builder, x: Value) -> Value:
    shape = _Shape(x.type)
    fraction = b.binary("and", _bits(b, x), const_int(shape.word, (1 << shape.fraction) - 1))
    one = const_int(shape.word, shape.bias << shape.fraction)
    return b.cast("bitcast", b.binary("or", fraction, one), x.type)


def _extreme(name: str, predicate: str) -> Row:
    """NaN wins and -0 < +0. PTX has it as one instruction, except for f64."""

    def rule(b: Builder, left: Value, right: Value) -> Value:
        if left.type.bits != 64:
            return b.intrinsic(f"llvm.{name}", left.type, [left, right], [left.type])
        either = b.select(b.fcmp(predicate, left, right), left, right)
        merge = "or" if name == "minimum" else "and"
        zeros = b.cast("bitcast", b.binary(merge, _bits(b, left), _bits(b, right)), left.type)
        ordered = b.select(b.fcmp("oeq", left, right), zeros, either)
        return b.select(b.fcmp("uno", left, right), b.fadd(left, right), ordered)

    return rule


_FLOAT: dict[str, Row] = {
    **FLOAT,
    "copysign": intrinsic("llvm.copysign"),
    "rint": intrinsic("llvm.rint"),
    "min": _extreme("minimum", "olt"),
    "max": _extreme("maximum", "ogt"),
    "pow2": _pow2,
    "exponent": _exponent,
    "logb": _logb,
    "significand": _significand,
}


# Note [Terms]
# A schedule decides which maximum m a term of attention is computed with, and must not decide its bits. So the exponent
# y = x * log2(e) is rounded before m is known, to a grid: 2^-14 around 0. Less m, a whole number, it is exact as long
# as the term is not 0 and |y| is below 512, and the hardware's power of two of the same fraction has the same digits:
# among exponents below 0, that is. Above, it has others (measured on an H200, for all fractions of the grid and all
# whole parts), so exponents are kept below, and the power of two that is missing is multiplied when terms are rounded.
#
# The error is 2^-14 * ln 2 at most, a fiftieth of what rounding the term to bf16 is. Where |y| is larger, what an f32
# has of a fraction would not do, and the term is that of every other type. Which of the two it is depends on x alone.
# A row whose maximum is below 350 has none of the others but those that are 0, so that one question serves a row.
# Terms below 2^-125 of the largest are 0.
