"""Symbolic sizes: integer expressions over symbols, in one normal form.

Enters: arithmetic on `Dim` values. Leaves: Laurent polynomials with rational coefficients over atoms, so that
`D/h*h == D`, `(M + 1)*K == K + K*M` and every other polynomial identity is plain equality. What is not a
polynomial (`//`, `%`, `ceil_div`, `min`, `max`, a quotient by a sum) is an opaque atom over normal forms.
See Note [Dims are normalised once].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from tesserac.base.dataclass import dataclass
from tesserac.base.once import once
from tesserac.types.terms import (
    MAX_NESTING,
    MAX_TERMS,
    Atom,
    Coefficient,
    DimError,
    Function,
    Monomial,
    Opaque,
    Symbol,
    Term,
    TooComplex,
    atoms_of,
    collect,
    content,
    inverse,
    is_whole,
    join,
    leading,
    power,
    simplest,
    term_text,
)

__all__ = ["Atom", "Dim", "DimError", "Function", "Monomial", "ONE", "Opaque", "Symbol", "ZERO", "of_atom", "product"]


LARGEST_SIZE = 2**63 - 1
"""Of the numbers that compiled code computes sizes with."""


@dataclass(frozen=True)
class Dim:
    """A size. `terms` is sorted and has no zero coefficients: that makes equality structural."""

    terms: tuple[Term, ...]

    @staticmethod
    @lru_cache(maxsize=8192)
    def const(value: Coefficient) -> Dim:
        return Dim((((), simplest(value)),) if value else ())

    @staticmethod
    def sym(name: str) -> Dim:
        return of_atom(Symbol(name))

    def __add__(self, other: Dim | int) -> Dim:
        right = _dim(other)
        if not self.terms or not right.terms:
            return right if right.terms else self
        return Dim(collect((*self.terms, *right.terms)))

    def __neg__(self) -> Dim:
        return Dim(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __sub__(self, other: Dim | int) -> Dim:
        return self + -_dim(other)

    def __mul__(self, other: Dim | int) -> Dim:
        right = _dim(other).terms
        if len(self.terms) * len(right) > MAX_TERMS:
            raise TooComplex(f"a product of sums with {len(self.terms)} and {len(right)} terms is too long")
        if len(self.terms) == len(right) == 1:  # most sizes are products, which stay in normal form
            [(m, c)], [(n, d)] = self.terms, right
            if not n and d == 1:
                return self
            if not m and c == 1:
                return _dim(other)
            return Dim(((join(m, n), simplest(c * d)),)) if m or n else Dim.const(c * d)
        return Dim(collect((join(m, n), c * d) for m, c in self.terms for n, d in right))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int) -> Dim:
        return _dim(other) - self

    def exact_div(self, other: Dim | int) -> Dim:
        """The quotient, on the promise that it is whole: `(2*D).exact_div(2) == D`."""
        divisor = _dim(other)
        if not divisor.terms:
            raise DimError(f"division of {self} by zero")
        if len(divisor.terms) == 1:
            [(monomial, coefficient)] = divisor.terms
            return self * Dim(((power(monomial, -1), inverse(coefficient)),))
        return _polynomial_quotient(self, divisor)

    def floor_div(self, other: Dim | int) -> Dim:
        divisor = _dim(other)
        whole, rest = _split_multiples(self, divisor)
        return whole + _opaque("floor_div", rest, divisor) if rest.terms else whole

    def mod(self, other: Dim | int) -> Dim:
        divisor = _dim(other)
        _, rest = _split_multiples(self, divisor)
        return _opaque("mod", rest, divisor) if rest.terms else rest

    def ceil_div(self, other: Dim | int) -> Dim:
        """By a number it is `floor_div` of a larger dividend, so that what is equal has one form; see `rounded_up`."""
        divisor = _dim(other)
        if (divisor.constant or 0) > 0:
            return (self + (divisor - ONE)).floor_div(divisor)
        whole, rest = _split_multiples(self, divisor)
        return whole + _opaque("ceil_div", rest, divisor) if rest.terms else whole

    def min(self, other: Dim | int) -> Dim:
        return _extreme("min", self, _dim(other))

    def max(self, other: Dim | int) -> Dim:
        return _extreme("max", self, _dim(other))

    @once
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    @property
    def constant(self) -> int | None:
        """The value of a size without symbols; None if it has symbols or is not whole."""
        fraction = self.fraction
        return fraction.numerator if fraction is not None and fraction.denominator == 1 else None

    @property
    def fraction(self) -> Coefficient | None:
        """The value of a size without symbols, whole or not."""
        if not self.terms:
            return 0
        [(monomial, coefficient), *more] = self.terms
        return coefficient if not monomial and not more else None

    @property
    def symbol(self) -> str | None:
        """The name, if this size is a bare symbol."""
        match self.terms:
            case ((((Symbol(name), 1),), coefficient),) if coefficient == 1:
                return name
        return None

    def atoms(self) -> frozenset[Atom]:
        return self._atoms

    @once
    def _atoms(self) -> frozenset[Atom]:
        return atoms_of(self.terms)

    @once
    def nesting(self) -> int:
        """How deep functions stand in functions: 0 for a polynomial."""
        return max((atom.nesting for atom in self.atoms() if isinstance(atom, Opaque)), default=0)

    @property
    def has_fraction(self) -> bool:
        """Whether it is a whole number only where something divides: `N/2`."""
        return not all(is_whole(*term) for term in self.terms)

    def magnitude(self) -> Coefficient:
        """The largest number that stands in it."""
        numbers: list[Coefficient] = [max(number, -number) for _, number in self.terms]
        numbers += [arg.magnitude() for atom in self.atoms() if isinstance(atom, Opaque) for arg in atom.args]
        return max(numbers, default=0)

    def symbols(self) -> frozenset[str]:
        return self._symbols

    @once
    def _symbols(self) -> frozenset[str]:
        names: set[str] = set()
        for atom in self.atoms():
            if isinstance(atom, Symbol):
                names.add(atom.name)
            else:
                names.update(*(arg.symbols() for arg in atom.args))
        return frozenset(names)

    def substitute(self, values: Mapping[str, Dim]) -> Dim:
        """This size with symbols replaced, normalised again. Raises DimError when that divides by zero."""
        if self.symbols().isdisjoint(values):
            return self
        return self.map_atoms(lambda atom: _substitute_atom(atom, values))

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The whole number this size is. Raises DimError where there is none."""
        number = _number(self, values)
        return self._put_in(values) if number is None else number

    def _put_in(self, values: Mapping[str, int]) -> int:
        """The same by the laws of sizes, which have an answer or a message for all that `_number` leaves."""
        missing = sorted(self.symbols() - values.keys())
        if missing:
            raise DimError(f"size of {missing[0]} is not known")
        result = self.substitute({name: Dim.const(values[name]) for name in self.symbols()})
        if result.constant is None:
            raise DimError(f"{self} is not a whole number")
        return result.constant

    def map_atoms(self, value_of: Callable[[Atom], Dim]) -> Dim:
        """This size with each atom replaced, normalised again."""
        total = ZERO
        for monomial, coefficient in self.terms:
            product = ONE if coefficient == 1 else Dim.const(coefficient)
            for atom, exponent in monomial:
                value = value_of(atom)
                for _ in range(abs(exponent)):
                    product = product * value if exponent > 0 else product.exact_div(value)
            total = total + product
        return total

    def __str__(self) -> str:
        return self._text

    @once
    def _text(self) -> str:
        match self.terms:
            case ():
                return "0"
            case ((((Opaque() as atom, 1),), coefficient),) if coefficient == 1:
                return atom.bare
        first, *others = self.terms
        text = term_text(*first)
        for monomial, coefficient in others:
            size = -coefficient if coefficient < 0 else coefficient
            text += f" {'-' if coefficient < 0 else '+'} {term_text(monomial, size)}"
        return text

    def as_factor(self) -> str:
        """Text that stays one operand beside `*` or `/`."""
        text = str(self)
        return text if text.isidentifier() or text.isdecimal() else f"({text})"

    def __repr__(self) -> str:
        return f"Dim({self})"


