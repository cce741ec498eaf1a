"""Costs of expressions: polynomials in the sizes, compared for all sizes at once.

Enters: sizes of a type. Leaves: which of two costs is the lower one, where that can be said of every size that types
and `where` clauses allow. The sizes of one call decide nothing: see Note [Never from the sizes of a call].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.ir.forms import Guard
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.polynomial import Symbol
from tesserac.types.terms import Monomial, TooComplex, collect

TOLERANCE = 2
"""How many times more a form may cost at some sizes that is without bound cheaper at others: `A @ (B @ v)` is one
product of vectors dearer than `(A @ B) @ v` where A has one row."""


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
    plain = all(isinstance(atom, Symbol) and exponent > 0 for monomial, _ in dim.terms for atom, exponent in monomial)
    return dim if plain else Dim.sym(f"({dim})")


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
    below."""
    if new == old:
        return False
    if new.constant is not None and old.constant is not None:
        return new.constant < old.constant
    return never_above(new, old, facts) or (never_above(new, old * TOLERANCE, facts) and _outgrows(old, new))


def never_above(low: Dim, high: Dim, facts: Facts) -> bool:
    """Whether `low <= high` is proven for all sizes: the difference has no negative coefficient once every size is
    written as its lower bound and a rest that is not negative."""
    try:
        gap = high - low
        for lower in _orders(gap, facts):
            if all(coefficient >= 0 for _, coefficient in _shifted(gap, lower).terms):
                return True
    except TooComplex:
        return False
    return False


def _orders(gap: Dim, facts: Facts) -> Iterable[dict[str, Dim]]:
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


def _shifted(gap: Dim, related: dict[str, Dim]) -> Dim:
    for _ in range(len(related) + 1):  # a bound may name symbols that have bounds by others
        step = {name: bound + Dim.sym(name) for name, bound in related.items() if name in gap.symbols()}
        if not step:
            break
        gap = gap.substitute(step)
        related = {name: bound for name, bound in related.items() if name not in step}
    free = {name: Dim.sym(name) + ONE for name in gap.symbols()}
    return gap.substitute(free)


def _outgrows(old: Dim, new: Dim) -> bool:
    """Whether the first has a term that no term of the other is a multiple of."""
    return any(not any(_divides(m, n) for n, _ in new.terms) for m, _ in old.terms)


def _divides(small: Monomial, large: Monomial) -> bool:
    exponents = dict(large)
    return all(exponents.get(atom, 0) >= exponent for atom, exponent in small)


def total(costs: Iterable[Dim]) -> Dim:
    """The sum; of equal ones there are many."""
    return _sum_of(tuple(sorted(Counter(costs).items(), key=lambda pair: hash(pair[0]))))


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
