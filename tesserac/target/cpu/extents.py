"""How large a size can be whatever the loops around it count: memory is taken before any of them turns.

Enters: a size in which counters of loops may stand, and the host program. Leaves: one without, at least as large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tesserac.ir.core import Op
from tesserac.target.sizes import UnboundSymbolError
from tesserac.types.dims import ZERO, Dim
from tesserac.types.polynomial import Opaque, Symbol

Bounds = Mapping[str, list[tuple[Dim, Dim]]]


def loop_bounds(host: Op) -> dict[str, list[tuple[Dim, Dim]]]:
    """Where the loops of each counter start and stop, inner loops first; a counter may serve several. Of a loop whose
    ends no size gives nothing is known: memory does not depend on it."""
    found: dict[str, list[tuple[Dim, Dim]]] = {}
    for op in reversed(list(host.walk())):
        if op.name == "schedule.loop":
            low, high = (_dim(value.defining_op) for value in op.operands[:2])
            if low is not None and high is not None:
                found.setdefault(str(op.attrs["counter"]), []).append((low, high))
    return found


def _dim(made: Op | None) -> Dim | None:
    dim = made.attrs.get("dim") if made is not None else None
    return dim if isinstance(dim, Dim) else None


def largest(dim: Dim, bounds: Bounds) -> Dim:
    """A size in which a counter stands once goes one way with it, so that one of the loop's ends is where it is
    largest."""
    for counter, loops in bounds.items():
        if counter not in dim.symbols():
            continue
        if list(_occurrences(dim)).count(counter) > 1 or not _goes_one_way(dim, counter):
            raise UnboundSymbolError(f"memory of size {dim} depends on the turn of a loop")
        ends = [end for low, high in loops for end in (low, high - 1)]
        most = ZERO
        for end in ends:
            most = most.max(dim.substitute({counter: end}))
        dim = most
    return dim


def _occurrences(dim: Dim) -> Iterator[str]:
    for monomial, _ in dim.terms:
        for atom, exponent in monomial:
            if isinstance(atom, Symbol):
                yield from [atom.name] * abs(exponent)
            else:
                for arg in atom.args:
                    yield from _occurrences(arg)


def _goes_one_way(dim: Dim, counter: str) -> bool:
    inside = (atom for atom in dim.atoms() if isinstance(atom, Opaque))
    return all(atom.function != "mod" or all(counter not in arg.symbols() for arg in atom.args) for atom in inside)
