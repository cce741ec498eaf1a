"""Every code has a page, every page a code, and the page tells the truth: its programs do what it says.

Other families of codes test their pages with `assert_page` and a check of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag import codes
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.pages import Page, explain, load_page, page_codes, parse_page
from tesserac.diag.render import render
from tesserac.syntax.parse import parse_module

Check = Callable[[SourceFile], tuple[Diagnostic, ...]]
FOLDER = Path(codes.__file__).parent
JARGON = re.compile(r"\b(unify|DSL|skolem|existential|internal|LALR|traceback|AST|token|lexer)\b|@_|Int\[")


def assert_page(page: Page, check: Check, *, update: bool = False) -> None:
    """The failing program gives the page's code and nothing else, with the message shown; the fixed one nothing."""
    source = SourceFile("example.tess", page.fails)
    diagnostics = check(source)
    assert [d.code for d in diagnostics] == [page.code]
    message = render(diagnostics[0], {source.path: source}) + "\n"
    if update:
        write_message(page, message)
    else:
        assert page.message == message, "run pytest --update and read the diff"
    assert_form(diagnostics[0], message)
    assert check(SourceFile("example.tess", page.fixed)) == ()


def assert_form(diagnostic: Diagnostic, message: str) -> None:
    assert len(diagnostic.title) <= 100
    assert not JARGON.search(message)
    assert max(len(line) for line in message.splitlines()) <= 100
    assert len(message.splitlines()) <= 25


def write_message(page: Page, message: str) -> None:
    block = f"```tess\n{page.fails}```\n"
    text = re.sub(r"\n```text\n.*?^```\n", "", page.text, flags=re.MULTILINE | re.DOTALL)
    assert block in text
    (FOLDER / f"{page.code}.md").write_text(
        text.replace(block, f"{block}\n```text\n{message}```\n", 1), encoding="utf-8"
    )


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
