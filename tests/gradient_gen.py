"""Random programs that can be held to finite differences: f64, one number as result, values of moderate size.

Enters: a seed. Leaves: a `Program` of 5 to 40 statements with loops and branches. Operands are kept where an operator
is smooth (a logarithm takes x * x + 0.5), and results that could grow are bent back by x / (1 + x * x).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from tesserac.ops.registry import OPERATORS, Operator
from tesserac.ops.signature import ANY_ELEMENT
from tesserac.types.dims import Dim
from tesserac.types.dtype import F64, I64
from tesserac.types.ty import TensorType
from tests.program_gen import NOT_DRAWN, SYMBOLS, Program, ProgramWriter, type_text

SIZES = (1, 2, 3, 4)
BENT = "def bent(x: Tensor[...]):\n    return x / (1.0 + x * x)\n\n"
"""Cheap in the interpreter, and no larger than 1/2."""
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow"}
"""Their operands must be above 0."""
DIVIDING = {"div", "atan2"}
"""Their second operand must not be near 0."""
TAME = {"sin", "cos", "tanh", "erf", "erfc", "atan", "atan2", "maximum", "minimum", "max", "min", "mean", "neg", "sort"}
"""Operators whose results are no larger than their operands, or than a few; those that only move are so as well."""
WITHOUT_SLOPE = {"stop_gradient", "stochastic_round", "exp_term", "ldexp", "sub_ln2", "add_ln2"}
"""Their derivative is not the slope of their values, or only if an operand is a whole number."""


def gradient_program(seed: int, least: int = 5, most: int = 40) -> Program:
    return _GradientWriter(seed, random.Random(seed)).program(least, most)


class _GradientWriter(ProgramWriter):
    dtypes = (F64,)
    casts = (F64, F64, I64)
    not_drawn = NOT_DRAWN | WITHOUT_SLOPE

    def __init__(self, seed: int, rng: random.Random) -> None:
        super().__init__(seed, rng)
        self.sizes = [{symbol: rng.choice(SIZES) for symbol in SYMBOLS}]

    def program(self, least: int, most: int) -> Program:
        parameters = [self._parameter() for _ in range(self.rng.randint(1, 3))]
        parameters[0] = TensorType((Dim.sym("N"), Dim.sym("M")), F64)
        parameters.insert(1, TensorType((Dim.sym("M"), Dim.sym("K")), F64))
        self.names = {f"p{number}": type_ for number, type_ in enumerate(parameters)}
        wanted = self.rng.randint(least, most)
        while len(self.used) < wanted:
            self._statement()
        head = ", ".join(f"p{i}: {type_text(t)}" for i, t in enumerate(parameters))
        text = BENT + "\n".join([f"def f({head}) -> Tensor[f64]:", *self.lines, f"    return {self._result()}", ""])
        return Program(self.seed, text, tuple(parameters), tuple(self.sizes), tuple(self.used))

    def _result(self) -> str:
        """One number that follows from all that nothing has read, and from the parameters, so that each has a slope."""
        floats = {name: t for name, t in self.names.items() if t.dtype is F64}
        ends = dict.fromkeys([*self._unread(floats), *(n for n in self.changed if n in floats)])
        terms = [f"sum(bent({name}))" for name in ends]
        return " + ".join([*terms, *(f"sum({p} * {p})" for p in floats if p.startswith("p"))])

    def _makers(self) -> list[tuple[int, Callable[[], None]]]:
        """A `while` loop has no known number of turns to go back through."""
        return [(weight, maker) for weight, maker in super()._makers() if maker != self._while]

    def _apply(self, cls: type[Operator], fields: dict[str, object], operands: Sequence[str], text: str) -> None:
        chosen = operands if cls.name in POSITIVE else operands[1:2] if cls.name in DIVIDING else ()
        for name in dict.fromkeys(chosen):
            text = re.sub(rf"\b{name}\b", f"({name} * {name} + 0.5)", text)
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
