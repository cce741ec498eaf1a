"""When the garbage collector may run: not while somebody waits.

A large file is some million objects. Walking them takes longer than checking what a keystroke changed, and the
interpreter would do so every few keystrokes. So what is there after a file was read is set aside, and walked only
after a while without work.
"""

from __future__ import annotations

import asyncio
import gc

IDLE = 20.0
"""Seconds without work before everything is walked."""

THRESHOLDS = (50_000, 20, 1_000)
"""Of the three generations; the last one is left to `IDLE`."""


class Collector:
    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._frozen = False
        gc.set_threshold(*THRESHOLDS)

    def work_begins(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def work_ended(self) -> None:
        if not self._frozen:
            gc.freeze()
            self._frozen = True
        self.work_begins()
        self._timer = asyncio.get_running_loop().call_later(IDLE, self._walk)

    def _walk(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
