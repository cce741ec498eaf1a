"""Room for functions that call themselves on trees, which are as deep as the parser lets them be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

FRAMES = 100_000
"""A tree 512 deep, some tens of calls for each level, in instances within instances."""


@contextmanager
def deep_recursion() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
