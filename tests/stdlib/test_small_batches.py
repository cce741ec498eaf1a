"""Many small matrices are solved side by side, each to the bit as it is alone."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.support.cpu_kernels import same_bits
from tests.support.linalg_matrices import KINDS, general

PROGRAM = """
def together(a: Tensor[B, N, N, {e}], b: Tensor[B, N, R, {e}]):
    sign, size = slogdet(a)
    return solve(a, b), sign, size
def alone(a: Tensor[N, N, {e}], b: Tensor[N, R, {e}]):
    sign, size = slogdet(a)
    return solve(a, b), sign, size
"""


def matrices(count: int, n: int) -> np.ndarray:
    """Of all kinds, none of them singular to the last bit."""
    kinds = [kind for kind in KINDS if kind != "zero"]
    drawn = [general(kinds[k % len(kinds)], n, n, k) + 0.01 * k * np.eye(n) for k in range(count)]
    return np.stack([one + np.diag(np.full(n, 1e-3)) for one in drawn])


@pytest.mark.one_in(48)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_batches_of_small_matrices_have_the_bits_of_each_alone(dtype: str) -> None:
    module = tessera.compile(PROGRAM.format(e=dtype))
    for count, n, columns in ((5, 1, 1), (9, 3, 2), (17, 8, 1), (4, 16, 16), (2, 32, 1), (2, 33, 1), (3, 32, 17)):
        a = matrices(count, n).astype({"f32": "f4", "f64": "f8"}[dtype])
        b = np.random.default_rng(n).standard_normal((count, n, columns)).astype(a.dtype)
        together = module.together(a, b)
        for k in range(count):
            for one, all_of_them in zip(module.alone(a[k], b[k]), together, strict=True):
                same_bits(np.asarray(one), np.asarray(all_of_them[k]))


@pytest.mark.one_in(48)
def test_what_is_not_finite_and_what_is_singular_in_a_batch() -> None:
    module = tessera.compile(PROGRAM.format(e="f64"))
    a, b = np.random.default_rng(0).standard_normal((6, 4, 4)), np.random.default_rng(1).standard_normal((6, 4, 2))
    a[0, 1, 2], a[1, 0, 0], a[2, 3, 0], a[3] = np.inf, np.nan, np.nan, np.inf
    a[4], a[5] = a[4] * 1e-310, a[5] * 1e300
    together = module.together(a, b)[0]
    for k in range(6):
        np.testing.assert_array_equal(together[k], module.alone(a[k], b[k])[0])
    assert np.isnan(together[1:4]).any(axis=(1, 2)).all()
    a[2] = np.diag([1.0, 0.0, 1.0, 1.0])
    with pytest.raises(tessera.TesseraError, match="pivot 1 is 0"):
        module.together(np.nan_to_num(a, posinf=1.0), b)
    for shape in ((0, 4, 4), (3, 0, 0)):
        assert module.together(np.zeros(shape), np.zeros((*shape[:2], 2)))[0].shape == (*shape[:2], 2)


FACTORS = """
def together(a: Tensor[B, M, N, {e}]):
    return qr(a)
def alone(a: Tensor[M, N, {e}]):
    return qr(a)
"""


@pytest.mark.one_in(48)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_orthogonal_factors_in_a_batch_have_the_bits_of_each_alone(dtype: str) -> None:
    module = tessera.compile(FACTORS.format(e=dtype))
    for m, n in ((1, 1), (5, 3), (3, 5), (8, 8), (32, 32), (33, 2), (0, 2)):
        a = np.stack([general(kind, m, n, k) for k, kind in enumerate((*KINDS, "normal"))])
        a[3, :1, n - 1], a[8, m - 1 :, 0] = np.nan, np.inf
        a = a.astype({"f32": "f4", "f64": "f8"}[dtype])
        together = module.together(a)
        for k in range(len(a)):
            for one, all_of_them in zip(module.alone(a[k]), together, strict=True):
                same_bits(np.asarray(one), np.asarray(all_of_them[k]))


TRIANGLES = """
def together(a: Tensor[B, N, N, {e}], b: Tensor[B, N, R, {e}]):
    return inv(a), cholesky(a), triangular_solve(a, b), triangular_solve(a, b, lower=False), det(a)
def alone(a: Tensor[N, N, {e}], b: Tensor[N, R, {e}]):
    return inv(a), cholesky(a), triangular_solve(a, b), triangular_solve(a, b, lower=False), det(a)
def slopes(a: Tensor[B, N, N, {e}], b: Tensor[B, N, R, {e}]):
    return grad(lambda a: sum(inv(a) + cholesky(a)) + sum(triangular_solve(a, b)))(a)
def slope(a: Tensor[N, N, {e}], b: Tensor[N, R, {e}]):
    return grad(lambda a: sum(inv(a) + cholesky(a)) + sum(triangular_solve(a, b)))(a)
"""


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_inverses_and_triangles_in_a_batch_have_the_bits_of_each_alone(dtype: str) -> None:
    """Groups of 32, of which the last has some matrices once more, from 65 matrices on."""
    module = tessera.compile(TRIANGLES.format(e=dtype))
    rng = np.random.default_rng(2)
    for count, n, columns in ((70, 3, 2), (3, 32, 1), (2, 33, 2), (4, 7, 80), (0, 3, 2), (2, 1, 1)):
        a = rng.standard_normal((count, n, n))
        a = (a @ a.transpose(0, 2, 1) + np.eye(n)).astype({"f32": "f4", "f64": "f8"}[dtype])
        b = rng.standard_normal((count, n, columns)).astype(a.dtype)
        together, slopes = module.together(a, b), module.slopes(a, b)
        for k in {0, count // 2, count - 1} if count else ():
            for one, all_of_them in zip(module.alone(a[k], b[k]), together, strict=True):
                same_bits(np.asarray(one), np.asarray(all_of_them[k]))
            off = np.abs(slopes[k]).max() * (1e-4 if dtype == "f32" else 1e-11)
            np.testing.assert_allclose(slopes[k], module.slope(a[k], b[k]), atol=off)


@pytest.mark.one_in(24)
def test_the_matrix_of_a_batch_that_cannot_be_factored_is_named() -> None:
    module = tessera.compile(TRIANGLES.format(e="f64"))
    a, b = np.stack([np.eye(3)] * 70), np.ones((70, 3, 1))
    a[66, 1, 1] = 0.0
    with pytest.raises(tessera.TesseraError, match=r"1 is (0|not positive)"):
        module.together(a, b)
