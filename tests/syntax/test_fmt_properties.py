"""However a program is written, formatting keeps its meaning and its comments, and settles at once."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tesserac.base.source import SourceFile
from tesserac.syntax.parse import parse_module
from tests.support.fmt_support import assert_well_formatted, badly_written, formatted, items_of, programs
from tests.support.paths import ROOT
from tests.support.sampling import examples

FILES = [
    *(ROOT / "tests" / "cases" / "seeds").glob("*.tess"),
    *(ROOT / "tests" / "cases" / "check").glob("*.tess"),
    *(ROOT / "tests" / "cases" / "fmt").glob("*.tess"),
    *(ROOT / "stdlib").rglob("*.tess"),
    *(ROOT / "examples").rglob("*.tess"),
]


def is_sound(text: str) -> bool:
    return not parse_module(SourceFile("t.tess", text)).diagnostics


@cache
def items() -> list[str]:
    """Found when they are first drawn from: parsing them all takes longer than collecting the tests."""
    found = {item for path in FILES for item in items_of(path.read_text(encoding="utf-8")) if is_sound(item)}
    return sorted(found, key=lambda item: (len(item), item))


ITEMS = st.deferred(lambda: st.sampled_from(items()))


@pytest.mark.one_in(12)
def test_there_are_programs() -> None:
    assert len(items()) > 200


@pytest.mark.one_in(12)
@examples(250)
@given(ITEMS.flatmap(badly_written).filter(is_sound))
def test_badly_written_items(text: str) -> None:
    assert_well_formatted(text)


@pytest.mark.one_in(8)
@examples(100)
@given(programs())
def test_random_programs(text: str) -> None:
    assert_well_formatted(text)


@pytest.mark.one_in(4)
@examples(60)
@given(programs().flatmap(badly_written).filter(is_sound))
def test_badly_written_random_programs(text: str) -> None:
    assert_well_formatted(text)


@pytest.mark.one_in(24)
@examples(40)
@given(st.lists(ITEMS, min_size=2, max_size=6))
def test_items_are_formatted_apart(items: list[str]) -> None:
    """What an item looks like does not depend on its neighbours."""
    plain = [item for item in items if not item.startswith(('"', "'"))]
    text = "".join(item if item.endswith("\n") else f"{item}\n" for item in plain)
    if is_sound(text):
        assert_well_formatted(text)


@example("\\\n#")
@given(st.text(alphabet="ab=()[]:'\"#\n\\ @d,.+", max_size=60))
def test_any_text(text: str) -> None:
    """Nothing is raised, what was formatted stays so, and a program stays one."""
    result = formatted(text)
    assert formatted(result) == result
    if text.strip() and is_sound(text):
        assert is_sound(result)