def _dim(value: Dim | int) -> Dim:
    return value if isinstance(value, Dim) else Dim.const(value)


def of_atom(atom: Atom) -> Dim:
    return Dim(((((atom, 1),), 1),))


ZERO = Dim(())
ONE = Dim.const(1)


def _split_multiples(dividend: Dim, divisor: Dim) -> tuple[Dim, Dim]:
    """`dividend == whole * divisor + rest`, with every multiple that is visible moved into `whole`.

    So `(N + 2 - K) // 2` is `(N - K) // 2 + 1`; and a coefficient of the rest lies between 0 and that of the divisor,
    `(N - 3) // 2 == (N + 1) // 2 - 2`, so that a number for `K` gives the same form before the division and after.
    """
    if not divisor.terms:
        raise DimError(f"division of {dividend} by zero")
    if dividend.constant is not None and divisor.constant is not None:
        return ZERO, dividend
    if divisor == ONE and dividend.fraction is None:
        return dividend, ZERO
    if len(divisor.terms) > 1:
        quotient = dividend.exact_div(divisor)
        divides = all(is_whole(*term) for term in quotient.terms) and not _has_quotient(quotient)
        return (quotient, ZERO) if divides else (ZERO, dividend)
    scaled = dividend.exact_div(divisor)
    whole = Dim(collect((m, math.floor(c)) for m, c in scaled.terms if is_whole(m, 1)))
    return whole, dividend - whole * divisor


def _has_quotient(dim: Dim) -> bool:
    return any(isinstance(atom, Opaque) and atom.function == "quotient" for atom in dim.atoms())


