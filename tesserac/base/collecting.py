"""Garbage collection, paused while much is made and nothing of it is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (100_000, 20, 100)
"""New objects before the youngest are looked at, and how often older ones are: a start makes some 500,000."""


@contextmanager
def collection_paused() -> Iterator[None]:
    """Compiling makes many objects that live to its end; looking for cycles among them takes a third of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def collect_seldom() -> None:
    """What a command makes lives nearly all to its end. Only for a process that is ours alone."""
    gc.set_threshold(*SELDOM)


def keep_to_the_end() -> None:
    """Nothing that lives now is looked at again, not even when the process ends: the system takes its memory back at
    once. Only for a process that is ours alone, since what others made is kept too."""
    gc.freeze()
