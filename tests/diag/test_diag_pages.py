"""Every code has a page, every page a code, and the pages of syntax errors tell the truth."""

from __future__ import annotations

import re

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag import codes
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.pages import explain, load_page, page_codes, parse_page
from tesserac.syntax.parse import parse_module
from tests.support.message_rules import JARGON
from tests.support.page_checks import assert_page


def check_syntax(source: SourceFile) -> tuple[Diagnostic, ...]:
    return parse_module(source).diagnostics


@pytest.mark.parametrize("code", [code for code in page_codes() if code.startswith("E01")])
def test_syntax_page(code: str, request: pytest.FixtureRequest) -> None:
    page = load_page(code)
    assert page is not None
    assert page.fixed
    assert_page(page, check_syntax, update=bool(request.config.getoption("--update")))


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert page_codes() == sorted(codes.ALL)


def test_a_code_is_declared_once_and_named_after_itself() -> None:
    declared = [
        (name, code) for family in codes.FAMILIES for name, code in vars(family).items() if isinstance(code, codes.Code)
    ]
    assert all(name == code.id for name, code in declared)
    assert len(declared) == len(codes.ALL)


def test_every_code_has_a_title_of_its_own() -> None:
    """Words that its messages share, so that a title can be searched for."""
    assert not [code.id for code in codes.ALL.values() if not re.search(r"[a-z]", re.sub(r"\{\w+\}", "", code.title))]


@pytest.mark.parametrize("code", page_codes())
def test_page_is_well_formed(code: str) -> None:
    page = load_page(code)
    assert page is not None
    assert page.code == code
    assert len(page.title) <= 100
    assert not page.title.endswith(".")
    assert not JARGON.search(page.why)


def test_explain_takes_any_case_and_knows_what_it_does_not_know() -> None:
    assert explain("e0102") == explain("E0102")
    assert explain("E9999") is None
    assert explain("../syntax") is None


def test_a_page_without_its_sections_is_refused() -> None:
    with pytest.raises(ValueError, match="## Why"):
        parse_page("# E0101: a title\n\n## Why\n\nbecause\n")
