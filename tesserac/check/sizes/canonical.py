"""The forms in which rounded sizes are compared.

Enters: an atom of a size whose arguments are canonical. Leaves: an equal size in which `%` and `ceil_div` are written
with `//`, a quotient of a quotient is one quotient, and `min` and `max` have no argument that another one beats:

    N % 4                  N - 4*(N // 4)
    ceil_div(N, 64)        (N + 63) // 64
    (N // 2 + 1) // 2      (N + 2) // 4
    min(S, T)              S, where S <= T is known
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tesserac.types.dims import ONE, Dim
from tesserac.types.polynomial import of_atom
from tesserac.types.terms import Atom, Opaque, is_whole

Positive = Callable[[Dim], bool]
"""Whether a size is known to be at least 0; of a divisor, which is never 0, that it is at least 1."""


def canonical_atom(atom: Atom, args: tuple[Dim, ...], never_negative: Positive) -> Dim:
    """The size that an atom is, with these arguments in place of its own."""
    if not isinstance(atom, Opaque):
        return of_atom(atom)
    if atom.function in ("min", "max"):
        return _extreme(atom, args, never_negative)
    left, right = args
    if atom.function == "quotient":
        return left.exact_div(right)
    if not never_negative(right):
        return of_atom(Opaque(atom.function, args))
    if atom.function == "floor_div":
        return floor_quotient(left, right)
    if atom.function == "mod":
        return left - right * floor_quotient(left, right)
    return floor_quotient(left + right - 1, right)


def floor_quotient(dividend: Dim, divisor: Dim) -> Dim:
    """`dividend // divisor` for a divisor of at least 1."""
    quotient = dividend.floor_div(divisor)
    parts = [atom for atom in quotient.atoms() if isinstance(atom, Opaque) and atom.args[-1] == divisor]
    if len(parts) != 1 or parts[0].function != "floor_div":
        return quotient
    [part] = parts
    whole, [rest, _] = quotient - of_atom(part), part.args
    if (whole + of_atom(part)) != quotient or part in whole.atoms():
        return quotient
    return whole + _mirrored(*_reduced(*_flattened(rest, divisor)))


def _flattened(dividend: Dim, divisor: Dim) -> tuple[Dim, Dim]:
    """`(a // m + r) // n` is `(a + m*r) // (m*n)` for whole `r`."""
    for atom in sorted(dividend.atoms(), key=str):
        if not isinstance(atom, Opaque) or atom.function != "floor_div":
            continue
        inner, by = atom.args
        rest = dividend - of_atom(atom)
        simple = atom not in rest.atoms() and all(is_whole(*term) for term in rest.terms)
        if simple and (by.constant or 0) > 0 and (divisor.constant or 0) > 0:
            return inner + rest * by, divisor * by
    return dividend, divisor


def _reduced(dividend: Dim, divisor: Dim) -> tuple[Dim, Dim]:
    """`(6*K + 5) // 4` is `(3*K + 2) // 2`: a factor of all but the constant is cancelled, and the constant rounded."""
    number, moving = divisor.constant, [c for monomial, c in dividend.terms if monomial]
    if number is None or not all(is_whole(*term) for term in dividend.terms):
        return dividend, divisor
    factor = math.gcd(number, *(c.numerator for c in moving))
    constant = int(dict(dividend.terms).get((), 0))
    varying = (dividend - constant).exact_div(factor)
    return varying + constant // factor, Dim.const(number // factor)


def _mirrored(dividend: Dim, divisor: Dim) -> Dim:
    """`a // n`, or `-((n - 1 - a) // n)` where that has the smaller numbers: of the two, one is the form."""
    plain = dividend.floor_div(divisor)
    number = divisor.constant
    if number is None or not dividend.terms:
        return plain
    first = next((c for monomial, c in dividend.terms if monomial), None)
    if first is None or first.denominator != 1 or 2 * (first.numerator % number) <= number:
        return plain
    return -((divisor - ONE - dividend).floor_div(divisor))


def _extreme(atom: Opaque, args: tuple[Dim, ...], never_negative: Positive) -> Dim:
    kept: list[Dim] = []
    least = atom.function == "min"
    for arg in args:
        if any(never_negative(arg - other if least else other - arg) for other in kept):
            continue
        kept = [other for other in kept if not never_negative(other - arg if least else arg - other)]
        kept.append(arg)
    first, *others = kept
    for other in others:
        first = first.min(other) if least else first.max(other)
    return first
