"""Random programs that can be differentiated anywhere: f64, one number as result, values of moderate size.

Enters: a seed. Leaves: a `GradientProgram` of 5 to 40 statements with loops and branches, and its derivatives of first
and second order, in the language itself. Operands are kept where an operator is smooth (a logarithm takes
x * x + 0.5), results that could grow are bent back by x / (1 + x * x), and what jumps is moved off the whole numbers on
which rounding would decide.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tesserac.ops.registry import OPERATORS, Operator
from tesserac.ops.signature import ANY_ELEMENT
from tesserac.types.dims import Dim
from tesserac.types.dtype import F64, I64
from tesserac.types.ty import TensorType
from tests.support.gradient_statements import FUNCTIONS, TransformWriter
from tests.support.program_gen import NOT_DRAWN, SYMBOLS, NoFit, Program, type_text

SIZES = ((1, 2, 3, 4), (1, 2, 5, 36))
"""Those of differences, and those that threads share."""
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow"}
"""Their operands must be above 0."""
DIVIDING = {"div", "atan2"}
"""Their second operand must not be near 0."""
JUMPING = {"floor", "ceil", "rint", "exp_int", "exp_frac", "cast", "less", "less_equal", "equal", "not_equal"}
"""Their first operand must not be where rounding decides."""
TAME = {"sin", "cos", "tanh", "erf", "erfc", "atan", "atan2", "maximum", "minimum", "max", "min", "mean", "neg", "sort"}
"""Operators whose results are no larger than their operands, or than a few; those that only move are so as well."""
WITHOUT_SLOPE = {"stop_gradient", "stochastic_round", "exp_term", "exp_lifted", "ldexp", "bitcast_equal"}
"""Their derivative is not the slope of their values, or only if an operand is a whole number."""


@dataclass(frozen=True)
class GradientProgram(Program):
    """`first` and `second` take the parameters of `f` and directions like them. `still` takes, behind the parameters,
    what `f` holds by `stop_gradient`, which `held` gives: its slope is the derivative."""

    stops: bool


def gradient_program(seed: int, least: int = 5, most: int = 40) -> GradientProgram:
    return _GradientWriter(seed, random.Random(seed)).gradient_program(least, most)


class _GradientWriter(TransformWriter):
    dtypes = (F64,)
    casts = (F64, F64, I64)
    not_drawn = NOT_DRAWN | WITHOUT_SLOPE
    thresholds = ("0.0137", "1.4713", "-2.0731")

    def __init__(self, seed: int, rng: random.Random) -> None:
        super().__init__(seed, rng)
        self.sizes = [{symbol: rng.choice(sizes) for symbol in SYMBOLS} for sizes in SIZES]

    def gradient_program(self, least: int, most: int) -> GradientProgram:
        parameters = [self._parameter() for _ in range(self.rng.randint(1, 3))]
        parameters[0] = TensorType((Dim.sym("N"), Dim.sym("M")), F64)
        parameters.insert(1, TensorType((Dim.sym("M"), Dim.sym("K")), F64))
        self.names = {f"p{number}": type_ for number, type_ in enumerate(parameters)}
        wanted = self.rng.randint(least, most)
        while len(self.used) < wanted:
            self._statement()
        body = [*self.lines, f"    return {self._result()}", ""]
        text = FUNCTIONS + with_derivatives(body, [type_text(t) for t in parameters], self.stopped)
        used = tuple(self.used)
        return GradientProgram(self.seed, text, tuple(parameters), tuple(self.sizes), used, bool(self.stopped))

    def _result(self) -> str:
        """One number that follows from all that nothing has read, and from the parameters, so that each has a slope."""
        floats = {name: t for name, t in self.names.items() if t.dtype is F64}
        ends = dict.fromkeys([*self._unread(floats), *(n for n in self.changed if n in floats)])
        terms = [f"sum(bent({name}))" for name in ends]
        return " + ".join([*terms, *(f"sum({p} * {p})" for p in floats if p.startswith("p"))])

    def _apply(self, cls: type[Operator], fields: dict[str, object], operands: Sequence[str], text: str) -> None:
        chosen = operands if cls.name in POSITIVE else operands[1:2] if cls.name in DIVIDING else ()
        for name in dict.fromkeys(chosen):
            text = re.sub(rf"\b{name}\b", f"({name} * {name} + 0.5)", text)
        if cls.name in JUMPING and self.names[operands[0]].dtype is F64:
            text = re.sub(rf"\b{operands[0]}\b", f"({operands[0]} * 0.7 + 0.3141)", text, count=1)
        super()._apply(cls, fields, operands, text)

    def _bind(self, text: str, type_: TensorType, operator: str) -> str:
        moves = operator in TAME or self._only_moves(operator)
        bounded = text if moves or type_.dtype is not F64 else f"bent({text})"
        return super()._bind(bounded, type_, operator)

    def _only_moves(self, operator: str) -> bool:
        """Whether elements of the result are elements of operands: the signature gives `E` for `E`."""
        if operator not in OPERATORS:
            return operator in ("update", "cut")
        element = OPERATORS[operator].parsed[0].result.element
        return (element.variable, element.function) == (ANY_ELEMENT, "")

    def _refuse_large(self, type_: TensorType) -> None:
        """Nor what is empty: means of nothing are NaN."""
        super()._refuse_large(type_)
        if any(dim.evaluate(sizes) < 1 for sizes in self.sizes for dim in type_.dims):
            raise NoFit


# ------------------------------------------------------------------------------------------------------ derivatives

DERIVATIVES = """
def first({p_types}, {w_types}):
    y, along = jvp(f, ({p}), ({w}))
    value, back = value_and_grad(f, wrt={wrt})({p})
    return y, along, value, {backs}

