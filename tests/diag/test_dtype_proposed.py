"""A fix that gives a value a dtype proposes the one in use around it, and the program with it checks."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Severity
from tesserac.diag.render import apply_edits
from tesserac.driver.session import Session

SESSION = Session()

MISTAKES = {
    "an int beside a float": "def f(x: Tensor[N, i32], y: Tensor[N, {f}]):\n    return x * 0.5 + y\n",
    "an operator of floats": "def f(x: Tensor[N, i32], y: Tensor[N, {f}]):\n    return exp(x) + y\n",
    "a function of floats": "def f(x: Tensor[N, i32], y: Tensor[N, {f}]):\n    return gelu(x) + y\n",
    "a result of floats": "def f(x: Tensor[N, i32]) -> Tensor[N, {f}]:\n    return softmax(x)\n",
    "a tensor as a float": "def f(x: Tensor[N, i32]) -> Tensor[N, {f}]:\n    return float(x)\n",
}


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_dtype_in_use_is_proposed(mistake: str, dtype: str) -> None:
    source = SourceFile("own.tess", MISTAKES[mistake].format(f=dtype))
    fixes = [fix for d in SESSION.check(source).diagnostics for fix in d.fixes if fix.edits]
    mended = SourceFile("own.tess", apply_edits(source.text, fixes[0].edits))
    assert f", {dtype})" in mended.text
    assert not [d for d in SESSION.check(mended).diagnostics if d.severity is Severity.ERROR]


MADE = {
    "beside it": ("    return x * 2.0 + zeros(N)\n", "zeros(N, dtype=f64)"),
    "in a product with a number": ("    return x @ (0.5 * eye(N))\n", "eye(N, dtype=f64)"),
    "in a list": ("    return concat([array([-INF]), x])\n", "array([-INF], dtype=f64)"),
    "before a loop": (
        "    s = zeros(N)\n    for i in range(3):\n        s = s + x\n    return s\n",
        "zeros(N, dtype=f64)",
    ),
    "under names": ("    t = linspace(0.0, 1.0, N)\n    w = 2.0 * t\n    return x * w\n", "1.0, N, dtype=f64)"),
}


@pytest.mark.parametrize("mistake", MADE)
def test_what_is_made_without_a_dtype_is_made_with_that_in_use(mistake: str) -> None:
    body, written = MADE[mistake]
    source = SourceFile("own.tess", f"def f(x: Tensor[N, f64]):\n{body}")
    (said,) = SESSION.check(source).diagnostics
    mended = SourceFile("own.tess", apply_edits(source.text, said.fixes[0].edits))
    assert written in mended.text and not SESSION.check(mended).diagnostics


STORED = {
    "an element of a result": (
        "def f(x: Tensor[N, {d}]) -> Tensor[N, {d}]:\n    y = zeros(N)\n    for i in range(N):\n"
        "        y[i] = x[i] + x[0]\n    return y\n",
        "zeros(N, dtype={d})",
    ),
    "beside a test": ("def f(x: Tensor[N, {d}]):\n    return where(x > 3, x, full(N, -1))\n", "full(N, -1, dtype={d})"),
    "an argument": (
        "def g(x: Tensor[N, {d}]):\n    return x\n\ndef f(x: Tensor[N, {d}]):\n    return g(zeros(N)) + x\n",
        "g(zeros(N, dtype={d}))",
    ),
}


@pytest.mark.parametrize("dtype", ["f64", "i64"])
@pytest.mark.parametrize("mistake", STORED)
def test_what_is_made_without_a_dtype_is_made_with_that_of_its_elements(mistake: str, dtype: str) -> None:
    text, written = (part.format(d=dtype) for part in STORED[mistake])
    source = SourceFile("own.tess", text)
    for said in SESSION.check(source).diagnostics:
        mended = SourceFile("own.tess", apply_edits(text, said.fixes[0].edits))
        assert written in mended.text and not SESSION.check(mended).diagnostics


def test_no_integers_are_made_of_fractions() -> None:
    source = SourceFile("own.tess", "def f(x: Tensor[N, i64]):\n    return where(x > 3, x, full(N, 0.5))\n")
    (said,) = SESSION.check(source).diagnostics
    assert said.fixes and not any("dtype=" in edit.replacement for fix in said.fixes for edit in fix.edits)


def test_plain_complex_numbers_have_the_precision_of_what_they_meet() -> None:
    text = "def f(k: Tensor[N, f64]) -> Tensor[N, c128]:\n    return exp(-2.0 * PI * complex({}) * k)\n"
    assert not SESSION.check(SourceFile("own.tess", text.format("0.0, 1.0"))).diagnostics
    (said,) = SESSION.check(SourceFile("own.tess", text.format("cast(0.0, f32), 1.0"))).diagnostics
    assert said.code == "E0402"
    named = "def f(k: Tensor[N, f64]) -> Tensor[N, c128]:\n    i = complex(0.0, 1.0)\n    return i * k\n"
    (said,) = SESSION.check(SourceFile("own.tess", named)).diagnostics
    mended = SourceFile("own.tess", apply_edits(named, said.fixes[0].edits))
    assert "complex(cast(0.0, f64), 1.0)" in mended.text and not SESSION.check(mended).diagnostics


def test_nothing_is_made_otherwise_where_a_parameter_decides() -> None:
    source = SourceFile("own.tess", "def f(x: Tensor[N, f64], y: Tensor[N, f32]):\n    return x + (y + zeros(N))\n")
    (said,) = SESSION.check(source).diagnostics
    assert not any("dtype=" in edit.replacement for fix in said.fixes for edit in fix.edits)
