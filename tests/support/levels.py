"""At which level of optimisation the programs of a test are compiled.

Bits do not depend on it (`tests/target/test_levels.py`), and at level 0 LLVM takes a quarter of the time. So tests of
values compile there, but one in six, whichever its name makes it; tests of code, whole programs, and the
examples of all operators compile as users do, and so do all tests of a thorough run.
"""

from __future__ import annotations

import os
import zlib

import pytest

from tests.support import sampling

VARIABLE = "TESSERA_OPT_LEVEL"
ROOMS_OF_CODE = ("docs", "programs", "target", "tile")
ONE_IN = 6

_asked = os.environ.get(VARIABLE)
"""What whoever started the tests wants for all of them."""


def choose_level(item: pytest.Item) -> None:
    """Sets the level for what a test compiles."""
    if _asked is None:
        os.environ[VARIABLE] = "0" if _may_be_fast(item.nodeid) else "3"


def _may_be_fast(name: str) -> bool:
    room = name.split("/")[1]
    sampled = zlib.crc32(name.encode()) % ONE_IN == 0
    return not sampling.thorough and room not in ROOMS_OF_CODE and not sampled
