"""Loops of small launches are compiled as one: which loops those are, and that no bit of what they give changes."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.commands.decisions import describe_schedule
from tesserac.ir.core import Module, Op, VerifyError
from tesserac.ir.verify import verify_module
from tesserac.pipeline import lower
from tesserac.schedule.machine import AARCH64, SM_80, Machine
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

PROGRAM = """
def exchanged(x: Tensor[N, f64]) -> (f64, f64, f64):
    a, b, c = 0.0, 1.0, 2.0
    for i in range(N):
        a, b, c = b, c, a + x[i] * b
    return a, b, c

def branches(x: Tensor[N, i64]) -> (i64, i64):
    s, t = 7, 0
    for i in range(N):
        byte = x[i]
        for _ in range(8):
            if ((s ^ byte) & 1) != 0:
                s = (s >> 1) ^ 33800
                t += 1
            else:
                s = s >> 1
            byte = byte >> 1
    return s, t

def given(x: Tensor[N, i64], turn: i64, start: i64) -> (i64, Tensor[N, i64]):
    s, y = start, zeros(N, dtype=i64)
    for i in range(N):
        if ((s ^ x[i]) & 1) != 0:
            s = (s >> 1) ^ turn
        else:
            s = s >> 1
        y[i] = s + turn
    return s, y

def table(x: Tensor[N, f32]) -> Tensor[N, N, f32]:
    y = zeros(N, N)
    for i in range(N):
        for j in range(i, N):
            y[i, j] = x[i] * x[j] + 0.5
            for k in range(i + 1, j):
                y[i, j] = max(y[i, j], y[i, k] - y[k, j])
    return y

def in_place(x: Tensor[N, N, f32]) -> Tensor[N, N, f32]:
    for i in range(1, N):
        for j in range(1, N):
            x[i, j] = (x[i - 1, j] + x[i, j - 1] + x[i, j]) / 3.0
    return x

def states(x: Tensor[N, f32]) -> Tensor[4, f32]:
    s = zeros(4)
    for i in range(N):
        s = s * 0.5 + concat([s[1:], x[i : i + 1]])
    return s

def until(x: Tensor[N, f64]) -> (f64, i64):
    low, high, k = 0.0, 2.0, 0
    while high - low > 1e-9:
        mid = (low + high) / 2.0
        if mid * mid > abs(x[k % N]):
            high = mid
        else:
            low = mid
        k += 1
    return low, k

def narrow(x: Tensor[N, f16]) -> Tensor[2, f16]:
    s = x[:2]
    for i in range(N):
        s = s * x[i] + x[i]
    return s

def looked_up(x: Tensor[N, f32], at: Tensor[M, i64]) -> Tensor[N, f32]:
    for i in range(M):
        x[at[i]] = x[at[i]] * 0.5 + x[at[M - 1 - i]]
    return x

def elementary(x: Tensor[N, f32]) -> f32:
    s = 0.1
    for i in range(N):
        s = exp(sin(s) * x[i]) / (1.0 + abs(s))
    return s

def beside(x: Tensor[N, f32]) -> (Tensor[N, f32], f32):
    s = 1.0
    for t in range(20):
        x = x * 0.5 + s
        for i in range(N):
            s = s * 0.25 + x[i]
    return x, s
