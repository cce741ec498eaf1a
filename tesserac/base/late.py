"""Fields that are made when somebody first asks for them: bodies of functions in a library that is restored from disk.

Enters: objects of classes that derive from `Late`, without some of their fields, and how their values are made. Leaves:
the same objects, which nobody can tell from whole ones. What is asked for of an object whose fields are all there costs
nothing more: Python calls `__getattr__` only where a field is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple


class Fields(NamedTuple):
    """The fields of a class that may be made late, and which others are made together with them: those whose objects
    are `together` in the same."""

    names: tuple[str, ...]
    together: Callable[[Any], object]


class _Waiting(NamedTuple):
    """Objects without some fields, and how these are made. They are held, so that the identity of each stays its
    own."""

    owners: Sequence[object]
    late: Mapping[type, Fields]
    make: Callable[[], Iterable[Iterable[object]]]


_waiting: dict[int, _Waiting] = {}
_lock = RLock()


class Late:
    """A class of data with fields that may be made late."""

    __slots__ = ()

    if not TYPE_CHECKING:  # else every name would be one of its attributes

        def __getattr__(self, name: str) -> Any:
            with _lock:
                found = _waiting.get(id(self))
                if found is not None and name in found.late[type(self)].names:
                    _make(found)
            return object.__getattribute__(self, name)  # which another thread may have made meanwhile


def _make(found: _Waiting) -> None:
    for owner, values in zip(found.owners, found.make(), strict=True):
        for name, value in zip(found.late[type(owner)].names, values, strict=True):
            setattr(owner, name, value)
        del _waiting[id(owner)]


def make_late(
    owners: Sequence[object], late: Mapping[type, Fields], make: Callable[[], Iterable[Iterable[object]]]
) -> None:
    """Says how fields are made that their owners do not have: all of them when one is asked for."""
    found = _Waiting(owners, late, make)
    _waiting.update((id(owner), found) for owner in owners)


def groups(objects: Iterable[object], late: Mapping[type, Fields]) -> list[list[Any]]:
    """The objects whose late fields are made together."""
    found: dict[object, list[Any]] = {}
    for one in objects:
        found.setdefault(late[type(one)].together(one), []).append(one)
    return list(found.values())
