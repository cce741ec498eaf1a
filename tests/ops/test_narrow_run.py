"""The narrow types as users run them: conversions of all codes and of every kind of f32, contractions, arithmetic that
wraps, arrays of NumPy and ml_dtypes in and out."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.numerics.narrow import convert, round_to_tf32, storage
from tesserac.numerics.order import chain_contract
from tesserac.types.dtype import ALL, BF16, F16, F32, FP8_E4M3, FP8_E5M2, I4, TF32, U4, DType
from tests.support.cpu_kernels import same_bits

Array = np.ndarray
REAL = [dtype for dtype in ALL if dtype.kind != "c"]
NARROW = [BF16, F16, FP8_E4M3, FP8_E5M2]
E4M3, E5M2, INT4 = (np.dtype(t) for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4))


@cache
def compiled(text: str) -> object:
    return tessera.compile(text)


def call(text: str, *args: object) -> Array:
    return compiled(text).f(*args)  # type: ignore[attr-defined, no-any-return]


def floats() -> Array:
    """Patterns of all exponents and signs, values around every code's neighbours, midpoints and limits."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    codes = np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        values = np.concatenate([codes.view(t).astype(np.float32) for t in (E4M3, E5M2)])
    finite = np.unique(values[np.isfinite(values)])
    middles = (finite[1:] + finite[:-1]) / 2
    near = [np.nextafter(v, np.float32(s)) for v in (finite, middles) for s in (-np.inf, np.inf)]
    corners = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 464.00003, 61440, 61439.996, 65520, 1e-45])
    return np.concatenate([patterns, finite, middles, *near, corners]).astype(np.float32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_rounding_to_narrow_floats_is_that_of_ml_dtypes(dtype: DType) -> None:
    x = floats()
    with np.errstate(all="ignore"):
        same_bits(call(f"def f(x: Tensor[N, f32]): return cast(x, {dtype})", x), x.astype(storage(dtype)))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_saturation_clamps_and_keeps_nan(dtype: DType) -> None:
    x = floats()
    got = call(f"def f(x: Tensor[N, f32]): return cast(x, {dtype} @accum(f32) @saturate)", x)
    with np.errstate(all="ignore"):
        clamped = np.clip(x, -dtype.largest, dtype.largest).astype(np.float32)
        same_bits(got, np.where(np.isnan(x), x, clamped).astype(storage(dtype)))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_arithmetic_saturates_without_an_accumulation_type_too(dtype: DType) -> None:
    """Each operator rounds once and clamps; NaN stays. All pairs of codes, as far as there are no more than 256."""
    codes = np.arange(256, dtype=np.uint8) if dtype.bits == 8 else np.arange(0, 2**16, 257, dtype=np.uint16)
    x, y = (a.ravel().view(storage(dtype)) for a in np.meshgrid(codes, codes))
    a, b = x.astype(np.float64), y.astype(np.float64)
    element = f"Tensor[N, {dtype} @saturate]"
    with np.errstate(all="ignore"):
        for symbol, exact in (("+", a + b), ("-", a - b), ("*", a * b)):
            got = call(f"def f(x: {element}, y: {element}) -> {element}: return x {symbol} y", x, y)
            same_bits(got, convert(exact, dtype, saturate=True))
        got = call(f"def f(x: {element}, y: {element}) -> {element}: return x * y - x", x, y)
        first = convert(a * b, dtype, saturate=True).astype(np.float64)
        same_bits(got, convert(first - a, dtype, saturate=True))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", [F16, FP8_E4M3, FP8_E5M2], ids=str)
@pytest.mark.parametrize("source", ["f32", "f64", "i32", "i64"])
def test_casts_saturate_without_an_accumulation_type_too(dtype: DType, source: str) -> None:
    values = [500, -1e9, 3, 0, 65519, -65520, 448, 464, 465]
    x = np.array(values).astype(f"{source[0]}{int(source[1:]) // 8}")
    y = call(f"def f(x: Tensor[N, {source}]): return cast(x, {dtype} @saturate)", x)
    same_bits(y, convert(x.astype(np.float64), dtype, saturate=True))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_f64_is_rounded_once(dtype: DType) -> None:
    with np.errstate(all="ignore"):
        middles = floats().astype(np.float64)
        x = np.concatenate([middles, middles * (1 + 2.0**-50), np.float64([1e300, -1e300, 5e-324])])
        expected = convert(x, dtype)
    same_bits(call(f"def f(x: Tensor[N, f64]): return cast(x, {dtype})", x), expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [FP8_E4M3, FP8_E5M2], ids=str)
def test_every_code_widens_exactly_and_comes_back(dtype: DType) -> None:
    x = np.arange(256, dtype=np.uint8).view(storage(dtype))
    with np.errstate(all="ignore"):
        same_bits(call(f"def f(x: Tensor[N, {dtype}]): return cast(x, f32)", x), x.astype(np.float32))
        same_bits(call(f"def f(x: Tensor[N, {dtype}]): return cast(cast(x, f64), {dtype})", x), x)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [FP8_E4M3, FP8_E5M2], ids=str)
