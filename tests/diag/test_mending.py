"""A fix that does not mend is neither made nor offered, and one that brings a warning is not safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera_lsp.features.actions import actions
from tesserac import cli
from tesserac.base.source import SourceFile, Span
from tesserac.commands import fixing
from tesserac.commands.fixing import fix_source
from tesserac.diag.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from tesserac.driver import mending
from tesserac.driver.mending import is_clean, with_edits, with_mending_fixes
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.repl.engine import Engine
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
    assert [fix.applicability for fix in with_mending_fixes([diagnostic], source, said_of)[0].fixes] == left


def test_what_a_translation_brings_to_light_was_there_before() -> None:
    """The name is right, whatever is wrong with its arguments: it is a `maybe`, and they are told next."""
    source = SourceFile("own.tess", "def f(x: Tensor[B, C, f32]) -> Tensor[f32]:\n    return F.softmax(x, wrong=1)\n")
    (left,) = with_mending_fixes(said_of(source), source, said_of)[0].fixes
    assert [edit.replacement for edit in left.edits] == ["softmax"] and left.applicability is Applicability.MAYBE
    next_ = with_edits(source, left.edits)
    assert [d.code for d in said_of(next_)] == ["E0205"]


def test_of_a_fix_that_does_not_parse_the_advice_is_left() -> None:
    source = SourceFile("own.tess", "def f(x: Tensor[N, f32]):\n    return x.foo()\n")
    at = Span("own.tess", source.text.index("foo"), source.text.index("foo") + 3)
    fix = Fix("as a slip", (Edit(at, "(("),), Applicability.MAYBE, "advice")
    told = (replace(said_of(source)[0], fixes=(fix,)),)
    (left,) = with_mending_fixes(told, source, said_of)[0].fixes
    assert (left.title, left.edits) == ("advice", ())


@pytest.mark.parametrize(
    ("declared", "returned", "fixes"),
    [
        ("f32", "x", ["mean(x)", "sum(x)", "Tensor[B, C, f32]"]),
        ("Tensor[B, f32]", "x * 2.0", ["mean(x * 2.0, axis=1)", "sum(x * 2.0, axis=1)", "Tensor[B, C, f32]"]),
        ("Tensor[C, f32]", "x[:1]", ["squeeze(x[:1], 0)", "Tensor[1, C, f32]"]),
        ("Tensor[B, C, 1, f32]", "x", ["expand_dims(x, 2)", "Tensor[B, C, f32]"]),
        ("Tensor[B, f32]", "stack([x, x])", ["mean(stack([x, x]), axis=(0, 2))", "sum(stack([x, x]), axis=(0, 2))",
                                             "Tensor[2, B, C, f32]"]),
        ("Tensor[B, f32]", "x @ x.T", ["Tensor[B, B, f32]"]),  # which of the two is not said
    ],
)  # fmt: skip
def test_dims_too_many_or_too_few_have_fixes(declared: str, returned: str, fixes: list[str]) -> None:
    source = SourceFile("own.tess", f"def f(x: Tensor[B, C, f32]) -> {declared}:\n    return {returned}\n")
    left = with_mending_fixes(said_of(source), source, said_of)[0].fixes
    assert [edit.replacement for fix in left for edit in fix.edits] == fixes


IN_A_ROW = """def f(x: Tensor[N, C, W, f32], mean: Tensor[C, f32], scale: Tensor[C, f32], shift: Tensor[C, f32]):
    return (x - mean) * scale + shift
"""


def test_of_mistakes_in_a_row_the_first_has_a_fix() -> None:
    text = IN_A_ROW
    for name in ("mean", "scale", "shift"):
        source = SourceFile("own.tess", text)
        ((fix,),) = (d.fixes for d in with_mending_fixes(said_of(source), source, said_of))
        assert (fix.applicability, fix.edits[0].replacement) == (Applicability.MAYBE, f"{name}[:, None]")
        text = with_edits(source, fix.edits).text
    assert not said_of(SourceFile("own.tess", text))


@pytest.mark.parametrize("last", ["+ unknown(x)", "@ 3", "+ ones(C, 7)"])
def test_a_fix_that_leads_nowhere_is_not_offered(last: str) -> None:
    """A name that nothing has was there before, whatever the fix is; anything else may be its doing."""
    source = SourceFile("own.tess", IN_A_ROW.replace("+ shift", last))
    offered = with_mending_fixes(said_of(source), source, said_of)[0].fixes
    assert bool(offered) == ("unknown" in last)


def test_a_way_back_is_no_way_on() -> None:
    """`softmxx` has a fix too, which takes away what the fix of `softmx` wrote."""
    source, diagnostic = proposed(WRONG, "softmxx")
    assert with_mending_fixes([diagnostic], source, said_of)[0].fixes == ()


def test_a_fix_that_brings_a_warning_is_not_safe() -> None:
    text = "def f(x: Tensor[N, f32]):\n    unknown\n    return x\n"
    source, diagnostic = proposed(text, "x + 1.0")
    fixes = with_mending_fixes([diagnostic], source, said_of)[0].fixes
    assert [fix.applicability for fix in fixes] == [Applicability.MAYBE]
    assert not is_clean(source, [diagnostic], diagnostic.fixes[0].edits, said_of)


def test_what_a_line_without_syntax_hid_does_not_count() -> None:
    text = "def f(x: Tensor[N, f32]):\n    retrun x\n\ndef g(x: Tensor[N, f32]):\n    return f(x) @ x[:, None] @ x\n"
    source = SourceFile("own.tess", text)
    first = next(d for d in said_of(source) if d.code.startswith("E01"))
    assert with_mending_fixes([first], source, said_of)[0].fixes == first.fixes != ()


PARTLY = """def f(x: Tensor[N, M, f32], y: Tensor[N, M, f64]):
    a = softmx(x)
    b = mesh((8,), x)
    c = self.w * x
    d = Linear(3, 4)(x)
    return x @ x

