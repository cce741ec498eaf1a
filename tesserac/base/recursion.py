"""Room for functions that call themselves on trees, which are as deep as the parser lets them be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

FRAMES = 100_000
"""A tree 512 deep, some tens of calls for each level, in instances within instances."""


class _Limit:
    """Of the whole process: threads that need room share what the first has set and the last takes back."""

    turn = Lock()
    users = 0
    before = 0


@contextmanager
def deep_recursion() -> Iterator[None]:
    with _Limit.turn:
        _Limit.users += 1
        if _Limit.users == 1:
            _Limit.before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_Limit.before, FRAMES))
    try:
        yield
    finally:
        with _Limit.turn:
            _Limit.users -= 1
            if not _Limit.users:
                sys.setrecursionlimit(_Limit.before)
