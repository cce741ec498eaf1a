"""Linear inequalities over products of sizes, decided by Fourier-Motzkin elimination.

Enters: rows, each a size that is at least 0. Leaves: whether no values at all satisfy all of them. A product of sizes
counts as one variable, so the answer "yes" is certain and "no" may be a want of knowledge.

    N - i - 1 >= 0,  i - N >= 0      add up to  -1 >= 0: no values

Work is counted, not timed: more combinations than `budget` end the search, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.types.polynomial import Dim
from tesserac.types.terms import Monomial

Coefficients = frozenset[tuple[Monomial, int]]
Rows = dict[Coefficients, int]
"""Coefficients, without common factor, and the constant: their sum is at least 0."""

REMEMBERED_ROWS = 4096
"""Facts that are rows of one question after the other."""


@dataclass
class Budget:
    """How many combinations of rows are left; shared by the cases of one question."""

    left: int

    def take(self, cost: int = 1) -> bool:
        self.left -= cost
        return self.left >= 0

    @property
    def spent(self) -> bool:
        return self.left < 0


def contradicts(sizes: Iterable[Dim], budget: Budget) -> bool:
    """Whether the sizes cannot all be at least 0. False also where the budget ends first."""
    rows: Rows = {}
    for size in sizes:
        _add(rows, _row_of(size))
    while not budget.spent:
        if rows.get(frozenset(), 0) < 0:
            return True
        signs = _signs(rows)
        if not signs:
            return False
        one_sided = {monomial for monomial, (below, above) in signs.items() if not below or not above}
        if one_sided:  # a row with such a variable holds once that is large enough: it cannot be in a contradiction
            rows = {row: c for row, c in rows.items() if one_sided.isdisjoint(monomial for monomial, _ in row)}
        else:
            rows = _eliminate(rows, min(signs, key=lambda m: signs[m][0] * signs[m][1]), budget)
    return False


def _add(rows: Rows, row: tuple[Coefficients, int]) -> None:
    """Of rows with the same coefficients the strictest stays."""
    coefficients, bound = row
    rows[coefficients] = min(rows.get(coefficients, bound), bound)


@lru_cache(REMEMBERED_ROWS)
def _row_of(size: Dim) -> tuple[Coefficients, int]:
    scale = math.lcm(*(c.denominator for _, c in size.terms))
    return _lowest_terms({monomial: int(c * scale) for monomial, c in size.terms})


def _lowest_terms(scaled: dict[Monomial, int]) -> tuple[Coefficients, int]:
    constant = scaled.pop((), 0)
    divisor = math.gcd(*scaled.values()) or max(abs(constant), 1)
    whole = all(exponent > 0 for monomial in scaled for _, exponent in monomial)
    if not whole and scaled:  # a quotient is whole by promise, but the multiple that makes it so is not known here
        divisor = math.gcd(divisor, constant)
    return frozenset([(monomial, c // divisor) for monomial, c in scaled.items()]), constant // divisor


def _signs(rows: Rows) -> dict[Monomial, list[int]]:
    """In how many rows each variable is negative, and in how many positive."""
    signs: dict[Monomial, list[int]] = {}
    for coefficients in rows:
        for monomial, c in coefficients:
            signs.setdefault(monomial, [0, 0])[c > 0] += 1
    return signs


def _eliminate(rows: Rows, variable: Monomial, budget: Budget) -> Rows:
    """Every row without the variable, and every sum of two rows in which it cancels."""
    kept: Rows = {}
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
            _add(kept, _lowest_terms(_combine(up, -down[variable], down, up[variable])))
    return kept


def _combine(left: dict[Monomial, int], by: int, right: dict[Monomial, int], times: int) -> dict[Monomial, int]:
    total = {monomial: c * by for monomial, c in left.items()}
    for monomial, c in right.items():
        total[monomial] = total.get(monomial, 0) + c * times
    return {monomial: c for monomial, c in total.items() if c or monomial == ()}
