"""What is the same in every iteration is computed before the loop, unless it could fail there, and keeps its bits."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.graph.build import build_module
from tesserac.graph.passes.hoist import hoist
from tesserac.graph.passes.inline import inline
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

HEAD = """
def f(x: Tensor[N, f32], c: Tensor[N, f32], w: Tensor[8, 8, f32], p: Tensor[N, i32], s: f32) -> Tensor[N, f32]:
    for i in range(N):
"""


def inside_loops(program: str) -> list[str]:
    """The operators that loops of `f` have in them when invariants have left."""
    functions = check_text(program, "m", library()).functions
    module = run_passes(build_module(list(functions.values()), {"m.f"}), [inline, hoist], verify=True)
    loops = [op for op in module.lookup("m.f").walk() if op.name in ("form.loop", "form.while")]
    return [op.name.removeprefix("graph.") for loop in loops[:1] for op in loop.walk() if _computes(op)]


def _computes(op: Op) -> bool:
    return op.name.startswith("graph.")


def body(*lines: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in lines) + "    return x\n"


@pytest.mark.parametrize(
    ("lines", "gone"),
    [
        (("k = (c * 0.1) ** 2", "x = x * k"), "power"),
        (("x = x * exp(c)",), "exp"),
        (("x = x * sum(c * c)",), "sum"),
        (("x = x + sum(w @ w)",), "matmul"),
        (("for j in range(3):", "    x = x * sin(s)"), "sin"),
        (("if x[0] > 0.0:", "    x = x + 1.0", "x = x * tanh(c)"), "tanh"),
        (("x = x * sum(c[:, None] * w[0][None, :])",), "sum"),
        (("x = x * w[0, 3]",), "cut"),
    ],
)
def test_invariants_leave(lines: tuple[str, ...], gone: str) -> None:
    assert gone not in inside_loops(body(*lines))


@pytest.mark.parametrize(
    ("lines", "stays"),
    [
        (("x = sin(x)",), "sin"),
        (("x = x * sin(c[i])",), "sin"),
        (("x = x * float(i)",), "size"),
        (("x = x * c[p[0]]",), "lookup"),
        (("if s > 0.0:", "    x = x * exp(c)"), "exp"),
        (("x = x + sum(x[:, None] * (c[:, None] + w[0][None, :]), axis=1)",), "add"),
        (("x = x + zeros(N)",), "zeros"),
        (("x = x * c[0]",), "cut"),
    ],
    ids=["carried", "counted", "counter", "may fail", "under a branch", "an outer sum", "a constant", "may be outside"],
)
def test_the_rest_stays(lines: tuple[str, ...], stays: str) -> None:
    assert stays in inside_loops(body(*lines))


def test_effects_and_assertions_stay(capfd: pytest.CaptureFixture[str]) -> None:
    program = body("assert s > 0.0, 'never'", "print('turn', s * 2.0)", "x = x + s * 2.0")
    run = tessera.compile(program).f
    arguments = np.ones(2, "f4"), np.ones(2, "f4"), np.ones((8, 8), "f4"), np.zeros(2, "i4")
    run(*arguments, 1.0)
    assert capfd.readouterr().out.count("turn") == 2
    none = [a[:0] if a.ndim == 1 else a for a in arguments]
    run(*none, -1.0)
    assert capfd.readouterr().out == ""


PROGRAM = """
def wave(c: Tensor[N, f32], s: Tensor[T, f32]) -> Tensor[f32] where N >= 3:
    u, p = zeros(N), zeros(N)
    for t in range(T):
        k = (c * 0.1) ** 2
        n = 2.0 * u - p + k * (roll(u, 1, axis=0) - 2.0 * u + roll(u, -1, axis=0))
        n[1] += s[t] * exp(sum(c))
        p, u = u, n
    return sum(u * u)

def f(c: Tensor[N, f32], s: Tensor[T, f32]) where N >= 3:
    return grad(wave, wrt=("c", "s"))(c, s)

def until(c: Tensor[N, f32], limit: f32) -> Tensor[N, f32]:
    x = c
    while sum(x * x) < limit:
        x = x * (exp(sum(abs(c))) + 1.0) + cosh(c)
    return x
"""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("turns", [0, 1, 7])
def test_values_keep_their_bits(turns: int) -> None:
    rng, run = np.random.default_rng(turns), compiled_equals_oracle(PROGRAM)
    c = rng.standard_normal(5).astype("f4")
    run("f", c, rng.standard_normal(turns).astype("f4"))
    run("until", c, np.array(100.0, "f4"))
