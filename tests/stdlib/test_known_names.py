# ruff: noqa: E501
"""What people know from NumPy and PyTorch, under the names and options they know: against NumPy, over ordinary and extreme
inputs. Machine code gives the interpreter's bits (`test_stdlib`), so that the interpreter answers here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
Case = tuple[str, Callable[..., Any]]

RNG = np.random.default_rng(7)
X = RNG.normal(size=(4, 7)).astype(np.float32)
V = RNG.normal(size=3).astype(np.float32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
HOLES = X.copy()
HOLES[0, 0] = HOLES[1, 3] = HOLES[1, 4] = np.nan
HOLES[2, 0] = -np.inf
EDGES = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, 2.5, -2.5, 1e-38], np.float32)
PAIRS = [side.ravel() for side in np.meshgrid(EDGES, EDGES)]
SPREAD = [(RNG.normal(size=300) * 10 ** RNG.uniform(-3, high, 300)).astype(np.float32) for high in (6, 3)]
LEFT, RIGHT = (np.r_[a, b] for a, b in zip(SPREAD, PAIRS, strict=True))
ROWS = RNG.integers(0, 2, (9, 2)).astype(np.float32)
LABELS = RNG.integers(0, 3, 9).astype(np.float32)


def exclusive(x: Array, first: float) -> Array:
    return np.concatenate([np.full_like(x[:, :1], first), x[:, :-1]], 1)


def moment(x: Array, power: int, axis: int | None = None) -> Array:
    """In standard deviations."""
    c = x.astype(float) - x.mean(axis, dtype=float, keepdims=True)
    return np.asarray((c**power).mean(axis) / (c**2).mean(axis) ** (power / 2))


def grouped_slope(x: Array) -> Array:
    first, second = (np.where([[place in own] for place in range(7)], x.T @ x, 0) for own in ((0, 1), (2, 3, 4)))
    both = 2 * (first + second)
    return np.asarray(x @ both.T + x @ both)


def last_extreme(x: Array, pick: Callable[[Array], float]) -> Array:
    def places(row: Array) -> list[int]:
        return [max(i for i in range(j + 1) if row[i] == pick(row[: j + 1])) for j in range(len(row))]

    return np.array([places(row) for row in x])


def unique_rows(x: Array) -> tuple[Array, ...]:
    values, index, inverse, counts = np.unique(x, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return values, index, inverse.ravel(), counts


METHODS = ("linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "median_unbiased", "normal_unbiased")
OBSERVED = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf")
PADS = ("constant", "edge", "reflect", "symmetric", "wrap")
MATRIX: list[Case] = [
    ("kron(x[0], x[1]), kron(x, x[0]), kron(x[0], x[:2])",
     lambda x: (np.kron(x[0], x[1]), np.kron(x, x[0]), np.kron(x[0], x[:2]))),
    ("median(x), percentile(x, 30.0), nanmedian(x), divmod(x, 0.25)",
     lambda x: (np.median(x), np.percentile(x, 30), np.nanmedian(x), *np.divmod(x, np.float32(0.25)))),
    ("x.at[x > 0.5].set(2.0), x.at[x[:, 0] > 0.0].add(x[0]), x.at[~(x > 0.5)].mul(3.0)",
     lambda x: (np.where(x > 0.5, np.float32(2), x), np.where(x[:, :1] > 0, x + x[0], x), np.where(x > 0.5, x, x * 3))),
    ("tile(x, (2, 3)), tile(x, 2), x.tile((2, 1, 2))", lambda x: (np.tile(x, (2, 3)), np.tile(x, 2), np.tile(x, (2, 1, 2)))),
    ("x.swapaxes(0, 1), x.ravel(), x.flatten(), x.copy()", lambda x: (x.T, x.ravel(), x.ravel(), x)),
    ("x.astype(f64), x.clip(-0.5, 0.5), clamp(x, max=0.5), clip(x, min=0.0)",
     lambda x: (x.astype("f8"), x.clip(-0.5, 0.5), x.clip(None, 0.5), x.clip(0))),
    ("take(x, array([1, 0]), axis=0), x.take(array([3, 5])), take(x, array([9, -1]), axis=N, mode=\"wrap\")",
     lambda x: (x[[1, 0]], x.ravel()[[3, 5]], x.take([9, -1], 1, mode="wrap"))),
    ("take(x, array([-3, 9]), axis=0, mode=\"clip\"), take(x, 1, axis=1)", lambda x: (x.take([-3, 9], 0, mode="clip"), x[:, 1])),
    ("rot90(x), rot90(x, 2), rot90(x, -1), rot90(x, 1, (1, 0))",
     lambda x: (np.rot90(x), np.rot90(x, 2), np.rot90(x, -1), np.rot90(x, 1, (1, 0)))),
    ("vstack([x, x]), hstack([x, x]), meshgrid(x[0], x[1]), meshgrid(x[0], x[:, 0], indexing=\"ij\")",
     lambda x: (np.vstack([x, x]), np.hstack([x, x]), *np.meshgrid(x[0], x[1]), *np.meshgrid(x[0], x[:, 0], indexing="ij"))),
    ("var(x, axis=1, ddof=1), std(x, correction=1), average(x, axis=1, weights=x[0]), ptp(x, axis=0)",
     lambda x: (x.var(1, ddof=1), x.std(ddof=1), np.average(x, axis=1, weights=x[0]), np.ptp(x, 0))),
    ("cov(x), corrcoef(x), cov(x, rowvar=False, ddof=0), corrcoef(x[0])",
     lambda x: (np.cov(x), np.corrcoef(x), np.cov(x, rowvar=False, ddof=0), np.corrcoef(x[0]))),
    ("median(x, axis=0), quantile(x, (0.1, 0.5), axis=1), percentile(x, 30.0), quantile(x, 0.3, axis=(0, 1), keep=True)",
     lambda x: (np.median(x, 0), np.quantile(x, (0.1, 0.5), axis=1), np.percentile(x, 30), np.quantile(x, 0.3, keepdims=True))),
    *((f'quantile(x, 0.37, method="{m}")', lambda x, m=m: np.quantile(x, 0.37, method=m)) for m in METHODS),
    *((f'quantile(x, (0.0, 0.25, 0.4, 1.0), axis=1, method="{m}")',
       lambda x, m=m: np.quantile(x, (0, 0.25, 0.4, 1), axis=1, method=m)) for m in OBSERVED),
    ("diag(x, 1), diag(x, -1), diag(x[0], 2), gradient(x, square(arange(N, dtype=f32)), axis=-1)",
     lambda x: (np.diag(x, 1), np.diag(x, -1), np.diag(x[0], 2),
                np.gradient(x, np.arange(x.shape[1]) ** 2, axis=1))),
    ("cov(x, bias=True), cov(x, aweights=abs(x[0]), fweights=arange(1, N + 1))",
     lambda x: (np.cov(x, bias=True), np.cov(x, aweights=abs(x[0]), fweights=np.arange(1, x.shape[1] + 1)))),
    ("cumsum(x, axis=1, exclusive=True), cumsum(x, axis=0, reverse=True), cumsum(x, exclusive=True, reverse=True), cumprod(x, exclusive=True)",
     lambda x: (exclusive(np.cumsum(x, 1), 0), np.cumsum(x[::-1], 0)[::-1],
                exclusive(np.cumsum(x[:, ::-1], 1), 0)[:, ::-1], exclusive(np.cumprod(x, 1), 1))),
    ("cummax(x, axis=1, return_indices=True)[1], cummin(x, axis=0, return_indices=True)[1]",
     lambda x: (last_extreme(x, np.max), last_extreme(x.T, np.min).T)),
    ("diff(x), diff(x, 2, axis=0), diff(x, prepend=0.0)", lambda x: (np.diff(x), np.diff(x, 2, axis=0), np.diff(x, prepend=0))),
    ("simpson(x), simpson(x[:, :6], dx=0.5), simpson(x[:3], axis=0)",
     lambda x: (x @ np.array([1, 4, 2, 4, 2, 4, 1]) / 3, x[:, :6] @ np.array([4, 16, 8, 15, 12, 5]) / 24,
                (x[0] + 4 * x[1] + x[2]) / 3)),
    ("(lambda t: (simpson(t * t + t, t), simpson((t * t + t)[:6], t[:6])))(square(arange(N, dtype=f64)))",  # parabolas
     lambda x: (36**3 / 3 + 36**2 / 2, 25**3 / 3 + 25**2 / 2)),
    ("skewness(x, axis=1), kurtosis(x), skewness(x, axis=0, bias=False), kurtosis(x, axis=1, fisher=False, bias=False)",
     lambda x: (moment(x, 3, 1), moment(x, 4) - 3, moment(x, 3, 0) * 12**0.5 / 2, 3 + 6 / 20 * (8 * moment(x, 4, 1) - 18))),
    ("leggauss(5)[0], leggauss(5)[1], leggauss(30)[1]",
     lambda x: (*np.polynomial.legendre.leggauss(5), np.polynomial.legendre.leggauss(30)[1])),
    ("grad(lambda t: sum(exprel(t)))(array([0.0, 1e-9, -1.5, 3.0, 100.0, -INF]))",
     lambda x: np.array([0.5, 0.5, 0.19652204, 4.57456376, np.inf, 0])),
    ("segment_ids(array([0, 2, 2, 5]), 7), segment_ids(array([1, 9, -1]), 3)", lambda x: (np.array([0, 0, 2, 2, 2, 3, 3]), np.array([0, 1, 1]))),
    ("grouped_mm(x.T, stack([x, 2.0 * x, -x]), array([2, 2, 5])), grouped_mm(x, x.T, array([0, 3, 7]))",
     lambda x: (np.r_[x.T[:2] @ x, -x.T[2:5] @ x, x.T[:2] * 0 @ x], np.stack([x[:, :0] @ x.T[:0], x[:, :3] @ x.T[:3], x[:, 3:] @ x.T[3:]]))),
    ("grad(lambda t: sum(square(grouped_mm(t.T, stack([t, 2.0 * t, -t]), array([2, 2, 5])))))(x)",
     lambda x: grouped_slope(x)),
    ("trapezoid(x, dx=0.5), trapezoid(x, x[0]), gradient(x, 0.5, axis=1), gradient(x, axis=0)",
     lambda x: (np.trapezoid(x, dx=0.5), np.trapezoid(x, x[0]), np.gradient(x, 0.5, axis=1), np.gradient(x, axis=0))),
    *((f'pad(x, ((2, 3), (1, 9)), mode="{m}"), pad(x, 1, 2, axis=(-1, 0), mode="{m}")',
       lambda x, m=m: (np.pad(x, ((2, 3), (1, 9)), mode=m), np.pad(x, (1, 2), mode=m))) for m in PADS),
    ("pad(x, 1), pad(x, (1, 2), value=3.0), pad(x, 1, 2, axis=N), x.pad(1, axis=0)",
     lambda x: (np.pad(x, 1), np.pad(x, (1, 2), constant_values=3), np.pad(x, ((0, 0), (1, 2))), np.pad(x, ((1, 1), (0, 0))))),
    ("eye(M, N, k=1), eye(3, dtype=i32), eye(N, M, k=-2)", lambda x: (np.eye(4, 7, 1), np.eye(3), np.eye(7, 4, -2))),
    ("unravel_index(argmax(x), x.shape), nonzero(x > 0.0, size=5), argwhere(x > 0.0, size=3)",
     lambda x: (*np.unravel_index(x.argmax(), x.shape), *(i[:5] for i in np.nonzero(x > 0)), np.argwhere(x > 0)[:3])),
]  # fmt: skip
MISSING: list[Case] = [
    ("nansum(x, axis=1), nanmean(x, axis=1), nanmax(x, axis=1), nanmin(x, axis=1), nanprod(x, axis=0)",
     lambda x: (np.nansum(x, 1), np.nanmean(x, 1), np.nanmax(x, 1), np.nanmin(x, 1), np.nanprod(x, 0))),
    ("nanvar(x[:2], axis=1, ddof=1), nanstd(x[:2]), nanmedian(x, axis=1), nanpercentile(x[:2], 30.0)",
     lambda x: (np.nanvar(x[:2], 1, ddof=1), np.nanstd(x[:2]), np.nanmedian(x, 1), np.nanpercentile(x[:2], 30))),
    ("nanquantile(x[:2], (0.2, 0.7), axis=1, method=\"hazen\")", lambda x: np.nanquantile(x[:2], (0.2, 0.7), axis=1, method="hazen")),
    ("nanargmax(x, axis=1), nanargmin(x, axis=1), nan_to_num(x), nancumsum(x[:2])",
     lambda x: (np.nanargmax(x, 1), np.nanargmin(x, 1), np.nan_to_num(x), np.nancumsum(x[:2], 1))),
]  # fmt: skip
SEQUENCES: list[Case] = [
    (f'{f}(x, v, "{mode}"), {f}(v, x, "{mode}")',
     lambda x, v, f=f, mode=mode: (getattr(np, f)(x, v, mode), getattr(np, f)(v, x, mode)))
    for f in ("convolve", "correlate") for mode in ("full", "same", "valid")
]  # fmt: skip
TABLES: list[Case] = [
    ("interp(x, t, v), interp(x, t, v, left=-1.0, right=9.0)", lambda x, t, v: (np.interp(x, t, v), np.interp(x, t, v, -1, 9))),
    ("digitize(x, t), digitize(x, t, right=True), searchsorted(t, x, side=\"right\")",
     lambda x, t, v: (np.digitize(x, t), np.digitize(x, t, right=True), np.searchsorted(t, x, "right"))),
    ("digitize(x, flip(t, 0)), digitize(x, flip(t, 0), right=True), searchsorted(v, x, sorter=argsort(v)), interp(x, t, v, period=1.5)",
     lambda x, t, v: (np.digitize(x, t[::-1]), np.digitize(x, t[::-1], right=True),
                      np.searchsorted(v, x, sorter=np.argsort(v, kind="stable")), np.interp(x, t, v, period=1.5))),
    ("searchsorted(sort(stack([t, v])), stack([x, x])), histogram(cast(x * 9.0, i64), 3)",
     lambda x, t, v: (np.stack([np.searchsorted(np.sort(r), x) for r in (t, v)]), *np.histogram((x * 9).astype(int), 3))),
    ("histogram(x, 5), histogram(x, t), histogram(x, 4, range=(-1.0, 1.0)), histogram(x, 4, density=True), histogram(x, 4, weights=x)",
     lambda x, t, v: (*np.histogram(x, 5), *np.histogram(x, t), *np.histogram(x, 4, (-1, 1)),
                      *np.histogram(x, 4, density=True), *np.histogram(x, 4, weights=x))),
]  # fmt: skip
SETS: list[Case] = [
    ("unique(x, size=4, axis=0, return_index=True, return_inverse=True, return_counts=True)", lambda x, y: unique_rows(x)),
    ("unique(y, size=3, return_counts=True), isin(y, array([1.0, 2.0])), bincount(cast(y, i64), size=5), lexsort((y, x[:, 0]))",
     lambda x, y: (*np.unique(y, return_counts=True), np.isin(y, [1, 2]), np.bincount(y.astype(int), minlength=5),
                   np.lexsort((y, x[:, 0])))),
    ("reverse_sequence(x, full(N, 2, dtype=i64))", lambda x, y: x[:, ::-1]),
]  # fmt: skip


def of_zeros(chosen: Array, x: Array, y: Array, negative: Any) -> Array:
    """-0 is less than +0; which of the two NumPy gives depends on the machine."""
    zero = np.copysign(np.float32(0), np.where(negative(np.signbit(x), np.signbit(y)), -1, 1)).astype(chosen.dtype)
    return np.where((x == 0) & (y == 0), zero, chosen)


EXACT: list[Case] = [
    ("x % y, x // y, fmod(x, y), 3.0 % y, x % 2.5",
     lambda x, y: (x % y, x // y, np.fmod(x, y), np.float32(3) % y, x % np.float32(2.5))),
    ("copysign(x, y), heaviside(x, 0.5), signbit(x), fmax(x, y), fmin(x, y), isclose(x, y, equal_nan=True)",
     lambda x, y: (np.copysign(x, y), np.heaviside(x, np.float32(0.5)), np.signbit(x),
                   of_zeros(np.fmax(x, y), x, y, np.logical_and), of_zeros(np.fmin(x, y), x, y, np.logical_or),
                   np.isclose(x, y, equal_nan=True))),
    ("logical_and(x, y), logical_or(x, y), logical_xor(x, y), logical_not(x)",
     lambda x, y: (np.logical_and(x, y), np.logical_or(x, y), np.logical_xor(x, y), np.logical_not(x))),
]  # fmt: skip
PLACES: list[Case] = [
    ("moveaxis(x, 0, -1), moveaxis(x, (0, 1), (2, 0)), flatten(x, 1), flatten(x, 0, 1), moveaxis(x, 0, 0)",
     lambda x: (np.moveaxis(x, 0, -1), np.moveaxis(x, (0, 1), (2, 0)), x.reshape(2, -1), x.reshape(6, 4), x)),
]  # fmt: skip
GROUPS: dict[str, tuple[str, Sequence[Case], Sequence[Array]]] = {
    "matrix": ("x: Tensor[M, N, f32]", MATRIX, (X,)),
    "holes": ("x: Tensor[M, N, f32]", MISSING, (HOLES,)),
    "sequences": ("x: Tensor[M, f32], v: Tensor[N, f32]", SEQUENCES, (X[0], V)),
    "tables": ("x: Tensor[M, f32], t: Tensor[N, f32], v: Tensor[N, f32]", TABLES, (np.r_[X[0], -5, 5, 0].astype("f4"), np.sort(X[1]), X[2])),
    "sets": ("x: Tensor[N, 2, f32], y: Tensor[N, f32]", SETS, (ROWS, LABELS)),
    "exact": ("x: Tensor[N, f32], y: Tensor[N, f32]", EXACT, (LEFT, RIGHT)),
    "places": ("x: Tensor[2, 3, 4, f32]", PLACES, (CUBE,)),
}  # fmt: skip


def flat(value: Any) -> list[Array]:
    return [np.asarray(part) for part in value] if isinstance(value, tuple) else [np.asarray(value)]


@folded("group, i", [(group, i) for group, (_, cases, _) in GROUPS.items() for i in range(len(cases))], one_in=48)
def test_values(group: str, i: int) -> None:
    signature, cases, args = GROUPS[group]
    with np.errstate(all="ignore"):
        expected = flat(cases[i][1](*args))
    forms = compile_to_forms(f"def f({signature}):\n    return {cases[i][0]}\n")
    got = run_function(forms, "m.f", list(args))
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape, cases[i][0]
        if group == "exact":
            np.testing.assert_array_equal(one, other.astype(one.dtype), err_msg=cases[i][0])
            assert one.dtype == bool or np.array_equal(np.signbit(one)[one == 0], np.signbit(other)[one == 0])
        else:
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5, err_msg=cases[i][0])


def test_powers_of_integers_wrap() -> None:
    text = "def f(x: Tensor[N, i32], y: Tensor[N, i32]):\n    return x ** y, 2 ** abs(y), x ** 3\n"
    x, y = np.array([2, 3, -3, 5, 0, -1, -1, 7], "i4"), np.array([3, 0, 5, 20, 0, -3, -2, -1], "i4")
    power, two, cube = run_function(compile_to_forms(text), "m.f", [x, y])
    assert power.tolist() == [8, 1, -243, np.int64(5**20).astype("i4"), 1, -1, 1, 0]
    assert (two.tolist(), cube.tolist()) == ((2 ** np.abs(y)).tolist(), (x**3).tolist())


@pytest.mark.parametrize(("value", "passes"), [(1e-9, True), (1e-2, False)])
def test_assert_close_tells_what_differs(value: float, passes: bool) -> None:
    import tessera

    f = tessera.compile("def f(x: Tensor[N, f32], d: f32):\n    return assert_close(x + d, x)\n").f
    if passes:
        f(X[0], np.float32(value))
        return
    with pytest.raises(tessera.TesseraError, match="7 of 7 differ, by up to"):
        f(X[0], np.float32(value))
