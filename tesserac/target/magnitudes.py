"""How large a size expression can get, with all that is computed on the way to it, in floating point: it never wraps.

Enters: a `Dim`, and a bound for the magnitude of each of its symbols. Leaves: a bound for the magnitude of its value
and of every partial sum, as a number while compiling or as a value of the code that tests it at run time.

Compiled code computes sizes modulo 2^64. Sums and products of that kind are right whenever their value fits, so it is
enough that each expression fits, and with it each expression that a division, `min` or `max` in it takes. A bound adds
the magnitudes of the terms; an array without elements, whose dim of 0 stands beside one of 2^40, is bounded by 0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache, lru_cache
from typing import Generic, Protocol, TypeVar

from tesserac.target.sizes import split_fraction
from tesserac.types.dims import ONE, Dim
from tesserac.types.extents import can_be_negative
from tesserac.types.polynomial import Atom, Monomial, Opaque, Symbol
from tesserac.types.terms import Coefficient

LARGEST = 2.0**62
"""What is bounded by less is exact in 64 bits, with room for what is added to it."""

N = TypeVar("N")


Loops = Mapping[str, Sequence[tuple[Dim, Dim]]]
"""Where the loops of each counter start and stop."""


class Arithmetic(Protocol[N]):
    """Numbers that are not negative, in floating point."""

    def number(self, value: float) -> N: ...

    def add(self, left: N, right: N) -> N: ...

    def times(self, left: N, right: N) -> N: ...

    def least(self, left: N, right: N) -> N: ...

    def most(self, left: N, right: N) -> N: ...


class TooLargeError(Exception):
    """A size that no call can have: the numbers in it alone are too large. `what` names it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Bounds(Generic[N]):
    """Bounds of many expressions over the same symbols, each worked out once: sizes of one program are made of the same
    parts many times over, and a part of a part of many more."""

    def __init__(self, symbols: Mapping[str, N], numbers: Arithmetic[N]) -> None:
        self._numbers = numbers
        self._atoms: dict[Atom, N] = {Symbol(name): value for name, value in symbols.items()}
        self._dims: dict[Dim, N] = {}

    def know(self, symbol: str, value: N) -> None:
        self._atoms[Symbol(symbol)] = value

    def of(self, dim: Dim) -> N:
        """At least the magnitude of `dim` before its last division."""
        if dim not in self._dims:
            self._dims[dim] = self._sum(dim)
        return self._dims[dim]

    def _sum(self, dim: Dim) -> N:
        numerator, _ = split_fraction(dim)
        total = self._numbers.number(0.0)
        for monomial, coefficient in numerator.terms:
            term = self._numbers.number(_as_float(coefficient))
            for atom, exponent in monomial:
                for _ in range(exponent):
                    term = self._numbers.times(term, self._atom(atom))
            total = self._numbers.add(total, term)
        return total

    def _atom(self, atom: Atom) -> N:
        if atom not in self._atoms:
            assert isinstance(atom, Opaque), f"nothing bounds {atom}"
            self._atoms[atom] = self._function(atom)
        return self._atoms[atom]

    def _function(self, atom: Opaque) -> N:
        numbers, sides = self._numbers, [self.of(arg) for arg in atom.args]
        if atom.function == "mod":
            return sides[1]
        if atom.function in ("min", "max"):
            lower = atom.function == "min" and not any(map(can_be_negative, atom.args))
            first, *others = sides
            for other in others:
                first = (numbers.least if lower else numbers.most)(first, other)
            return first
        divisor = atom.args[1].constant or 1  # others are at least 1 wherever the quotient has a value
        return numbers.add(numbers.times(sides[0], numbers.number(1.0 / abs(divisor))), numbers.number(1.0))


def bound(dim: Dim, symbols: Mapping[str, N], numbers: Arithmetic[N]) -> N:
    """That of one expression."""
    return Bounds(symbols, numbers).of(dim)


def _size(coefficient: Coefficient) -> Coefficient:
    return max(coefficient, -coefficient)


def _as_float(coefficient: Coefficient) -> float:
    try:
        return float(_size(coefficient))
    except OverflowError:
        return float("inf")


