"""Costs of expressions: polynomials in the sizes, compared for all sizes at once.

Enters: sizes of a type. Leaves: which of two costs is the lower one, where that can be said of every size that types
and `where` clauses allow. The sizes of one call decide nothing: see Note [Never from the sizes of a call].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import comb

from tesserac.base.dataclass import dataclass
from tesserac.ir.forms import Guard
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.polynomial import Symbol
from tesserac.types.terms import Coefficient, Monomial, TooComplex, collect

TOLERANCE = 2
"""How many times more a form may cost at some sizes that is without bound cheaper at others: `A @ (B @ v)` is one
product of vectors dearer than `(A @ B) @ v` where A has one row."""

SLACK = 8
"""Operations that decide nothing: `A @ x + v * (w @ x)` has one more than `(A + outer(v, w)) @ x` of one row."""


CALL = 10_000
"""Operations that take less time than a call does: what is cheaper without bound may be so many dearer where sizes are
small, as `u.T @ u` is than `u @ u.T` where u has 8 columns and one row."""


LARGEST_LOOKED_AT = 7
"""The power of two of sizes that are looked at one by one."""
GAIN = 8
"""How many times cheaper a form is without bound whose cost grows no slower."""


@dataclass(frozen=True)
class Facts:
    """What is known of sizes: each of `above` is at least 0. Sizes themselves are at least 1: of what is empty nothing
    is computed in any order. `expected` are what the program tells to expect; they decide where facts do not."""

    above: tuple[Dim, ...] = ()
    expected: tuple[tuple[str, int], ...] = ()

    def as_expected(self) -> Facts:
        """The facts of the sizes about which nothing is told."""
        numbers = self.numbers()
        return Facts(tuple(above.substitute(numbers) for above in self.above))

    def numbers(self) -> dict[str, Dim]:
        return {name: Dim.const(size) for name, size in self.expected}


def facts_of(guards: Iterable[Guard], expected: Mapping[str, int]) -> Facts:
    """What the guards of a function say, and what it is told to expect."""
    found: list[Dim] = []
    for guard in guards:
        if guard.kind == "at_least":
            found.append(guard.left - guard.right)
        elif guard.kind == "equal":
            found += [guard.left - guard.right, guard.right - guard.left]
    return Facts(tuple(found), tuple(expected.items()))


def counted(dim: Dim) -> Dim:
    """A size as a part of a cost: what is no polynomial (`D/heads`, `min(N, 8)`) is one unknown of its own."""
    return dim if is_polynomial(dim) else Dim.sym(f"({dim})")


def counted_all(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    return product(map(counted, dims))


@lru_cache(maxsize=8192)
def beats(new: Dim, old: Dim, facts: Facts) -> bool:
    """Whether a cost is the lower one: surely, or where neither is so, for the sizes that are expected."""
    if _surely_beats(new, old, facts):
        return True
    numbers = facts.numbers()
    if not numbers.keys() & {*new.symbols(), *old.symbols()} or _surely_beats(old, new, facts):
        return False
    return _surely_beats(new.substitute(numbers), old.substitute(numbers), facts.as_expected())


def is_open(one: Dim, two: Dim, facts: Facts) -> bool:
    """Whether neither of two costs is the lower one."""
    return one != two and not beats(one, two, facts) and not beats(two, one, facts)


def _surely_beats(new: Dim, old: Dim, facts: Facts) -> bool:
    """Whether a cost is the lower one for all sizes: nowhere above the other, or nowhere far above and without bound
    below, or nowhere above by more than a few operations and somewhere below by more."""
    if new == old:
        return False
    if new.constant is not None and old.constant is not None:
        return new.constant < old.constant
    if never_above(new, old, facts) or (never_above(new, old * TOLERANCE + CALL, facts) and _outgrows(old, new)):
        return True
    return never_above(new, old + SLACK, facts) and not never_above(old, new + SLACK, facts)


def never_above(low: Dim, high: Dim, facts: Facts) -> bool:
    """Whether `low <= high` is proven for all sizes: the difference has no negative coefficient once every size is
    written as its lower bound and a rest that is not negative, or as what lies between two numbers."""
    try:
        gap = high - low
        if (seen := _at_a_glance(gap, facts)) is not None:
            return seen
        for lower in _orders(facts):
            if all(coefficient >= 0 for coefficient in _shifted(gap, lower, _ranges(lower, facts))):
                return True
        return _is_one_known(gap, facts)
    except TooComplex:
        return False


def _is_one_known(gap: Dim, facts: Facts) -> bool:
    """Whether a polynomial of one size is nowhere negative: from some size on it has no negative coefficient, and at
    the few before it is looked at."""
    names = gap.symbols()
    if len(names) != 1 or not is_polynomial(gap):
        return False
    [name] = names
    bounds = [(Dim.sym(name) - above).constant for above in facts.above if above.symbols() == names]
    least = int(max([bound for bound in bounds if bound is not None], default=1))
    for beyond in (2**power for power in range(LARGEST_LOOKED_AT)):
        rest = gap.substitute({name: Dim.sym(name) + Dim.const(least + beyond)})
        if all(coefficient >= 0 for _, coefficient in rest.terms):
            sizes = (Dim.const(least + size) for size in range(beyond))
            return all((gap.substitute({name: size}).constant or 0) >= 0 for size in sizes)
    return False


def _at_a_glance(gap: Dim, facts: Facts) -> bool | None:
    """What is seen without writing it anew: without a negative coefficient none becomes one, and where nothing but that
    sizes are 1 or more is known, the value at 1 is the constant one of the new form."""
    coefficients = [coefficient for _, coefficient in gap.terms]
    if all(coefficient >= 0 for coefficient in coefficients):
        return True
    return False if not facts.above and sum(coefficients) < 0 and is_polynomial(gap) else None


def is_polynomial(dim: Dim) -> bool:
    return all(isinstance(atom, Symbol) and exponent > 0 for monomial, _ in dim.terms for atom, exponent in monomial)


def _orders(facts: Facts) -> Iterable[dict[str, Dim]]:
    """Lower bounds of symbols: 1 for each, and what the facts give; a bound by other symbols comes first, since it is
    the stronger one."""
    related: dict[str, Dim] = {}
    for above in facts.above:
        for name in sorted(above.symbols()):
            bound = Dim.sym(name) - above
            if name not in bound.symbols() and name not in related and not _depends(bound, name, related):
                related[name] = bound
                break
    yield related
    if related:
        yield {}


def _depends(bound: Dim, name: str, related: dict[str, Dim]) -> bool:
    """Whether a bound leads back to the symbol that it is for."""
    seen, waiting = set[str](), list(bound.symbols())
    while waiting:
        symbol = waiting.pop()
        if symbol == name:
            return True
        if symbol not in seen and symbol in related:
            seen.add(symbol)
            waiting += related[symbol].symbols()
    return False


def _ranges(lower: Mapping[str, Dim], facts: Facts) -> dict[str, tuple[int, int]]:
    """The symbols that lie between two numbers; the first is 1 unless there is another."""
    found: dict[str, tuple[int, int]] = {}
    for above in facts.above:
        names = above.symbols()
        name = next(iter(names), "")
        most = (above + Dim.sym(name)).constant if len(names) == 1 else None
        least = lower.get(name, ONE).constant
        if most is not None and least is not None and least <= most:
            found[name] = (least, min(most, found.get(name, (least, most))[1]))
    return found


def _shifted(gap: Dim, lower: dict[str, Dim], ranges: Mapping[str, tuple[int, int]]) -> Iterable[Coefficient]:
    """The coefficients of a cost once every size is its lower bound and a rest; of what lies between two numbers, see
    Note [Between two numbers]."""
    related = {name: bound for name, bound in lower.items() if name not in ranges}
    for _ in range(len(related) + 1):  # a bound may name symbols that have bounds by others
        step = {name: bound + Dim.sym(name) for name, bound in related.items() if name in gap.symbols()}
        if not step:
            break
        gap = gap.substitute(step)
        related = {name: bound for name, bound in related.items() if name not in step}
    if is_polynomial(gap):
        for name, (least, most) in ranges.items():
            gap = _between(gap, name, least, most)
        return _one_further(gap)
    free = {name: Dim.sym(name) + ONE for name in gap.symbols()}
    return [coefficient for _, coefficient in gap.substitute(free).terms]


def _between(polynomial: Dim, name: str, least: int, most: int) -> Dim:
    """A polynomial in S that has at 1 and beyond the signs of another one between two numbers."""
    symbol, spot = Symbol(name), Dim.sym(name)
    place = spot * most - (most - least)
    exponents = [dict(monomial).get(symbol, 0) for monomial, _ in polynomial.terms]
    degree = max(exponents, default=0)
    parts = [
        product([Dim(((_without(symbol, monomial), coefficient),)), *[place] * exponent, *[spot] * (degree - exponent)])
        for (monomial, coefficient), exponent in zip(polynomial.terms, exponents, strict=True)
    ]
    return Dim(collect(term for part in parts for term in part.terms))


def _without(symbol: Symbol, monomial: Monomial) -> Monomial:
    return tuple(power for power in monomial if power[0] != symbol)


def _one_further(polynomial: Dim) -> Iterable[Coefficient]:
    """The coefficients of a polynomial in N + 1, where it is one in N."""
    sums: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in polynomial.terms:
        found: list[tuple[Monomial, Coefficient]] = [((), coefficient)]
        for atom, exponent in monomial:
            powers = [(((atom, k),) if k else (), comb(exponent, k)) for k in range(exponent + 1)]
            found = [(before + own, c * times) for before, c in found for own, times in powers]
        for key, value in found:
            sums[key] = sums.get(key, 0) + value
    return sums.values()


def _outgrows(old: Dim, new: Dim) -> bool:
    """Whether the first has a term that no term of the other is a multiple of, unless by a far smaller number."""
    return any(not any(_divides(m, n) and d * d * GAIN * GAIN > c * c for n, d in new.terms) for m, c in old.terms)


def _divides(small: Monomial, large: Monomial) -> bool:
    exponents = dict(large)
    return all(exponents.get(atom, 0) >= exponent for atom, exponent in small)


def total(costs: Iterable[Dim]) -> Dim:
    """The sum; of equal ones there are many, and most of these are one object."""
    found = list(costs)
    counts = Counter(map(id, found))
    objects = {id(cost): cost for cost in found}
    merged: dict[Dim, int] = {}
    for key, count in counts.items():
        merged[objects[key]] = merged.get(objects[key], 0) + count
    return _sum_of(tuple(sorted(merged.items(), key=lambda pair: hash(pair[0]))))


@lru_cache(maxsize=8192)
def joined(*costs: Dim) -> Dim:
    """The sum of few."""
    return Dim(collect(term for cost in costs for term in cost.terms))


@lru_cache(maxsize=8192)
def _sum_of(counts: tuple[tuple[Dim, int], ...]) -> Dim:
    return Dim(collect((monomial, c * count) for cost, count in counts for monomial, c in cost.terms))


# Note [Never from the sizes of a call]
# A row of a batch has the bits that it has alone only if both are computed in one order. So an order is chosen for all
# sizes that the types allow: numbers that stand in the program decide, symbols only where one form is never dearer.
# Where neither is, the sizes decide that the program tells to expect, `@sizes(N=1024)`, for all calls alike; without
# them the order stays as written.

# Note [Between two numbers]
# Where K is from a to b, K = (a + b*t) / (1 + t) for some t >= 0, and a polynomial of degree d in K times (1 + t)**d is
# one in t of the same sign. Its coefficients are those of Bernstein's form: where none is negative, the polynomial in K
# is not negative between a and b. With S = 1 + t it is one in S, which is at least 1 as any size is.
