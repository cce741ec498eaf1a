"""How large a matrix may become that a program does not ask for: `--max-materialize`."""

from __future__ import annotations

import os

from tesserac.base.variables import MAX_MATERIALIZE

_ENTRIES = 1 << 26


def max_materialize() -> int:
    """The most entries that an operator's matrix may have where a function needs all of it. `to_dense` has no limit."""
    said = os.environ.get(MAX_MATERIALIZE, "")
    return int(said) if said.isdecimal() else _ENTRIES
