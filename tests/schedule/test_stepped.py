"""Loops that are one map over and over become one launch: which loops those are, and that no bit of them changes."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.commands.decisions import describe_schedule
from tesserac.ir.core import Op
from tesserac.ir.parser import parse_module
from tesserac.ir.printer import print_module
from tesserac.schedule.dialect import STEPS
from tesserac.schedule.loops.stepped import TOGETHER
from tesserac.schedule.machine import AARCH64, SM_80, X86_64_V3, X86_64_V4, Machine
from tests.schedule.test_sequential import host
from tests.support.cpu_kernels import same_bits
from tests.support.native_runs import compiled_equals_oracle

PROGRAM = """
def recurrence(x: Tensor[T, N, f32], a: Tensor[T, f32]) -> (Tensor[N, f32], Tensor[T, N, f32]):
    s, y = x[0], zeros_like(x)
    for t in range(T):
        s = a[t] * s + x[t]
        y[t] = s
    return s, y

def exchanged(x: Tensor[T, N, f32], a: Tensor[T, f32]) -> (Tensor[N, f32], Tensor[N, f32]):
    p, q = x[0], x[0] * 0.5
    for t in range(1, T):
        p, q = q, a[t] * p - q * x[T - 1 - t]
    return p, q

def rotated(x: Tensor[T, N, f32], a: Tensor[T, f32]) -> Tensor[T, N, f32]:
    held = x[0]
    for j in range(T - 3):
        k = T - 4 - j
        row = x[k]
        kept = fma(-a[k], held, row)
        x[k + 2] = fma(a[k], row, a[k + 1] * held)
        held = kept
    return x

def overwritten(x: Tensor[T, N, f32], a: Tensor[T, f32]) -> Tensor[T, N, f32]:
    for t in range(1, T):
        x[t] = x[t - 1] * a[t] + x[0]
        x[0] = x[t] + x[0]
    return x

def counted(x: Tensor[T, N, f16], a: Tensor[T, f32]) -> Tensor[N, f16]:
    with numerics(fast):
        s = x[0]
    for t in range(T):
        s = s * x[t] + x[0]
    return s
"""
NAMES = ("recurrence", "exchanged", "rotated", "counted")
LOOP = """
def f(x: Tensor[T, N, f32], a: Tensor[N, f32]):
    s = x[0]
    for t in range(T):
        {}
    return x, s
"""


def stepped(program: str, name: str, machine: Machine = AARCH64) -> list[Op]:
    return [op for op in host(program, name, machine).walk() if op.name == "schedule.launch" and STEPS in op.attrs]


@pytest.mark.parametrize("name", NAMES)
def test_one_launch_for_all_iterations(name: str) -> None:
    assert len(stepped(PROGRAM, name)) == 1
    assert not stepped(PROGRAM, name, SM_80)


def test_what_is_carried_and_what_moves_on() -> None:
    (launch,) = stepped(PROGRAM, "recurrence")
    assert launch.attrs["carried"] == ((1, 0),), "the running row is no memory from one iteration to the next"
    assert [str(step) for step in launch.attrs["advances"]] == ["0", "0", "0", "0", "N"]  # type: ignore[union-attr]
    assert "go through all iterations of a loop by themselves" in describe_schedule(host(PROGRAM, "recurrence"))


def test_its_text_parses_back() -> None:
    printed = print_module(host(PROGRAM, "rotated"))
    assert "steps = #steps<" in printed and print_module(parse_module(printed)) == printed


@pytest.mark.parametrize("shape", [(1, 70), (2, 64), (5, 1), (9, 131), (4, 0)])
def test_bits(shape: tuple[int, int]) -> None:
    """Also of rows that are written and read again under another name."""
    run, random = compiled_equals_oracle(PROGRAM), np.random.default_rng(7)
    x, a = random.standard_normal(shape).astype("f4"), random.standard_normal(shape[:1]).astype("f4")
    names = ("recurrence", "exchanged", "overwritten", *(("rotated",) if shape[0] > 3 else ()))
    for threads in (1, 3):
        tessera.set_num_threads(threads)
        for name in names:
            run(name, x, a)
    run("counted", x.astype("f2"), a)


def test_a_call_can_be_stopped_between_some_thousand_iterations() -> None:
    (launch,) = stepped(PROGRAM, "recurrence")
    loop = launch.parent.parent_op if launch.parent is not None else None
    assert loop is not None and loop.name == "schedule.loop", "the host program looks whether it is to stop"
    random = np.random.default_rng(1)
    x, a = random.standard_normal((2 * TOGETHER + 3, 33)).astype("f4"), random.random(2 * TOGETHER + 3).astype("f4")
    last, states = tessera.compile(PROGRAM).recurrence(x, a)
    state = x[0]
    for t, factor in enumerate(a):
        state = factor * state + x[t]
        same_bits(np.asarray(states)[t], state)
    same_bits(np.asarray(last), state)
    known = LOOP.replace("range(T)", "range(30)").replace("[T,", "[30,").format("s = s * 0.5 + x[t]")
    assert not [op for op in host(known, "f").walk() if op.name == "schedule.loop"]


@pytest.mark.parametrize(
    "body",
    [
        "s = s * x[t] + sum(s)",
        "s = roll(s, 1) + x[t]",
        "s = s[::-1] + x[t]",
        "x[t] = x[t] + s * x[T - 1 - t, 0]",
        "s = s + x[t] * float(t)",
        "s = s + gather(x[t], cast(floor(a), i64), axis=0) * s[0]",
        "s = where(s[0] > 0.0, s, x[t])",
    ],
)
def test_other_loops_are_left(body: str) -> None:
    """Columns that read others: a sum, neighbours, a mirror, an element of a row that is written; a count that is a
    number."""
    assert not stepped(LOOP.format(body), "f")


@pytest.mark.parametrize("machine", [X86_64_V3, X86_64_V4])
def test_vectors_hold_what_is_carried(machine: Machine) -> None:
    assert len(stepped(PROGRAM, "exchanged", machine)) == 1
