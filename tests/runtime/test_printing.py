"""`print` and `assert` in compiled code: in program order, with values and places; a failed check ends the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera

PROGRAM = '''
struct Pair[N]:
    a: Tensor[N, f32]
    k: int = 2

def shown(x: Tensor[N, f32], i: i32, flag: bool):
    """Everything that can be printed."""
    print("x =", x, f"N={N} min={min(x):.2f} {i=}", 3, 2.5, flag, (x[0], 2), None)
    print(Pair(a=x, k=1))
    print()

def loops(x: Tensor[N, f32]) -> Tensor[f32]:
    for i in range(3):
        x = x * 2.0
        print(i, sum(x))
        if sum(x) > 6.0:
            print("large")
    while sum(x) > 3.0:
        x = x * 0.25
        print(f"{sum(x):.1f}")
    return helper(sum(x))

def helper(s: Tensor[f32]) -> Tensor[f32]:
    print("helper", s)
    return s

def positive(x: Tensor[N, f32]) -> Tensor[N, f32]:
    print("before")
    assert min(x) >= 0.0, "no negative numbers"
    print("after")
    y = sqrt(x)
    for i in range(N):
        assert y[i] < 10.0
    return y

def nothing(x: Tensor[N, f32]):
    assert sum(x) > 0.0
'''


@pytest.fixture(scope="module")
def m() -> Any:
    return tessera.compile(PROGRAM)


def test_everything_that_can_be_printed(m: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.shown(np.array([1.5, -2], "f4"), 7, True) is None
    assert capsys.readouterr().out.splitlines() == [
        "x = [ 1.5, -2. ] N=2 min=-2.00 i=7 3 2.5 True (1.5, 2) None",
        "Pair(a=[ 1.5, -2. ], k=1)",
        "",
    ]


def test_program_order(m: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.loops(np.ones(2, "f4")) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["0 4.0", "1 8.0", "large", "2 16.0", "large", "4.0", "1.0", "helper 1.0"]


def test_an_assertion_ends_the_call(m: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert np.array_equal(m.positive(np.array([4, 9], "f4")), [2, 3])
    assert capsys.readouterr().out == "before\nafter\n"
    with pytest.raises(tessera.TesseraError) as caught:
        m.positive(np.array([4, -9], "f4"))
    assert caught.value.code == "E0933" and "no negative numbers" in str(caught.value)
    assert caught.value.spans[0].line == 29
    assert capsys.readouterr().out == "before\n"
    with pytest.raises(tessera.TesseraError) as caught:
        m.positive(np.array([4, 100], "f4"))
    assert caught.value.spans[0].line == 33


def test_a_function_for_its_check_alone(m: Any) -> None:
    assert m.nothing(np.ones(3, "f4")) is None
    with pytest.raises(tessera.TesseraError, match="E0933"):
        m.nothing(np.zeros(3, "f4"))


@pytest.mark.parametrize("size", [1, 100_000])
def test_large_values_and_threads(size: int, capsys: pytest.CaptureFixture[str]) -> None:
    m = tessera.compile("def f(x: Tensor[N, f32]):\n    y = x * 2.0\n    print(sum(y), y[0])\n    return y\n")
    assert np.array_equal(m.f(np.ones(size, "f4")), np.full(size, 2, "f4"))
    assert capsys.readouterr().out == f"{2.0 * size} 2.0\n"


COMPLEX = '''
def f(z: Tensor[N, c64], w: Tensor[c128]) -> Tensor[N, c64]:
    print(z, w)
    for i in range(2):
        z = z * z
        print(f"{w:.1f} {z[1]}", (w, real(z[1])))
    print(complex(sum(real(z)), 0.0))
    return z
'''


@pytest.mark.one_in(2)
def test_complex_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    z = np.array([1 + 1j, 1 - 2j], np.complex64)
    tessera.compile(COMPLEX).f(z, np.complex128(0.5 - 1j))
    assert capsys.readouterr().out.splitlines() == [
        "[1.+1.j, 1.-2.j] (0.5-1j)",
        "0.5-1.0j (-3-4j) ((0.5-1j), -3.0)",
        "0.5-1.0j (-7+24j) ((0.5-1j), -7.0)",
        "(-11+0j)",
    ]