def forward({p_types}, {w_types}) -> Tensor[f64]:
    return jvp(f, ({p}), ({w}))[1]

def reverse({p_types}, {w_types}) -> Tensor[f64]:
    back = grad(f, wrt={wrt})({p})
    return {paired}

def second({p_types}, {w_types}, {u_types}):
    both = jvp(forward, ({p}, {w}), ({u}, {zeros}))[1]
    change = jvp(reverse, ({p}, {w}), ({u}, {zeros}))[1]
    back = grad(reverse, wrt={wrt})({p}, {w})
    return both, change, {backs}
"""


def with_derivatives(body: Sequence[str], types: Sequence[str], stopped: dict[str, str]) -> str:
    """`f`, and the functions of `GradientProgram`."""
    count = range(len(types))
    names = {letter: [f"{letter}{i}" for i in count] for letter in "pwu"}
    typed = {f"{k}_types": ", ".join(f"{k}{i}: {types[i]}" for i in count) for k in "pwu"}
    parts = DERIVATIVES.format(
        **typed,
        **{letter: ", ".join(found) for letter, found in names.items()},
        wrt=f"({', '.join(map(str, count))})",
        zeros=", ".join(f"zeros_like(w{i})" for i in count),
        paired=" + ".join(f"sum(back[{i}] * w{i})" for i in count),
        backs=", ".join(f"back[{i}]" for i in count),
    )
    head = typed["p_types"]
    text = "\n".join([f"def f({head}) -> Tensor[f64]:", *body]) + parts
    return text + _held(body, head, stopped) if stopped else text


def _held(body: Sequence[str], head: str, stopped: dict[str, str]) -> str:
    """The same function with what it stops as arguments, and the function that gives these."""
    fixed = [re.sub(r"stop_gradient\((\w+)\)", r"held_\1", line) for line in body]
    given = ", ".join(f"held_{name}: {type_}" for name, type_ in stopped.items())
    values = ", ".join(stopped) + ("," if len(stopped) == 1 else "")
    return "\n".join(
        [
            *(f"\ndef still({head}, {given}) -> Tensor[f64]:", *fixed),
            *(f"\ndef held({head}):", *body[:-2], f"    return ({values})", ""),
        ]
    )
