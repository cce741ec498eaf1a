"""fp4 and e8m0, which are stored and not computed with: every code, every tie and what is beside it, from every dtype,
rounded once; what moves them; matrices in blocks with scales; code for GPUs."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import tessera
from tests.support.checking import check_text
from tests.support.native_runs import compiled_equals_oracle

FP4, E8M0 = np.dtype(ml_dtypes.float4_e2m1fn), np.dtype(ml_dtypes.float8_e8m0fnu)
SOURCES = {"f64": np.float64, "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i64": np.int64, "u64": np.uint64,
           "i32": np.int32, "i8": np.int8, "bool": np.bool_}  # fmt: skip
PROGRAM = """
def moved(x: Tensor[M, N, fp4], s: Tensor[M, N, e8m0], i: Tensor[K, i32]):
    chosen = where(cast(x, f32) > 0.0, s, flip(s, 0))
    return x.T, gather(s, i, axis=0), concat([x, x], axis=1), chosen, x[1:, 0], pad(x, 1), x.at[0].set(x[1])

def back(x: Tensor[N, fp4], s: Tensor[N, e8m0]):
    return wide(x), cast(x, f64), cast(x, i32), cast(x, bool), wide(s), cast(s, f64), bitcast(x, u4), bitcast(s, u8)

def product(x: Tensor[M, 64, f32], y: Tensor[N, 64, f32]):
    a, b, c = mxfp4(x), mxfp8(y), nvfp4(y)
    return mx_matmul(a, b), mx_matmul(x, c), a.to_float(), b.to_float(), c.to_float()

def kept(w: MXFP4[N, 64]) -> MXFP4[N, 64]:
    return w
""" + "".join(f"def of_{name}(x: Tensor[N, {name}]): return cast(x, fp4), cast(x, e8m0)\n" for name in SOURCES)


def exactly(number: float) -> tuple[int, int]:
    """The codes of both formats."""
    if np.isnan(number):
        return 0, 255
    sizes = [Fraction(v) for v in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)]
    size = Fraction(abs(number)) if np.isfinite(number) else Fraction(2) ** 2000
    fp4 = min(range(8), key=lambda code: (abs(sizes[code] - min(size, sizes[-1])), code % 2))
    if size == 0 or number < 0:
        return fp4 + 8 * bool(np.signbit(number)), 255
    power = min(range(-127, 129), key=lambda p: (abs(Fraction(2) ** p - size), -p))
    return fp4, 255 if power > 127 else power + 127


def numbers(kind: str) -> np.ndarray:
    sizes = np.array([0.0, 0.25, 0.5, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, 7.0])
    powers = np.exp2(np.array([-149.0, -128, -127, -126, -1, 0, 1, 40, 62, 63, 126, 127, 128]))
    if kind in ("i64", "u64"):
        return np.array([0, 1, 3, 6, 7, 3 << 61, (3 << 61) - 1, (3 << 61) + 1, 2**62, 2**63 - 1], SOURCES[kind])
    if kind in ("i32", "i8", "bool"):
        return np.array([0, 1, 2, 3, 5, 6, 7, 100]).astype(SOURCES[kind])
    ends = np.concatenate([sizes, powers, 1.5 * powers, [np.inf, np.nan]])
    wide = np.float64 if kind == "f64" else np.float32
    with np.errstate(over="ignore"):
        near = np.concatenate([np.nextafter(ends.astype(wide), wide(to)) for to in (-np.inf, np.inf)])
        return np.concatenate([ends, near, -ends]).astype(SOURCES[kind])


@pytest.mark.one_in(24)
@pytest.mark.parametrize("kind", list(SOURCES))
def test_a_cast_rounds_once(kind: str) -> None:
    x = numbers(kind)
    fp4, e8m0 = compiled_equals_oracle(PROGRAM)(f"of_{kind}", x)
    exact = [exactly(int(v) if kind[0] in "iu" else float(v)) for v in x]
    assert fp4.dtype == FP4 and e8m0.dtype == E8M0
    np.testing.assert_array_equal(fp4.view(np.uint8), [codes[0] for codes in exact], err_msg=str(x))
    np.testing.assert_array_equal(e8m0.view(np.uint8), [codes[1] for codes in exact], err_msg=str(x))


@pytest.mark.one_in(2)
def test_every_code_means_what_ml_dtypes_says() -> None:
    codes = np.arange(256, dtype=np.uint8)
    x, s = (codes & 15).view(FP4), codes.view(E8M0)
    found = compiled_equals_oracle(PROGRAM)("back", x, s)
    size = x.astype(np.float32)
    for got, wanted in zip(found, (size, size, size.astype(np.int32), size != 0, s, s, codes & 15, codes), strict=True):
        np.testing.assert_array_equal(got.astype(np.float64), np.asarray(wanted).astype(np.float64))


@pytest.mark.one_in(2)
def test_they_are_moved_as_anything_is() -> None:
    rng = np.random.default_rng(0)
    x, s = rng.integers(0, 16, (4, 3), dtype=np.uint8), rng.integers(0, 256, (4, 3), dtype=np.uint8)
    found = compiled_equals_oracle(PROGRAM)("moved", x.view(FP4), s.view(E8M0), np.array([2, 0], np.int32))
    chosen = np.where((x > 0) & (x < 8), s, s[::-1])
    wanted = x.T, s[[2, 0]], np.concatenate([x, x], 1), chosen, x[1:, 0], np.pad(x, 1), x[[1, 1, 2, 3]]
    for got, exact in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got.view(np.uint8), exact)


@pytest.mark.one_in(8)
def test_products_of_matrices_with_scales() -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal((n, 64)).astype(np.float32) for n in (5, 7))
    first, second, four, eight, two = compiled_equals_oracle(PROGRAM)("product", x, y)
    np.testing.assert_allclose(first, four.astype(np.float64) @ eight.astype(np.float64).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second, x.astype(np.float64) @ two.astype(np.float64).T, rtol=1e-5, atol=1e-5)
    assert np.abs(four - x).max() < 0.5 * np.abs(x).max() / 3 and np.abs(eight - y).max() < 0.07 * np.abs(y).max()
    module = tessera.compile(PROGRAM)
    w = {"values": np.ones((3, 64), FP4), "scale": np.ones((3, 2), E8M0)}
    assert module.kept(w).values.dtype == FP4


@pytest.mark.parametrize(
    ("body", "code"),
    [("x + x", "E0405"), ("sum(x)", "E0405"), ("x @ x", "E0405"),
     ("x == x", "E0405"), ("cast(x, fp4 @saturate)", "E0408")],
)
def test_they_are_not_computed_with(body: str, code: str) -> None:
    found = check_text(f"def f(x: Tensor[N, N, fp4]): return {body}\n").diagnostics
    assert {d.code for d in found} == {code}