@pytest.mark.parametrize("symbol", ["+", "-", "*", "/"])
def test_arithmetic_of_all_pairs_of_codes_rounds_once(dtype: DType, symbol: str) -> None:
    codes = np.arange(256, dtype=np.uint8).view(storage(dtype))
    x, y = (np.ascontiguousarray(a) for a in np.broadcast_arrays(codes[:, None], codes))
    got = call(f"def f(x: Tensor[M, N, {dtype}], y: Tensor[M, N, {dtype}]): return x {symbol} y", x, y)
    with np.errstate(all="ignore"):
        a, b = x.astype(np.float64), y.astype(np.float64)
        exact = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[symbol]
        same_bits(got, convert(exact, dtype))


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("left", "right"), [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)])
def test_fp8_contractions_accumulate_in_f32(left: np.dtype, right: np.dtype) -> None:
    rng = np.random.default_rng(1)
    names = {E4M3: "fp8_e4m3", E5M2: "fp8_e5m2"}
    types = [f"{names[t]} @accum(f32) @saturate" for t in (left, right)]
    a, b = rng.normal(size=(9, 300)).astype(left), rng.normal(size=(300, 17)).astype(right)
    got = call(f"def f(x: Tensor[M, K, {types[0]}], y: Tensor[K, N, {types[1]}]): return x @ y", a, b)
    product = chain_contract(a.astype(np.float32), b.astype(np.float32))
    same_bits(got, convert(product, FP8_E4M3 if left == E4M3 else FP8_E5M2, saturate=True))


