"""Ordinary text that once ended the compiler: each is an answer, or an error of its own."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.check.infer import CheckResult
from tests.support.checking import check_text


def codes(result: CheckResult) -> list[str]:
    return [d.code for d in result.diagnostics if d.severity == "error"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", ["1e39", "3.5e38", "1.7976931348623157e308", "-1e39", "1e400", "1e-50"])
def test_a_literal_takes_the_dtype_that_it_meets(number: str) -> None:
    """Rounded once: what is too large for it is infinite, what is too small is zero."""
    text = "".join(
        f"def of_{dtype}(x: Tensor[N, {dtype}]):\n"
        f"    return where(x > 0.0, x, {number}), full(2, {number}, dtype={dtype})\n\n"
        for dtype in ("f32", "f16", "f64")
    )
    module = tessera.compile(text)
    for dtype, name in ((np.float32, "f32"), (np.float16, "f16"), (np.float64, "f64")):
        with np.errstate(over="ignore"):
            expected = np.array(float(number)).astype(dtype)
        chosen, made = getattr(module, f"of_{name}")(np.array([-1, 1], dtype))
        assert chosen[0] == expected and np.all(made == expected) and chosen.dtype == made.dtype == dtype


def test_a_literal_that_is_too_large_is_a_warning() -> None:
    result = check_text("def f(x: Tensor[N, f32]):\n    return where(x > 0.0, x, -1e39)\n")
    assert [d.code for d in result.diagnostics] == ["W0404"]


NO_SIZES = ['ones("a")', 'zeros(2, "a", dtype=i32)', 'eye("3*")', 'full("a", 2.0)', 'reshape(x, ("a", 1))']


@pytest.mark.parametrize("made", NO_SIZES)
def test_a_string_is_a_size_where_its_names_are(made: str) -> None:
    result = check_text(f"def f(x: Tensor[N, f32]):\n    return {made}\n")
    assert codes(result) == ["E0210"]
    assert not codes(check_text('def f(x: Tensor[N, f32]):\n    return zeros("2*N", "N")\n'))


def test_what_uses_something_wrong_is_no_program_and_says_nothing() -> None:
    result = check_text("""
struct Pair[N]:
    a: Tensor[N, f32]
    b: Tensor[N, f32]

def wrong(p: Pair[N]) -> Pair[N]:
    return Pair(a=p.a, b=nosuch(p.b))

def once(p: Pair[N]) -> (Pair[N], Tensor[f32]):
    return wrong(p), sum(p.a)

def often(p: Pair[N]) -> Tensor[f32]:
    for i in range(20):
        p, _ = once(p)
    return sum(p.a)

def main() -> Tensor[f32]:
    return often(Pair(a=ones(3), b=ones(3)))
""")
    assert codes(result) == ["E0201"]
    assert {f.name for f in result.module.functions} <= {"Pair"}


@pytest.mark.one_in(6)
def test_a_chain_of_many_comparisons_is_not_deep() -> None:
    many = " < ".join(["x"] * 5000)
    assert not tessera.compile(f"def f(x: Tensor[f32]):\n    return {many}\n").f(np.float32(1))


def test_constants_that_follow_from_one_another_are_computed_once() -> None:
    chain = "".join(f"A{number} = A{number + 1} + 1\n" for number in range(200))
    assert not codes(check_text(f"{chain}A200 = 1\n\ndef f(x: Tensor[f32]):\n    return x + float(A0)\n"))


@pytest.mark.parametrize("jump", ["break", "continue"])
def test_a_jump_outside_a_loop_before_a_return(jump: str) -> None:
    """It is told where it is read, and nothing to the checker."""
    assert not codes(check_text(f"def f(x: Tensor[f32]):\n    if x < 1.0:\n        {jump}\n    return x\n"))
