"""Sweeps that take turns: `@pytest.mark.one_in(4)` runs a quarter of the cases of a test, another quarter at another
commit, and all of them under `--thorough`.

Which part it is comes from the commit, so that a commit has one answer; the summary names it, and `pytest --part N`
asks for another. A sweep is cut by the places of its cases, since neighbours often cost alike; one without parameters
is one case, at a place that its name gives. `one_in(12, "wheel")` gives a name to tests that share what costs: they
have their turn together.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections import Counter

import pytest

from tests.support import sampling
from tests.support.paths import ROOT

PARTS = 48
"""A number that 2, 3, 4, 6, 8, 12, 16 and 24 divide: after so many different parts each case of every sweep has run."""

VARIABLE = "TESSERA_TEST_PART"
"""How workers learn what the first process has chosen."""


def choose_part(asked: int | None) -> None:
    if asked is not None:
        os.environ[VARIABLE] = str(asked % PARTS)
    elif VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(_of_commit())


def part() -> int:
    return int(os.environ[VARIABLE])


def _of_commit() -> int:
    """0 outside of a repository."""
    line = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(commit, 16) % PARTS


def summary() -> str:
    if sampling.thorough:
        return "sweeps: every case"
    return f"sweeps: part {part()} of {PARTS}, by the commit; --part N asks for another, --thorough for all"


def select(items: list[pytest.Item]) -> list[pytest.Item]:
    """Takes from the tests those that have their turn at another commit; gives these."""
    places: Counter[str] = Counter()
    left_out = [item for item in items if not _has_its_turn(item, places)]
    chosen = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in chosen]
    return left_out


def _has_its_turn(item: pytest.Item, places: Counter[str]) -> bool:
    """`places` counts the cases of each test that were met."""
    mark = item.get_closest_marker("one_in")
    if mark is None:
        return True
    count, *group = mark.args
    name = item.nodeid.partition("[")[0]
    place = places[name] + zlib.crc32(name.encode())
    places[name] += 1
    return is_turn(zlib.crc32(group[0].encode()) if group else place, count)


def turns_of(count: int, one_in: int) -> int:
    """In how many turns so many cases are run: in `one_in`, or fewer, so that none is empty."""
    return max(turns for turns in range(1, one_in + 1) if PARTS % turns == 0 and turns <= count)


def is_turn(place: int, one_in: int) -> bool:
    """Whether the case at a place is run at this commit."""
    assert PARTS % one_in == 0, f"{one_in} does not divide {PARTS}"
    return sampling.thorough or place % one_in == part() % one_in
