"""Functions that NumPy, SciPy and PyTorch have and that came late: values against NumPy, or by their definition, and
gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma
from typing import Any

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.checking import check_text
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
RNG = np.random.default_rng(11)
OPERANDS: dict[str, Array] = {
    "x": RNG.normal(size=(7, 6)),
    "k": RNG.normal(size=(3, 4)),
    "v": RNG.normal(size=5),
    "i": np.array([0, 1, -7, 255, 12, -(2**31)], np.int32),
    "b": RNG.integers(0, 256, (3, 11)).astype(np.uint8),
    "s": np.cov(RNG.normal(size=(4, 9))),
    "z": RNG.normal(size=4) + 1j * RNG.normal(size=4),
    "m": RNG.integers(0, 3, (4, 9)).astype(np.float64),
    "p": RNG.uniform(2.0, 9.0, 5),
}
KINDS = {"f": "f64", "i": "i32", "u": "u8", "c": "c128"}


def framed(x: Array, k: Array, mode: str, boundary: str) -> Array:
    """A convolution as a sum over all places of the kernel."""
    widths = [(n - 1, n - 1) for n in k.shape]
    p = np.pad(x, widths, mode=boundary)  # type: ignore[call-overload]
    size = [n + m - 1 for n, m in zip(x.shape, k.shape, strict=True)]
    places = [(a, b) for a in range(k.shape[0]) for b in range(k.shape[1])]
    whole: Array = sum(k[::-1, ::-1][a, b] * p[a : a + size[0], b : b + size[1]] for a, b in places)
    first = [(m - 1) // 2 if mode == "same" else m - 1 for m in k.shape]
    kept = x.shape if mode == "same" else [n - m + 1 for n, m in zip(x.shape, k.shape, strict=True)]
    return whole if mode == "full" else whole[first[0] : first[0] + kept[0], first[1] : first[1] + kept[1]]


def most_common(m: Array) -> Array:
    return np.array([np.argmax(np.bincount(row.astype(np.int64))) for row in m], np.float64)


def pooled(x: Array) -> Array:
    """Windows of two from 7 rows and 6 columns, as PyTorch places them for the numbers 0.3 (columns) and 0.6 (rows)."""
    starts = [[int((i + u) * a) - int(u * a) for i in range(2)] + [n - 2] for u, a, n in ((0.6, 2.5, 7), (0.3, 2.0, 6))]
    return np.array([[x[r : r + 2, c : c + 2].max() for c in starts[1]] for r in starts[0]])


def norms_below_1(x: Array) -> Array:
    size = np.sqrt(np.sum(x * x, 0))
    return np.where(size > 1, size / (size + 1e-7), size)


def squareplus(v: Array) -> Array:
    w = 1e4 * v
    return np.where(w < 0, 2.0 / (np.hypot(w, 2.0) - w), 0.5 * (w + np.hypot(w, 2.0)))


def log_gamma(p: Array) -> Array:
    return np.array([lgamma(t) for t in p])


CASES: list[tuple[str, Callable[..., Any]]] = [
    ("hypot(x[:, :1], v[None]) + hypot(v, 3.0)", lambda x, v: np.hypot(x[:, :1], v) + np.hypot(v, 3.0)),
    ("copysign(2.0, v) * copysign(x[:, :1], v[None])", lambda x, v: np.copysign(2.0, v) * np.copysign(x[:, :1], v)),
    ("heaviside(x[:, :1], v[None])", lambda x, v: np.heaviside(x[:, :1], v)),
    ("nextafter(x[:, :1], v[None]) + nextafter(0.0, v)", lambda x, v: np.nextafter(x[:, :1], v) + np.nextafter(0, v)),
    ("power(p[None], x[:, :1]) + power(p, 2.5) + power(p, -3)", lambda x, p: p ** x[:, :1] + p**2.5 + p**-3),
    ("power(i[:5], array([0, 1, 2, 3, 4], dtype=i32))", lambda i: np.power(i[:5], np.arange(5, dtype=np.int32))),
    ("gammainc(2.0, p) + gammaincc(full(2, 1, 3.0, dtype=f64), p[None])[1]", lambda p: 1 + np.exp(-p) * p * p / 2),
    ("betainc(1.0, 2.0, 0.1 * p) + beta(2.0, p)", lambda p: 1 - (1 - 0.1 * p) ** 2 + 1 / (p * (p + 1))),
    ("betaln(p, 1.0) + zeta(2.0, p) - zeta(2.0, p + 1.0)", lambda p: p**-2 - np.log(p)),
    ("abs(polar(3.0, v))", lambda v: 3.0 + 0.0 * v),
    ("dstack([v, 2.0 * v])", lambda v: np.dstack([v, 2.0 * v])),
    ("dstack([x, x])[0] + dstack([x[:, :, None], x[:, :, None]])[1]", lambda x: np.dstack([x, x])[0] + x[1, :, None]),
    ("column_stack([v, x[:5], v])", lambda x, v: np.column_stack([v, x[:5], v])),
    ("triplet_margin(x, 0.5 * x, -x, p=1.0, eps=0.0)", lambda x, _: np.mean(np.maximum(1 - 1.5 * abs(x).sum(1), 0))),
    ("triplet_margin(x, x, 2.0 * x, 99.0, 0.0, p=INF)", lambda x, _: 99 - np.mean(abs(x).max(1))),
    *(
        (f'{f}(x, k, "{mode}")', lambda x, k, mode=mode: framed(x, k, mode, "constant"))
        for f in ("fftconvolve", "convolve2d")
        for mode in ("full", "same", "valid")
    ),
    ('convolve2d(x, k, boundary="wrap")', lambda x, k: framed(x, k, "full", "wrap")),
    ('convolve2d(x, k, "same", "symm")', lambda x, k: framed(x, k, "same", "symmetric")),
    ('correlate2d(x, k, "valid")', lambda x, k: framed(x, k[::-1, ::-1], "valid", "constant")),
    ("real(fftconvolve(z, conj(z)))[3]", lambda z: np.sum(z * z[::-1].conj()).real),
    ('get_window("hann", 8, dtype=f64)', lambda: np.hanning(9)[:8]),
    ('get_window("blackman", 8, False, f64)', lambda: np.blackman(8)),
    ('get_window(("kaiser", 8.0), 8, False, f64)', lambda: np.kaiser(8, 8.0)),
    ("get_window(8.0, 8, False, f64)", lambda: np.kaiser(8, 8.0)),
    ("bitwise_count(i)", lambda i: np.array([bin(abs(int(n))).count("1") for n in i])),
    ("packbits(b, axis=0)", lambda b: np.packbits(b, 0)),
    ('packbits(b > 99, bitorder="little")', lambda b: np.packbits(b > 99, 1, "little")),
    ("unpackbits(b, axis=0, count=20)", lambda b: np.unpackbits(b, 0, 20)),
    ("broadcast_arrays((v[:, None], p[None, :]))[1]", lambda v, p: np.broadcast_arrays(v[:, None], p)[1]),
    ("cartesian_prod((v, p))", lambda v, p: np.stack([g.ravel() for g in np.meshgrid(v, p, indexing="ij")], 1)),
    ("combinations(v)", lambda v: np.stack([v[a] for a in np.triu_indices(5, 1)], 1)),
    ("combinations(v, 2, True)[5]", lambda v: v[[1, 1]]),
    ("combinations(v, 3)[9]", lambda v: v[[2, 3, 4]]),
    ("indices((2, 3))", lambda: np.indices((2, 3))),
    ("tensor_split(x, 3)[0]", lambda x: np.array_split(x, 3)[0]),
    ("tensor_split(x, (1, 4), axis=1)[1]", lambda x: x[:, 1:4]),
    ("block([[k, 2.0 * k], [-k, k]])", lambda k: np.block([[k, 2 * k], [-k, k]])),
    ("select([v < 0.0, v > 1.0], [-v, v * v], v)", lambda v: np.select([v < 0, v > 1], [-v, v * v], v)),
    ("view_as_complex(view_as_real(z))", lambda z: z),
    ("addr(k, v[:3], p[:4], beta=0.5)", lambda k, v, p: 0.5 * k + np.outer(v[:3], p[:4])),
    ("sum(renorm(x, 2.0, 1, 1.0) ** 2, axis=0)", lambda x: norms_below_1(x) ** 2),
    *((f"{f}(v, 3)", peer) for f, peer in {
        "chebyshev_polynomial_t": lambda v: 4 * v**3 - 3 * v,
        "chebyshev_polynomial_u": lambda v: 8 * v**3 - 4 * v,
        "chebyshev_polynomial_v": lambda v: 8 * v**3 - 4 * v**2 - 4 * v + 1,
        "chebyshev_polynomial_w": lambda v: 8 * v**3 + 4 * v**2 - 4 * v - 1,
        "legendre_polynomial_p": lambda v: (5 * v**3 - 3 * v) / 2,
        "hermite_polynomial_h": lambda v: 8 * v**3 - 12 * v,
        "hermite_polynomial_he": lambda v: v**3 - 3 * v,
        "laguerre_polynomial_l": lambda v: (-(v**3) + 9 * v**2 - 18 * v + 6) / 6,
    }.items()),
    ("squareplus(1e4 * v)", squareplus),
    ("log1mexp(1e-9 * p)", lambda p: np.log(1e-9 * p - (1e-9 * p) ** 2 / 2)),
    ("log1mexp(4.0 * p)", lambda p: np.log1p(-np.exp(-4 * p))),
    ("logmeanexp(x, axis=1)", lambda x: np.log(np.mean(np.exp(x), 1))),
    ("standardize(x, axis=0)", lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)),
    ("multigammaln(p, 2)", lambda p: np.log(np.pi) / 2 + log_gamma(p) + log_gamma(p - 0.5)),
    ("polymul(v, p)", np.polymul),
    ("poly(v)", np.poly),
    ("cholesky_inverse(cholesky(s))", np.linalg.inv),
    ("cholesky_inverse(cholesky(s).T, upper=True)", np.linalg.inv),
    ("mode(m)[0]", most_common),
    ("take_along_axis(m, mode(m, keep=True)[1], axis=1)[:, 0]", most_common),
    ("fractional_max_pool2d(x[None], 2, 3, samples=array([[0.3, 0.6]], dtype=f64))[0]", pooled),
    ("fractional_max_pool2d(x[None], 2, output_ratio=0.5, samples=array([[0.3, 0.6]], dtype=f64))[0]", pooled),
]  # fmt: skip


def value(call: str, names: list[str]) -> Any:
    typed = (f"{n}: Tensor[{', '.join([*map(str, OPERANDS[n].shape), KINDS[OPERANDS[n].dtype.kind]])}]" for n in names)
    forms = compile_to_forms(f"def f({', '.join(typed)}):\n    return {call}\n")
    (found,) = run_function(forms, "m.f", [OPERANDS[n] for n in names])
    return found


def named(call: str) -> list[str]:
    words = "".join(ch if ch.isalnum() or ch == "_" else " " for ch in call).split()
    return [name for name in OPERANDS if name in words]


@pytest.mark.one_in(24)
@folded("call, peer", CASES, one_in=12)
def test_values(call: str, peer: Callable[..., Any]) -> None:
    found = value(call, named(call))
    np.testing.assert_allclose(found, peer(*(OPERANDS[name] for name in named(call))), rtol=1e-12, atol=1e-12)


SLOPES = (
    "fftconvolve(x, k)", 'convolve2d(x, k, "same", "symm")', "gradient(x, 0.5, axis=0, edge_order=2)",
    "fractional_max_pool2d(x[None], 2, 3, seed=1)", "dropout1d(x, 0.3, seed=1)", "alpha_dropout(x, 0.3, seed=1)",
    "log1mexp(1.0 + x * x)", "squareplus(x)", "standardize(x)", "logmeanexp(x, axis=0)", "renorm(x, 3.0, 0, 1.0)",
    "multigammaln(3.0 + x * x, 3)", "legendre_polynomial_p(x, 4)", "mode(x)[0]", "ldexp(x, array([1, -1, 2, 0, 3, 1]))",
    "x.at[array([1, 1, 4])].divide(2.0 + x[:3] * x[:3])", "poly(x[0])", "block([[x, x * x]])",
)  # fmt: skip


@pytest.mark.one_in(24)
@folded("call", SLOPES, one_in=6)
def test_slopes_are_those_of_differences(call: str) -> None:
    lines = ["def g(x: Tensor[7, 6, f64], k: Tensor[3, 4, f64]):", f"    return sum(sin({call}))"]
    lines += ["def d(x: Tensor[7, 6, f64], k: Tensor[3, 4, f64]):", "    return grad(g)(x, k)"]
    forms = compile_to_forms("\n".join(lines) + "\n")
    x, k, to = OPERANDS["x"], OPERANDS["k"], RNG.normal(size=(7, 6))
    high, low = (run_function(forms, "m.g", [x + h * to, k])[0] for h in (1e-6, -1e-6))
    (slope,) = run_function(forms, "m.d", [x, k])
    np.testing.assert_allclose(np.sum(slope * to), (high - low) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ('sort(x, kind="bogo")', 'kind is "quicksort"'),
        ("gradient(x, edge_order=3)", "`edge_order` is 1 or 2"),
        ("gradient(x, (1.0, 2.0, 3.0))", "one item for each axis"),
        ("bincount(array([1]), x)", "needs the size"),
        ('get_window("foo", 8)', "not one without parameters"),
        ('get_window(("foo", 1.0), 8)', "no window with parameters"),
        ("fftconvolve(x, x[0])", "the same number of axes"),
        ("fractional_max_pool2d(x[None], 2)", "give `output_size` or `output_ratio`"),
        ("conv2d(x[None, None, None], x[None, None])", "this is [1, 1, 1, 7, 6]"),
        ("bitwise_count(x)", "`bitwise_count` takes ints"),
    ],
)
def test_what_does_not_fit_is_told(call: str, reason: str) -> None:
    (error,) = check_text(f"def f(x: Tensor[7, 6, f32]):\n    return {call}\n").diagnostics
    assert reason in error.primary.text


@pytest.mark.parametrize(
    ("call", "remark"),
    [
        ("x.at[0].power(2.0)", "x.at[i].set(x[i] ** v)"),
        ("x.at[0].apply(exp)", "x.at[i].set(f(x[i]))"),
        ('x.at[array([0])].add(1.0, mode="drop")', "clip(i, 0, N - 1)"),
        ("var(x, unbiased=False)", "`ddof=1`"),
        ("relu(x, inplace=True)", "bind the name again"),
        ("einsum('ij->ji', x, optimize=True)", "from left to right"),
        ("sort(x).values", "`sort` gives nothing else"),
        ("topk(x, 2).indices", "a tuple is taken apart by place"),
        ("x.long()", "`x.astype(i64)`"),
        ("x.dim()", "`x.rank`"),
        ("x.gather(1, argmax(x, axis=1, keep=True))", "`take_along_axis(x, i, axis)`"),
        ("scatter_add(x, 1, argmax(x, axis=1, keep=True), x)", "`x.at[i].add(v)`"),
        ("x.repeat(2, 3)", "`tile(x, (2, 3))`"),
        ("softmax(x, dtype=f64)", "`x.astype(f64)` before the call"),
        ("gamma(4.5)", "`cast(0.5, f32)`"),
    ],
)
def test_what_is_called_otherwise_is_told(call: str, remark: str) -> None:
    (error,) = check_text(f"def f(x: Tensor[7, 6, f32]):\n    return {call}\n").diagnostics
    assert any(remark in said for said in (*error.notes, *(fix.title for fix in error.fixes)))


PAIRS = [("sort(x)", "`argsort` gives"), ("x.max(dim=1)", "`argmax` gives"), ("x + x", "`unbind(x)`")]


@pytest.mark.parametrize(("call", "remark"), PAIRS)
def test_what_is_no_pair_is_told(call: str, remark: str) -> None:
    (error,) = check_text(f"def f(x: Tensor[2, 6, f32]):\n    a, b = {call}\n    return a\n").diagnostics
    assert any(remark in note for note in error.notes)
