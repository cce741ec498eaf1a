"""Convolutions and Toeplitz matrices on both sides of the sizes from which they go by transforms."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.check.algebra.crossover import is_small_matrix, pays_to_transform
from tesserac.types.dims import Dim, parse_dim
from tests.support.operator_cases import circulant, toeplitz

SIZES = ((5, 7), (23, 23), (24, 3), (20, 33))
PROGRAM = "\n".join(
    [
        f"def toeplitz_{m}_{n}_{dtype}(c: Tensor[{m}, {dtype}], r: Tensor[{n}, {dtype}]):\n"
        f"    A = op.toeplitz(c, r)\n    return to_dense(A), to_dense(A.H)\n"
        for m, n in SIZES
        for dtype in ("f64", "c128")
    ]
    + [
        f"def ring_{k}_{n}(c: Tensor[{k}, f64]):\n    A = op.conv1d(c, {n})\n    return to_dense(A), to_dense(A.H)\n"
        for k, n in ((2, 24), (20, 24), (20, 61), (40, 61))
    ]
    + ["def of_any_size(c: Tensor[M, f64], r: Tensor[N, f64]):\n    A = op.toeplitz(c, r)\n    return to_dense(A)\n"]
)


@pytest.mark.one_in(48)
def test_both_forms_are_their_matrices() -> None:
    module, rng = tessera.compile(PROGRAM), np.random.default_rng(1)
    for m, n in SIZES:
        c, r = rng.normal(size=m), rng.normal(size=n)
        np.testing.assert_allclose(module.of_any_size(c, r), toeplitz(c, r), atol=1e-13)
        for dtype, factor in (("f64", 1.0), ("c128", 1.0 + 0.5j)):
            first, second = module[f"toeplitz_{m}_{n}_{dtype}"](c * factor, r * factor)
            np.testing.assert_allclose(first, toeplitz(c * factor, r * factor), atol=1e-13)
            np.testing.assert_allclose(second, first.conj().T, atol=1e-13)
    for k, n in ((2, 24), (20, 24), (20, 61), (40, 61)):
        taps = rng.normal(size=k)
        found, turned = module[f"ring_{k}_{n}"](taps)
        np.testing.assert_allclose(found, circulant(taps, n), atol=1e-12)
        np.testing.assert_allclose(turned, circulant(taps, n).T, atol=1e-12)


def test_sizes_that_are_numbers_decide() -> None:
    few, many, open_ = Dim.const(8), Dim.const(64), parse_dim("N")
    assert is_small_matrix([few, few]) and not is_small_matrix([few, many]) and not is_small_matrix([few, open_])
    assert pays_to_transform(open_, open_) and not pays_to_transform(few, open_)
    assert pays_to_transform(many, Dim.const(1024)) and not pays_to_transform(Dim.const(2), Dim.const(1024))
    assert not pays_to_transform(Dim.const(16), Dim.const(1009)), "a prime ring is transformed as a longer one"
