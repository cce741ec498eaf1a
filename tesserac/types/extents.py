"""How large a size can be whatever the counters in it count, and whether it can be negative.

Enters: a size in which counters of loops may stand, and where their loops start and stop. Leaves: one without, at least
as large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

from tesserac.types.polynomial import ZERO, Atom, Dim, Monomial, Opaque, Symbol, of_atom

Bounds = Mapping[str, Sequence[tuple[Dim, Dim]]]
"""Where the loops of each counter start and stop, inner loops first; a counter may serve several."""


def largest(dim: Dim, bounds: Bounds) -> Dim | None:
    """A size that grows with a counter is largest at the end of its loop, one that falls at the start. Where some terms
    grow and others fall, their sum is at most that of the two at their own ends. None where a term may do both.

    Inner loops come first, so that one round is enough, unless a counter also serves a loop further in."""
    for _ in bounds:
        for counter, loops in bounds.items():
            if counter in dim.symbols():
                most = _at_ends(dim, counter, loops)
                if most is None:
                    return None
                dim = most.max(ZERO)
        if not dim.symbols() & bounds.keys():
            return dim
    return dim if not bounds else None


def _at_ends(dim: Dim, counter: str, loops: Sequence[tuple[Dim, Dim]]) -> Dim | None:
    if (quotient := _as_quotient(dim)) is not None:
        divide, inside, divisor = quotient
        if (most := _at_ends(inside, counter, loops)) is not None:
            return divide(most, divisor)
    lows, highs = [low for low, _ in loops], [high - 1 for _, high in loops]
    if any(map(can_be_negative, lows)):  # then it is no size, and a product of it may go both ways
        return _largest_at(dim, counter, [*lows, *highs]) if _stands_once(dim, counter) else None
    parts, nested = {True: ZERO, False: ZERO}, ZERO
    for term in (Dim((term,)) for term in dim.terms):
        ways = _ways(term, counter)
        if len(ways) < 2:
            parts[ways == {True}] += term
        elif (most := _largest_argument(term, counter, loops)) is not None:
            nested += most
        else:
            return _largest_at(dim, counter, [*lows, *highs]) if _stands_once(dim, counter) else None
    return _largest_at(parts[True], counter, highs) + _largest_at(parts[False], counter, lows) + nested


def _as_quotient(dim: Dim) -> tuple[Callable[[Dim, Dim], Dim], Dim, Dim] | None:
    """A quotient with other terms beside it as one of all of them: the normal form takes multiples of the divisor out
    of it, so that `(N - 32 t) / 4096` is `(N + 4064 t) / 4096 - t`, whose parts grow and fall by much more than it. So
    is a multiple of one, where the other terms are such multiples: a size in whole units."""
    quotients = [term for term in dim.terms if _is_quotient(term[0])]
    if len(quotients) != 1 or len(dim.terms) < 2:
        return None
    [(((atom, _),), times)] = quotients
    if not isinstance(times, int) or times <= 0 or any(coefficient % times for _, coefficient in dim.terms):
        return None
    assert isinstance(atom, Opaque)
    inside, divisor = atom.args
    whole = inside + (dim - of_atom(atom) * times).exact_div(times) * divisor
    quotient = Dim.floor_div if atom.function == "floor_div" else Dim.ceil_div
    return (lambda most, by: quotient(most, by) * times), whole, divisor


def _is_quotient(monomial: Monomial) -> bool:
    """Whether it is one by a positive number, and nothing else."""
    match monomial:
        case ((Opaque("floor_div" | "ceil_div", (_, divisor)), 1),):
            return divisor.constant is not None and divisor.constant > 0
    return False


def _largest_argument(term: Dim, counter: str, loops: Sequence[tuple[Dim, Dim]]) -> Dim | None:
    """Of a product of smaller or larger ones of several sizes, the product of what each is at most: they are extents,
    and not negative."""
    (monomial, coefficient), *_ = term.terms
    if coefficient <= 0 or any(exponent < 0 for _, exponent in monomial):
        return None
    found = [_largest_factor(atom, counter, loops) for atom, _ in monomial]
    product = Dim.const(coefficient)
    for size, (_, exponent) in zip(found, monomial, strict=True):
        if size is None:
            return None
        product = reduce(Dim.__mul__, [size] * exponent, product)
    return product


def _largest_factor(atom: Atom, counter: str, loops: Sequence[tuple[Dim, Dim]]) -> Dim | None:
    """The smaller of sizes is at most any of them; what nothing is known of is left out."""
    if counter not in of_atom(atom).symbols():
        return of_atom(atom)
    if _is_quotient(((atom, 1),)):
        assert isinstance(atom, Opaque)
        most = _at_ends(atom.args[0], counter, loops)
        divide = Dim.floor_div if atom.function == "floor_div" else Dim.ceil_div
        return None if most is None else divide(most, atom.args[1])
    if not isinstance(atom, Opaque) or atom.function not in ("min", "max"):
        return None
    found = [_at_ends(arg, counter, loops) for arg in atom.args]
    known = [size for size in found if size is not None]
    if not known or (atom.function == "max" and len(known) < len(found)):
        return None
    return reduce(Dim.min if atom.function == "min" else Dim.max, known)


def _largest_at(dim: Dim, counter: str, ends: Sequence[Dim]) -> Dim:
    return reduce(Dim.max, [dim.substitute({counter: end}) for end in ends])


def _stands_once(dim: Dim, counter: str) -> bool:
    """Then the size goes one way with it, whatever stands beside it; unless it is what is left by a division."""
    inside = (atom for atom in dim.atoms() if isinstance(atom, Opaque))
    rests = (atom for atom in inside if atom.function == "mod")
    return list(_occurrences(dim)).count(counter) == 1 and not any(
        counter in arg.symbols() for atom in rests for arg in atom.args
    )


def _occurrences(dim: Dim) -> Iterator[str]:
    for monomial, _ in dim.terms:
        for atom, exponent in monomial:
            if isinstance(atom, Symbol):
                yield from [atom.name] * abs(exponent)
            else:
                for arg in atom.args:
                    yield from _occurrences(arg)


_BOTH = frozenset({False, True})


def _ways(dim: Dim, counter: str) -> frozenset[bool]:
    """Whether a size grows with a counter, falls, or may do both."""
    found: frozenset[bool] = frozenset()
    for monomial, coefficient in dim.terms:
        with_it = [(atom, exponent) for atom, exponent in monomial if counter in of_atom(atom).symbols()]
        if not with_it:
            continue
        [(atom, exponent), *more] = with_it
        beside = [other for other, _ in monomial if other != atom]
        if more or any(isinstance(other, Opaque) for other in beside):
            return _BOTH
        grows = (coefficient > 0) == (exponent > 0)
        found |= {way == grows for way in _atom_ways(atom, exponent, counter)}
    return found


def _atom_ways(atom: Atom, exponent: int, counter: str) -> frozenset[bool]:
    if isinstance(atom, Symbol):
        return frozenset({True})
    divided = atom.function in ("floor_div", "ceil_div") and counter not in atom.args[1].symbols()
    if exponent != 1 or not (divided or atom.function in ("min", "max")):
        return _BOTH
    return frozenset(way for arg in atom.args for way in _ways(arg, counter))


def constant_bound(dim: Dim) -> int | None:
    """A number that a size never exceeds, where it is one or the smaller of one and something else."""
    match dim.terms:
        case ((((Opaque("min", args), 1),), 1),):
            return min((arg.constant for arg in args if arg.constant is not None), default=None)
    return dim.constant


def can_be_negative(dim: Dim) -> bool:
    """Whether a size expression needs a test before it can be the extent of an array."""
    symbols_only = all(isinstance(atom, Symbol) for atom in dim.atoms())
    return not symbols_only or any(coefficient < 0 for _, coefficient in dim.terms)
