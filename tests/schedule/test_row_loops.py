"""Loops over rows that never meet: which loops those are, and that no bit of what they give changes."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.commands.decisions import describe_schedule
from tesserac.ir.core import Op, VerifyError
from tesserac.ir.verify import verify_module
from tesserac.schedule.dialect import ROWS
from tesserac.schedule.machine import AARCH64, SM_80, Machine
from tesserac.types.dims import Dim
from tests.schedule.test_sequential import host
from tests.support.native_runs import compiled_equals_oracle

PROGRAM = """
def carried(x: Tensor[T, 5, 100, f32]) -> Tensor[5, 100, f32]:
    s = x[0]
    for t in range(T):
        s = s * 0.5 + exp(x[t] - max(x[t], axis=-1, keep=True))
    return s

def beside_each_other(x: Tensor[T, 5, 100, f32]) -> (Tensor[5, 100, f32], Tensor[5, 100, f32]):
    a, b = x[0], x[0] + 1.0
    for t in range(T):
        a, b = b, a * 0.5 + roll(b, 1, axis=1) + x[t]
    return a, b

def folded(x: Tensor[T, 5, 100, f32]) -> Tensor[5, 100, f32]:
    s = x[0]
    for t in range(T):
        s = softmax(s + x[t]) * 3.0
    return s

def kept(x: Tensor[T, 5, 100, f32]) -> (Tensor[5, 100, f32], Tensor[T, 5, 100, f32]):
    def step(s, now):
        after = s * 0.5 + exp(now - roll(now, 1, axis=1)) * roll(s, 1, axis=1)
        return after, after * 2.0
    return scan(step, x[0], x)
"""
X = np.random.default_rng(3).standard_normal((50, 5, 100)).astype("f4")
NAMES = ("carried", "beside_each_other", "folded", "kept")


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NAMES)
def test_bits(name: str) -> None:
    run = compiled_equals_oracle(PROGRAM)
    for threads in (1, 2, 3):
        tessera.set_num_threads(threads)
        run(name, X)
    run(name, X[:1])


def by_rows(program: str, name: str, machine: Machine = AARCH64) -> list[Op]:
    return [op for op in host(program, name, machine).walk() if op.name == "schedule.loop" and ROWS in op.attrs]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
def test_rows_that_never_meet(name: str) -> None:
    assert len(by_rows(PROGRAM, name)) == 1
    assert not by_rows(PROGRAM, name, SM_80)


LOOP = "def f(x: Tensor[T, {}, f32]):\n    s = x[0]\n    for t in range(T):\n        s = {}\n    return s\n"


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("dims", "body"),
    [
        ("5, 100", "roll(s, 1, axis=0) + x[t]"),
        ("5, 100", "s[::-1] * 0.5 + x[t]"),
        ("5, 100", "s * 0.5 + s[0]"),
        ("100, 100", "s.T + x[t]"),
        ("5, 100", "s + sum(s, axis=0)"),
        ("1, 100", "s * 0.5 + roll(s, 1, axis=1)"),
        ("200, 5", "s * 0.5 + roll(s, 1, axis=1)"),
        ("5, 10000", "s * 0.5 + roll(s, 1, axis=1)"),
        ("5, M", "s * 0.5 + roll(s, 1, axis=1)"),
    ],
)
def test_other_loops_are_left(dims: str, body: str) -> None:
    """Rows that read others; one row; short rows; launches that are worth threads, or may be."""
    assert not by_rows(LOOP.format(dims, body), "f")


@pytest.mark.one_in(8)
def test_it_is_said_and_verified() -> None:
    module = host(PROGRAM, "carried")
    assert "loop over t goes by rows: threads take some of 5 each through all iterations" in describe_schedule(module)
    loop = next(op for op in module.walk() if op.name == "schedule.loop")
    del loop.attrs[ROWS]
    verify_module(module)
    module = host(LOOP.format("5, 10000", "roll(s, 1, axis=1) + x[t]"), "f")
    next(op for op in module.walk() if op.name == "schedule.loop").attrs[ROWS] = Dim.const(5)
    with pytest.raises(VerifyError, match="several rows"):
        verify_module(module)


@pytest.mark.one_in(8)
def test_no_two_buffers_of_such_a_loop_share_memory() -> None:
    module = host(PROGRAM, "folded")
    (loop,) = [op for op in module.walk() if op.name == "schedule.loop"]
    inside = {v.defining_op for op in loop.walk() for v in op.operands if v.defining_op is not None}
    slots = [op.attrs["slot"] for op in inside if op.attrs.get("role") == "workspace"]
    assert len(slots) == len(set(slots)) > 1


def test_no_rows_of_any_length() -> None:
    """A launch over [0, N] has no points, whatever N is."""
    program = """
def f(x: Tensor[N, M, f32]):
    none = x[:0]
    s = none + 0.25
    for t in range(1, 4):
        s = s * 0.5 + none
    return s
"""
    assert not by_rows(program, "f")
    assert tessera.compile(program).f(X[0]).shape == (0, 100)
