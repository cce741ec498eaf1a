"""Straight-line programs over correctly rounded scalar primitives: how elementary functions are written down.

A program of an integer dtype is made of `constant add sub mul and or xor shl shr`, which wrap.

Enters: a description by a `Draft`. Leaves: a `Program`, plain data that the interpreter evaluates with NumPy and that
targets expand into instructions, one primitive after the other. No primitive may be reassociated, contracted into
an fma or replaced by an approximation, so every target computes the same bits.

| primitive       | meaning                                                                                  |
|-----------------|------------------------------------------------------------------------------------------|
| constant        | a value of the dtype                                                                     |
| add sub mul div | rounded to nearest even; subnormals are kept                                             |
|                 | a `near` quotient has a divisor above 0; both are within 2^-65 and 2^60, or the         |
|                 | numerator is 0, or one is NaN                                                            |
| fma a b c       | a * b + c, rounded once                                                                  |
| sqrt            | rounded to nearest even                                                                  |
| neg abs         | exact; only the sign bit changes                                                         |
| copysign a b    | the magnitude of a with the sign bit of b                                                |
| rint            | the nearest integer, ties to even; infinities and NaN stay                               |
| lt le eq        | a bool; false if either is NaN                                                           |
| select c a b    | a where c, else b; `select(lt(a, b), a, b)` is one minimum instruction on most machines  |
| pow2 n          | 2**n for an integer n between the exponents of the smallest and largest normal numbers,  |
|                 | by an addition and a shift: f32 `bits(n + 12583039.0) << 23`, f64                        |
|                 | `bits(n + 6755399441056767.0) << 52`. Elsewhere these bits are its value too, whatever   |
|                 | they mean, except of NaN; programs clamp first                                           |
| exponent b      | bits(b) << 23, f64 bits(b) << 52: `pow2 n` where b is n + 12583039.0, or the f64 above   |
| logb x          | the exponent of a positive normal number, as an integer of the float type                |
| significand x   | a positive normal number scaled into [1, 2): its fraction bits under the exponent of 1   |
| and or xor      | bit by bit, of integers                                                                  |
| shl shr a n     | a moved by n bits, fewer than it has; zeros come in                                      |
| when c a x...   | where c, what the step's own program makes of the x, else a: a select whose first side   |
|                 | is long and rarely needed, so that a target may jump over it where no c holds            |
| part x...       | what the step's own program makes of the x; a target that has an instruction for a        |
|                 | program of that name takes it instead                                                    |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import copysign
from typing import Any, TypeAlias

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.base.once import once
from tesserac.numerics.exact import Array, fused
from tesserac.types.dtype import DType


@dataclass(frozen=True)
class Step:
    """One primitive applied to earlier values, or a constant. `when` and `part` have a program; `div` may be `near`."""

    op: str
    args: tuple[int, ...]
    value: float = 0.0
    program: Program | None = None
    near: bool = False


@dataclass(frozen=True)
class Program:
    """Values 0 to arity - 1 are the inputs, step i makes value arity + i, the last step makes the result."""

    name: str
    dtype: DType
    arity: int
    steps: tuple[Step, ...]

    @property
    def length(self) -> int:
        """Operations, with those of parts, without what is rarely needed."""
        return sum(s.program.length if s.op == "part" and s.program else s.op != "constant" for s in self.steps)

    @once
    def evaluators(self) -> list[tuple[_Evaluator, tuple[int, ...]]]:
        """What NumPy runs for each step: the interpreter evaluates a program thousands of times."""
        dtype = np.dtype(self.dtype.numpy_name)
        return [(_evaluator(step, dtype), step.args) for step in self.steps]


_CUTS = {(True, True): ("minimum", 1.0), (True, False): ("minnum", -1.0)} | {
    (False, True): ("maximum", -1.0), (False, False): ("maxnum", 1.0),
}  # fmt: skip
"""By whether a selection keeps the smaller number, and gives the constant where its test holds: what IEEE 754 calls it,
and the sign of a zero at which it may cut. `minimum` and `maximum` give NaN where there is one, the others the other
number; all order zeros by their signs, which a test does not."""


def cut_of(program: Program, step: Step) -> str | None:
    """The name of what a selection does that cuts numbers off at a constant; None of other steps."""
    if step.op != "select":
        return None
    condition, yes, no = step.args
    test = _step_of(program, condition)
    if test is None or test.op != "lt" or set(test.args) != {yes, no}:
        return None
    for end in (yes, no):
        constant = _step_of(program, end)
        if constant is not None and constant.op == "constant":
            name, sign = _CUTS[test.args == (yes, no), end == yes]
            return None if constant.value == 0.0 and copysign(1.0, constant.value) != sign else name
    return None


def _step_of(program: Program, value: int) -> Step | None:
    return program.steps[value - program.arity] if value >= program.arity else None


def evaluate(program: Program, *inputs: Array) -> Array:
    """Runs a program on arrays of its dtype."""
    dtype = np.dtype(program.dtype.numpy_name)
    values = [np.asarray(x) for x in inputs]
    if len(values) != program.arity or any(x.dtype != dtype for x in values):
        raise TypeError(f"{program.name} takes {program.arity} arrays of {dtype}")
    with np.errstate(all="ignore"):
        return _run(program, values)


def _run(program: Program, values: list[Array]) -> Array:
    for run, args in program.evaluators:
        values.append(run(*[values[i] for i in args]))
    return values[-1]


def _part(program: Program, *operands: Array) -> Array:
    return _run(program, list(operands))


def _when(rare: Program, *operands: Array) -> Array:
    condition, otherwise, *inputs = np.broadcast_arrays(*operands)
    result = np.array(otherwise)
    if condition.any():
        result[condition] = _run(rare, [x[condition] for x in inputs])
    return result


POW2 = {32: 12583039.0, 64: 6755399441056767.0}
"""What `pow2` adds, by the bits of the type: 1.5 times the first number whose last place is 1, and the bias."""

_Evaluator: TypeAlias = Callable[..., Array]


def _pow2(n: Array) -> Array:
    """Adding 1.5 * 2**fraction_bits + bias leaves n + bias in the low bits; the shift drops all others."""
    return _exponent(np.asarray(n + n.dtype.type(POW2[8 * n.dtype.itemsize])))


def _exponent(biased: Array) -> Array:
    """The low bits of a number in the place of its exponent."""
    if biased.dtype == np.float32:
        return np.asarray(biased.view(np.uint32) << np.uint32(23)).view(np.float32)
    return np.asarray(biased.view(np.uint64) << np.uint64(52)).view(np.float64)


def _logb(x: Array) -> Array:
    return (np.frexp(x)[1] - 1).astype(x.dtype)


def _significand(x: Array) -> Array:
    return np.asarray(np.frexp(x)[0] * x.dtype.type(2))


_OWN: dict[str, _Evaluator] = {
    "fma": fused,
    "pow2": _pow2,
    "exponent": _exponent,
    "logb": _logb,
    "significand": _significand,
}
_NUMPY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "sqrt": "sqrt",
    "neg": "negative",
    "abs": "abs",
    "copysign": "copysign",
    "rint": "rint",
    "lt": "less",
    "le": "less_equal",
    "eq": "equal",
    "select": "where",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "shl": "left_shift",
    "shr": "right_shift",
}
PRIMITIVES = ("constant", "when", "part", *_OWN, *_NUMPY)


def _evaluator(step: Step, dtype: np.dtype[Any]) -> _Evaluator:
    if step.op == "constant":
        value = np.asarray(step.value, dtype)
        value.flags.writeable = False
        return lambda: value
    if step.program is not None:
        return partial(_part if step.op == "part" else _when, step.program)
    own = _OWN.get(step.op)
    found: _Evaluator = getattr(np, _NUMPY[step.op]) if own is None else own
    return found


@dataclass(frozen=True, eq=False)
class Ref:
    """A value of the program being drafted; arithmetic on it adds steps."""

    draft: Draft
    index: int

    def __add__(self, other: Ref) -> Ref:
        return self.draft.step("add", self, other)

    def __sub__(self, other: Ref) -> Ref:
        return self.draft.step("sub", self, other)

    def __mul__(self, other: Ref) -> Ref:
        return self.draft.step("mul", self, other)

    def __truediv__(self, other: Ref) -> Ref:
        return self.draft.step("div", self, other)

    def __neg__(self) -> Ref:
        return self.draft.step("neg", self)

    def __lt__(self, other: Ref) -> Ref:
        return self.draft.step("lt", self, other)

    def __le__(self, other: Ref) -> Ref:
        return self.draft.step("le", self, other)


class Draft:
    """Collects steps. Equal steps are made once, so functions that share a reduction share its steps."""

    def __init__(self, dtype: DType, arity: int) -> None:
        self.dtype = dtype
        self.inputs = [Ref(self, i) for i in range(arity)]
        self._steps: list[Step] = []
        self._made: dict[tuple[Step, float], Ref] = {}
        """By the sign of a constant, too: zeros of either are equal."""

    def step(self, op: str, *args: Ref) -> Ref:
        return self._add(Step(op, tuple(a.index for a in args)))

    def constant(self, value: float) -> Ref:
        return self._add(Step("constant", (), value))

    def _add(self, step: Step) -> Ref:
        key = step, copysign(1.0, step.value)
        if key not in self._made:
            self._made[key] = Ref(self, len(self.inputs) + len(self._steps))
            self._steps.append(step)
        return self._made[key]

    def near_quotient(self, a: Ref, b: Ref) -> Ref:
        """a / b of numbers far from the ends of the range, so that no step towards the quotient leaves it."""
        return self._add(Step("div", (a.index, b.index), near=True))

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        return self.step("fma", a, b, c)

    def select(self, condition: Ref, yes: Ref, no: Ref) -> Ref:
        return self.step("select", condition, yes, no)

    def when(self, condition: Ref, rare: Program, inputs: Sequence[Ref], otherwise: Ref) -> Ref:
        """`rare` of the inputs where the condition holds. All of them depend on the inputs of this program."""
        return self._add(Step("when", tuple(r.index for r in (condition, otherwise, *inputs)), program=rare))

    def part(self, program: Program, *inputs: Ref) -> Ref:
        return self._add(Step("part", tuple(r.index for r in inputs), program=program))

    def cut(self, x: Ref, low: float, high: float) -> Ref:
        """x cut to [low, high]; NaN stays."""
        bottom, top = self.constant(low), self.constant(high)
        at_least = self.select(x < bottom, bottom, x)
        return self.select(top < at_least, top, at_least)

    def clamp(self, x: Ref, low: float, high: float) -> Ref:
        """x cut to [low, high]; NaN becomes `low`."""
        bottom, top = self.constant(low), self.constant(high)
        at_least = self.select(bottom < x, x, bottom)
        return self.select(at_least < top, at_least, top)

    def polynomial(self, coefficients: Sequence[float], x: Ref, *, stepwise: bool = False) -> Ref:
        """c[0] + c[1] x + ...: halves in parallel (Estrin) until three terms are left, then fma by fma (Horner).
        `stepwise` is fma by fma from the first term on: longer alone, but without squares, and without a register for
        each half where an fma overwrites one of its operands."""
        terms = [self.constant(c) for c in coefficients]
        while len(terms) > 3 and not stepwise:
            paired = [self.fma(terms[i + 1], x, terms[i]) for i in range(0, len(terms) - 1, 2)]
            terms, x = paired + terms[len(paired) * 2 :], x * x
        total = terms.pop()
        while terms:
            total = self.fma(total, x, terms.pop())
        return total

    def finish(self, name: str, result: Ref) -> Program:
        """The program that ends in `result`, without steps that it does not need."""
        needed = self._needed(result.index)
        arity = len(self.inputs)
        place = {i: i for i in range(arity)}
        place.update((old, arity + new) for new, old in enumerate(needed))
        steps = [self._steps[old - arity] for old in needed]
        renumbered = (replace(s, args=tuple(place[a] for a in s.args)) for s in steps)
        return Program(name, self.dtype, arity, tuple(renumbered))

    def _needed(self, last: int) -> list[int]:
        arity = len(self.inputs)
        needed, pending = set(), [last]
        while pending:
            index = pending.pop()
            if index >= arity and index not in needed:
                needed.add(index)
                pending.extend(self._steps[index - arity].args)
        return sorted(needed)
