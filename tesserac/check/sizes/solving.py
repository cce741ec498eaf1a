"""Turns a fact about sizes into a replacement of one symbol.

Enters: an equality or a divisibility between sizes in normal form. Leaves: the symbol that is replaced and what by; for
an equality in which no symbol stands alone, a rule that replaces a product.

    D % h == 0        D  is  h*D'                (D' is a new size)
    N % 4 == 3        N  is  4*N' + 3
    A*B == C*D        A*B  is  C*D
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.polynomial import of_atom
from tesserac.types.terms import Monomial, Opaque, is_whole, join, power
from tesserac.types.unify import linear_in

_REWRITES = 64
Rule = tuple[Monomial, Dim]


@dataclass(frozen=True)
class Solved:
    """`name` is `value`, in which `signed` are new symbols that may be negative; or `rules`, or what must divide first.
    Without a name, there is nothing to replace."""

    name: str = ""
    value: Dim = ZERO
    signed: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = ()
    divisions: tuple[tuple[Dim, Dim], ...] = ()


def solve_equal(left: Dim, right: Dim) -> Solved:
    """The later name is replaced by the earlier, where it stands alone or times a number."""
    gap = left - right
    remainder = _remainder(gap) or _remainder(-gap)
    if remainder is not None:
        return Solved(divisions=(remainder,))
    scaled: list[tuple[str, Dim, Dim]] = []
    for name in sorted(gap.symbols(), reverse=True):
        linear = linear_in(gap, name)
        if linear is None or linear[0].constant is None:
            continue
        factor, rest = linear
        if factor in (ONE, -ONE):
            return Solved(name, (-rest).exact_div(factor))
        scaled.append((name, factor, rest))
    if scaled:
        name, factor, rest = scaled[0]
        value = (-rest).exact_div(factor)
        whole = all(is_whole(*term) for term in value.terms)
        return Solved(name, value) if whole else Solved(divisions=((factor, rest),))
    return Solved(rules=_product_rule(gap))


def _remainder(gap: Dim) -> tuple[Dim, Dim] | None:
    """`(4, N - 3)` of what says that `N % 4` is 3."""
    for atom in sorted(gap.atoms(), key=str):
        divisor = atom.args[1].constant if isinstance(atom, Opaque) and atom.function == "floor_div" else None
        if isinstance(atom, Opaque) and divisor is not None and divisor > 0:
            rest = (atom.args[0] - gap - of_atom(atom) * divisor).constant
            if rest is not None and 0 <= rest < divisor:
                return Dim.const(divisor), atom.args[0] - rest
    return None


def _product_rule(gap: Dim) -> tuple[Rule, ...]:
    """The product of highest degree is replaced by the rest; every product so made is shorter or comes earlier."""
    products = [(m, c) for m, c in gap.terms if len(m) > 1 and all(e > 0 for _, e in m) and abs(c) == 1]
    if not products:
        return ()
    monomial, coefficient = products[-1]
    rest = gap - Dim(((monomial, coefficient),))
    return ((monomial, (-rest).exact_div(Dim.const(coefficient))),)


def rewrite(dim: Dim, rules: Sequence[Rule]) -> Dim:
    """The size with products replaced by the rules, a bounded number of times."""
    for _ in range(_REWRITES if rules else 0):
        for monomial, value in rules:
            step = _replace_product(dim, monomial, value)
            if step is not None:
                dim = step
                break
        else:
            return dim
    return dim


def _replace_product(dim: Dim, product: Monomial, value: Dim) -> Dim | None:
    for monomial, coefficient in dim.terms:
        powers = dict(monomial)
        if all(powers.get(atom, 0) >= exponent for atom, exponent in product):
            rest = Dim(((join(monomial, power(product, -1)), coefficient),))
            return dim - Dim(((monomial, coefficient),)) + rest * value
    return None


def solve_divides(divisor: Dim, dividend: Dim, fixed: Container[str]) -> Solved | None:
    """A symbol of the dividend as a multiple of the divisor plus a rest; None where no symbol stands alone. `fixed`
    symbols are not replaced."""
    if divisor.constant is not None:
        return _solve_modulo(divisor.constant, dividend, fixed)
    for name in sorted(dividend.symbols() - divisor.symbols(), reverse=True):
        linear = None if name in fixed else linear_in(dividend, name)
        if linear is not None and linear[0] in (ONE, -ONE) and all(is_whole(*term) for term in linear[1].terms):
            factor, rest = linear
            return _multiple(name, divisor, -(rest * factor))
    return None


def _solve_modulo(number: int, dividend: Dim, fixed: Container[str]) -> Solved | None:
    """Modulo a number: a factor that both share is cancelled, any other is inverted."""
    if number == 0 or not all(is_whole(*term) for term in dividend.terms):
        return None
    shared = math.gcd(number, *(c.numerator for _, c in dividend.terms))
    number, dividend = abs(number) // shared, dividend.exact_div(shared)
    if number == 1:
        return Solved()
    for name in sorted(dividend.symbols(), reverse=True):
        linear = None if name in fixed else linear_in(dividend, name)
        factor = None if linear is None else linear[0].constant
        if linear is not None and factor is not None and math.gcd(factor, number) == 1:
            inverse = pow(factor, -1, number)
            rest = -linear[1] * inverse
            least = rest if rest.constant is None else Dim.const(rest.constant % number)
            return _multiple(name, Dim.const(number), least)
    return None


def _multiple(name: str, divisor: Dim, rest: Dim) -> Solved:
    """`name` is `divisor * new + rest`; where the rest is a number below the divisor, `new` is a size as `name` is."""
    new = f"{name}'"
    small = rest == ZERO or (divisor.constant is not None and rest.constant is not None)
    return Solved(name, Dim.sym(new) * divisor + rest, frozenset() if small else frozenset({new}))
