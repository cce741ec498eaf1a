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
