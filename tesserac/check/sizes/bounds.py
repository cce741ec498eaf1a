"""Proves that a size is never negative.

Enters: a canonical size and what is known: facts, and which symbols are sizes. Leaves: yes, or not proved. A question
is turned around: if the size were at most -1, would that contradict the facts? What rounding and extremes mean is added
as rows (`4*(N // 4) <= N`), a `min` or `max` is tried as each of its arguments, and a row may be multiplied by a size
that makes a product of the question (`i <= Q - 1` by `c`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cached_property

from tesserac.base.dataclass import dataclass
from tesserac.check.sizes.elimination import Budget, contradicts
from tesserac.types.dims import ONE, Dim
from tesserac.types.polynomial import of_atom
from tesserac.types.terms import MAX_POWER, Atom, Monomial, Opaque, Symbol, join

BUDGET = 4_000
"""Combinations of rows for one question: far more than a program written by hand needs."""

_SEARCH = 40
"""What a search costs before any rows are combined."""
_ROWS = 32
_CASES = 3
_DEPTH = 4


@dataclass
class Prover:
    """Answers for one state of the facts. `facts` are sizes that are at least 0; `is_size` tells symbols that are."""

    facts: Sequence[Dim]
    is_size: Callable[[str], bool]
    budget: Budget
    _proved: dict[tuple[Dim, int], bool] = field(default_factory=dict, init=False)

    @cached_property
    def _given(self) -> frozenset[Dim]:
        return frozenset(self.facts)

    def never_negative(self, size: Dim, depth: int = _DEPTH) -> bool:
        """Whether a canonical size is at least 0 whatever the symbols are, as long as the facts hold."""
        if size in self._given or all(c >= 0 and self._is_natural(monomial, 0) for monomial, c in size.terms):
            return True
        if size.fraction is not None or depth == 0 or not self.budget.take(_SEARCH):
            return False
        known = self._proved.get((size, depth))
        if known is None:
            known = self._by_cases(size, (), depth, _CASES)
            if not self.budget.spent:
                self._proved[size, depth] = known
        return known

    def _by_cases(self, size: Dim, assumed: tuple[Dim, ...], depth: int, cases: int) -> bool:
        """A `min` or `max` in the question is one of its arguments, which is then below or above the others."""
        rows = [*assumed, *self.facts]
        if contradicts(self._rows(-size - ONE, rows, depth), self.budget):
            return True
        atom = next((a for a in sorted(size.atoms(), key=str) if _is_extreme(a)), None)
        if atom is None or cases == 0 or self.budget.spent:
            return False
        assert isinstance(atom, Opaque)
        for arg in atom.args:
            gaps = [(o - arg) if atom.function == "min" else (arg - o) for o in atom.args if o != arg]
            chosen = size.map_atoms(lambda own, arg=arg: arg if own == atom else of_atom(own))  # type: ignore[misc]
            if not self._by_cases(chosen, (*assumed, *gaps), depth, cases - 1):
                return False
        return True

    def _rows(self, negated: Dim, facts: Sequence[Dim], depth: int) -> list[Dim]:
        """The question turned around, the facts that can matter to it, and what its parts mean."""
        rows = [negated]
        atoms: set[Atom] = set()
        waiting = list(facts)
        while len(rows) < _ROWS:
            new = {atom for row in rows for atom in row.atoms()} - atoms
            atoms |= new
            found = [row for atom in sorted(new, key=str) for row in self._meaning(atom, depth)]
            near = [fact for fact in waiting if not fact.atoms().isdisjoint(atoms)]
            waiting = [fact for fact in waiting if fact.atoms().isdisjoint(atoms)]
            if not found and not near:
                break
            rows += found + near
        rows = rows[:_ROWS]
        rows += self._products(rows, depth)
        monomials = {monomial for row in rows for monomial, _ in row.terms if monomial}
        return rows + [Dim(((m, ONE.terms[0][1]),)) for m in monomials if self._is_natural(m, depth)]

    def _meaning(self, atom: Atom, depth: int) -> Iterator[Dim]:
        """What holds for an atom by what it is."""
        if isinstance(atom, Symbol):
            return
        own, (first, *others) = of_atom(atom), atom.args
        if atom.function in ("min", "max"):
            yield from ((arg - own) if atom.function == "min" else (own - arg) for arg in atom.args)
        elif atom.function == "quotient":
            yield from (own * others[0] - first, first - own * others[0])
        elif atom.function == "floor_div" and self._is_divisor(others[0], depth):
            yield from (first - own * others[0], own * others[0] + others[0] - 1 - first)

    def _is_divisor(self, size: Dim, depth: int) -> bool:
        """Whether what is divided by, hence is not 0, is at least 1."""
        return depth > 0 and self.never_negative(size, depth - 1)

    def _products(self, rows: Sequence[Dim], depth: int) -> list[Dim]:
        """Rows times a size, where that makes a product which the rows already have."""
        wanted = {monomial for row in rows for monomial, _ in row.terms if len(monomial) > 1 or _degree(monomial) > 1}
        factors: dict[Atom, Dim] = {
            atom: of_atom(atom) for m in wanted for atom, _ in m if self._is_natural(((atom, 1),), depth)
        }
        made: list[Dim] = []
        for atom, factor in sorted(factors.items(), key=lambda item: str(item[0])):
            for row in rows:
                if _has_room(row, atom) and any(m and join(m, ((atom, 1),)) in wanted for m, _ in row.terms):
                    made.append(row * factor)
        return made[:_ROWS]

    def _is_natural(self, monomial: Monomial, depth: int) -> bool:
        """Whether a product is at least 0 because all its factors are."""
        return all(exponent % 2 == 0 or self._is_natural_atom(atom, depth) for atom, exponent in monomial)

    def _is_natural_atom(self, atom: Atom, depth: int) -> bool:
        if isinstance(atom, Symbol):
            return self.is_size(atom.name)
        proved = [all(c >= 0 and self._is_natural(m, 0) for m, c in arg.terms) for arg in atom.args]
        if atom.function != "max" and depth > 0:
            proved = [own or self.never_negative(arg, depth - 1) for own, arg in zip(proved, atom.args, strict=True)]
        return any(proved) if atom.function == "max" else all(proved)


def _is_extreme(atom: Atom) -> bool:
    return isinstance(atom, Opaque) and atom.function in ("min", "max")


def _has_room(row: Dim, atom: Atom) -> bool:
    """Whether the row times an atom is no power that is too high."""
    return all(other != atom or abs(exponent) < MAX_POWER for m, _ in row.terms for other, exponent in m)


def _degree(monomial: Monomial) -> int:
    return sum(abs(exponent) for _, exponent in monomial)
