"""What calls show while they run: `TESSERA_TRACE=shapes,numerics`, or `tessera.trace("shapes")`.

A call that is shown runs twice: operator by operator for what is shown, and compiled for what it returns, prints and
fails with. What is shown waits for the second run, which writes it between what it prints, in the order of the program.
The modes hold for all modules of the process.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tessera.errors import WRONG_ARGUMENTS, failure

SHAPES, NUMERICS = "shapes", "numerics"
MODES = (SHAPES, NUMERICS)
_VARIABLE = "TESSERA_TRACE"


class Wanted(NamedTuple):
    """What to show, where to, and whom to tell that the program would print here."""

    modes: tuple[str, ...]
    say: Callable[[str], object]
    printed: Callable[[], object]


class Transcript:
    """What is shown of one call: texts, each followed by something that the program prints, but for the last."""

    def __init__(self) -> None:
        self._parts: list[list[str]] = [[]]

    def say(self, text: str) -> None:
        self._parts[-1].append(text)

    def printed(self) -> None:
        self._parts.append([])

    def show_next(self) -> None:
        """Writes what comes before the next print."""
        if self._parts:
            _write(self._parts.pop(0))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside, the call runs compiled; what is left is written in the end, also where it fails."""
        outer, _RUNNING.transcript = _RUNNING.transcript, self
        try:
            yield
        finally:
            _RUNNING.transcript = outer
            while self._parts:
                self.show_next()


class _Running(threading.local):
    transcript: Transcript | None = None


_RUNNING = _Running()


def before_print() -> None:
    """Called before a compiled program prints."""
    if _RUNNING.transcript is not None:
        _RUNNING.transcript.show_next()


def _write(texts: Sequence[str]) -> None:
    """After all that was printed, wherever both go."""
    if texts:
        sys.stdout.flush()
        sys.stderr.write("".join(texts))
        sys.stderr.flush()


_chosen: list[tuple[str, ...]] = []
"""Empty until someone chooses: then the environment counts no more."""


def choose(modes: tuple[str, ...]) -> None:
    _chosen[:] = [_known(modes)]


def wanted() -> tuple[str, ...]:
    """What is to be shown now: nothing, in the usual case."""
    return _chosen[0] if _chosen else _from_environment()


def _from_environment() -> tuple[str, ...]:
    text = os.environ.get(_VARIABLE, "")
    return _known(tuple(word.strip() for word in text.split(",") if word.strip()))


def _known(modes: tuple[str, ...]) -> tuple[str, ...]:
    for mode in modes:
        if mode not in MODES:
            raise failure(WRONG_ARGUMENTS, f"there is no trace of `{mode}`", (f"there are {' and '.join(MODES)}",))
    return modes
