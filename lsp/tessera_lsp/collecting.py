"""When the garbage collector may run: not while somebody waits.

A large file is some million objects. Walking them takes longer than checking what a keystroke changed, and the
interpreter would do so every few keystrokes. So what is there after a file was opened is set aside; what comes later
is walked after a while without work, and everything once a file was closed.
"""

from __future__ import annotations

import asyncio
import gc

IDLE = 5.0
"""Seconds without work before anything is walked."""

THRESHOLDS = (50_000, 20, 1_000)
"""Of the three generations; the last one is left to `IDLE`."""


class Collector:
    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        gc.set_threshold(*THRESHOLDS)

    def opened(self) -> None:
        """A file was read whole: what is known of it stays."""
        gc.freeze()

    def closed(self) -> None:
        """Some of what was set aside is not needed any more."""
        self._closed = True
        self.work_ended()

    def work_begins(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def work_ended(self) -> None:
        self.work_begins()
        self._timer = asyncio.get_running_loop().call_later(IDLE, self._walk)

    def _walk(self) -> None:
        if not self._closed:
            gc.collect()
            return
        self._closed = False
        gc.unfreeze()
        gc.collect()
        gc.freeze()
