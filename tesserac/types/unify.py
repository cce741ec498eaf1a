"""Solves the sizes of a call: what each symbol of a signature is at one call site.

Enters: pairs (size in the signature, size of the argument), each with the reason it must hold. Leaves: a size per
symbol with the reason that bound it, divisions that must be whole, and conflicts that carry both reasons, so that
a message can say where each of two disagreeing sizes came from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tesserac.base.dataclass import dataclass
from tesserac.types.dims import ONE, ZERO, Dim, DimError
from tesserac.types.terms import Monomial, Symbol, collect, join, power

R = TypeVar("R")


@dataclass(frozen=True)
class Bound(Generic[R]):
    """What a symbol is, and why."""

    value: Dim
    reason: R


@dataclass(frozen=True)
class Conflict(Generic[R]):
    """`pattern` should be `found`, but what is bound makes it `bound`. `causes` are the reasons of what is bound."""

    pattern: Dim
    bound: Dim
    found: Dim
    reason: R
    causes: tuple[tuple[str, Bound[R]], ...]


class DimSolver(Generic[R]):
    """Binds the `flexible` symbols of one signature. Bare symbols bind at once; the rest is solved in `finish`."""

    def __init__(self, flexible: frozenset[str], same: Callable[[Dim, Dim], bool]) -> None:
        self._flexible = flexible
        self._same = same
        self._later: list[tuple[Dim, Dim, R]] = []
        self.bound: dict[str, Bound[R]] = {}
        self.conflicts: list[Conflict[R]] = []
        self.divisions: list[tuple[Dim, Dim, R]] = []

    def require(self, pattern: Dim, found: Dim, reason: R) -> None:
        """States that `pattern` is `found` in this call."""
        name = pattern.symbol
        if name in self._flexible and name is not None and name not in self.bound:
            self.bound[name] = Bound(found, reason)
        elif self._unbound(pattern):
            self._later.append((pattern, found, reason))
        else:
            self._compare(pattern, found, reason)

    def finish(self) -> frozenset[str]:
        """Solves what is linear in one unbound symbol; gives the symbols that nothing determines."""
        while self._later:
            waiting, self._later = self._later, []
            for pattern, found, reason in waiting:
                if len(self._unbound(pattern)) > 1 or not self._solve(pattern, found, reason):
                    self._later.append((pattern, found, reason))
            if len(self._later) == len(waiting):
                break
        return self._flexible - self.bound.keys()

    def values(self) -> dict[str, Dim]:
        return {name: bound.value for name, bound in self.bound.items()}

    def _unbound(self, pattern: Dim) -> frozenset[str]:
        return (pattern.symbols() & self._flexible) - self.bound.keys()

    def _solve(self, pattern: Dim, found: Dim, reason: R) -> bool:
        unbound = self._unbound(pattern)
        if not unbound:
            self._compare(pattern, found, reason)
            return True
        [name] = unbound
        linear = linear_in(pattern.substitute(self.values()), name)
        if linear is None:
            return False
        factor, rest = linear
        if factor != ONE:
            self.divisions.append((factor, found - rest, reason))
        self.bound[name] = Bound((found - rest).exact_div(factor), reason)
        return True

    def _compare(self, pattern: Dim, found: Dim, reason: R) -> None:
        try:
            bound = pattern.substitute(self.values())
        except DimError:
            bound = pattern
        if self._same(bound, found):
            return
        causes = tuple((name, self.bound[name]) for name in sorted(pattern.symbols()) if name in self.bound)
        self.conflicts.append(Conflict(pattern, bound, found, reason, causes))


def linear_in(dim: Dim, name: str) -> tuple[Dim, Dim] | None:
    """`(factor, rest)` with `dim == factor * name + rest`, neither of which mentions `name`; None if it is not so."""
    if dim.nesting == 0:
        return _linear_polynomial(dim, ((Symbol(name), 1),))
    try:
        rest = dim.substitute({name: ZERO})
        factor = dim.substitute({name: ONE}) - rest
    except DimError:
        return None
    symbol = Dim.sym(name)
    whole = factor * symbol + rest == dim and factor.terms and name not in factor.symbols() | rest.symbols()
    return (factor, rest) if whole else None


def _linear_polynomial(dim: Dim, symbol: Monomial) -> tuple[Dim, Dim] | None:
    """The same, read off the terms."""
    [(atom, _)] = symbol
    with_it = [(m, c) for m, c in dim.terms if any(own == atom for own, _ in m)]
    if not with_it or any(dict(m)[atom] != 1 for m, _ in with_it):
        return None
    rest = Dim(tuple(term for term in dim.terms if term not in with_it))
    return Dim(collect((join(m, power(symbol, -1)), c) for m, c in with_it)), rest