@pytest.mark.one_in(2)
def test_tf32_shortens_the_factors_of_contractions_alone() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(33, 70)).astype(np.float32), rng.normal(size=(70, 19)).astype(np.float32)
    got = call("def f(x: Tensor[M, K, tf32], y: Tensor[K, N, tf32]): return x @ y", a, b)
    same_bits(got, chain_contract(round_to_tf32(a), round_to_tf32(b)))
    assert not np.array_equal(got, chain_contract(a, b)), "f32 factors would give another product"
    same_bits(call("def f(x: Tensor[N, M, tf32]): return exp(x) * x", a), call(
        "def f(x: Tensor[N, M, f32]): return exp(x) * x", a
    ))  # fmt: skip


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", [I4, U4], ids=str)
def test_nibbles_wrap_and_sum_in_64_bits(dtype: DType) -> None:
    low, high = int(dtype.lowest), int(dtype.largest)
    every = np.arange(low, high + 1).astype(storage(dtype))
    x, y = (np.ascontiguousarray(a) for a in np.broadcast_arrays(every[:, None], every))
    a, b = x.astype(np.int64), y.astype(np.int64)
    one = f"def f(x: Tensor[M, N, {dtype}]): return "
    two = f"def f(x: Tensor[M, N, {dtype}], y: Tensor[M, N, {dtype}]): return "
    for symbol, exact in (("+", a + b), ("-", a - b), ("*", a * b), ("&", a & b), ("|", a | b), ("^", a ^ b)):
        same_bits(call(f"{two}x {symbol} y", x, y), convert(exact, dtype))
    divisor = np.where(b == 0, 1, b)
    same_bits(call(f"{two}x // y", x, y), convert(np.where(b == 0, 0, a // divisor), dtype))
    same_bits(call(f"{two}x % y", x, y), convert(np.where(b == 0, 0, a % divisor), dtype))
    assert np.array_equal(call(f"{two}x < y", x, y), a < b)
    same_bits(call(f"{one}~x", x), convert(~a, dtype))
    assert np.array_equal(call(f"{one}sum(x, axis=1)", y), b.sum(1))
    assert call(f"{one}max(x, axis=1)", x).astype(int).tolist() == list(range(low, high + 1))
    limits = np.array([high, low, 2, 0], storage(dtype))
    same_bits(call(f"def f(x: Tensor[N, f32]): return cast(x, {dtype})", np.float32([99, -99, 2.9, np.nan])), limits)
    dirty = np.array([0xF7, 0x28], np.uint8).view(storage(dtype))
    low_half = call(f"def f(x: Tensor[N, {dtype}]): return cast(x, i32)", dirty)
    assert low_half.tolist() == [7, -8 if dtype == I4 else 8], "the low nibble counts"


@pytest.mark.one_in(2)
def test_u16_wraps_and_sums_in_64_bits() -> None:
    x, y = (np.random.default_rng(seed).integers(0, 65536, 400).astype(np.uint16) for seed in (1, 2))
    y[:3] = 0
    a, b = x.astype(np.int64), y.astype(np.int64)
    two = "def f(x: Tensor[N, u16], y: Tensor[N, u16]): return "
    for symbol, exact in (("+", a + b), ("-", a - b), ("*", a * b), ("^", a ^ b), ("//", a // np.maximum(b, 1))):
        same_bits(call(f"{two}x {symbol} y", x, y)[3:], exact.astype(np.uint16)[3:])
    assert np.array_equal(call(f"{two}x < y", x, y), a < b)
    assert call("def f(x: Tensor[N, u16]): return sum(x)", x) == a.sum()
    limits = call("def f(x: Tensor[N, f32]): return cast(x, u16)", np.float32([1e9, -5, 65535.9, np.nan]))
    assert limits.tolist() == [65535, 0, 65535, 0]


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 0), (1, 1), (2, 3, 5)])
def test_packed_i4_has_the_low_nibble_first(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).integers(-8, 8, shape).astype(INT4)
    packed = tessera.pack_i4(x)
    assert packed.shape == (*shape[:-1], (shape[-1] + 1) // 2) and packed.dtype == np.uint8
    same_bits(tessera.unpack_i4(packed, shape[-1]), x)
    assert tessera.pack_i4(np.array([1, -1, 2], INT4)).tolist() == [0xF1, 0x02]
    for wrong in (lambda: tessera.pack_i4(x.astype(np.int8)), lambda: tessera.unpack_i4(packed, 99)):
        with pytest.raises(tessera.TesseraError):
            wrong()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_products_of_small_integers_accumulate_in_i32(dtype: str) -> None:
    rng = np.random.default_rng(3)
    low, high = (-8, 8) if dtype == "i4" else (-128, 128)
    a, b = rng.integers(low, high, (7, 600)), rng.integers(low, high, (600, 9))
    kind = INT4 if dtype == "i4" else np.dtype(np.int8)
    text = f"def f(x: Tensor[M, K, {dtype}], y: Tensor[K, N, {dtype}]): return x @ y"
    got = call(text, a.astype(kind), b.astype(kind))
    assert got.dtype == np.int32 and np.array_equal(got, a @ b)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_arrays_of_every_dtype_go_in_and_come_out(dtype: DType) -> None:
    text = f"""
struct S[N]:
    w: Tensor[N, {dtype}]
param W: Tensor["D", {dtype}]
def f(x: Tensor[M, N, {dtype}]): return x.T, x[0, 1]
def g(s: S[N]) -> S[N]: return S(w=flip(s.w, axis=0))
def h(i: Tensor[K, i32]): return W[i]
def one(x: Tensor[{dtype}]): return x
"""
    m = tessera.compile(text)
    x = np.arange(12).reshape(3, 4).astype(np.float32).astype(storage(dtype))
    for given in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        turned, element = m.f(given)
        same_bits(turned, np.ascontiguousarray(x.T))
        assert element == x[0, 1] and element.dtype == x.dtype
    assert np.array_equal(m.g({"w": x[1]}).w, x[1][::-1])
    m.params = {"W": x[2]}
    assert np.array_equal(m.h(np.array([2, 0], np.int32)), x[2][[2, 0]])
    number = True if dtype.kind == "b" else 1
    assert m.one(number) == number and m.one(x[0, 1]) == x[0, 1]
    wrong = np.zeros((3, 4), np.int64 if dtype.name != "i64" else np.float32)
    with pytest.raises(tessera.TesseraError) as error:
        m.f(wrong)
    assert str(wrong.dtype) in str(error.value) and dtype.name in str(error.value)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("dtype", [d for d in REAL if d.is_float], ids=str)
def test_loss_scale_is_part_of_the_type_and_changes_no_value(dtype: DType) -> None:
    accum = " @accum(f32)" if dtype.bits < 32 else ""
    x = np.linspace(0.5, 4, 24).reshape(4, 6).astype(storage(dtype))
    text = "def f(x: Tensor[M, N, {0}]): return sum(x * x, axis=1), x @ x.T"
    plain, scaled = (tessera.compile(text.format(f"{dtype}{accum}{more}")).f(x) for more in ("", " @loss_scale(1024)"))
    for a, b in zip(plain, scaled, strict=True):
        same_bits(a, b)


def test_two_policies_in_one_operator_are_an_error() -> None:
    text = "def f(x: Tensor[N, f16 @loss_scale(1024)], y: Tensor[N, f16 @loss_scale(8)]): return x + y"
    with pytest.raises(tessera.TesseraError, match="E0401"):
        tessera.compile(text).f(np.ones(3, np.float16), np.ones(3, np.float16))


def test_f32_is_not_tf32() -> None:
    assert storage(F32) == storage(TF32)
    with pytest.raises(tessera.TesseraError, match="E0402"):
        tessera.compile("def f(x: Tensor[N, f32], y: Tensor[N, tf32]): return x + y").f(*[np.ones(3, np.float32)] * 2)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("dtype", "result"), [("u8", "u1"), ("i8", "i4"), ("i16", "i2"), ("u32", "u4")])
def test_products_of_integers_have_the_documented_dtype(dtype: str, result: str) -> None:
    """Signed bytes accumulate in i32, every other integer in itself, wrapping; all ways to write a product agree."""
    kind = np.dtype({"u": "uint", "i": "int"}[dtype[0]] + dtype[1:])
    module = tessera.compile(
        f"t = {dtype}\ndef f(a: Tensor[M, K, t], b: Tensor[K, N, t]):\n"
        '    return a @ b, einsum("mk,kn->mn", a, b), a[0] @ b[:, 0]\n'
    )
    rng, info = np.random.default_rng(0), np.iinfo(kind)
    a, b = (rng.integers(info.min, info.max, shape, endpoint=True, dtype=kind) for shape in ((5, 40), (40, 3)))
    expected = (a.astype(np.int64) @ b.astype(np.int64)).astype(result)
    product, same, dot = module.f(a, b)
    assert product.dtype == same.dtype == dot.dtype == result
    assert np.array_equal(product, expected) and np.array_equal(same, expected) and dot == expected[0, 0]
