"""What is known of places that count with loops: how they move with iterations, and that they are inside.

Enters: sizes and places as `Dim`, and the bounds of the loops around. Leaves: what can be proved of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.autodiff.linear import loop_bounds
from tesserac.ir.core import Op, attr_tuple
from tesserac.ir.forms import tensor_type
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.polynomial import Opaque, Symbol, of_atom


@dataclass(frozen=True)
class Place:
    """A box of a tensor, one element after the other in every dim."""

    starts: tuple[Dim, ...]
    sizes: tuple[Dim, ...]

    def mentions(self, counter: str) -> bool:
        return any(counter in dim.symbols() for dim in (*self.starts, *self.sizes))


def place_of(op: Op) -> Place | None:
    """Where a `cut` reads or an `insert` writes; None if that has gaps or runs backwards."""
    box = op.results[0] if op.name == "graph.cut" else op.operands[1]
    if set(attr_tuple(op, "steps", int)) - {1}:
        return None
    return Place(attr_tuple(op, "starts", Dim), tensor_type(box).dims)


def movement(dim: Dim, counter: str) -> int | None:
    """By how much a place moves from one iteration to the next; None where that is not always the same number."""
    if counter not in dim.symbols():
        return 0
    step = dim.substitute({counter: Dim.sym(counter) + 1}) - dim
    return step.constant


def moving_axis(place: Place, counter: str) -> tuple[int, int] | None:
    """The only dim along which a place moves, by one element each that no other iteration has, and by how much."""
    if any(counter in size.symbols() for size in place.sizes):
        return None
    moves = [movement(start, counter) for start in place.starts]
    axes = [axis for axis, by in enumerate(moves) if by != 0]
    if len(axes) != 1 or (by := moves[axes[0]]) is None or place.sizes[axes[0]] != ONE:
        return None
    return axes[0], by


class Bounds:
    """The loops around a place, outermost first, all of which run here; and the sizes that tensors have, which are at
    least 0, as no other name needs to be."""

    def __init__(self, loops: Mapping[str, tuple[Dim, Dim]], sizes: frozenset[str]) -> None:
        self.loops = loops
        self.sizes = sizes

    def inside(self, loop: Op) -> Bounds:
        """What is known in the body of one more loop: nothing of one whose bounds no size gives."""
        if any(value.defining_op is None or "dim" not in value.defining_op.attrs for value in loop.operands[:2]):
            return self
        low, high = loop_bounds(loop)
        return Bounds({**self.loops, str(loop.attrs["counter"]): (low, _above(low, high))}, self.sizes)

    def never_negative(self, dim: Dim) -> bool:
        for counter, (low, high) in reversed(list(self.loops.items())):
            by = movement(dim, counter)
            if by is None:
                return False
            if by:
                dim = dim.substitute({counter: low if by > 0 else high - 1})
        return all(c >= 0 and all(power > 0 for _, power in monomial) for monomial, c in dim.terms) and all(
            atom.name in self.sizes if isinstance(atom, Symbol) else _is_counted(atom) for atom in dim.atoms()
        )

    def holds(self, place: Place, whole: Sequence[Dim]) -> bool:
        """Whether a place is in a tensor of these sizes, wherever the loops stand."""
        rows = zip(place.starts, place.sizes, whole, strict=True)
        return all(self.never_negative(gap) for start, size, dim in rows for gap in (start, dim - start - size))

    def apart(self, one: Place, other: Place) -> bool:
        """Whether two places have no element in common, wherever the loops stand."""
        rows = zip(one.starts, one.sizes, other.starts, other.sizes, strict=True)
        return any(
            self.never_negative(b - a - size) or self.never_negative(a - b - other_size)
            for a, size, b, other_size in rows
        )

    def bulk(self, dims: Sequence[Dim]) -> tuple[str, ...]:
        """What makes a tensor large: its sizes at their largest, without the numbers that are added to them."""
        return tuple(sorted(str(_scale(self._largest(dim))) for dim in dims if dim != ONE))

    def _largest(self, dim: Dim) -> Dim:
        for counter, (low, high) in reversed(list(self.loops.items())):
            by = movement(dim, counter)
            dim = dim.substitute({counter: low if by is not None and by < 0 else high - 1})
        return _least_one(dim, ZERO)


def _scale(dim: Dim) -> Dim:
    return dim if dim.constant is not None else Dim(tuple(term for term in dim.terms if term[0]))


def _above(low: Dim, high: Dim) -> Dim:
    """Where a loop that runs ends: `max(low, n)` is n then."""
    return low + _least_one(_least_one(high, low) - low, ZERO)


def _least_one(dim: Dim, low: Dim) -> Dim:
    """What `max(low, n)` is where it is more than `low`; any other size as it is."""
    atom = next(iter(dim.atoms()), None)
    if isinstance(atom, Opaque) and atom.function == "max" and dim == of_atom(atom) and low in atom.args:
        rest = [arg for arg in atom.args if arg != low]
        return rest[0] if len(rest) == 1 else dim
    return dim


def _is_counted(atom: object) -> bool:
    """Whether a function of sizes is at least 0 by what it is."""
    return isinstance(atom, Opaque) and atom.function == "max" and ZERO in atom.args
