"""What a program does besides computing happens, in the order of the program, wherever it is called from."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

ORDER = """
def loud(x: Tensor[N, f32]) -> Tensor[N, f32]:
    print("loud", sum(x))
    return x

def strict(x: Tensor[N, f32]) -> Tensor[N, f32]:
    assert sum(x) < 10.0, "too much"
    return x * 2.0

def main(x: Tensor[N, f32]) -> Tensor[f32]:
    for i in range(2):
        unused = loud(x)
        if sum(x) > 0.0:
            print("in", i)
    loud(x * 2.0)
    f = lambda v: loud(v)
    a = f(x * 3.0)
    b = f(x) if sum(x) > 100.0 else loud(x * 5.0)
    return sum(x)

def unused(x: Tensor[N, f32]) -> Tensor[N, f32]:
    y = strict(x)
    return x

def twice(x: Tensor[N, f32]) -> Tensor[f32]:
    return sum(loud(x)) + sum(loud(x))
"""


@pytest.mark.one_in(2)
def test_calls_whose_results_nobody_uses_still_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert tessera.compile(ORDER).main(np.ones(3, "f4")) == 3
    said = ["loud 3.0", "in 0", "loud 3.0", "in 1", "loud 6.0", "loud 9.0", "loud 15.0"]
    assert capsys.readouterr().out.splitlines() == said


def test_they_still_assert() -> None:
    m = tessera.compile(ORDER)
    assert m.unused(np.ones(3, "f4")).tolist() == [1, 1, 1]
    with pytest.raises(tessera.TesseraError, match="too much"):
        m.unused(np.full(3, 9, "f4"))


def test_equal_calls_are_not_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert tessera.compile(ORDER).twice(np.ones(2, "f4")) == 4
    assert capsys.readouterr().out == "loud 2.0\nloud 2.0\n"
