"""What is known about the sizes of one function: its `where` facts and the ranges of its loop indices.

Enters: facts as they are stated or follow from loops. Leaves: answers, yes, no or not known, to whether two sizes are
equal, one divides the other, or one is at least the other. Symbols are rigid: two of them are equal only if a fact
says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tesserac.check.typed import GuardKind
from tesserac.types.dims import ONE, ZERO, Dim, DimError
from tesserac.types.polynomial import of_atom
from tesserac.types.terms import Opaque, Symbol, is_whole
from tesserac.types.unify import linear_in


@dataclass(frozen=True)
class IndexRange:
    """A loop index: `low <= index <= high`."""

    low: Dim
    high: Dim


class Facts:
    """Grows as facts are stated; a size may be asked about at any time."""

    def __init__(self) -> None:
        self._replace: dict[str, Dim] = {}
        self._divides: list[tuple[Dim, Dim]] = []
        self._at_least: list[Dim] = []
        self._ranges: dict[str, IndexRange] = {}

    def state(self, kind: GuardKind, left: Dim, right: Dim) -> None:
        """States that left equals right, divides right, or is at least right."""
        stated = {"equal": self.state_equal, "divides": self.state_divides, "at_least": self.state_at_least}
        stated[kind](left, right)

    def state_equal(self, left: Dim, right: Dim) -> None:
        """Keeps the fact as a replacement of one symbol, the later name by the earlier."""
        left, right = self.normal(left), self.normal(right)
        for name in sorted((left - right).symbols(), reverse=True):
            linear = linear_in(left - right, name)
            if linear is not None:
                factor, rest = linear
                solved = (-rest).exact_div(factor)
                self._replace = {n: d.substitute({name: solved}) for n, d in self._replace.items()}
                self._replace[name] = solved
                return

    def state_divides(self, divisor: Dim, dividend: Dim) -> None:
        self._divides.append((self.normal(divisor), self.normal(dividend)))

    def state_at_least(self, left: Dim, right: Dim) -> None:
        self._at_least.append(self.normal(left - right))

    def state_index(self, name: str, low: Dim, high: Dim) -> None:
        self._ranges[name] = IndexRange(low, high)

    @contextmanager
    def within(self, low: Dim, high: Dim) -> Iterator[None]:
        """Inside a loop over `low` to `high` there is a turn: the range is not empty."""
        self._at_least.insert(0, self.normal(high - low))
        yield
        del self._at_least[0]  # what the body stated stands behind it and stays, since it is checked on entry

    def normal(self, dim: Dim) -> Dim:
        """The size with stated equalities applied, and `//` as `/` where a fact says that it divides."""
        try:
            dim = dim.substitute(self._replace)
            return dim.map_atoms(self._exact_atom) if self._divides else dim
        except DimError:
            return dim

    def _exact_atom(self, atom: Symbol | Opaque) -> Dim:
        if isinstance(atom, Opaque) and len(atom.args) == 2 and self._known_divisor(*atom.args):
            quotient = atom.args[0].exact_div(atom.args[1])
            exact = {"floor_div": quotient, "ceil_div": quotient, "mod": ZERO}
            return exact.get(atom.function, of_atom(atom))
        return of_atom(atom)

    def _known_divisor(self, dividend: Dim, divisor: Dim) -> bool:
        return (divisor, dividend) in self._divides

    def same(self, left: Dim, right: Dim) -> bool:
        return left == right or self.normal(left) == self.normal(right)

    def divides(self, divisor: Dim, dividend: Dim) -> bool | None:
        """Whether `dividend / divisor` is whole for all sizes."""
        divisor, dividend = self.normal(divisor), self.normal(dividend)
        if divisor == ONE or self._known_divisor(dividend, divisor):
            return True
        if divisor == ZERO:
            return False
        quotient = dividend.exact_div(divisor)
        if quotient.fraction is not None:
            return quotient.constant is not None
        return True if _is_whole(quotient) or self._follows(quotient) else None

    def _follows(self, quotient: Dim) -> bool:
        """Whether the size is a multiple of a quotient that a fact says is whole: C*H / 4 where 4 divides C."""
        known = (dividend.exact_div(divisor) for divisor, dividend in self._divides if divisor != ZERO)
        return any(one != ZERO and _is_whole(quotient.exact_div(one)) for one in known)

    def at_least(self, left: Dim, right: Dim) -> bool | None:
        """Whether `left >= right` for all sizes; symbols are sizes, hence at least 0."""
        gap = self.normal(left - right)
        if self._bounded_below(gap) or any(self._bounded_below(gap - fact) for fact in self._at_least):
            return True
        return False if self._bounded_below(-gap - ONE) else None

    def _lowest(self, dim: Dim) -> Dim:
        """The size with each loop index at the end of its range that makes it smallest."""
        for name in reversed(self._ranges):
            linear = linear_in(dim, name) if name in dim.symbols() else None
            if linear is None:
                continue
            factor, rest = linear
            if _never_negative(factor):
                dim = factor * self._ranges[name].low + rest
            elif _never_negative(-factor):
                dim = factor * self._ranges[name].high + rest
        return self.normal(dim)

    def _bounded_below(self, dim: Dim) -> bool:
        """Whether the size is never negative; a loop index that may be is not taken for a size."""
        lowest = self._lowest(dim)
        indices = [self._ranges[name] for name in lowest.symbols() if name in self._ranges]
        if _never_negative(lowest) and all(_never_negative(index.low) for index in indices):
            return True
        return any(map(self._bounded_below, _bounds_below(lowest)))

    def is_index(self, name: str) -> bool:
        return name in self._ranges


def _never_negative(dim: Dim) -> bool:
    """Sizes are at least 0, hence sums and products of them."""
    atoms_are = all(map(_atom_never_negative, dim.atoms()))
    return atoms_are and all(coefficient > 0 for _, coefficient in dim.terms)


def _bounds_below(dim: Dim) -> Iterator[Dim]:
    """Sizes that are never above this one: `-min(M, N)` is at least `-M`, `2 * ceil_div(N, 2)` at least `N`."""
    for monomial, coefficient in dim.terms:
        if len(monomial) == 1 and monomial[0][1] == 1 and isinstance(atom := monomial[0][0], Opaque):
            for bound in _bounds_of(atom, below=coefficient > 0):
                yield dim + (bound - of_atom(atom)) * Dim.const(coefficient)


def _bounds_of(atom: Opaque, *, below: bool) -> Sequence[Dim]:
    """Simpler sizes that an atom is never below, or never above."""
    if atom.function == ("max" if below else "min"):
        return atom.args
    if atom.function == ("ceil_div" if below else "floor_div") and atom.args[1].constant:
        return (atom.args[0].exact_div(atom.args[1]),)
    return ()


def _atom_never_negative(atom: Symbol | Opaque) -> bool:
    if isinstance(atom, Symbol):
        return True
    return (any if atom.function == "max" else all)(_never_negative(arg) for arg in atom.args)


def _is_whole(dim: Dim) -> bool:
    """Whether the size is an integer whatever the symbols are."""
    return all(is_whole(*term) for term in dim.terms) and not _is_quotient(dim)


def _is_quotient(dim: Dim) -> bool:
    return any(isinstance(atom, Opaque) and atom.function == "quotient" for atom in dim.atoms())
