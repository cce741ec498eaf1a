"""The page of every code that the checker raises tells the truth: its programs do what it says."""

from __future__ import annotations

import re

import pytest

from tesserac.diag.pages import load_page, page_codes
from tests.support.checking import diagnose, library
from tests.support.page_checks import assert_page

COMPILED = ("E0317", "E0513", "E0514")
"""What only shows where a program is compiled: `graph/test_expansion.py`, `test_requests.py`, and those of schedules
and their cache look at these."""
DEVICES = r"E05[678]"
"""What only shows where a program meets a GPU: the rooms `runtime` and `target` look at these."""
CODES = [
    code
    for code in page_codes()
    if re.match(r"[EW]0[2345678]|E0938", code) and code not in COMPILED and not re.match(DEVICES, code)
]


def test_the_library_is_clean() -> None:
    for result in library():
        assert result.diagnostics == ()


@pytest.mark.one_in(12)
@pytest.mark.parametrize("code", CODES)
def test_page(code: str, request: pytest.FixtureRequest) -> None:
    page = load_page(code)
    assert page is not None
    assert page.fixed
    assert_page(page, diagnose, update=bool(request.config.getoption("--update")))
