"""Fixes: what `check --fix` does to files, what counts as evident, and that every fix that is offered type-checks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac import cli
from tesserac.base.source import SourceFile, Span
from tesserac.base.spelling import closest, is_evident, is_one_slip
from tesserac.commands.fixing import fix_source, safe_fixes
from tesserac.diag.diagnostic import Applicability, Code, Diagnostic, Edit, Severity
from tesserac.diag.pages import load_page, page_codes
from tesserac.diag.render import apply_edits
from tesserac.diag.sink import Sink
from tesserac.driver.session import Session
from tests.support.checking import diagnose

MISSPELT = {
    "a function": ("def f(x: Tensor[N, f32]):\n    return softmx(x)\n", "softmax(x)"),
    "a method": ("def f(x: Tensor[N, f32]):\n    return x.cumsm()\n", "x.cumsum()"),
    "a local name": ("def f(count: Tensor[N, f32]):\n    return coutn * 2.0\n", "count * 2.0"),
    "a dim of the result": ("def f(x: Tensor[Batch, f32]) -> Tensor[Bacth, f32]:\n    return x\n", "-> Tensor[Batch"),
    "a dim as an axis": ("def f(x: Tensor[Batch, Seq, f32]):\n    return sum(x, axis=Bacth)\n", "axis=Batch"),
    "a quoted axis": ('def f(x: Tensor[Batch, Seq, f32]):\n    return sum(x, axis="Batcj")\n', 'axis="Batch"'),
    "a keyword argument": ("def f(x: Tensor[N, f32]):\n    return sum(x, axsi=0)\n", "axis=0"),
    "a dtype": ("def f(x: Tensor[N, bf61]):\n    return x\n", "Tensor[N, bf16]"),
    "a quoted dtype": ('def f(x: Tensor[N, f32]):\n    return zeros(N, dtype="flaot32")\n', 'dtype="float32"'),
    "a type": ("def f(x: Tenser[N, f32]):\n    return x\n", "x: Tensor["),
    "a policy": ("def f(x: Tensor[N, bf16 @acum(f32)]):\n    return x\n", "@accum(f32)"),
    "an effect": ("def f(N: int) -> Tensor[N, f32] uses randm:\n    return normal(N)\n", "uses random"),
    "a field": (
        "struct A[D]:\n    weight: Tensor[D, f32]\n\ndef f(a: A[D]):\n    return a.wieght\n", "a.weight",
    ),
    "a struct as a type": (
        "struct Layer[D]:\n    weight: Tensor[D, f32]\n\ndef f(a: Layr[D]):\n    return a.weight\n", "a: Layer[D]",
    ),
    "a method of a struct": (
        "struct A[D]:\n    w: Tensor[D, f32]\n    def scaled(self):\n        return self.w * 2.0\n\n"
        "def f(a: A[D]):\n    return a.scalde()\n",
        "a.scaled()",
    ),
    "a field that is assigned": (
        "struct A[D]:\n    weight: Tensor[D, f32]\n\ndef f(a: A[D]):\n    a.wieght = zeros(D)\n    return a\n",
        "a.weight =",
    ),
    "a dtype as a value": ("def f(x: Tensor[N, i32]):\n    return cast(x, flaot32)\n", "cast(x, float32)"),
    "an update": ("def f(x: Tensor[N, f32], y: f32):\n    return x.at[0].adds(y)\n", ".add(y)"),
    "a field of a new struct": (
        "struct A[D]:\n    weight: Tensor[D, f32]\n\ndef f(x: Tensor[D, f32]):\n    return A(wieght=x)\n",
        "A(weight=x)",
    ),
    "a name of the library": ("from tessera.stdlib import softmx\n\ndef f(x: Tensor[N, f32]):\n    return softmax(x)\n",
                              "import softmax\n"),
    "a decorator": ("@exprot\ndef f(x: Tensor[N, f32]):\n    return x\n", "@export"),
    "a keyword": ("def f(x: Tensor[N, f32]):\n    retrun x\n", "return x"),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", MISSPELT)
def test_one_slip_is_mended_without_asking(kind: str) -> None:
    text, wanted = MISSPELT[kind]
    fixed = fix_source(Session(), SourceFile("example.tess", text))
    assert wanted in fixed.after.text
    assert [d for d in diagnose(fixed.after) if d.severity is Severity.ERROR] == []


HALVED = "def f(x: Tensor[B, C, H, W, f32]){}:\n    z = interpolate(max_pool2d(x, 2), scale_factor=2)\n    return {}\n"
JOINED = "concat([x, concat([z, z], axis=1)], axis=1)"
OFFERED = {
    HALVED.format("", "x + z"): HALVED.format(" where H % 2 == 0, W % 2 == 0", "x + z"),
    HALVED.format("", JOINED): HALVED.format(" where H % 2 == 0, W % 2 == 0", JOINED),
    HALVED.format(" where W % 4 == 0", "x - z"): HALVED.format(" where W % 4 == 0, H % 2 == 0", "x - z"),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", OFFERED)
def test_the_first_fix_is_what_was_meant(text: str) -> None:
    [told] = diagnose(SourceFile("example.tess", text))
    mended = apply_edits(text, list(told.fixes[0].edits))
    assert mended == OFFERED[text] and not diagnose(SourceFile("example.tess", mended))


def test_short_names_are_never_evident() -> None:
    source = SourceFile("example.tess", "def f(x: Tensor[N, f32]) -> Tensor[M, f32]:\n    return xx\n")
    assert all(fix.applicability is Applicability.MAYBE for d in diagnose(source) for fix in d.fixes)


def test_two_equally_near_names_are_not_evident() -> None:
    assert closest("rate1", ["rate2", "rate3"]) in ("rate2", "rate3")
    assert not is_evident("rate1", "rate2", ["rate2", "rate3"])
    assert is_evident("rate1", "rate2", ["rate2", "other"])


@pytest.mark.one_in(2)
@given(st.text("abcd", min_size=2, max_size=6), st.data())
def test_one_slip_is_symmetric_and_found(name: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(name) - 1))
    shorter = name[:place] + name[place + 1 :]
    assert shorter == name or is_one_slip(name, shorter)
    assert shorter == name or is_one_slip(shorter, name)
    other = data.draw(st.text("abcd", max_size=6))
    assert is_one_slip(name, other) == is_one_slip(other, name)


def test_all_safe_fixes_are_made_round_by_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a.tess", tmp_path / "b.tess"
    first.write_text("@exprot\ndef f(x: Tensor[N, f32]):\n    y = softmx(x)\n    return silluu(y) + softmx(y)\n")
    second.write_text("def g(x: Tensor[N, f32]):\n    return x.cumsm()\n")
    status = cli.main(cli.compiler, "tesserac", ["check", "--fix", str(first), str(second)])
    assert first.read_text().count("softmax") == 2
    assert "@export" in first.read_text()
    assert "x.cumsum()" in second.read_text()
    said = capsys.readouterr().err
    assert f"{first}:3: fixed[E0201]: `softmx` is now `softmax`" in said
    assert f"{second}:2: fixed[E0208]" in said
    assert status == 1  # `silluu` is two slips away from `silu`: it is reported, not changed


def test_a_diff_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.tess"
    text = "def f(x: Tensor[N, f32]):\n    return softmx(x)\n"
    file.write_text(text)
    assert cli.main(cli.compiler, "tesserac", ["check", "--fix", "--diff", str(file)]) == 0
    assert file.read_text() == text
    assert "+    return softmax(x)" in capsys.readouterr().out
    assert cli.main(cli.compiler, "tesserac", ["check", "--diff", str(file)]) == 2


def test_overlapping_fixes_are_not_made_together() -> None:
    source, sink, code = SourceFile("a.tess", "abcdef"), Sink(), Code("E0201", "title")
    for start, end in ((0, 3), (2, 4), (3, 3), (3, 3), (4, 6)):
        span = Span("a.tess", start, end)
        draft = sink.error(code, at=Span("a.tess", start, end))
        draft.fix("fix", Edit(span, "x"), applicability=Applicability.SAFE)
    spans = [(fix.edits[0].span.start, fix.edits[0].span.end) for _, fix in safe_fixes(sink.diagnostics, source)]
    assert spans == [(0, 3), (3, 3), (4, 6)]


def _page_fixes() -> list[tuple[str, str, Diagnostic, int]]:
    found = []
    for code in page_codes():
        page = load_page(code)
        if page is not None and page.fails and code.startswith("E"):
            for diagnostic in diagnose(SourceFile("example.tess", page.fails)):
                found += [(code, page.fails, diagnostic, n) for n, fix in enumerate(diagnostic.fixes) if fix.edits]
    return found


@pytest.mark.one_in(6)
def test_the_fixes_of_all_pages_type_check() -> None:
    """Every fix of every page's program, not the first alone."""
    fixes = _page_fixes()
    left = []
    for code, text, diagnostic, number in fixes:
        mended = SourceFile("example.tess", apply_edits(text, list(diagnostic.fixes[number].edits)))
        if any(d.severity is Severity.ERROR for d in diagnose(mended)):
            left.append((code, diagnostic.fixes[number].title))
    assert len(fixes) >= 20
    assert left == []
