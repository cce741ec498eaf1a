"""Elementary functions as instructions: the steps of `numerics/elementary.py`, one after the other.

Several arguments are computed side by side, step by step, so that the processor finds independent work. Steps equal to
earlier ones of the same body (exp_int and exp_frac of one x share most of theirs) are made once. A function of very
many steps (random bits) is a function of the module too, which all kernels call: a call costs a few steps of
hundreds, and LLVM sees the steps once and not in every loop of every kernel. So is any function of some steps where
it is applied to the few elements that vectors leave over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tesserac.numerics.elementary import program
from tesserac.numerics.exponential_parts import SCALED
from tesserac.numerics.logarithm import CORNERS, EXPONENT, FRACTION
from tesserac.numerics.program import POW2, Program, Step
from tesserac.target.cpu.elements.scalars import emit_scalar
from tesserac.target.emit import Function, Module
from tesserac.target.flow import choose
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import (
    F32,
    F64,
    I1,
    I32,
    LType,
    Value,
    const_float,
    const_int,
    integer,
    like,
    structure,
    undefined,
    vector,
)
from tesserac.types.dtype import F32 as SINGLE
from tesserac.types.dtype import DType

Memo = dict[tuple[str, ...], Value]
"""Steps already made in a body, by operation and operands."""

_LONG = 128
"""Steps from which on a program is called, not written where it is used: one of a hundred shows the call."""

_LONG_FOR_REST = 12
"""The same for elements that whole groups leave over: there are few of them, in every loop of every kernel."""

_WHOLE_VECTORS = {vector(F32, 16): "ps", vector(F64, 8): "pd"}
"""Vectors that instructions scale by powers of two, and take apart, where a machine has them."""
_CURRENT_DIRECTION = 4
_FROM_ONE_TO_TWO = 0
"""Where an instruction puts the fraction of a number."""
_QUIET_NAN, _SIGNALLING_NAN, _ZERO, _MINUS_INFINITE, _INFINITE, _NEGATIVE = 0, 1, 2, 4, 5, 6
_ITSELF_AS_NAN, _NAN, _TO_MINUS_INFINITY, _TO_INFINITY = 2, 3, 4, 5
_BY_KIND = {
    _QUIET_NAN: _ITSELF_AS_NAN, _SIGNALLING_NAN: _ITSELF_AS_NAN, _ZERO: _TO_MINUS_INFINITY, _MINUS_INFINITE: _NAN,
    _INFINITE: _TO_INFINITY, _NEGATIVE: _NAN,
}  # fmt: skip
"""Kinds of numbers, and what a logarithm is of each, in the numbers that an instruction has for them."""
_NO_FLAGS = 0

_FRACTION_BITS = {32: 23, 64: 52}


def expand(
    b: Builder, name: str, dtype: DType, arguments: Sequence[Sequence[Value]], memo: Memo, *, rest: bool, scales: bool
) -> list[Value]:
    """The function of each tuple of arguments; all tuples have one type. `rest` is for what a loop leaves over;
    where the machine `scales` vectors by powers of two, ldexp is that, and so are parts of other functions."""
    if name == "ldexp" and scales and dtype == SINGLE and all(row[0].type in _WHOLE_VECTORS for row in arguments):
        return [_scaled(b, x, _exponent_of(b, k, memo)) for x, k in arguments]
    if name == "ldexp" and scales and dtype == SINGLE and all(row[0].type == F32 for row in arguments):
        return [_number_scaled(b, x, k) for x, k in arguments]
    steps = program(name, dtype)
    if steps.length >= _LONG:
        return _called(b, "long", steps, arguments, scales)
    if rest and steps.length >= _LONG_FOR_REST:
        return _called(b, "rest", steps, arguments, scales)
    return _run(b, steps, arguments, memo, scales)


def expand_ahead(
    b: Builder, name: str, dtype: DType, arguments: Sequence[Value | None], memo: Memo, *, scales: bool
) -> None:
    """The steps of a function that need none of the arguments that vary, which are None: before a loop, into the memo
    that its body starts with."""
    if name == "ldexp":
        if scales and dtype == SINGLE and arguments[1] is not None and arguments[1].type in _WHOLE_VECTORS:
            _exponent_of(b, arguments[1], memo)
        return
    steps = program(name, dtype)
    if steps.length >= _LONG:
        return
    given = next(value for value in arguments if value is not None)
    values: list[Value | None] = list(arguments)
    varies = [value is None for value in arguments]
    for step in steps.steps:
        varies.append(step.program is not None or any(varies[i] for i in step.args))
        condition = values[step.args[0]] if step.op == "when" else None
        if condition is not None:
            _any_lane(b, condition, memo)
        known = [given if value is None else value for value in values]
        values.append(None if varies[-1] else _step(b, step, dtype, known, memo))


def _scaled(b: Builder, x: Value, k: Value) -> Value:
    """ldexp by one instruction, which rounds once, as the last of three products does."""
    return _of_whole_vector(b, "scalef", x, k)


def _number_scaled(b: Builder, x: Value, k: Value) -> Value:
    """The same of one number, in the first lane: three factors, one after the other, take three times as long."""
    whole = vector(F32, 16)
    lanes = [b.insert(undefined(whole), value, 0) for value in (x, k)]
    return b.extract(_scaled(b, lanes[0], _whole_exponent(b, lanes[1])), 0)


def _exponent_of_number(b: Builder, x: Value) -> Value:
    return _of_whole_vector(b, "getexp", x)


def _fraction_of_number(b: Builder, x: Value) -> Value:
    return _of_whole_vector(b, "getmant", x, const_int(I32, _FROM_ONE_TO_TWO))


def _corners_of_logarithm(b: Builder, x: Value, finite: Value) -> Value:
    """The kind of x says whether `finite` stays, or what comes in its place: four bits of a table for each kind."""
    answers = sum(answer << 4 * kind for kind, answer in _BY_KIND.items())
    table = const_int(like(x.type, integer(x.type.bits)), answers)
    return _on_whole_vector(b, "fixupimm", finite, x, table, const_int(I32, _NO_FLAGS))


def _of_whole_vector(b: Builder, name: str, x: Value, *more: Value) -> Value:
    return _on_whole_vector(b, name, x, *more, x)


def _on_whole_vector(b: Builder, name: str, *given: Value) -> Value:
    """For all lanes, rounded as usual."""
    type_ = given[0].type
    whole, direction = const_int(integer(type_.lanes), -1), const_int(I32, _CURRENT_DIRECTION)
    code = f"llvm.x86.avx512.mask.{name}.{_WHOLE_VECTORS[type_]}.512"
    return b.intrinsic(code, type_, [*given, whole, direction])


def _exponent_of(b: Builder, k: Value, memo: Memo) -> Value:
    key = ("scaled", str(k))
    if key not in memo:
        memo[key] = _whole_exponent(b, k)
    return memo[key]


def _whole_exponent(b: Builder, k: Value) -> Value:
    """The exponent that the three factors of ldexp have together: the instruction takes the floor of what is no whole
    number, and has rules of its own for NaN. 2**300 reaches beyond the largest number from the least, and back. As
    there, what is in the middle between two goes to the one that is even beside the magic number, counted from 127
    behind the first factor."""
    low, high, first, second, none = (const_float(k.type, bound) for bound in (-300.0, 300.0, 127.0, 254.0, 0.0))
    above = b.select(b.fcmp("ogt", k, low), k, low)
    near = b.select(b.fcmp("olt", above, high), above, high)
    behind = b.binary("and", b.fcmp("ogt", near, first), b.fcmp("ole", near, second))
    start, magic = b.select(behind, first, none), const_float(k.type, POW2[k.type.bits])
    return b.fadd(b.fsub(b.fadd(b.fsub(near, start), magic), magic), start)


def _called(b: Builder, stem: str, steps: Program, rows: Sequence[Sequence[Value]], scales: bool) -> list[Value]:
    """A call of the function that has the steps for as many rows, in which the same operands are equal."""
    distinct = list({str(value): value for row in rows for value in row}.values())
    places = {str(value): place for place, value in enumerate(distinct)}
    pattern = [[places[str(value)] for value in row] for row in rows]
    function = _function(b.module, stem, steps, [value.type for value in distinct], pattern, scales)
    results = b.call(function, distinct)
    return [b.extract_value(results, place, rows[0][0].type) for place in range(len(rows))]


def _function(
    module: Module, stem: str, steps: Program, types: Sequence[LType], pattern: Sequence[Sequence[int]], scales: bool
) -> Function:
    """Takes the operands that differ, and gives a structure of the result of each row."""
    rows = ".".join("_".join(map(str, row)) for row in pattern)
    name = f"{stem}.{steps.name}.{types[0].code}.{rows}"
    found = module.find_function(name)
    if found is not None:
        return found
    result = structure(*[types[0]] * len(pattern))
    made = module.function(name, result, types, attributes=("nounwind", "memory(none)"), linkage="internal")
    made.is_common = True
    b, given = made.builder, undefined(result)
    for place, value in enumerate(_run(b, steps, [[made.args[i] for i in row] for row in pattern], {}, scales)):
        given = b.insert_value(given, value, place)
    b.ret(given)
    return made


def _run(b: Builder, steps: Program, arguments: Sequence[Sequence[Value]], memo: Memo, scales: bool) -> list[Value]:
    made = [list(values) for values in arguments]
    for step in steps.steps:
        rows = [[values[i] for i in step.args] for values in made]
        if step.program is None:
            results = [_step(b, step, steps.dtype, values, memo) for values in made]
        elif step.op == "part":
            results = _part(b, step.program, rows, memo, scales)
        else:
            results = _when(b, step.program, rows, memo)
        for values, result in zip(made, results, strict=True):
            values.append(result)
    return [values[-1] for values in made]


def _part(b: Builder, steps: Program, rows: Sequence[Sequence[Value]], memo: Memo, scales: bool) -> list[Value]:
    """By one instruction where there is one."""
    instruction = _PARTS.get(steps.name) if scales and rows[0][0].type in _WHOLE_VECTORS else None
    if instruction is None:
        return _run(b, steps, rows, memo, scales)
    for row in rows:
        key = (steps.name, *map(str, row))
        if key not in memo:
            memo[key] = instruction(b, *row)
    return [memo[steps.name, *map(str, row)] for row in rows]


def _when(b: Builder, rare: Program, rows: Sequence[Sequence[Value]], memo: Memo) -> list[Value]:
    """Jumps over the rare program unless some lane of some row needs it."""
    function = _rare_function(b.module, rare, rows[0][1].type)
    some = reduce(lambda x, y: b.binary("or", x, y), [_any_lane(b, row[0], memo) for row in rows])

    def run() -> list[Value]:
        return [b.select(row[0], b.call(function, row[2:]), row[1]) for row in rows]

    return choose(b, some, run, lambda: [row[1] for row in rows])


def _rare_function(module: Module, rare: Program, type_: LType) -> Function:
    """A function of its own: it is long, and all rows and bodies share it."""
    name = f"rare.{rare.name}.{type_.code}"
    found = module.find_function(name)
    if found is not None:
        return found
    attributes = ("nounwind", "noinline", "cold", "memory(none)")
    made = module.function(name, type_, [type_] * rare.arity, attributes=attributes, linkage="internal")
    made.is_common = True
    [result] = _run(made.builder, rare, [made.args], {}, scales=False)
    made.builder.ret(result)
    return made


def _any_lane(b: Builder, condition: Value, memo: Memo) -> Value:
    if condition.type == I1:
        return condition
    key = ("some lane", str(condition))
    if key not in memo:
        memo[key] = b.intrinsic("llvm.vector.reduce.or", I1, [condition], [condition.type])
    return memo[key]


def _step(b: Builder, step: Step, dtype: DType, values: Sequence[Value], memo: Memo) -> Value:
    if step.op == "constant":
        type_ = values[0].type
        return const_int(type_, int(step.value)) if dtype.is_integer else const_float(type_, step.value)
    operands = [values[i] for i in step.args]
    key = (step.op, *(str(v) for v in operands))
    if key not in memo:
        memo[key] = emit_scalar(b, step.op, dtype, operands) if dtype.is_integer else _STEPS[step.op](b, *operands)
    return memo[key]


def _unary(name: str) -> Callable[[Builder, Value], Value]:
    def emit(b: Builder, x: Value) -> Value:
        return b.intrinsic(name, x.type, [x], [x.type])

    return emit


def _copysign(b: Builder, x: Value, sign: Value) -> Value:
    return b.intrinsic("llvm.copysign", x.type, [x, sign], [x.type])


def _compare(predicate: str) -> Callable[[Builder, Value, Value], Value]:
    def emit(b: Builder, x: Value, y: Value) -> Value:
        return b.fcmp(predicate, x, y)

    return emit


def _pow2(b: Builder, n: Value) -> Value:
    """Adding the magic number leaves n + bias in the low bits; shifted into place they are the exponent of 2**n."""
    return _exponent(b, b.fadd(n, const_float(n.type, POW2[n.type.bits])))


def _exponent(b: Builder, biased: Value) -> Value:
    bits = biased.type.bits
    ints = like(biased.type, integer(bits))
    shifted = b.binary("shl", b.cast("bitcast", biased, ints), const_int(ints, _FRACTION_BITS[bits]))
    return b.cast("bitcast", shifted, biased.type)


def _logb(b: Builder, x: Value) -> Value:
    bits = x.type.bits
    ints = like(x.type, integer(bits))
    exponent = b.binary("lshr", b.cast("bitcast", x, ints), const_int(ints, _FRACTION_BITS[bits]))
    unbiased = b.binary("sub", exponent, const_int(ints, 127 if bits == 32 else 1023))
    return b.cast("sitofp", unbiased, x.type)


def _significand(b: Builder, x: Value) -> Value:
    bits = x.type.bits
    ints = like(x.type, integer(bits))
    fraction = (1 << _FRACTION_BITS[bits]) - 1
    one = (127 if bits == 32 else 1023) << _FRACTION_BITS[bits]
    kept = b.binary("and", b.cast("bitcast", x, ints), const_int(ints, fraction))
    return b.cast("bitcast", b.binary("or", kept, const_int(ints, one)), x.type)


_STEPS: dict[str, Callable[..., Value]] = {
    "add": Builder.fadd,
    "sub": Builder.fsub,
    "mul": Builder.fmul,
    "div": Builder.fdiv,
    "fma": Builder.fma,
    "sqrt": _unary("llvm.sqrt"),
    "neg": Builder.fneg,
    "abs": _unary("llvm.fabs"),
    "copysign": _copysign,
    "rint": _unary("llvm.roundeven"),
    "lt": _compare("olt"),
    "le": _compare("ole"),
    "eq": _compare("oeq"),
    "select": Builder.select,
    "pow2": _pow2,
    "exponent": _exponent,
    "logb": _logb,
    "significand": _significand,
}

_PARTS: dict[str, Callable[..., Value]] = {
    SCALED: _scaled,
    EXPONENT: _exponent_of_number,
    FRACTION: _fraction_of_number,
    CORNERS: _corners_of_logarithm,
}