"""
FLOATS = np.random.default_rng(3).standard_normal(29)
INTS = np.random.default_rng(4).integers(-200, 200, 29)
INPUTS: dict[str, list[np.ndarray]] = {
    "exchanged": [FLOATS], "branches": [INTS], "given": [INTS, np.int64(33800), np.int64(65535)],
    "table": [FLOATS[:23].astype("f4")],
    "in_place": [np.outer(FLOATS, FLOATS).astype("f4")], "states": [FLOATS.astype("f4")], "until": [FLOATS],
    "looked_up": [FLOATS.astype("f4"), INTS % 29], "elementary": [FLOATS.astype("f4")],
    "beside": [FLOATS.astype("f4")], "narrow": [FLOATS.astype("f2")],
}  # fmt: skip


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", INPUTS)
def test_bits(name: str) -> None:
    run = compiled_equals_oracle(PROGRAM)
    for threads in (1, 2, 3):
        tessera.set_num_threads(threads)
        run(name, *INPUTS[name])
    if name not in ("until", "narrow", "looked_up"):
        run(name, *(x[(slice(0),) * x.ndim] for x in INPUTS[name]))


def host(program: str, name: str, machine: Machine = AARCH64) -> Module:
    return lower(check_text(program, "m", library()).functions, f"m.{name}", machine, {}, verify=True).schedule


def marked(program: str, name: str, machine: Machine = AARCH64) -> list[Op]:
    return [op for op in host(program, name, machine).walk() if "sequential" in op.attrs]


@pytest.mark.one_in(16)
def test_the_outermost_loop_of_small_work_is_compiled_as_one() -> None:
    for name in INPUTS:
        (loop,) = marked(PROGRAM, name)
        around = loop.parent.parent_op if loop.parent is not None else None
        assert around is not None and (around.name == "schedule.func") == (name != "beside"), name
    assert not marked(PROGRAM, "branches", SM_80)


LOOP = "def f(x: Tensor[N, f32]):\n    s, t = 0.0, zeros({})\n    for i in range({}):\n        {}\n    return s, t\n"


def test_other_loops_are_left() -> None:
    assert marked(LOOP.format("1", "N", "s = s * 0.5 + x[i]"), "f")
    assert not marked(LOOP.format("N", "N", "t = t * 0.5 + x[i]"), "f"), "a launch of N elements is worth threads"
    assert not marked(LOOP.format("129", "N", "t = t * 0.5 + x[i]"), "f"), "more than a few elements"
    assert marked(LOOP.format("128", "N", "t = t * 0.5 + x[i]"), "f")
    assert not marked(LOOP.format("1", "16", "s = s * 0.5 + x[0]"), "f"), "too few iterations to compile for"
    assert not marked(LOOP.format("1", "N", "s += x[i]\n        print(s)"), "f"), "what it prints is read at once"


def test_it_is_said_and_verified() -> None:
    module = host(PROGRAM, "branches")
    assert "loop over i is compiled as one: " in describe_schedule(module)
    module = host(LOOP.format("N", "N", "t = roll(t, 1) + x[i]"), "f")
    next(op for op in module.walk() if op.name == "schedule.loop").attrs["sequential"] = "by mistake"
    with pytest.raises(VerifyError, match="launches more than a few elements"):
        verify_module(module)


FAILS = """
def read(x: Tensor[N, f32], at: Tensor[M, i64]) -> f32:
    s = 0.0
    for i in range(M):
        s += x[at[i]]
    return s

def asserted(x: Tensor[N, f32]) -> f32:
    s = 0.0
    for i in range(N):
        s += x[i]
        assert s < 3.0
    return s
"""


def test_a_loop_leaves_with_its_status() -> None:
    module, x = tessera.compile(FAILS), np.ones(5, "f4")
    assert module.read(x, np.array([0, -1, 4])) == 3.0
    with pytest.raises(tessera.TesseraError, match="5"):
        module.read(x, np.array([0, 1, 5, 2]))
    with pytest.raises(tessera.TesseraError, match="assert"):
        module.asserted(x)
    assert module.asserted(x[:2]) == 2.0


TRANSFORMED = """
def f(x: Tensor[4, f32]):
    i, x = 0, 2 * irfft(rfft(x), n=4)
    while i < 2:
        i, x = i + 1, 2 * irfft(rfft(x), n=4)
    return x
"""


@pytest.mark.one_in(4)
def test_a_loop_has_the_code_of_a_transform_that_stands_before_it_too() -> None:
    """Outside, a step is a name for code that programs share: in the loop that was code which does nothing."""
    x = np.arange(4, dtype="f4")
    assert marked(TRANSFORMED, "f")
    assert (compiled_equals_oracle(TRANSFORMED)("f", x) == 8 * x).all()
