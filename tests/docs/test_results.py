"""What was measured says how and when, and the page of figures counts it rightly."""

from __future__ import annotations

import re

import pytest

from docs.beside import ALL, Comparison, overview
from docs.performance import FILES
from docs.results import RESULTS, day, head, made, newest, value

NAMES = sorted(path.stem for path in RESULTS.glob("*.md"))
NPBENCH = "npbench-two-cores-x86_64"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_results_begins_with_its_command_and_its_day(name: str) -> None:
    said = head(name)
    assert re.search(r"`[^`]*(?:python|tessera)[^`]*`|no command was kept", said), "the command"
    assert re.search(r"2026-\d\d-\d\d", said), "the day"
    assert said.count("\n") <= 16, "the newest table stands first, notes stand behind it"


def test_every_file_is_listed_once() -> None:
    assert sorted(name for files in FILES.values() for name in files) == NAMES


@pytest.mark.parametrize("column", [2, 3, 4])
def test_means_are_those_that_a_benchmark_wrote_itself(column: int) -> None:
    """NPBench's own last row is computed from times, not from rounded ratios."""
    (one,) = [one for one in ALL if (one.file, one.column) == (NPBENCH, column)]
    mean, count = value(NPBENCH, "geometric mean (programs)")[column - 1].rstrip(")").split(" (")
    (line,) = [row for row in overview().splitlines() if NPBENCH in row and f"| {one.peers} |" in row]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert abs(float(cells[5]) - float(mean)) < 0.02
    assert sum(map(int, cells[2:5])) == int(count) == len(one.ratios())


def test_ratios_are_read_from_every_row_that_has_one() -> None:
    for one in ALL:
        rows = [row for row in newest(one.file)[1:] if row[one.column] not in ("-", "")]
        assert len(one.ratios()) == len([row for row in rows if not row[0].startswith("geometric")]), one.what


def test_a_column_without_ratios_has_none() -> None:
    assert Comparison("", "", "gpu-table-h200", 0).ratios() == {}


def test_the_first_sentence_and_the_newest_day() -> None:
    assert made("compile-time-aarch64").endswith("NumPy 2.4.6.")
    assert day("gpu-rows-h200") == "2026-11-19", "of three that the head names"
