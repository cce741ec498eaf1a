"""A loop whose `break` or `return` has been taken ends: with as many iterations as these ranges have, no test would."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.ir.core import Op
from tesserac.pipeline import lower
from tesserac.schedule.machine import AARCH64
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

PROGRAM = """
def broken(x: Tensor[N, f32], n: int):
    s, k = 0.0, 0
    for i in range(n):
        if x[i % N] > 3.0:
            break
        s += x[i % N]
        k += 1
    return s, k

def returned(x: Tensor[N, f32], n: int) -> int:
    for i in range(n):
        if x[i % N] > 3.0:
            return i
    return -1

def nested(x: Tensor[N, f32], n: int) -> int:
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            if x[i % N] * x[j % N] > 9.0:
                return i * 10 + j
    return -1

def inner(x: Tensor[N, f32], n: int):
    y = zeros(N)
    for i in range(N):
        for j in range(n):
            y[i] += x[i]
            if y[i] > 3.0:
                break
    return y

def down(x: Tensor[N, f32], n: int) -> int:
    k = 0
    for i in range(n, -1, -1):
        if x[i % N] > 3.0:
            break
        k = i
    return k
"""
NAMES = ("broken", "returned", "nested", "inner", "down")
X = np.array([1.0, 2.0, 0.5, 4.0, 1.5], "f4")


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", NAMES)
def test_a_loop_ends_where_it_is_left(name: str) -> None:
    module = tessera.compile(PROGRAM)
    short, long = (getattr(module, name)(X, n) for n in (100, 100 + 5 * 2**40))
    if name == "down":
        return  # it begins elsewhere; it is enough that it ended
    for one, other in zip(np.atleast_1d(short), np.atleast_1d(long), strict=True):
        assert one == other


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [0, 3, 4, 9])
def test_bits(name: str, n: int) -> None:
    fixed = PROGRAM.replace(", n: int", "").replace("range(n", f"range({n}")
    compiled_equals_oracle(fixed)(name, X)


def last(program: str) -> int:
    """How many branches of a function end the loop that they stand in."""
    host: Op = lower(check_text(program, "m", library()).functions, "m.f", AARCH64, {}, verify=True).schedule.ops[0]
    return sum(op.name == "schedule.last" for op in host.walk())


def test_a_loop_that_goes_on_is_not_ended() -> None:
    """By a test of the counter, or where something changes all the same, later iterations differ."""
    begun = "def f(x: Tensor[N, f32]):\n    s, t, up = 0.0, 0.0, False\n"
    loop = begun + "    for i in range(N):\n        {}\n    return s, t\n"
    assert last(loop.format("if not up:\n            s += x[i]\n            up = s > 3.0")) == 1
    assert last(loop.format("if i % 2 == 0:\n            s += x[i]")) == 0
    assert last(loop.format("if not up:\n            s += x[i]\n            up = s > 3.0\n        t += x[i]")) == 0
    assert last(loop.format("if x[i] > 0.0:\n            s += x[i]")) == 0
