"""Room for recursion belongs to the whole process: it is there as long as a thread needs it, and not longer."""

from __future__ import annotations

import sys
from threading import Event, Thread

from tesserac.base.recursion import FRAMES, deep_recursion


def test_the_last_thread_takes_the_room_back() -> None:
    before, begun, may_end = sys.getrecursionlimit(), Event(), Event()

    def first() -> None:
        with deep_recursion():
            begun.set()
            may_end.wait()

    thread = Thread(target=first)
    thread.start()
    begun.wait()
    with deep_recursion():
        may_end.set()
        thread.join()
        assert sys.getrecursionlimit() >= FRAMES
    assert sys.getrecursionlimit() == before
