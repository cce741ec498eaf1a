"""Linear inequalities over products of sizes, decided by Fourier-Motzkin elimination.

Enters: rows, each a size that is at least 0. Leaves: whether no values at all satisfy all of them. A product of sizes
counts as one variable, so the answer "yes" is certain and "no" may be a want of knowledge.

    N - i - 1 >= 0,  i - N >= 0      add up to  -1 >= 0: no values

Work is counted, not timed: more combinations than `budget` end the search, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tesserac.types.polynomial import Dim
from tesserac.types.terms import Monomial

Row = tuple[frozenset[tuple[Monomial, int]], int]
"""Coefficients, without common factor, and the constant: their sum is at least 0."""


@dataclass
class Budget:
    """How many combinations of rows are left; shared by the cases of one question."""

    left: int
    asked: int = field(default=0, init=False)

    def take(self) -> bool:
        self.asked += 1
        self.left -= 1
        return self.left >= 0

    @property
    def spent(self) -> bool:
        return self.left < 0


def contradicts(sizes: Iterable[Dim], budget: Budget) -> bool:
    """Whether the sizes cannot all be at least 0. False also where the budget ends first."""
    rows: dict[frozenset[tuple[Monomial, int]], int] = {}
    for size in sizes:
        _add(rows, dict(size.terms))
    while not budget.spent:
        if rows.get(frozenset(), 0) < 0:
            return True
        variable = _cheapest(rows)
        if variable is None:
            return False
        rows = _eliminate(rows, variable, budget)
    return False


def _add(rows: dict[frozenset[tuple[Monomial, int]], int], terms: Mapping[Monomial, Fraction | int]) -> None:
    """Adds a row in lowest terms; of rows with the same coefficients the strictest stays."""
    scale = math.lcm(*(Fraction(c).denominator for c in terms.values()))
    scaled = {monomial: int(c * scale) for monomial, c in terms.items()}
    constant = scaled.pop((), 0)
    divisor = math.gcd(*scaled.values()) or max(abs(constant), 1)
    whole = all(exponent > 0 for monomial in scaled for _, exponent in monomial)
    if not whole and scaled:  # a quotient is whole by promise, but the multiple that makes it so is not known here
        divisor = math.gcd(divisor, constant)
    coefficients = frozenset((monomial, c // divisor) for monomial, c in scaled.items())
    bound = constant // divisor
    rows[coefficients] = min(rows.get(coefficients, bound), bound)


def _cheapest(rows: Mapping[frozenset[tuple[Monomial, int]], int]) -> Monomial | None:
    """The variable whose elimination makes the fewest rows; None if none is left."""
    signs: dict[Monomial, list[int]] = {}
    for coefficients in rows:
        for monomial, c in coefficients:
            signs.setdefault(monomial, [0, 0])[c > 0] += 1
    return min(signs, key=lambda m: signs[m][0] * signs[m][1], default=None)


def _eliminate(
    rows: Mapping[frozenset[tuple[Monomial, int]], int], variable: Monomial, budget: Budget
) -> dict[frozenset[tuple[Monomial, int]], int]:
    """Every row without the variable, and every sum of two rows in which it cancels."""
    kept: dict[frozenset[tuple[Monomial, int]], int] = {}
    above: list[dict[Monomial, int]] = []
    below: list[dict[Monomial, int]] = []
    for coefficients, constant in rows.items():
        terms = {**dict(coefficients), (): constant}
        own = terms.get(variable, 0)
        if own == 0:
            kept[coefficients] = constant
        else:
            (above if own > 0 else below).append(terms)
    for up in above:
        for down in below:
            if not budget.take():
                return kept
            _add(kept, _combine(up, -down[variable], down, up[variable]))
    return kept


def _combine(left: dict[Monomial, int], by: int, right: dict[Monomial, int], times: int) -> dict[Monomial, int]:
    total = {monomial: c * by for monomial, c in left.items()}
    for monomial, c in right.items():
        total[monomial] = total.get(monomial, 0) + c * times
    return {monomial: c for monomial, c in total.items() if c or monomial == ()}
