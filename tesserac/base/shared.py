"""Values that are made of the same parts are one: the first that is met stands for the others.

Enters: objects. Leaves: for a tuple and an object of a class of values, the first one met that is made of the same; any
other object itself. Nobody can tell them apart: values do not change. Floats are the same only if they are one object,
since equal ones may differ (0.0 and -0.0).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any


class Shared:
    """`values` are classes of data whose objects are what their fields are; what is `fixed`, by identity, stands for
    itself."""

    def __init__(self, values: Mapping[type, tuple[str, ...]], fixed: Container[int]) -> None:
        self._fields = {cls: [attrgetter(name) for name in names] for cls, names in values.items()}
        self._fixed = fixed
        self._first: dict[Hashable, Any] = {}
        self._met: dict[int, tuple[object, Any]] = {}
        """By identity, which an object keeps as long as it is held here."""

    def __call__(self, one: Any) -> Any:
        found = self._met.get(id(one))
        if found is None:
            found = self._met[id(one)] = one, self._first_like(one)
        return found[1]

    def _first_like(self, one: Any) -> Any:
        parts = None if id(one) in self._fixed else self._parts(one)
        return one if parts is None else self._first.setdefault((type(one), *map(self._mark, parts)), one)

    def _parts(self, one: Any) -> Iterable[Any] | None:
        if isinstance(one, tuple):
            return one
        fields = self._fields.get(type(one))
        return None if fields is None else [field(one) for field in fields]

    def _mark(self, part: Any) -> Hashable:
        """Equal for what is the same part."""
        return (type(part), part) if type(part) in (str, int) else id(self(part))
