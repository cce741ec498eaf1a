"""How large a size can be whatever the counters in it count, and whether it can be negative.

Enters: a size in which counters of loops may stand, and where their loops start and stop. Leaves: one without, at least
as large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tesserac.types.polynomial import ZERO, Atom, Dim, Opaque, Symbol, of_atom

Bounds = Mapping[str, Sequence[tuple[Dim, Dim]]]
"""Where the loops of each counter start and stop, inner loops first; a counter may serve several."""


def largest(dim: Dim, bounds: Bounds) -> Dim | None:
    """A size that goes one way with a counter is largest at one of the loop's ends. None where one may not."""
    for counter, loops in bounds.items():
        if counter not in dim.symbols():
            continue
        if not (_stands_once(dim, counter) or _goes_one_way(dim, counter, [low for low, _ in loops])):
            return None
        most = ZERO
        for end in (end for low, high in loops for end in (low, high - 1)):
            most = most.max(dim.substitute({counter: end}))
        dim = most
    return dim


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


def _goes_one_way(dim: Dim, counter: str, starts: Sequence[Dim]) -> bool:
    """Whether every term does, as products of sizes do; a counter that starts below 0 is no size."""
    return not any(map(can_be_negative, starts)) and len(_ways(dim, counter)) == 1


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


def can_be_negative(dim: Dim) -> bool:
    """Whether a size expression needs a test before it can be the extent of an array."""
    symbols_only = all(isinstance(atom, Symbol) for atom in dim.atoms())
    return not symbols_only or any(coefficient < 0 for _, coefficient in dim.terms)
