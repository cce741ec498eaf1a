"""Linear algebra has the same bits on any number of threads, alone and in batches, interpreted and compiled, and in
narrow types those of f32, rounded once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tests.support.cpu_kernels import same_bits
from tests.support.linalg_matrices import general, symmetric
from tests.support.native_runs import compiled_equals_oracle

pytestmark = pytest.mark.one_in(48)

BATCHED = """
def solves(a: Tensor[B, N, N, f32], b: Tensor[B, N, R, f32]) -> Tensor[B, N, R, f32]:
    return solve(a, b)
def orthogonal(a: Tensor[B, N, N, f32]):
    return qr(a)
def eigen(a: Tensor[B, N, N, f32]):
    return eigh(a)
def singular(a: Tensor[B, N, N, f32]):
    return svd(a)
"""


@pytest.fixture
def _restore_threads() -> Any:
    count = tessera.get_num_threads()
    yield
    tessera.set_num_threads(count)


@pytest.mark.one_in(48)
@pytest.mark.usefixtures("_restore_threads")
@pytest.mark.parametrize("name", ["solves", "orthogonal", "eigen", "singular"])
def test_threads_and_batches_do_not_show(name: str) -> None:
    """Matrices that need different numbers of sweeps, one by one and together, on one thread and on two."""
    kinds = ("normal", "graded", "repeated", "zero", "normal")
    batch = np.stack([symmetric(kind, 40, seed) + 0.1 * np.eye(40) for seed, kind in enumerate(kinds)]).astype("f4")
    operands = (batch, batch[..., :2]) if name == "solves" else (batch,)
    function = getattr(tessera.compile(BATCHED), name)
    results = []
    for threads in (1, 2):
        tessera.set_num_threads(threads)
        together = function(*operands)
        alone = [function(*(x[k : k + 1] for x in operands)) for k in range(len(kinds))]
        results.append(together if isinstance(together, tuple) else (together,))
        rows = [part if isinstance(part, tuple) else (part,) for part in alone]
        results.append(tuple(np.concatenate(parts) for parts in zip(*rows, strict=True)))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            same_bits(one, two)


SMALL = """
def s(a: Tensor[N, N, f32], b: Tensor[N, f32]) -> Tensor[N, f32]:
    return solve(a, b)
def e(a: Tensor[N, N, f32]) -> (Tensor[N, f32], Tensor[N, N, f32]):
    return eigh(a)
def v(a: Tensor[M, N, f32]) -> (Tensor[M, min(M, N), f32], Tensor[min(M, N), f32], Tensor[min(M, N), N, f32]):
    return svd(a)
"""


BLOCKED = """
def f(a: Tensor[N, N, f32]) -> Tensor[N, N, f32]:
    return cholesky(a)
def q(a: Tensor[M, N, f32]) -> (Tensor[M, min(M, N), f32], Tensor[min(M, N), N, f32]):
    return qr(a)
"""


@pytest.mark.one_in(48)
def test_blocks_equal_interpreted() -> None:
    run = compiled_equals_oracle(SMALL)
    a = symmetric("normal", 35, 1).astype("f4")
    run("s", a + np.eye(35, dtype="f4"), np.ones(35, "f4"))
    blocks = compiled_equals_oracle(BLOCKED)
    blocks("f", a @ a + np.eye(35, dtype="f4"))
    blocks("q", a[:, :33])


@pytest.mark.one_in(48)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_compiled_equals_interpreted(n: int) -> None:
    run = compiled_equals_oracle(SMALL)
    a = symmetric("normal", n, n).astype("f4")
    run("s", a + np.eye(n, dtype="f4"), np.ones(n, "f4"))
    run("e", a)
    run("v", general("normal", n, 4, n).astype("f4"))


def test_narrow_types_are_computed_in_f32_and_rounded_once() -> None:
    text = "def s(a: Tensor[N, N, {e}], b: Tensor[N, {e}]) -> Tensor[N, {e}]: return solve(a, b)\n"
    text += "def w(a: Tensor[N, N, {e}]) -> Tensor[N, {e}]: return eigvalsh(a)\n"
    a, b = symmetric("normal", 9, 3).astype(ml_dtypes.bfloat16), np.ones(9, ml_dtypes.bfloat16)
    narrow = tessera.compile(text.format(e="bf16 @accum(f32)"))
    wide = tessera.compile(text.format(e="f32"))
    same_bits(narrow.s(a, b), wide.s(a.astype("f4"), b.astype("f4")).astype(ml_dtypes.bfloat16))
    same_bits(narrow.w(a), wide.w(a.astype("f4")).astype(ml_dtypes.bfloat16))
