"""How large a matrix may become that a program does not ask for: `--max-materialize`."""

from __future__ import annotations

import os

VARIABLE = "TESSERA_MAX_MATERIALIZE"
"""Where the option leaves its value, for all that this process compiles."""
_ENTRIES = 1 << 26


def max_materialize() -> int:
    """The most entries that an operator's matrix may have where a function needs all of it. `to_dense` has no limit."""
    said = os.environ.get(VARIABLE, "")
    return int(said) if said.isdecimal() else _ENTRIES
