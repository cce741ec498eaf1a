"""Linear algebra of complex matrices: factors are those of NumPy up to phases, which are fixed; gradients are those of
central differences where they do not depend on phases or on a basis, and errors where they do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tessera

RNG = np.random.default_rng(7)
L = np.linalg


def drawn(*shape: int) -> Any:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def turned(a: Any) -> Any:
    return a.conj().swapaxes(-1, -2)


BASIS, OTHER = L.qr(drawn(4, 4))[0], L.qr(drawn(4, 4))[0]
LEVEL = (BASIS * [2, 2, 1, 1]) @ OTHER
SAMPLES = {
    "square": drawn(6, 6),
    "tall": drawn(7, 4),
    "wide": drawn(3, 5),
    "beyond a block": drawn(35, 34),
    "of rank 2": drawn(6, 2) @ drawn(2, 6),
    "with equal values": LEVEL,
    "identity": np.eye(4) + 0j,
    "transform": np.fft.fft(np.eye(8)),
    "zero": np.zeros((3, 2)) + 0j,
    "one": drawn(1, 1),
    "empty": drawn(3, 0),
    "tiny": drawn(4, 4) * 1e-300,
    "huge": drawn(4, 4) * 1e300,
}
FACTORS = """
def factors(a: Tensor[M, N, c128]):
    return qr(a), svd(a), svdvals(a)
def hermitian(a: Tensor[N, N, c128]):
    return eigh(a), eigvalsh(a)
"""


def close(found: Any, wanted: Any, scale: float, count: int) -> bool:
    return bool(np.all(abs(found - wanted) <= 8 * (count + 4) * np.finfo(float).eps * scale))


@pytest.mark.one_in(72)
def test_factors_of_complex_matrices() -> None:
    module = tessera.compile(FACTORS)
    for name, a in SAMPLES.items():
        n, k = max(a.shape), min(a.shape)
        scale = float(abs(a).max()) * n if a.size else 1.0
        (q, r), (u, s, vh), values = module.factors(a)
        assert close(q @ r, a, scale, n) and close(turned(q) @ q, np.eye(k), 1, n), name
        assert np.all(np.diagonal(r).imag == 0) and np.all(np.tril(r, -1) == 0), name
        assert close((u * s) @ vh, a, scale, n) and np.array_equal(s, values), name
        assert close(turned(u) @ u, np.eye(k), 1, n) and close(vh @ turned(vh), np.eye(k), 1, n), name
        assert close(s, L.svd(a, compute_uv=False), scale, n) and np.all(np.diff(s) <= 0), name
        near = (abs(u) > abs(u).max(0) * (1 - 1e-9)) & (abs(u.imag) < 1e-9) & (u.real > 0) if a.size else u == u
        assert np.all(near.any(0)), f"{name}: a largest element of each column is positive"
        if a.shape[0] == a.shape[1]:
            h = a / 2 + turned(a) / 2
            (w, v), alone = module.hermitian(h + np.triu(drawn(n, n), 1))  # what is above the diagonal is not read
            assert np.array_equal(w, alone) and close(h @ v, v * w, scale, n), name
            assert close(turned(v) @ v, np.eye(n), 1, n) and close(w, L.eigvalsh(h), scale, n), name


REST = """
def rest(a: Tensor[M, N, c128], b: Tensor[N, N, c128], x: Tensor[N, c128], y: Tensor[M, c128]):
    A, B = op.dense(a), op.dense(b)
    S = spectral(A)
    return (
        (S @ x, S.H @ y, to_dense(reconstruct(S)), pseudoinverse(A) @ y, pinv(a), lstsq(a, y)),
        (det(B), slogdet(B), slogdet(inverse(B)), det(op.kronecker(B, B)), slogdet(op.kronecker(2.0 * B, B.H))),
        (cond(A), norm(A), norm(a), matrix_rank(a), spectral(op.fft(4)).S),
        (cholesky_solve(cholesky(b @ b.H), x), op.dense(b @ b.H, psd=True) @ x, sqrt(B.H ∘ B) ** 2 @ x),
        (expm(b), expm(B) @ x, B.psd),
    )
