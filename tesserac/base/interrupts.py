"""Ctrl-C that arrives while an object is dropped: Python tells of it and goes on, so that it would be lost.

A finalizer or a callback of a weak reference has nobody to raise to. What they were given is kept here, and raised at
the next step of whoever compiles, or at its end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hook = Callable[["sys.UnraisableHookArgs"], object]

_kept: list[BaseException] = []


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Inside, no Ctrl-C is lost. Signals reach the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook
    sys.unraisablehook = _keeping(before)
    try:
        yield
    finally:
        sys.unraisablehook = before
    raise_kept()


def raise_kept() -> None:
    """Raises what was kept, in the thread that signals reach."""
    if _kept and threading.current_thread() is threading.main_thread():
        _kept.clear()
        raise KeyboardInterrupt


def _keeping(before: Hook) -> Hook:
    def keep(unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            _kept.append(unraisable.exc_value)
        else:
            before(unraisable)

    return keep