_CONSTANT: dict[Function, Callable[[int, int], int]] = {
    "floor_div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "ceil_div": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}


def _opaque(function: Function, left: Dim, right: Dim) -> Dim:
    if left.constant is not None and right.constant is not None:
        return Dim.const(_CONSTANT[function](left.constant, right.constant))
    return _function(function, (left, right))


def _function(function: Function, args: tuple[Dim, ...]) -> Dim:
    """An atom, unless functions stand too deep in one another."""
    atom = Opaque(function, args)
    if atom.nesting > MAX_NESTING:
        raise TooComplex(f"more than {MAX_NESTING} divisions, `min` or `max` stand in one another")
    return of_atom(atom)


def _extreme(function: Literal["min", "max"], left: Dim, right: Dim) -> Dim:
    """min or max: flattened, sorted, and without an argument that another one beats by a constant."""
    kept: list[Dim] = []
    for arg in (*_arguments(function, left), *_arguments(function, right)):
        gaps = [_constant_gap(arg, other) for other in kept]
        worse = [g is not None and (g >= 0 if function == "min" else g <= 0) for g in gaps]
        if any(worse):
            continue
        kept = [other for other, gap in zip(kept, gaps, strict=True) if gap is None] + [arg]
    return kept[0] if len(kept) == 1 else _function(function, tuple(sorted(kept, key=str)))


def _constant_gap(left: Dim, right: Dim) -> Coefficient | None:
    """The difference of two sizes that are the same but for a number; None of others."""
    parts = [[term for term in dim.terms if term[0]] for dim in (left, right)]
    if parts[0] != parts[1]:
        return None
    first, second = (sum(number for monomial, number in dim.terms if not monomial) for dim in (left, right))
    return first - second


def _arguments(function: Function, dim: Dim) -> tuple[Dim, ...]:
    match dim.terms:
        case ((((Opaque(name, args), 1),), coefficient),) if name == function and coefficient == 1:
            return args
    return (dim,)


def _polynomial_quotient(dividend: Dim, divisor: Dim) -> Dim:
    """Quotient by a sum: polynomial division where it leaves no rest, else an opaque quotient."""
    lead = leading(divisor.terms)
    shift = Dim(((power(content(divisor.terms), -1), inverse(lead[1])),))
    dividend, divisor = dividend * shift, divisor * shift
    lead_monomial = leading(divisor.terms)[0]
    up = Dim(((power(content(dividend.terms), -1), 1),))
    rest, quotient = dividend * up, ZERO
    while rest.terms:
        monomial, coefficient = leading(rest.terms)
        step = join(monomial, power(lead_monomial, -1))
        if any(exponent < 0 for _, exponent in step):
            return of_atom(Opaque("quotient", (dividend, divisor))) if dividend.terms else ZERO
        quotient = quotient + Dim(((step, coefficient),))
        rest = rest - Dim(((step, coefficient),)) * divisor
    return quotient.exact_div(up)


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, Symbol):
        return values.get(atom.name, of_atom(atom))
    first, *others = (arg.substitute(values) for arg in atom.args)
    for other in others:
        first = _FUNCTIONS[atom.function](first, other)
    return first


_FUNCTIONS: dict[Function, Callable[[Dim, Dim], Dim]] = {
    "quotient": Dim.exact_div,
    "floor_div": Dim.floor_div,
    "mod": Dim.mod,
    "ceil_div": Dim.ceil_div,
    "min": Dim.min,
    "max": Dim.max,
}


def _number(dim: Dim, values: Mapping[str, int]) -> int | None:
    """The whole number that a size is, by arithmetic on numbers alone; None where a symbol has no value, a divisor is
    not above 0 or something is not whole."""
    total: Coefficient = 0
    for monomial, coefficient in dim.terms:
        for atom, exponent in monomial:
            value = values.get(atom.name) if isinstance(atom, Symbol) else _applied(atom, values)
            if value is None or (exponent < 0 and not value):
                return None
            coefficient *= int(value) ** exponent if exponent > 0 else Fraction(int(value)) ** exponent
        total += coefficient
    return int(total) if total.denominator == 1 else None


def _applied(atom: Opaque, values: Mapping[str, int]) -> int | None:
    function, args = _CONSTANT.get(atom.function), [_number(arg, values) for arg in atom.args]
    numbers = [arg for arg in args if arg is not None]
    if function is None or len(numbers) < len(args):
        return None
    first, *others = numbers
    for other in others:
        if other <= 0 and function not in (min, max):
            return None
        first = function(first, other)
    return first


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape; 1 for no dims."""
    return math.prod(dims, start=ONE)


# Note [Dims are normalised once]
# Every operation returns the normal form, so no other module simplifies, sorts or compares sizes in its own
# way: two sizes are equal exactly when `==` says so. Exact division multiplies by a negative power; that
# it is whole is a fact or a guard kept by the checker, never by this module.