"""


@pytest.mark.one_in(72)
def test_what_follows_from_the_factors() -> None:
    a, b, x, y = drawn(5, 4), drawn(4, 4), drawn(4), drawn(5)
    h, inverse = b @ turned(b), L.inv(b)
    both, other = np.kron(b, b), np.kron(2 * b, turned(b))
    series = sum(L.matrix_power(b, k) / math.factorial(k) for k in range(60))
    expected = (
        (a @ x, turned(a) @ y, a, L.pinv(a) @ y, L.pinv(a), L.lstsq(a, y, rcond=None)[0]),
        (L.det(b), L.slogdet(b), L.slogdet(inverse), L.det(both), L.slogdet(other)),
        (L.cond(a), L.norm(a, 2), L.norm(a), 4, np.full(4, 2.0)),
        (L.solve(h, x), h @ x, turned(b) @ b @ x),
        (series, series @ x, False),
    )
    found = tessera.compile(REST).rest(a, b, x, y)
    for own, wanted in zip(found, expected, strict=True):
        for i, (one, other_) in enumerate(zip(own, wanted, strict=True)):
            for left, right in zip(*((p if isinstance(p, tuple) else (p,)) for p in (one, other_)), strict=True):
                assert np.allclose(left, right, rtol=1e-6 if i == 4 else 1e-9, atol=1e-9), (i, left, right)


FUNCTIONS = {
    "svd": "u, s, vh = svd(a); return sum(real(conj(w) * ((u * sqrt(1.0 + s * s)) @ vh)))",
    "eigh": "s, v = eigh(a); return sum(real(conj(w) * ((v * exp(s)) @ v.H)))",
    "values": "return sum(svdvals(a) ** 3) + sum(eigvalsh(a) ** 3)",
    "qr": "q, r = qr(a); return sum(abs(q) ** 2 * real(w)) + sum(real(r) ** 3)",
    "cholesky": "return sum(real(conj(w) * cholesky(a @ a.H + eye(4, dtype=c128))))",
    "slogdet": "s, l = slogdet(a); return real(s * w[0, 0]) + l * l",
    "expm": "return sum(real(w * expm(a)))",
    "root": "return sum(real(w * to_dense(sqrt(sym(op.dense(a) ∘ op.dense(a).H)))))",
}
REFUSED = {
    "phase of u": "return sum(real(svd(a)[0]))",
    "phase of eigenvectors": "return sum(imag(eigh(a)[1]))",
}
FORM = """
def f_{i}(a: Tensor[4, 4, c128], w: Tensor[4, 4, c128]): {text}
def g_{i}(a: Tensor[4, 4, c128], w: Tensor[4, 4, c128]): return grad(f_{i})(a, w)
"""


@pytest.mark.one_in(144)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_differences(name: str) -> None:
    module = tessera.compile(FORM.format(i=0, text=FUNCTIONS[name]))
    w, step = drawn(4, 4), 1e-6
    points = [drawn(4, 4)]
    if name == "eigh":
        points = [points[0] + turned(points[0]), (BASIS * [2, 2, 1, 1]) @ turned(BASIS), np.eye(4) + 0j]
    elif name in ("svd", "root"):
        points += [LEVEL, np.eye(4) + 0j]
    for a in points:
        found, d = module.g_0(a, w), drawn(4, 4)
        slope = (module.f_0(a + step * d, w) - module.f_0(a - step * d, w)) / (2 * step)
        assert np.isclose(slope, np.sum(found * d).real, rtol=1e-6, atol=1e-6), a


@pytest.mark.one_in(144)
def test_what_depends_on_a_phase_has_no_gradient() -> None:
    module = tessera.compile("".join(FORM.format(i=i, text=text) for i, text in enumerate(REFUSED.values())))
    a = drawn(4, 4)
    for i in range(len(REFUSED)):
        with pytest.raises(tessera.TesseraError, match="depends on the phases"):
            module[f"g_{i}"](a + turned(a), drawn(4, 4))


ALONG = """
def along(a: Tensor[N, N, c128], d: Tensor[N, N, c128]):
    return jvp(svd, (a,), (d,)), jvp(eigh, (a + a.H,), (d,))
def at(a: Tensor[N, N, c128], b: Tensor[N, N, c128]): return svd(a), eigh(b)
"""


@pytest.mark.one_in(72)
def test_changes_keep_the_phases() -> None:
    module, a, d, step = tessera.compile(ALONG), drawn(4, 4), drawn(4, 4), 1e-6
    found = [change for _, changes in module.along(a, d) for change in changes]
    up, down = (module.at(a + t * d, a + turned(a) + t * d) for t in (step, -step))
    slopes = [(x - y) / (2 * step) for one, two in zip(up, down, strict=True) for x, y in zip(one, two, strict=True)]
    assert all(np.allclose(own, slope, atol=1e-6) for own, slope in zip(found, slopes, strict=True))
