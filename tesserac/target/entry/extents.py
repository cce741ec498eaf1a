"""How large a size can be whatever the loops around it count: memory is taken before any of them runs.

Enters: a size in which counters of loops may stand, and the host program. Leaves: one without, at least as large.
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.target.sizes import UnboundSymbolError
from tesserac.types.dims import Dim
from tesserac.types.extents import Bounds, largest


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


def largest_in(dim: Dim, bounds: Bounds) -> Dim:
    most = largest(dim, bounds)
    if most is None:
        raise UnboundSymbolError(f"memory of size {dim} depends on the iteration of a loop")
    return most
