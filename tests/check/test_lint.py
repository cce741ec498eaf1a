"""Names that nothing uses, or that hide others: what is reported, what is not, and that the safe fixes are safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tesserac.base.source import SourceFile
from tesserac.check.names.lint import lint_module
from tesserac.diag.diagnostic import Applicability
from tesserac.diag.render import apply_edits
from tesserac.driver.session import Session
from tesserac.syntax.parse import parse_module
from tests.support.checking import diagnose
from tests.support.paths import ROOT

OURS = sorted([*(ROOT / "stdlib").rglob("*.tess"), *(ROOT / "examples").rglob("*.tess")])

F = "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n"
G = "    def g(v):\n        return v + x\n"


def codes(text: str) -> list[str]:
    return [d.code for d in diagnose(SourceFile("example.tess", text))]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_own_programs_are_clean(path: Path) -> None:
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    assert lint_module(parse_module(source).module, source) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from tessera.stdlib import gelu\n" + F + "    return x\n", ["W0211"]),
        ("from tessera.stdlib import gelu as gelu\n" + F + "    return x\n", []),
        ("import tessera.stdlib as t\n" + F + "    return t.gelu(x)\n", []),
        ("import tessera.stdlib as t\n" + F + "    return x\n", ["W0211"]),
        (F + "    y = x\n    return x\n", ["W0212"]),
        (F + "    _y = x\n    return x\n", []),
        (F + "    y = x\n    y += 1.0\n    return x\n", []),
        (F + "    y, z = (x, x)\n    return z\n", []),
        (F + "    for i in range(3):\n        x = x * 2.0\n    return x\n", []),
        (F + "    K = x\n    y: Tensor['K', f32] = x\n    return y\n", []),
        (F + "    y = x\n    def g(v: Tensor[N, f32]):\n        return v + y\n    return g(x)\n", []),
        (F + "    mean = mean(x)\n    return x - mean\n", []),
        ("def g(x: Tensor[N, f32]):\n    return x\n\n" + F + "    g = x\n    return g\n", ["W0213"]),
        ("from tessera.stdlib import gelu\n" + F + "    y = gelu(x)\n    gelu = y\n    return gelu\n", ["W0213"]),
        ("WIDTH = 4\n" + F + "    WIDTH = x\n    return WIDTH\n", []),
        (F + "    y = x\n    return missing\n", ["E0201"]),
        (F + G + "    x = x * 2.0\n    return g(x)\n", ["W0214"]),
        (F + G + "    x[0] = 2.0\n    return g(x)\n", ["W0214"]),
        (F + G + "    y = g(x)\n    x = x * 2.0\n    return x + y\n", []),
        (F + G + "    x = g(x)\n    return x\n", []),
        (F + G + "    for i in range(3):\n        x = g(x)\n    return x\n", ["W0214"]),
        (F + G + "    def h(v):\n        return g(v)\n    x = x + 1.0\n    return h(x) + g(x)\n", ["W0214"]),
        (F + "    for i in range(3):\n        g = lambda v: v + x\n        x = g(x)\n    return x\n", []),
        (F + "    g = lambda v: v + x\n    x += 1.0\n    return g(x)\n", ["W0214"]),
        (F + "    g = lambda x: x + 1.0\n    x += 1.0\n    return g(x)\n", []),
    ],
)
def test_what_is_reported(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("from tessera.stdlib import gelu\n\n" + F + "    return x\n", "\n" + F + "    return x\n"),
        (
            "from tessera.stdlib import (gelu,\n    relu, silu as s)\n" + F + "    return relu(x)\n",
            "from tessera.stdlib import relu\n" + F + "    return relu(x)\n",
        ),
        (F + "    y = x * 2.0  # why\n    return x\n", F + "    return x\n"),
    ],
)
def test_safe_fixes(text: str, fixed: str) -> None:
    source = SourceFile("example.tess", text)
    [found] = diagnose(source)
    [fix] = found.fixes
    assert fix.applicability is Applicability.SAFE
    assert apply_edits(text, list(fix.edits)) == fixed
    assert codes(fixed) == []


def test_a_call_is_not_taken_away() -> None:
    [found] = diagnose(SourceFile("example.tess", F + "    y = normal(N)\n    return x\n"))
    assert found.fixes[0].applicability is Applicability.MAYBE and found.fixes[0].edits[0].replacement == "_y"


def test_the_editor_says_the_same_after_an_edit() -> None:
    session = Session()
    text = "from tessera.stdlib import gelu\n\n" + F + "    y = x\n    return gelu(x)\n"
    for changed in (text, "# moved\n" + text, text.replace("gelu(x)", "x"), text.replace("y = x\n", "y = z\n")):
        source = SourceFile("edited.tess", changed)
        assert session.analyse(source).diagnostics == session.check(source).diagnostics != ()


def test_a_package_offers_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "__init__.tess").write_text("from tessera.stdlib import gelu\n", encoding="utf-8")
    session = Session()
    source = session.read(tmp_path / "__init__.tess")
    assert isinstance(source, SourceFile) and session.check(source).diagnostics == ()
