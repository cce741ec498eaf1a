"""Fourier and cosine transforms with options, windows, frames, sparse products, segments and experts, against NumPy in
f64: each written once more in the plainest way. `tests/tools/peer_options.py` compares frames with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
Case = tuple[str, Callable[[], Any]]
RNG = np.random.default_rng(11)
X, Y = RNG.normal(size=(5, 12)), RNG.normal(size=(5, 12))
Z = X + 1j * Y
IDS = np.array([2, 0, 2, 5, -1])
ROWS, COLUMNS, VALUES = np.array([2, 0, 2, 1, 2]), np.array([1, 4, 1, 0, 3]), RNG.normal(size=5)
OPTIONS = list(product((None, 7, 16), (-1, 0), ("backward", "ortho", "forward")))


def transforms() -> list[Case]:
    def peer(name: str, operand: Array, *rest: Any) -> Callable[[], Any]:
        return lambda: getattr(np.fft, name)(operand, *rest)

    found: list[Case] = []
    for i, (name, (n, axis, norm)) in enumerate(product(("fft", "ifft", "rfft", "irfft"), OPTIONS)):
        letter, operand = ("x", X) if name == "rfft" else ("z", Z)
        if i % 3 == 0:
            found.append((f'{name}({letter}, {n}, {axis}, "{norm}")', peer(name, operand, n, axis, norm)))
    for name, s in product(("fftn", "ifftn", "rfftn", "irfftn"), ((5, 12), (3, 16))):
        letter, operand = ("x", X) if name == "rfftn" else ("z", Z)
        found.append((f'{name}({letter}, {s}, (1, 0), "ortho")', peer(name, operand, s, (1, 0), "ortho")))
    return found


def cosine_matrix(kind: int, n: int) -> Array:
    k, j = np.arange(n)[:, None], np.arange(n)[None, :]
    if kind == 1:
        return np.where((j == 0) | (j == n - 1), 1, 2) * np.cos(np.pi * k * j / (n - 1))
    if kind == 2:
        return 2 * np.cos(np.pi * k * (2 * j + 1) / (2 * n))
    if kind == 3:
        return np.where(j == 0, 1, 2) * np.cos(np.pi * j * (2 * k + 1) / (2 * n))
    return 2 * np.cos(np.pi * (2 * k + 1) * (2 * j + 1) / (4 * n))


def sine_matrix(kind: int, n: int) -> Array:
    k, j = np.arange(n)[:, None], np.arange(n)[None, :]
    if kind == 1:
        return 2 * np.sin(np.pi * (k + 1) * (j + 1) / (n + 1))
    if kind == 2:
        return 2 * np.sin(np.pi * (k + 1) * (2 * j + 1) / (2 * n))
    if kind == 3:
        return np.where(j == n - 1, 1, 2) * np.sin(np.pi * (j + 1) * (2 * k + 1) / (2 * n))
    return 2 * np.sin(np.pi * (2 * k + 1) * (2 * j + 1) / (4 * n))


def cosines() -> list[Case]:
    found: list[Case] = []
    for name, kind, n in product(("dct", "dst"), (1, 2, 3, 4), (12, 7)):
        m, cut = (cosine_matrix if name == "dct" else sine_matrix)(kind, n), X[:, :n]
        found.append((f"{name}(x, {kind}, {n})", lambda m=m, x=cut: x @ m.T))
        found.append((f"i{name}(x, {kind}, {n}, norm=None)", lambda m=m, x=cut: x @ np.linalg.inv(m).T))
        other = 5 - kind if kind in (2, 3) else kind
        found.append((f'{name}({name}(x, {kind}, norm="ortho"), {other}, norm="ortho")', lambda: X))
    both = cosine_matrix(2, 3).T, cosine_matrix(2, 12)
    found.append(("dctn(x, s=(3, 12))", lambda: both[0].T @ X[:3] @ both[1].T))
    found.append(('idstn(dstn(x, 3, norm="forward"), 3, norm="forward")', lambda: X))
    return found


def windowed() -> list[Case]:
    named = {"hann": np.hanning, "hamming": np.hamming, "blackman": np.blackman, "bartlett": np.bartlett}
    found: list[Case] = []
    for name, make in named.items():
        for n in (1, 8):
            found.append((f"{name}_window({n}, False, dtype=f64)", lambda m=make, n=n: m(n)))
            found.append((f"{name}_window({n}, dtype=f64)", lambda m=make, n=n: m(n + 1)[:-1] if n > 1 else np.ones(1)))
    i, part = np.arange(8), np.arange(8) / 7
    far = np.abs(i - 3.5)
    shapes = {
        "triang_window(8": 1 - np.abs(2 * i - 7) / 8,
        "cosine_window(8": np.sin(np.pi / 8 * (i + 0.5)),
        "lanczos_window(8": np.sinc(2 * part - 1),
        "parzen_window(8": np.where(far > 1.75, 2 * (1 - far / 4) ** 3, 1 - 6 * (far / 4) ** 2 + 6 * (far / 4) ** 3),
        "gaussian_window(8, 2.0": np.exp(-0.5 * (far / 2) ** 2),
        "exponential_window(8, tau=2.0": np.exp(-far / 2),
        "tukey_window(8, 1.0": np.hanning(8),
        "general_hamming_window(8, 0.6": 0.6 - 0.4 * np.cos(2 * np.pi * part),
    }
    for call, shape in shapes.items():
        found.append((f"{call}, periodic=False, dtype=f64)", lambda s=shape: s))
    found.append(("kaiser_window(8, False, 9.0, dtype=f64)", lambda: np.kaiser(8, 9.0)))
    found.append(("kaiser_window(8, beta=700.0, dtype=f64)", lambda: np.kaiser(9, 700.0)[:-1]))
    return found


def framed() -> list[Case]:
    w = np.hanning(9)[:-1]

    def frames() -> Array:
        y = np.pad(X, ((0, 0), (4, 4)), mode="reflect")
        return np.stack([np.fft.rfft(y[:, i : i + 8] * w) for i in range(0, 13, 2)], -1)

    back = "istft(stft(x, 8, window=hann_window(8, dtype=f64)), 8, window=hann_window(8, dtype=f64))"
    return [("stft(x, 8, window=hann_window(8, dtype=f64))", frames), (back, lambda: X)]


def mels() -> list[Case]:
    def filters() -> Array:
        at = 700 * (10 ** (np.linspace(2595 * np.log10(1 + 40 / 700), 2595 * np.log10(1 + 4000 / 700), 7) / 2595) - 1)
        f = np.linspace(0, 4000, 17)[:, None]
        return np.maximum(np.minimum((f - at[:-2]) / np.diff(at)[:-1], (at[2:] - f) / np.diff(at)[1:]), 0)

    slaney = 'mel_to_hz(hz_to_mel(abs(x) * 900.0, "slaney"), "slaney")'
    return [("mel_filters(17, 5, 8000.0, 40.0, dtype=f64)", filters), (slaney, lambda: np.abs(X) * 900)]


def folds() -> list[Case]:
    inside = (IDS >= 0) & (IDS < 4)

    def fold(start: float, join: Callable[[Array, Array], Array]) -> Array:
        y = np.full((4, 12), float(start))
        for i, row in zip(IDS[inside], X[inside], strict=True):
            y[i] = join(y[i], row)
        return y

    def mean() -> Array:
        with np.errstate(invalid="ignore"):
            return fold(0, np.add) / np.bincount(IDS[inside], minlength=4)[:, None]

    kinds = {"sum": (0, np.add), "max": (-np.inf, np.maximum), "min": (np.inf, np.minimum), "prod": (1, np.multiply)}
    found = [(f'segment_reduce(x, n, 4, "{k}")', lambda s=s, j=j: fold(s, j)) for k, (s, j) in kinds.items()]
    own = np.abs(IDS)
    weights = np.exp(X) / np.stack([np.exp(X[i == own]).sum(0) for i in own])
    return [
        *found,
        ("segment_mean(x, n, 4)", mean),
        ("segment_softmax(x, abs(n), 6)", lambda: weights),
    ]


def sparse() -> list[Case]:
    dense = np.zeros((3, 5))
    np.add.at(dense, (ROWS, COLUMNS), VALUES)
    order = np.argsort(ROWS, kind="stable")
    starts = np.searchsorted(ROWS[order], np.arange(4))
    csr = f"array({starts.tolist()}), array({COLUMNS[order].tolist()}), gather(v, array({order.tolist()}), axis=0)"
    coo = f"array({ROWS.tolist()}), array({COLUMNS.tolist()})"
    blocks, wide = RNG.normal(size=(5, 2, 4)), np.zeros((3, 2, 3, 4))
    where = COLUMNS % 3
    for i in range(5):
        wide[ROWS[order][i], :, where[order][i]] += blocks[i]
    given = ", ".join(f"{value!r}" for value in blocks.ravel().tolist())
    bsr = f"array({starts.tolist()}), array({where[order].tolist()}), reshape(array([{given}], dtype=f64), (5, 2, 4))"
    return [
        (f"spmm(({coo}, v), x, size=3), spmm_coo({coo}, v, x[:, 0], 3)", lambda: (dense @ X, dense @ X[:, 0])),
        (f"spmm(({csr}), x)", lambda: dense @ X),
        (f"sddmm(x, x.T, ({coo})), sddmm(x, x.T, x @ x.T > 0.0)",
         lambda: ((X @ X.T)[ROWS, COLUMNS], np.where(X @ X.T > 0, X @ X.T, 0))),
        (f"bsmm(reshape(x, (5, 3, 4)), {bsr})", lambda: np.einsum("rock,mck->mro", wide, X.reshape(5, 3, 4))),
    ]  # fmt: skip


def experts() -> list[Case]:
    router, w = Y[:4, :3], Y[:, :9].reshape(3, 3, 5)

    def mixture(capacity: int, sigmoid: bool, normalize: bool) -> Array:
        x = X[:, :4]
        logits, y, served = x @ router, np.zeros((5, 5)), np.zeros(3, int)
        p = 1 / (1 + np.exp(-logits)) if sigmoid else np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        chosen = np.argsort(-logits, -1)[:, :2]
        for j, i in product(range(2), range(5)):
            e = chosen[i, j]
            served[e] += 1
            share = p[i, e] / (p[i, chosen[i]].sum() if normalize else 1)
            y[i] += share * (np.r_[x[i, :3]] @ w[e]) if served[e] <= capacity else 0
        return y

    layer = 'lambda t: einsum("ecd,edf->ecf", t[:, :, :3], reinterpret(y[:, :9], (3, 3, 5)))'
    each = ", ".join(f"lambda t: t[:, :3] @ reinterpret(y[:, :9], (3, 3, 5))[{i}]" for i in range(3))
    return [
        (f"moe(x[:, :4], y[:4, :3], {layer}, 2)", lambda: mixture(5, False, True)),
        (f"moe(x[:, :4], y[:4, :3], ({each}), 2, capacity=2)", lambda: mixture(2, False, True)),
        (f'moe(x[:, :4], y[:4, :3], {layer}, 2, score="sigmoid", normalize=False)', lambda: mixture(5, True, False)),
    ]


def layers() -> list[Case]:
    def spectral(size: tuple[int, ...], kept: tuple[int, ...]) -> Array:
        x, axes = X.reshape(5, 1, *size), tuple(range(2, 2 + len(size)))
        z = np.fft.fftn(x, axes=axes)
        for axis, n, k in zip(axes, size, kept, strict=True):
            f = np.round(np.fft.fftfreq(n, 1 / n))
            keep = np.abs(f) < k if axis == axes[-1] else (f >= -(k // 2)) & (f < k - k // 2)
            z = z * keep.reshape([-1 if a == axis else 1 for a in range(z.ndim)])
        return np.fft.ifftn(z, axes=axes).real * 2

    w = "complex(ones({}, dtype=f64) * 2.0, zeros({}, dtype=f64))"
    one, two = "1, 1, 4", "1, 1, 3, 2"
    return [
        (f"spectral_conv(reshape(x, (5, 1, 12)), {w.format(one, one)})", lambda: spectral((12,), (4,))),
        (f"spectral_conv(reshape(x, (5, 1, 3, 4)), {w.format(two, two)})", lambda: spectral((3, 4), (3, 2))),
        ("spectral_filter(z, z[0])", lambda: Z * Z[0]),
    ]


CASES = [*transforms(), *cosines(), *windowed(), *framed(), *mels(), *folds(), *sparse(), *experts(), *layers()]


TYPED = "x: Tensor[5, 12, f64], y: Tensor[5, 12, f64], z: Tensor[5, 12, c128], n: Tensor[5, i64], v: Tensor[5, f64]"


@folded("case", CASES, one_in=48)
def test_values(case: Case) -> None:
    call, reference = case
    forms, wanted = compile_to_forms(f"def f({TYPED}):\n    return {call}\n"), reference()
    found = run_function(forms, "m.f", [X, Y, Z, IDS, VALUES])
    for one, other in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12, rtol=1e-12)
