"""Variables of the environment through which options of commands reach all that a process compiles."""

from __future__ import annotations

MAX_MATERIALIZE = "TESSERA_MAX_MATERIALIZE"
