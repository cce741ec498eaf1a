"""Linear algebra in debug builds: none of its functions makes inf or NaN of finite numbers behind a `where`, so that no
program that is right is stopped; results have the bits of other builds, and mistakes their own words."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.support.cpu_kernels import same_bits
from tests.support.linalg_matrices import symmetric

CALLS = {
    "solve": "solve(a + 40.0 * eye(N, dtype=f64), a)",
    "inv": "inv(a + 40.0 * eye(N, dtype=f64))",
    "det": "slogdet(a), det(a)",
    "cholesky": "cholesky(a @ a + eye(N, dtype=f64))",
    "qr": "qr(a)",
    "eigh": "eigh(a)",
    "svd": "svd(a)",
    "expm": "expm(a)",
    "pinv": "pinv(a), matrix_rank(a), cond(a)",
    "lstsq": "lstsq(a, a[..., 0])",
    "norm": 'norm(a), norm(a, ord=2, axis=(-2, -1)), norm(a, ord="nuc", axis=(-2, -1))',
    "psd": "op.dense(a @ a, psd=True) @ a[..., 0]",
}
KINDS = ("normal", "zero", "ones", "deficient", "repeated")


def parts(found: object) -> list[np.ndarray]:
    if isinstance(found, tuple):
        return [leaf for part in found for leaf in parts(part)]
    return [np.asarray(found)]


def of_one(call: str) -> str:
    return f"def f(a: Tensor[N, N, f64]):\n    return {call}\n"


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", list(CALLS))
def test_no_alarm_is_false(name: str) -> None:
    debug, plain = (tessera.compile(of_one(CALLS[name]), debug=debug) for debug in (True, False))
    for kind in KINDS:
        a = symmetric(kind, 5, 0)
        for one, other in zip(parts(debug.f(a)), parts(plain.f(a)), strict=True):
            same_bits(one, other)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("call", "words"), [("solve(a, a)", "is singular"), ("cholesky(a)", "not positive definite")])
def test_mistakes_have_the_words_of_other_builds(call: str, words: str) -> None:
    with pytest.raises(tessera.TesseraError, match=words):
        tessera.compile(of_one(call), debug=True).f(np.zeros((3, 3)))
