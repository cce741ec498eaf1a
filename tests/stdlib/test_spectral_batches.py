"""Many small matrices are made diagonal side by side, each to the bit as it is alone."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.support.cpu_kernels import same_bits
from tests.support.linalg_matrices import KINDS, SYMMETRIC_KINDS, general, symmetric

PROGRAM = """
def together(a: Tensor[B, N, N, {e}]):
    return eigh(a), eigvalsh(a)
def alone(a: Tensor[N, N, {e}]):
    return eigh(a), eigvalsh(a)
"""


def leaves(found: object) -> list[np.ndarray]:
    if isinstance(found, tuple):
        return [leaf for part in found for leaf in leaves(part)]
    return [np.asarray(found)]


@pytest.mark.one_in(144)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_eigenvectors_in_a_batch_have_the_bits_of_each_alone(dtype: str) -> None:
    """Lanes that are done early, of matrices that are diagonal or not finite, see nothing of the others."""
    module = tessera.compile(PROGRAM.format(e=dtype))
    for n in (1, 2, 3, 8, 32, 33):
        a = np.stack([symmetric(kind, n, k) for k, kind in enumerate((*SYMMETRIC_KINDS, *SYMMETRIC_KINDS[:7]))])
        a[3, 0, 0] = np.nan
        a = a.astype({"f32": "f4", "f64": "f8"}[dtype])
        together = leaves(module.together(a))
        for k in range(len(a)):
            for one, all_of_them in zip(leaves(module.alone(a[k])), together, strict=True):
                same_bits(one, all_of_them[k])


SINGULAR = """
def together(a: Tensor[B, M, N, {e}]):
    return svd(a), svdvals(a), pinv(a)
def alone(a: Tensor[M, N, {e}]):
    return svd(a), svdvals(a), pinv(a)
"""


@pytest.mark.one_in(144)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_singular_vectors_in_a_batch_have_the_bits_of_each_alone(dtype: str) -> None:
    module = tessera.compile(SINGULAR.format(e=dtype))
    for m, n in ((1, 1), (3, 3), (5, 2), (4, 9), (32, 32), (33, 3)):
        a = np.stack([general(kind, m, n, k) for k, kind in enumerate((*KINDS, *KINDS, "normal"))])
        a[3, 0, 0] = np.inf
        a = a.astype({"f32": "f4", "f64": "f8"}[dtype])
        together = leaves(module.together(a))
        for k in range(len(a)):
            for one, all_of_them in zip(leaves(module.alone(a[k])), together, strict=True):
                same_bits(one, all_of_them[k])


@pytest.mark.one_in(144)
def test_batches_and_matrices_without_elements() -> None:
    eigen, singular = tessera.compile(PROGRAM.format(e="f64")), tessera.compile(SINGULAR.format(e="f32"))
    for count, n in ((0, 4), (3, 0)):
        (values, vectors), _ = eigen.together(np.zeros((count, n, n)))
        assert values.shape == (count, n) and vectors.shape == (count, n, n)
        (u, s, vh), _, inverse = singular.together(np.zeros((count, n, 2), "f4"))
        k = min(n, 2)
        assert (u.shape, s.shape, vh.shape) == ((count, n, k), (count, k), (count, k, 2))
        assert inverse.shape == (count, 2, n)
