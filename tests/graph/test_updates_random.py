"""Random programs of updates in loops and branches: what works in place gives the bits of what copies everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tesserac.graph.interp import run_function
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.build import tile_pass
from tests.support.cpu_kernels import HOST, same_bits
from tests.support.source_support import compile_to_forms
from tests.tile.test_tile_cpu_random import run_native

HEAD = """
def f(a: Tensor[N, f32], b: Tensor[N, f32], m: Tensor[N, 3, f32], s: f32, p: Tensor[N, i32]) -> (
        Tensor[N, f32], Tensor[N, f32], Tensor[N, 3, f32], f32, Tensor[N, f32]) where N >= 3:
    k = a
    t = s
    u = reshape(b, (1, N, 1))
"""
TAIL = "    return a, b + reshape(u, (N,)), m, s + t, k\n"

POINTS = (
    "a[i]", "a[N - 1 - i]", "b[i]", "s", "t", "a[i] * 2.0", "a[p[i]]", "b[p[i]] + a[i]", "1.0", "m[i, 1]",
    "k[i] - a[i]", "u[0, p[i], 0]", "m[p[i], 2]",
)  # fmt: skip
PLACES = (
    "a[i]", "a[N - 1 - i]", "b[i]", "a[p[i]]", "m[i, 2]", "m[p[i], 0]", "k[i]", "u[0, i, 0]", "u[:, i]", "u[0, p[i]]",
    "m[p[i], 0:2]", "m[p[i], ::2]", "m[1:3, p[i] % 3]",
)  # fmt: skip
WHOLE = (
    "a = a * 0.5 + b", "a, b = b, a", "a = b", "k = a", "b = flip(a, 0)", "a[1:] = a[:N - 1]",
    "a[:N - 1] = a[1:] + b[1:]", "a[p] = b", "a[p] += b", "a[p] = a", "b[p] -= a * 0.5", "m[:, 0] = a",
    "a = m[:, 1]", "a[::2] = 3.0",
    "m[p] = flip(m, 0)", "a, b, k = k, a, b", "a = where(a > 0.0, a, b)", "b = cumsum(a) * 0.25", "a[0:2] = a[1:3]",
    "u = u * 0.5 + reshape(a, (1, N, 1))", "a = u[0, :, 0]", "m[:, 1:2] = u[0]", "u[:, p] = u",
    "m[1:, 1:] = m[:N - 1, :2]", "s = s * 0.5 + sum(a) * 0.125", "k[2] = a[0]", "a = a",
)  # fmt: skip
INSIDE = (
    "m[i] = m[N - 1 - i] * 2.0", "m[i] = m[i] * 2.0", "s = s * 0.5 + a[i]", "t = a[i]", "t = s", "a[i:] = 2.0",
    "m[i] = b[0:3]", "b[i:i + 1] = a[N - 1 - i:N - i]", "m[p[i], 0:2] = m[i, 1:3]", "m[p[i], 1:] += m[N - 1 - i, 1:]",
    "c1 = m[:, 1]; c1[p[i]] = s; m[:, 1] = c1", "c2 = m[1:, :2]; c2[1, 0:1] = 4.0; m[1:, :2] = c2",
    "c3 = m[1:, :2]; d = c3[:, 1]; d[p[i] % 2] = t; c3[:, 1] = d; m[1:, :2] = c3",
    "q = permute(m, (1, 0)); q[2, i] = t; m = permute(q, (1, 0))",
    "q1 = permute(m, (1, 0)); q1[1, p[i]] = a[i]; m = permute(q1, (1, 0))",
    "q2 = reshape(m, (1, N, 3, 1)); q2[0, i, 0:2, 0] = 3.0; m = reshape(q2, (N, 3))",
    "q3 = reshape(u, (N,)); q3[p[i]] = q3[i]; u = reshape(q3, (1, N, 1))", "u[0, p[i]] = u[0, i]",
)  # fmt: skip


@st.composite
def statements(draw: st.DrawFn, depth: int, counted: bool) -> list[str]:
    """A few lines; `counted` where `i` is known."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        lines += draw(statement(depth, counted))
    return lines


@st.composite
def statement(draw: st.DrawFn, depth: int, counted: bool) -> list[str]:
    kinds = ["whole"] + ["point"] * 3 * counted + ["inside"] * counted + ["loop", "loop", "if"] * (depth > 0)
    match draw(st.sampled_from(kinds)):
        case "point":
            sign = draw(st.sampled_from(("=", "=", "+=")))
            return [f"{draw(st.sampled_from(PLACES))} {sign} {draw(st.sampled_from(POINTS))}"]
        case "inside":
            return [draw(st.sampled_from(INSIDE))]
        case "loop":
            bound = "2" if counted else "N"
            name = "j" if counted else "i"
            return [f"for {name} in range({bound}):", *_indented(draw(statements(depth - 1, True)))]
        case "if":
            test = draw(st.sampled_from(("s > 0.5", "a[0] > b[1]")))
            yes, no = draw(statements(depth - 1, counted)), draw(st.none() | statements(depth - 1, counted))
            return [f"if {test}:", *_indented(yes), *(["else:", *_indented(no)] if no else [])]
    return [draw(st.sampled_from(WHOLE))]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def arguments(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    a, b, m = (rng.normal(size=shape).astype(np.float32) for shape in ((n,), (n,), (n, 3)))
    return [a, b, m, np.float32(0.75), rng.integers(-n, n, n).astype(np.int32)]


@pytest.mark.one_in(12)
@given(statements(2, False), st.sampled_from([3, 5, 70]))
@example(["for i in range(N):", "    if s > 0.5:", "        a = a * 0.5 + b"], 5)  # ends where s is too small
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_updates_in_place_keep_the_bits(lines: list[str], n: int) -> None:
    program = HEAD + "".join(f"    {line}\n" for line in lines) + TAIL
    note(program)
    forms = compile_to_forms(program)
    args = [np.asarray(x) for x in arguments(n)]
    expected = run_function(forms, "m.f", args)
    lowered = run_passes(forms, [*schedule_passes(AARCH64), tile_pass(AARCH64)], verify=True)
    for got, wanted in zip(run_native(lowered, "m.f", args, HOST), expected, strict=True):
        same_bits(got, wanted)