@lru_cache(1 << 14)
def parts(dim: Dim) -> Sequence[Dim]:
    """The expressions that must fit where `dim` is computed: itself, its divisor, and what its functions take."""
    inner = (atom for atom in sorted(dim.atoms(), key=str) if isinstance(atom, Opaque))  # the same in every process
    _, denominator = split_fraction(dim)
    own = [dim] if denominator == ONE else [dim, denominator]
    return tuple(dict.fromkeys([*(part for atom in inner for arg in atom.args for part in parts(arg)), *own]))


def telling(dims: Iterable[Dim]) -> list[Dim]:
    """The expressions that bound all of `dims`: of `N`, `4*N` and `4*N + 1` the first is bounded by the second."""
    found = list(dict.fromkeys(dims))
    largest: dict[Monomial, tuple[Coefficient, Dim]] = {}
    for dim in found:
        for monomial, coefficient in split_fraction(dim)[0].terms:
            if monomial not in largest or _size(coefficient) > largest[monomial][0]:
                largest[monomial] = _size(coefficient), dim
    holders = {dim for _, dim in largest.values()}
    return [dim for dim in found if dim.symbols() and (len(dim.terms) > 1 or dim in holders)]


def with_counters(known: Mapping[str, N], loops: Loops, numbers: Arithmetic[N]) -> Bounds[N]:
    """Bounds over symbols, and over the counters of loops by the ends of the loops."""
    bounds = Bounds(known, numbers)
    for name in _counters(known, loops):
        most = numbers.number(0.0)
        for end in _ends(loops[name]):
            most = numbers.most(most, bounds.of(end))
        bounds.know(name, most)
    return bounds


def bounded_symbols(symbols: Iterable[str], loops: Loops) -> Set[str]:
    """The symbols, and the counters that the ends of loops bound."""
    known = list(symbols)
    return {*known, *_counters(known, loops)}


def _counters(symbols: Iterable[str], loops: Loops) -> list[str]:
    """Of loops whose ends are bounded by the symbols and by counters before them."""
    found, waiting = set(symbols), dict.fromkeys(loops)
    counters: list[str] = []
    while ready := [name for name in waiting if all(end.symbols() <= found for end in _ends(loops[name]))]:
        counters += ready
        found |= set(ready)
        for name in ready:
            waiting.pop(name)
    return counters


def _ends(loops: Iterable[tuple[Dim, Dim]]) -> list[Dim]:
    return [end for pair in loops for end in pair]


# --- while compiling ----------------------------------------------------------------------------------------------


class Floats:
    """Arithmetic of plain numbers."""

    def number(self, value: float) -> float:
        return value

    def add(self, left: float, right: float) -> float:
        return left + right

    def times(self, left: float, right: float) -> float:
        return left * right

    def least(self, left: float, right: float) -> float:
        return min(left, right)

    def most(self, left: float, right: float) -> float:
        return max(left, right)


MOST_BITS = 60


def harmless_bits(dims: Iterable[Dim], symbols: Iterable[str], loops: Loops) -> int:
    """The largest B for which all expressions fit as long as every symbol is below 2^B; -1 if there is none. What fits
    below 2^B fits below any less."""
    names = list(symbols)

    @cache
    def below(bits: int) -> Bounds[float]:
        return with_counters(dict.fromkeys(names, 2.0**bits), loops, Floats())

    bits = MOST_BITS
    for dim in dims:
        if below(bits).of(dim) >= LARGEST:
            bits = bisect_left(range(bits), True, key=lambda fewer: below(fewer).of(dim) >= LARGEST) - 1
        if bits < 0:
            break
    return bits


def possible_parts(dim: Dim) -> Sequence[Dim]:
    """The parts of an expression. Raises TooLargeError where one does not fit even if all of its symbols are 1."""
    found = parts(dim)
    if not all(_at_ones(part) < LARGEST for part in found):
        raise TooLargeError(named_size(dim))
    return found


@lru_cache(1 << 14)
def _at_ones(dim: Dim) -> float:
    return bound(dim, dict.fromkeys(dim.symbols(), 1.0), Floats())


def named_size(dim: Dim) -> str:
    return f"the size `{dim}`"
