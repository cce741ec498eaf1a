"""What calls show while they run: `TESSERA_TRACE=shapes,numerics`, or `tessera.trace("shapes")`.

A call that is shown runs twice: operator by operator for what is shown, and compiled for what it returns, prints and
fails with. The modes hold for all modules of the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from tessera.errors import WRONG_ARGUMENTS, failure

SHAPES, NUMERICS = "shapes", "numerics"
MODES = (SHAPES, NUMERICS)
_VARIABLE = "TESSERA_TRACE"


class Wanted(NamedTuple):
    """What to show, and where to."""

    modes: tuple[str, ...]
    say: Callable[[str], object]


_chosen: list[tuple[str, ...]] = []
"""Empty until someone chooses: then the environment counts no more."""


def choose(modes: tuple[str, ...]) -> None:
    _chosen[:] = [_known(modes)]


def wanted() -> Wanted | None:
    """What is to be shown now; None for nothing, the usual case."""
    modes = _chosen[0] if _chosen else _from_environment()
    return Wanted(modes, lambda text: sys.stderr.write(text)) if modes else None


def _from_environment() -> tuple[str, ...]:
    text = os.environ.get(_VARIABLE, "")
    return _known(tuple(word.strip() for word in text.split(",") if word.strip()))


def _known(modes: tuple[str, ...]) -> tuple[str, ...]:
    for mode in modes:
        if mode not in MODES:
            raise failure(WRONG_ARGUMENTS, f"there is no trace of `{mode}`", (f"there are {' and '.join(MODES)}",))
    return modes
