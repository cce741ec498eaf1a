"""Messages as people see them: exact text for a corpus of bugs, and the form and the fixes of every one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tesserac.base.records import Records
from tesserac.base.source import SourceFile
from tesserac.check.names.foreign_names import NAMES, WORDS, called_here
from tesserac.diag.diagnostic import Diagnostic, Fix, Severity
from tesserac.diag.pages import load_page, page_codes
from tesserac.diag.render import apply_edits, render
from tesserac.driver.check_cache import CheckCache
from tesserac.driver.session import Session
from tests.conftest import Golden
from tests.support.checking import check_text, diagnose
from tests.support.folding import folded
from tests.support.message_rules import assert_reads_well, source_files
from tests.support.paths import CASES

FOLDER = CASES / "check"
BUGS = sorted(FOLDER.glob("bug_*.tess"))
PAGES = [code for code in page_codes() if re.match(r"[EW]0[23467]", code)]


def programs() -> Iterator[tuple[str, str]]:
    for path in sorted(FOLDER.glob("*.tess")):
        yield path.stem, path.read_text(encoding="utf-8")
    for code in PAGES:
        page = load_page(code)
        assert page is not None
        yield code, page.fails


def name_of(case: object) -> str:
    return case if isinstance(case, str) and "\n" not in case else ""


@pytest.mark.parametrize("path", BUGS, ids=lambda path: path.stem)
def test_the_exact_text(path: Path, golden: Golden) -> None:
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    shown = [render(diagnostic, {source.path: source}) for diagnostic in diagnose(source)]
    golden.check(FOLDER / "messages" / f"{path.stem}.txt", "\n".join(shown) + "\n")


@cache
def said(text: str) -> tuple[Diagnostic, ...]:
    """Of a program that several tests look at."""
    return diagnose(SourceFile("example.tess", text))


@folded(("name", "text"), programs, ids=name_of)
def test_the_form_of_every_message(name: str, text: str) -> None:
    source = SourceFile("example.tess", text)
    for diagnostic in said(text):
        assert_reads_well(diagnostic, render(diagnostic, source_files(source)))


@cache
def fixes() -> list[tuple[str, str, Diagnostic, Fix]]:
    return list(_fixes())


def _fixes() -> Iterator[tuple[str, str, Diagnostic, Fix]]:
    """The first fix that can be applied, of every diagnostic of every program here."""
    for name, text in programs():
        for diagnostic in said(text):
            applicable = [fix for fix in diagnostic.fixes if fix.edits]
            if applicable:
                yield f"{name}-{diagnostic.code}", text, diagnostic, applicable[0]


def errors(text: str) -> list[Diagnostic]:
    return [d for d in check_text(text).diagnostics if d.severity is Severity.ERROR]


@pytest.mark.one_in(6)
@folded(("name", "text", "diagnostic", "fix"), fixes, ids=name_of, one_in=48)
def test_the_first_fix_mends_it(name: str, text: str, diagnostic: Diagnostic, fix: Fix) -> None:
    mended = apply_edits(text, list(fix.edits))
    before, after = errors(text), errors(mended)
    assert len(after) < len(before) or diagnostic.severity is Severity.WARNING
    assert len(after) <= len(before)


def test_there_are_fixes() -> None:
    assert len(list(fixes())) > 30


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def g(x, k: int):\n    return x + nobody\ndef f(x: Tensor[N, f32]):\n    return g(x, 2)\n", "E0201"),
        ("def f(x: Tensor[N, f32]) -> Tensor[M, f32]:\n    return x + zeros(3)\n", "E0312"),
        (
            "def f(x: Tensor[N, f32]) -> Tensor[f32]:\n    t = cast(0.0, bf16)\n"
            "    for i in range(N):\n        t = t + x[i]\n    return t\n",
            "E0402",
        ),
    ],
)
def test_one_mistake_is_one_error(text: str, code: str) -> None:
    """A call repeats nothing of its callee, a body nothing of its signature, a result nothing of a dtype before it."""
    assert [d.code for d in errors(text)] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: Tensor[N, f32]):\n    y = x +\n    return y\n",
        "factor = 3 +\ndef f(x: Tensor[N, f32]):\n    return x * factor\n",
        "def g(x: Tensor[N, f32])\n    return x\ndef f(x: Tensor[N, f32]):\n    return g(x)\n",
    ],
)
def test_what_stands_in_a_line_that_does_not_parse_is_not_missing_elsewhere(text: str, tmp_path: Path) -> None:
    file = tmp_path / "m.tess"
    file.write_text(text)
    session, source = Session(), SourceFile(str(file), text)
    for found in (session.check(source), session.check_visible(source), CheckCache(Records()).of(str(file))):
        assert [d.code[:3] for d in found.diagnostics] == ["E01"]
    missing = SourceFile(str(file), text + "def h():\n    return nobody\n")
    assert [d.code[:3] for d in session.check(missing).diagnostics] == ["E01", "E02"]


def test_two_mistakes_are_two_errors() -> None:
    first = "def g(x: Tensor[N, f32]):\n    return x + nobody\ndef f(x: Tensor[N, f32]):\n    return g(x)\n"
    second = "def h(x: Tensor[N, f32], y: Tensor[M, f32]):\n    return x + y\n"
    assert [d.code for d in errors(first + second)] == ["E0201", "E0302"]


@pytest.mark.parametrize("name", [*NAMES, *WORDS])
def test_names_of_other_libraries_are_told_by_ours(name: str) -> None:
    found, *_ = diagnose(SourceFile("a.tess", f"def f(x: Tensor[N, f32]):\n    return {name}(x)\n"))
    assert found.code == "E0201" and called_here(name) in (*found.notes, *(fix.title for fix in found.fixes))
    ours = NAMES.get(name, "abs")
    assert not [d for d in diagnose(SourceFile("a.tess", f"def f():\n    g = {ours}\n")) if d.code == "E0201"]
