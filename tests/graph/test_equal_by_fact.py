"""Sizes that are equal because the program says so meet in every operator, and the IR of each level is valid."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.pipeline import lower
from tesserac.schedule.machine import AARCH64
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

HEAD = "def f(x: Tensor[N, f32], y: Tensor[M, f32], z: Tensor[K, f32]) where {}:\n"
"""N is 6, M is 6, K is 3 where a body runs."""
CASES = {
    "sum": ("N == M", "return x + y"),
    "the other first": ("N == M", "return y * x + y"),
    "three": ("N == M, 2 * K == M", "return where(x > y, y, concat([z, z]))"),
    "parts": ("N == M, 2 * K == N", "return reshape(x, (2, K)) * z + x[::2] + y[K:]"),
    "halves": ("N % 2 == 0, M == N", "return x[::2] + x[1::2] * reshape(y, (2, N // 2))[1]"),
    "least": ("N <= M, K <= N", "return x + y[:min(N, M)] * zeros(max(N, K))"),
    "used twice": ("N == M", "a = sin(x) * y; return a * y + sum(a) * x"),
    "product": ("N == M", "return (x[None, :] * y) @ (y[:, None] + x[:, None])"),
    "update": ("M == N, K == N - 3", "x[3:] = z; y[:K] = z * x[:K]; return x + y"),
    "loop": ("N == M", "s = zeros(N)\n    for i in range(3):\n        s = s * x + y; s[i] = y[i]\n    return s + y"),
    "branch": ("N >= 1", "s = sum(x)\n    if N == M:\n        s = sum(x * y)\n    return s"),
    "assertion": ("N >= 1", "assert N == M\n    return x - y"),
    "gradient": ("N == M", "return grad(lambda a: sum(a * y * sin(a + y)))(x)"),
    "mapped": ("N == M, 2 * K == N", "return vmap(lambda a, b: a * b * z)(reshape(x, (2, K)), reshape(y, (2, K)))"),
    "carried": ("N == M", "s = x\n    for i in range(3):\n        s = y * s if i == 1 else y\n    return s"),
    "given by a branch": ("N == M", "s = x\n    if x[0] > 0.0:\n        s = y\n    return s * x"),
    "either": ("N == M", "return (x if x[0] > 0.0 else y) * y"),
    "returned": ("N == M", "if x[0] > 0.0:\n        return x\n    return y"),
    "a pair": ("N == M", "p = (x, y)\n    if x[0] > 0.0:\n        p = (y, x)\n    return p"),
    "a rule of its own": ("N == M", "return solve(x[:, None] * y[None, :] + 9.0 * eye(N), y)"),
    "scanned": ("N == M, K == 3", "return scan(lambda c, v: (c * 0.5 + v, c), x, ones(K)[:, None] * y[None, :])"),
    "captured": ("N == M", "def g(a):\n        return a * y\n    return g(x) + grad(lambda a: sum(g(a)))(x)"),
    "number": ("N == 6, M == N", "return x + y + ones(6)"),
}


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", CASES)
def test_equal_sizes_meet(name: str) -> None:
    facts, body = CASES[name]
    program = HEAD.format(facts) + f"    {body}\n"
    lower(check_text(program, "m", library()).functions, "m.f", AARCH64, {}, verify=True)
    rng = np.random.default_rng(len(name))
    compiled_equals_oracle(program)("f", *(rng.standard_normal(size).astype("f4") for size in (6, 6, 3)))
