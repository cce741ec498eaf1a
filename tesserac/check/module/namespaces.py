"""What `op.name`, `tile.name` and `dist.name` mean.

Enters: a namespace and a name after its dot. Leaves: a rule of the checker, or the library's function of that or
another name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.check.devices import distribution
from tesserac.check.kernels.tiles import RULES
from tesserac.check.names.refs import ALGEBRA, CONSTRUCTORS, BuiltinRef, FunctionRef, OperatorRef, ReportedRef, Resolved

_SAME = {"broadcast": "expand"}
"""Functions of the library that a tile has under another name."""
_OF_STATEMENTS = ("range", "numerics", "device", "prefetch", "print")
"""What the language has for statements, and no tile."""
_TILE = ("range_n", "range_k", "store", "zeros", "full", "transpose", "cast")


def namespace_member(namespace: str, name: str, library: Callable[[str], Resolved | None]) -> Resolved | None:
    if namespace == "op":
        return BuiltinRef(f"{ALGEBRA}{name}") if name in CONSTRUCTORS else library(name)
    if namespace == "dist" and name in distribution.RULES:
        return BuiltinRef(f"dist.{name}")
    if namespace not in ("tile", "dist"):
        return None
    if name in RULES:
        return BuiltinRef(f"tile.{name}")
    if name in _OF_STATEMENTS:
        return None
    found = library(_SAME.get(name, name))
    return found if isinstance(found, FunctionRef | OperatorRef | BuiltinRef | ReportedRef) else None


def namespace_names(namespace: str, library: Sequence[str]) -> list[str]:
    """Names to suggest for a misspelt one; a tile has all functions of the library."""
    return {"tile": [*RULES, *_SAME, *_TILE, *library], "dist": list(distribution.RULES)}.get(namespace, [])
