"""What is said of lists that a loop is to grow: the fixes, made one by one, give the program that was meant."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic
from tesserac.driver.mending import with_edits, with_mending_fixes
from tesserac.driver.session import Session

SESSION = Session()
GROWN = """def f(x: Tensor[T, B, {dtype}]):
    outs = []
    for t in range(T):
        outs.append(x[t] * {two})
    return {joined}
"""


def offered(text: str) -> tuple[Diagnostic, ...]:
    source = SourceFile("own.tess", text)
    return with_mending_fixes(SESSION.check(source).diagnostics, source, lambda s: SESSION.check(s).diagnostics)


def mended(text: str, steps: int = 6) -> str:
    """The text with the first fix of its first mistake made, again and again."""
    for _ in range(steps):
        said = offered(text)
        if not said:
            return text
        text = with_edits(SourceFile("own.tess", text), said[0].fixes[0].edits).text
    raise AssertionError(f"after {steps} fixes something is still said: {text}")


@pytest.mark.parametrize(("joined", "axis"), [("stack(outs)", 0), ("stack(outs, axis=1)", 1), ("torch.stack(outs)", 0)])
@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_an_append_in_a_loop_is_a_row(joined: str, axis: int, dtype: str) -> None:
    text = mended(GROWN.format(dtype=dtype, two="2" if dtype == "i64" else "2.0", joined=joined))
    x = np.arange(12).reshape(4, 3).astype({"f32": "f4", "i64": "i8"}[dtype])
    np.testing.assert_array_equal(tessera.compile(text).f(x), np.stack([2 * row for row in x], axis))


def test_rows_one_behind_the_other() -> None:
    text = mended(GROWN.format(dtype="f32", two="2.0", joined="torch.cat(outs)").replace("T, B,", "T, B, 5,"))
    x = np.arange(60, dtype="f4").reshape(4, 3, 5)
    np.testing.assert_array_equal(tessera.compile(text).f(x), np.concatenate([2 * row for row in x]))


def test_a_loop_that_is_written_out_adds_lists() -> None:
    text = GROWN.format(dtype="f32", two="k", joined="stack(outs)").replace("t in range(T)", "t, k in ((1, 2.0),)")
    assert "outs += [x[t] * k]" in mended(text)


def test_a_list_of_unknown_length_is_mapped() -> None:
    text = mended("def f(x: Tensor[T, B, f32]):\n    return stack([x[t] * 2.0 for t in range(T)])\n")
    x = np.arange(12, dtype="f4").reshape(4, 3)
    np.testing.assert_array_equal(tessera.compile(text).f(x), 2 * x)


@pytest.mark.parametrize(
    ("head", "value"),
    [("row in x", "row"), ("row, more in zip(x, y)", "row * more"), ("t, row in enumerate(x)", "row * (t - t + 1)")],
)
def test_rows_of_a_tensor_are_taken_by_their_places(head: str, value: str) -> None:
    signature, x = "x: Tensor[N, D, f32], y: Tensor[N, f32]", np.arange(12, dtype="f4").reshape(4, 3)
    text = f"def f({signature}):\n    s = zeros(D)\n    for {head}:\n        s += {value}\n    return s\n"
    np.testing.assert_array_equal(tessera.compile(mended(text)).f(x, np.ones(4, "f4")), x.sum(0))


@pytest.mark.parametrize(("wrong", "right"), [("x.half()", "x.astype(f16)"), ("x.t()", "x.T"), ("x * pi", "x * PI")])
def test_what_others_call_otherwise_has_a_fix(wrong: str, right: str) -> None:
    assert right in mended(f"def f(x: Tensor[M, N, f32]):\n    return {wrong}\n")


def test_places_beside_elements() -> None:
    text = mended("def f(x: Tensor[B, N, f32]):\n    v, i = x.max(axis=1)\n    return v, i\n")
    v, i = tessera.compile(text).f(np.array([[1, 3, 2], [6, 5, 4]], "f4"))
    assert v.tolist() == [3, 6] and i.tolist() == [1, 0]


@pytest.mark.parametrize(
    "loop",
    [
        "for t in range(1, T):",
        "for t in range(T):\n        if t == 3:\n            break",
    ],
)
def test_where_no_tensor_can_be_named(loop: str) -> None:
    (said,) = offered(GROWN.format(dtype="f32", two="2.0", joined="x").replace("for t in range(T):", loop))
    told = " ".join((*said.notes, *(fix.title for fix in said.fixes)))
    assert said.code == "E0208" and "kept in a tensor that is made before it" in told


def test_a_list_that_an_iteration_adds_to() -> None:
    text = GROWN.format(dtype="f32", two="2.0", joined="x")
    said = offered(text.replace("outs.append(x[t] * 2.0)", "outs += [x[t]]"))
    assert "`outs = zeros(T, B)` before the loop" in said[0].notes[0]
