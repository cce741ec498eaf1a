"""Terms of a size: atoms, products of powers of them, and what can be said of such products alone.

Enters: atoms, monomials and coefficients. Leaves: the same, sorted and collected; `polynomial.py` makes sizes of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from tesserac.base.dataclass import dataclass
from tesserac.base.once import once

if TYPE_CHECKING:
    from tesserac.types.polynomial import Dim

MAX_TERMS = 1_000
MAX_POWER = 64
MAX_NESTING = 32
MAX_DIMS = 64
"""Sizes beyond these are refused: no program needs them, and all that is done with a size stays quick below them."""

Function = Literal["quotient", "floor_div", "mod", "ceil_div", "min", "max"]
Monomial = tuple[tuple["Atom", int], ...]
Coefficient = int | Fraction
"""A whole number is an int: almost all are, and arithmetic on ints is many times as fast."""
Term = tuple[Monomial, Coefficient]


class DimError(ValueError):
    """A size that has no integer value: a division that leaves a rest, or by zero, or an unknown symbol."""


class TooComplex(DimError):
    """A size, or a set of facts about sizes, that is beyond what the compiler is willing to work out."""


class Symbol(NamedTuple):
    """A named size. A tuple, since searches hash and compare symbols millions of times."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Opaque:
    """A function of sizes that polynomials cannot express; equal only to itself."""

    function: Function
    args: tuple[Dim, ...]

    @once
    def nesting(self) -> int:
        """How deep functions stand in functions."""
        return 1 + max(arg.nesting for arg in self.args)

    @once
    def rounded_up(self) -> Dim | None:
        """What `(a + n - 1) // n` rounds up the n-th part of; it is written so."""
        if self.function != "floor_div" or self.args[1].constant is None:
            return None
        left, more = self.args[0], self.args[1] - 1
        return left - more if more.terms and dict(left.terms).get((), 0) == more.constant else None

    @once
    def bare(self) -> str:
        """Text that may stand alone; `str()` adds the brackets it needs inside a product."""
        if self.rounded_up is not None:
            return f"ceil_div({self.rounded_up}, {self.args[1]})"
        infix = {"quotient": "/", "floor_div": "//", "mod": "%"}.get(self.function)
        if infix is None:
            return f"{self.function}({', '.join(map(str, self.args))})"
        left, right = self.args
        return f"{left.as_factor()} {infix} {right.as_factor()}"

    def __str__(self) -> str:
        called = self.rounded_up is not None or self.function in ("ceil_div", "min", "max")
        return self.bare if called else f"({self.bare})"


Atom = Symbol | Opaque


def collect(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Terms with equal monomials added up, zeros dropped, sorted: the normal form of a sum."""
    sums: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = [(monomial, simplest(coefficient)) for monomial, coefficient in sums.items() if coefficient]
    return tuple(sorted(kept, key=_term_order) if len(kept) > 1 else kept)


def simplest(value: Coefficient) -> Coefficient:
    return value.numerator if value.denominator == 1 else value


def inverse(value: Coefficient) -> Coefficient:
    return simplest(Fraction(value.denominator, value.numerator))


def _term_order(term: Term) -> tuple[int, str]:
    return _order(term[0])


@lru_cache(maxsize=8192)
def _order(monomial: Monomial) -> tuple[int, str]:
    """Higher degree first, then by name: `N*N + 2*N + 1`."""
    degree = sum(exponent for _, exponent in monomial)
    return -degree, " ".join(f"{atom} {exponent:+}" for atom, exponent in monomial)


def join(left: Monomial, right: Monomial) -> Monomial:
    """The product of two monomials."""
    return _joined(left, right) if left and right else left or right


@lru_cache(maxsize=8192)
def _joined(left: Monomial, right: Monomial) -> Monomial:
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, 0) + exponent
        if abs(exponents[atom]) > MAX_POWER:
            raise TooComplex(f"`{atom}` to the power {exponents[atom]} is too high")
    return tuple(sorted(((a, e) for a, e in exponents.items() if e), key=lambda pair: str(pair[0])))


def power(monomial: Monomial, exponent: int) -> Monomial:
    return tuple((atom, power * exponent) for atom, power in monomial)


def is_whole(monomial: Monomial, coefficient: Coefficient) -> bool:
    """Whether a term is an integer whatever the symbols are."""
    return coefficient.denominator == 1 and all(exponent > 0 for _, exponent in monomial)


def atoms_of(terms: tuple[Term, ...]) -> frozenset[Atom]:
    return frozenset(atom for monomial, _ in terms for atom, _ in monomial)


def content(terms: tuple[Term, ...]) -> Monomial:
    """The monomial every term shares: dividing by it leaves a polynomial without negative exponents."""
    lowest = {atom: min(dict(monomial).get(atom, 0) for monomial, _ in terms) for atom in atoms_of(terms)}
    return tuple(sorted(((a, e) for a, e in lowest.items() if e), key=lambda pair: str(pair[0])))


def leading(terms: tuple[Term, ...]) -> Term:
    """The leading term in lexicographic order of atoms, an order in which polynomial division ends."""
    names = sorted({str(atom) for atom in atoms_of(terms)})

    def exponents(term: Term) -> tuple[int, ...]:
        powers = {str(atom): exponent for atom, exponent in term[0]}
        return tuple(powers.get(name, 0) for name in names)

    return max(terms, key=exponents)


def term_text(monomial: Monomial, coefficient: Coefficient) -> str:
    above = [str(atom) for atom, exponent in monomial for _ in range(exponent)]
    below = [str(atom) for atom, exponent in monomial for _ in range(-exponent)]
    sign = "-" if coefficient < 0 else ""
    if abs(coefficient.numerator) != 1 or not above:
        above.insert(0, str(abs(coefficient.numerator)))
    if coefficient.denominator != 1:
        below.append(str(coefficient.denominator))
    return sign + "/".join(["*".join(above), *below])
