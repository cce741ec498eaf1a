"""Code that is kept on disk once it is made, beside what the program goes on with.

Enters: what makes an entry of the cache. Leaves: the entry, some time later, at the latest when the process ends. The
first call of a function on a GPU needs one variant of each kernel; the entry has all of them, and nobody waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from tessera.errors import TesseraError

PAUSE = 2.0
"""Seconds in which the call that the code was made for has the processor for itself."""
_STEP = 0.02
_keeping = threading.Lock()
"""One entry after another."""

Made = TypeVar("Made")


def keep_later(write: Callable[[], object]) -> None:
    """Has something written while the program goes on; the process ends behind it. What cannot be made is not kept:
    the call that needs it says so."""

    def run() -> None:
        until = time.monotonic() + PAUSE
        while time.monotonic() < until and threading.main_thread().is_alive():
            time.sleep(_STEP)
        with _keeping, suppress(TesseraError):
            write()

    threading.Thread(target=run, name="tessera-keep").start()


def side_by_side(makers: Sequence[Callable[[], Made]], threads: int) -> list[Made]:
    """What each of them makes, by some threads; an executor of Python's takes no work once the process is ending."""
    made: dict[int, Made] = {}
    failed: list[BaseException] = []
    rest: Iterator[tuple[int, Callable[[], Made]]] = iter(enumerate(makers))
    turn = threading.Lock()

    def work() -> None:
        while not failed:
            with turn:
                place, make = next(rest, (-1, None))
            if make is None:
                return
            try:
                made[place] = make()
            except BaseException as error:
                failed.append(error)

    workers = [threading.Thread(target=work) for _ in range(min(threads, len(makers)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    return [made[place] for place in range(len(makers))]
