"""A fix that does not mend is neither made nor offered, and one that brings a warning is not safe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tessera_lsp.features.actions import actions
from tesserac.base.source import SourceFile
from tesserac.commands import fixing
from tesserac.commands.fixing import fix_source
from tesserac.diag.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from tesserac.driver.mending import is_clean, with_edits, with_mending_fixes
from tesserac.driver.session import Session
from tests.mutation.mutate import mutants

SESSION = Session()
RIGHT = "def f(x: Tensor[N, f32]):\n    return softmax(x)\n"
WRONG = RIGHT.replace("softmax", "softmx")


def said_of(source: SourceFile) -> tuple[Diagnostic, ...]:
    return SESSION.check(source).diagnostics


def proposed(text: str, replacement: str) -> tuple[SourceFile, Diagnostic]:
    """The first mistake of a text with one safe fix, which replaces what it is about."""
    source = SourceFile("own.tess", text)
    found = said_of(source)[0]
    fix = Fix("try", (Edit(found.primary.span, replacement),), Applicability.SAFE)
    return source, replace(found, fixes=(fix,))


@pytest.mark.parametrize(
    ("replacement", "left"),
    [
        ("softmax", [Applicability.SAFE]),
        ("softmxx", []),  # the mistake has another name
        ("softmx", []),  # it is still there
        ("matmul", []),  # another one in its place
        ("0.5 + softmax", [Applicability.SAFE]),
    ],
)
def test_fixes_are_tried(replacement: str, left: list[Applicability]) -> None:
    source, diagnostic = proposed(WRONG, replacement)
    assert [fix.applicability for fix in with_mending_fixes(diagnostic, source, said_of).fixes] == left


def test_a_fix_that_brings_a_warning_is_not_safe() -> None:
    text = "def f(x: Tensor[N, f32]):\n    unknown\n    return x\n"
    source, diagnostic = proposed(text, "x + 1.0")
    fixes = with_mending_fixes(diagnostic, source, said_of).fixes
    assert [fix.applicability for fix in fixes] == [Applicability.MAYBE]
    assert not is_clean(source, [diagnostic], diagnostic.fixes[0].edits, said_of)


def test_what_a_line_without_syntax_hid_does_not_count() -> None:
    text = "def f(x: Tensor[N, f32]):\n    retrun x\n\ndef g(x: Tensor[N, f32]):\n    return f(x) @ x[:, None] @ x\n"
    source = SourceFile("own.tess", text)
    first = next(d for d in said_of(source) if d.code.startswith("E01"))
    assert with_mending_fixes(first, source, said_of).fixes == first.fixes != ()


def test_check_fix_leaves_what_does_not_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = "def g(x: Tensor[N, f32]):\n    return relux(x)\n"
    source = SourceFile("own.tess", f"{WRONG}\n{bad}")
    first, second = (d for d in said_of(source) if d.severity is Severity.ERROR)
    worse = Fix("worse", (Edit(second.primary.span, "matmul"),), Applicability.SAFE)
    whole = [(first, first.fixes[0]), (second, worse)]
    rounds = iter([whole])
    monkeypatch.setattr(fixing, "safe_fixes", lambda *_: next(rounds, []))
    fixed = fix_source(SESSION, source)
    assert fixed.after.text == f"{RIGHT}\n{bad}"
    assert [made.code for made in fixed.made] == [first.code]


@pytest.mark.one_in(12)
def test_the_actions_of_an_editor_mend() -> None:
    for mutant in mutants(seed=5, count=12):
        source = SourceFile("own.tess", mutant.text)
        for diagnostic in said_of(source):
            at = diagnostic.primary.span.start
            for action in actions(SESSION, source, at, at):
                after = said_of(with_edits(source, action.fix.edits))
                assert (action.diagnostic.code, action.diagnostic.title) not in [(d.code, d.title) for d in after]


@pytest.mark.one_in(12)
def test_safe_fixes_of_mutants_bring_nothing_new() -> None:
    for mutant in mutants(seed=9, count=60):
        source = SourceFile("own.tess", mutant.text)
        for diagnostic in said_of(source):
            tried = with_mending_fixes(diagnostic, source, said_of).fixes
            safe = [fix for fix in diagnostic.fixes if fix.applicability is Applicability.SAFE]
            assert [fix for fix in safe if fix not in tried] == [], (source.text, diagnostic.title)


def test_a_value_that_would_be_dropped_is_not_a_safe_fix() -> None:
    source = SourceFile("own.tess", "def f(x: Tensor[N, f32]):\n    x.add_(1.0)\n    x.cumsm()\n    return x\n")
    assert fix_source(SESSION, source).after.text == source.text
