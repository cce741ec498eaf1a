"""Work that takes seconds where nobody has kept what it makes: whoever talks to people is told how far it is.

A checkout of the compiler checks its library once after each change of it; all else that takes long has a caller who
asks for a report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[int, int], object]
"""Hears how much is done, and how much there is."""

_listeners: list[Listener] = []


@contextmanager
def telling(listener: Listener) -> Iterator[None]:
    """Inside, `listener` is told, in whichever thread the work is done."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(done: int, count: int) -> None:
    for listener in _listeners:
        listener(done, count)
