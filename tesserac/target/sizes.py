"""What must be known of size expressions before they are evaluated at run time.

Enters: `Dim` expressions. Leaves: the same as a whole numerator over a whole denominator, as a plain tree for the
runtime, the guards without which a division would leave a rest, and the equations that give each symbol a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from math import lcm

from tessera.sizes import Size, Tree
from tesserac.base.dataclass import dataclass
from tesserac.ir.forms import Guard
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.polynomial import Atom, Monomial, Opaque, Symbol
from tesserac.types.terms import Coefficient

_OPERATORS = {"quotient": "/", "floor_div": "//", "mod": "%", "ceil_div": "ceil_div", "min": "min", "max": "max"}


class UnboundSymbolError(Exception):
    """A symbol that no argument determines, though code needs its value: a fault of the compiler."""


@lru_cache(1 << 14)
def split_fraction(dim: Dim) -> tuple[Dim, Dim]:
    """(numerator, denominator), both without a division outside opaque atoms, with `dim = numerator/denominator`."""
    below: dict[Atom, int] = {}
    for monomial, _ in dim.terms:
        for atom, exponent in monomial:
            below[atom] = max(below.get(atom, 0), -exponent)
    powers = [_term(((atom, exponent),), 1) for atom, exponent in below.items() if exponent]
    denominator = product(powers) * lcm(*(coefficient.denominator for _, coefficient in dim.terms))
    return dim * denominator, denominator


def _term(monomial: Monomial, coefficient: Coefficient) -> Dim:
    return Dim(((monomial, coefficient),))


# --- for the runtime ----------------------------------------------------------------------------------------------


def size_of(dim: Dim) -> Size:
    """The expression as the runtime evaluates it."""
    return Size(str(dim), _tree(dim))


def _tree(dim: Dim) -> Tree:
    numerator, denominator = split_fraction(dim)
    if denominator == ONE:
        return _fold("+", [_product(*term) for term in numerator.terms], 0)
    return ("/", _tree(numerator), _tree(denominator))


def _product(monomial: Monomial, coefficient: Coefficient) -> Tree:
    atoms = [_atom(atom) for atom, exponent in monomial for _ in range(exponent)]
    factors = [coefficient.numerator, *atoms] if coefficient != 1 else atoms
    return _fold("*", factors, 1)


def _fold(operator: str, parts: Sequence[Tree], empty: int) -> Tree:
    if len(parts) > 1:
        return (operator, *parts)
    return parts[0] if parts else empty


def _atom(atom: Atom) -> Tree:
    if isinstance(atom, Symbol):
        return atom.name
    return (_OPERATORS[atom.function], *map(_tree, atom.args))


# --- guards -------------------------------------------------------------------------------------------------------


def implied_guards(dims: Iterable[Dim]) -> list[Guard]:
    """What must hold for the sizes to have values, each once, inner expressions first."""
    found = dict.fromkeys(guard for dim in dims for guard in _guards_of(dim))
    return list(found)


@cache
def _guards_of(dim: Dim) -> tuple[Guard, ...]:
    return tuple(_implied_by(dim))


def _implied_by(dim: Dim) -> Iterator[Guard]:
    for atom in sorted(dim.atoms(), key=str):
        if isinstance(atom, Opaque):
            yield from _opaque_guards(atom)
    numerator, denominator = split_fraction(dim)
    if denominator != ONE:
        yield _divides(denominator, numerator)


def _opaque_guards(atom: Opaque) -> Iterator[Guard]:
    for arg in atom.args:
        yield from _guards_of(arg)
    dividend, *divisors = atom.args
    for divisor in divisors:
        if atom.function == "quotient":
            yield _divides(divisor, dividend)
        elif atom.function not in ("min", "max") and divisor.constant is None:
            yield Guard("at_least", divisor, ONE, f"`{divisor}` to be at least 1")


def _divides(divisor: Dim, dividend: Dim) -> Guard:
    return Guard("divides", divisor, dividend, f"`{divisor}` to divide `{dividend}`")


# --- symbols ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Equation:
    """How an argument's shape gives a symbol: `factor * shape[axis] == scale * symbol + offset`."""

    symbol: str
    parameter: int
    axis: int
    factor: Dim
    scale: Dim
    offset: Dim


def solve_symbols(shapes: Sequence[Sequence[Dim]]) -> tuple[Equation, ...]:
    """One equation per symbol of the shapes, each using only symbols of those before it: bare symbols first, then
    sizes linear in one symbol that is still unknown."""
    sizes = [(i, j, dim) for i, shape in enumerate(shapes) for j, dim in enumerate(shape)]
    wanted = frozenset[str]().union(*(dim.symbols() for _, _, dim in sizes))
    solved: dict[str, Equation] = {}
    for i, j, dim in sizes:
        if dim.symbol is not None:
            solved.setdefault(dim.symbol, Equation(dim.symbol, i, j, ONE, ONE, ZERO))
    while missing := wanted - solved.keys():
        found = next((e for i, j, dim in sizes if (e := _solve(i, j, dim, missing)) is not None), None)
        if found is None:
            raise UnboundSymbolError(f"no argument determines {', '.join(sorted(missing))}")
        solved[found.symbol] = found
    return tuple(solved.values())


def _solve(parameter: int, axis: int, dim: Dim, missing: frozenset[str] | set[str]) -> Equation | None:
    unknown = dim.symbols() & missing
    if len(unknown) != 1:
        return None
    (name,) = unknown
    numerator, denominator = split_fraction(dim)
    scale = ZERO
    for monomial, coefficient in numerator.terms:
        if dict(monomial).get(Symbol(name)) == 1:
            scale = scale + _term(tuple(pair for pair in monomial if pair[0] != Symbol(name)), coefficient)
    offset = numerator - scale * Dim.sym(name)
    if name in scale.symbols() | offset.symbols() | denominator.symbols():
        return None
    return Equation(name, parameter, axis, denominator, scale, offset)
