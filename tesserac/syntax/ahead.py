"""The items of a long file, parsed in two processes.

Enters: a source file. Leaves: nothing but what the parser remembers: it then finds every item known. The trees are the
ones that it would have made itself, since an item is parsed without looking at any other. Where there is no second
process to be had, or it fails, the parser does all of the work as ever.

Only for a process without other threads, such as that of a command.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from tesserac.base.codec import Codec
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile
from tesserac.diag.stored import NAMED
from tesserac.syntax.parse import parse_at, remember, unknown_items
from tesserac.syntax.stored import PARSED

Place = tuple[int, int]

_CODEC = Codec(PARSED, named=NAMED)

WORTH_IT = 60_000
"""Characters from which on half of the work is more than starting a process and taking in what it made."""


def parse_ahead(source: SourceFile) -> None:
    places = unknown_items(source)
    if sum(end - start for start, end in places) >= WORTH_IT and _has_two_cores():
        own, others = _halves(places)
        with deep_recursion(), contextlib.suppress(OSError):
            _parse_in_two(source, own, others)


def _has_two_cores() -> bool:
    return hasattr(os, "fork") and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


def _halves(places: Sequence[Place]) -> tuple[Sequence[Place], Sequence[Place]]:
    """Cut where half of the text is behind. Taking in a tree costs something too: the first part is the longer one."""
    middle, at = sum(end - start for start, end in places) * 0.55, 0
    while middle > 0 and at < len(places):
        middle -= places[at][1] - places[at][0]
        at += 1
    return places[:at], places[at:]


def _parse_in_two(source: SourceFile, own: Sequence[Place], others: Sequence[Place]) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work(source, others, reading, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        remember(source.path, parse_at(source, own))
        data = pipe.read()
    os.waitpid(child, 0)
    with contextlib.suppress(Exception):  # cut short: what is missing is parsed when it is asked for
        remember(source.path, _CODEC.decode(data))


def _work(source: SourceFile, places: Sequence[Place], reading: int, writing: int) -> None:
    """What the second process does. It ends here, whatever happens."""
    try:
        os.close(reading)
        with open(writing, "wb") as pipe:
            pipe.write(_CODEC.encode(parse_at(source, places)))
    finally:
        os._exit(0)