def g(x: Tensor[N, f64]):
    s = zeros(2)
    for i in range(N):
        s = s + x[i]
    return s
"""
"""Of these guesses and proposals some cannot stand where they are proposed."""


@pytest.mark.one_in(6)
def test_what_commands_and_calls_show_was_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.tess"
    path.write_text(PARTLY)
    shown = []
    for options in ([], ["--verify"]):
        assert cli.main(cli.compiler, "tesserac", ["check", *options, str(path)]) == 1
        shown.append(capsys.readouterr().out)
    with pytest.raises(ProgramError) as caught:
        Session().interface(SourceFile(str(path), PARTLY))
    shown.append("".join(fix.title + "\n" for d in caught.value.diagnostics for fix in d.fixes))
    for text in shown:
        assert "did you mean `softmax`" in text and "transpose it" in text and "narrow to f32" in text
        assert not any(wrong in text for wrong in ("mish", "selu", "mean `linear`", "widen"))


def test_a_call_of_a_generic_function_shows_what_was_tried() -> None:
    text = "def f(x):\n    s = zeros(2)\n    for i in range(3):\n        s = s + x[i]\n    return s\n"
    with pytest.raises(tessera.TesseraError) as caught:
        tessera.compile(text).f(np.ones(3))
    assert "narrow to f32" in str(caught.value) and "widen" not in str(caught.value)


@pytest.mark.one_in(2)
def test_many_mistakes_take_few_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All proposals that mend are tried at once; of some that do not, by halving, as long as trials are left."""
    monkeypatch.setattr(mending, "MOST_CHECKS", 9)
    checks = 0

    def counted(text: SourceFile) -> tuple[Diagnostic, ...]:
        nonlocal checks
        checks += 1
        return said_of(text)

    def tried(words: Sequence[str]) -> list[bool]:
        lines = "".join(f"    x = {word}(x)\n" for word in words)
        source = SourceFile("own.tess", f"def f(x: Tensor[N, f32]):\n{lines}    return x\n")
        proposed = with_mending_fixes(said_of(source), source, counted)
        return [bool(d.fixes) for d in proposed]

    assert tried(["relux"] * 12) == [True] * 12
    assert checks == 1
    assert tried([*["relux"] * 12, "crosss"]) == [*[True] * 12, False]
    assert checks <= 1 + 9
    checks = 0
    assert tried(["crosss"] * 12) == [False] * 12
    assert checks == 9


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


def same_as(one: Diagnostic, others: Sequence[Diagnostic]) -> int:
    """How often it is said; one fix mends one place of several."""
    return sum((one.code, one.title) == (other.code, other.title) for other in others)


@pytest.mark.one_in(12)
def test_the_actions_of_an_editor_mend() -> None:
    for mutant in mutants(seed=5, count=12):
        source = SourceFile("own.tess", mutant.text)
        before = said_of(source)
        for diagnostic in before:
            at = diagnostic.primary.span.start
            for action in actions(SESSION, source, at, at):
                after = said_of(with_edits(source, action.fix.edits))
                assert same_as(action.diagnostic, after) < same_as(action.diagnostic, before)


@pytest.mark.one_in(48)
def test_safe_fixes_of_mutants_bring_nothing_new() -> None:
    for mutant in mutants(seed=9, count=60):
        source = SourceFile("own.tess", mutant.text)
        for diagnostic in said_of(source):
            tried = with_mending_fixes([diagnostic], source, said_of)[0].fixes
            safe = [fix for fix in diagnostic.fixes if fix.applicability is Applicability.SAFE]
            assert [fix for fix in safe if fix not in tried] == [], (source.text, diagnostic.title)


def test_a_value_that_would_be_dropped_is_not_a_safe_fix() -> None:
    source = SourceFile("own.tess", "def f(x: Tensor[N, f32]):\n    x.add_(1.0)\n    x.cumsm()\n    return x\n")
    assert fix_source(SESSION, source).after.text == source.text


@pytest.mark.one_in(2)
def test_at_the_prompt_fixes_are_tried_and_nothing_runs(capfd: pytest.CaptureFixture[str]) -> None:
    engine = Engine()
    engine.submit("x = ones(3)")

    def fixes_of(text: str) -> list[str]:
        with pytest.raises(ProgramError) as caught:
            engine.submit(text)
        return [edit.replacement for d in caught.value.diagnostics for fix in d.fixes for edit in fix.edits]

    assert fixes_of("y = x * 2.0; print(sofmax(x))") == ["softmax"]
    assert fixes_of("def f(a: Tensor[N, f32]): return a.summ()") == ["sum"]
    assert fixes_of("sofmax(x, 1, 2, 3)") == [], "it would be another mistake"
    assert capfd.readouterr().out == ""
    assert [np.asarray(value.leaves[0]).tolist() for value in engine.submit("y")] == [[2, 2, 2]]
