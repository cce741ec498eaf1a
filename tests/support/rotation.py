"""Sweeps that take turns: `@pytest.mark.one_in(4)` runs a quarter of the cases of a test, another quarter at another
commit, and all of them under `--thorough`.

Which part it is comes from the commit, so that a commit has one answer; the summary names it, and `pytest --part N`
asks for another. A sweep is cut by the places of its cases, since neighbours often cost alike; one without parameters
is one case, at a place that its name gives. `one_in(12, "wheel")` gives a name to tests that share what costs: they
have their turn together. Cases that are folded into one test (`folding.py`) have turns of their own beside those of the
test: with the same ones, a test would meet the same cases whenever it runs.
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
"""A number that 2, 3, 4, 6, 8, 12, 16 and 24 divide: after so many different parts each case of every sweep has run,
and after the square of it each case that is folded into a test that takes turns."""

VARIABLE = "TESSERA_TEST_PART"
"""How workers learn what the first process has chosen."""


def choose_part(asked: int | None) -> None:
    if asked is not None:
        os.environ[VARIABLE] = str(asked % PARTS**2)
    elif VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(_of_commit())


def part() -> int:
    return int(os.environ[VARIABLE])


def _part_of_cases() -> int:
    """The part of what is folded: for each part of tests, one after another all of them."""
    return part() + part() // PARTS


def _of_commit() -> int:
    """0 outside of a repository."""
    line = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(commit, 16) % PARTS**2


def summary() -> str:
    if sampling.thorough:
        return "sweeps: every case"
    return f"sweeps: part {part()} of {PARTS**2}, by the commit; --part N asks for another, --thorough for all"


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
    return max(turns for turns in range(1, one_in + 1) if _all_parts(one_in) % turns == 0 and turns <= count)


def _all_parts(one_in: int) -> int:
    """A great product of options is cut by all parts; it is then the one way in which its test takes turns."""
    return PARTS if one_in <= PARTS else PARTS**2


def is_turn(place: int, one_in: int) -> bool:
    """Whether the case at a place is run at this commit."""
    return _is_turn(place, one_in, part())


def is_turn_in_fold(place: int, one_in: int) -> bool:
    """Whether a case that is folded into a test is run where the test is."""
    return _is_turn(place, one_in, _part_of_cases() if one_in <= PARTS else part())


def _is_turn(place: int, one_in: int, of: int) -> bool:
    assert _all_parts(one_in) % one_in == 0, f"{one_in} does not divide {_all_parts(one_in)}"
    return sampling.thorough or place % one_in == of % one_in
