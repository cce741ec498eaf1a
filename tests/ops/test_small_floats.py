"""Formats that are no dtypes, by their codes: every code, every tie and what is beside it against ml_dtypes; blocks
that share a scale against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.native_runs import compiled_equals_oracle

Array = np.ndarray
FORMATS: dict[str, tuple[Any, int]] = {
    "e2m1": (ml_dtypes.float4_e2m1fn, 0x0F),
    "e2m3": (ml_dtypes.float6_e2m3fn, 0x3F),
    "e3m2": (ml_dtypes.float6_e3m2fn, 0x3F),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 0xFF),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 0xFF),
}
_CODES = ", ".join(f'float_codes(x, "{name}", saturate=False)' for name in FORMATS)
_VALUES = ", ".join(f'codes_to_float(c & {mask}, "{name}")' for name, (_, mask) in FORMATS.items())
PROGRAM = f"""
def codes(x: Tensor[N, f32]):
    return {_CODES}

def values(c: Tensor[N, u8]):
    return {_VALUES}

def blocks(x: Tensor[M, 64, f32]):
    a, b = mx_quantize(x, "mxfp4")
    c, d = mx_quantize(x, "mxfp8")
    e, f = mx_quantize(x, "mxfp8_e5m2")
    return a, b, mx_dequantize(a, b), c, d, mx_dequantize(c, d), e, f, mx_dequantize(e, f)

def two_scales(x: Tensor[M, 64, f32]):
    q, scale, whole = nvfp4_quantize(x)
    return q, scale, whole, nvfp4_dequantize(q, scale, whole)
"""
EVERY = np.arange(256, dtype=np.uint8)


@pytest.mark.one_in(6)
def test_codes_mean_what_ml_dtypes_says() -> None:
    for found, (kind, mask) in zip(compiled_equals_oracle(PROGRAM)("values", EVERY), FORMATS.values(), strict=True):
        np.testing.assert_array_equal(found, (EVERY & mask).view(kind).astype(np.float32))


def around(kind: Any, mask: int) -> Array:
    """The numbers of a format, the middles between them, what is next to these, and what is too large."""
    sizes = np.unique(np.abs((EVERY & mask).view(kind).astype(np.float64)))
    sizes = sizes[np.isfinite(sizes)].astype(np.float32)
    middles = (sizes[1:] + sizes[:-1]) / 2
    beside = [np.nextafter(middles, np.float32(to)) for to in (0.0, np.inf)]
    return np.concatenate([sizes, middles, *beside, sizes[-1:] * np.float32([1.01, 1.07, 1.5, 4.0])])


@pytest.mark.one_in(6)
def test_numbers_are_rounded_as_ml_dtypes_does() -> None:
    x = np.concatenate([around(*one) for one in FORMATS.values()] + [np.float32([1e-45, 1e-38, 3e38, np.inf, 262144])])
    x = np.concatenate([x, -x])
    found = compiled_equals_oracle(PROGRAM)("codes", np.append(x, np.float32(np.nan)))
    with np.errstate(over="ignore"):
        for codes, (name, (kind, _)) in zip(found, FORMATS.items(), strict=True):
            np.testing.assert_array_equal(codes[:-1], x.astype(kind).view(np.uint8), err_msg=name)
            assert codes[-1] == (0x80 if "fnuz" in name else 0)


def in_blocks(x: Array, highest: int, kind: Any) -> tuple[Array, Array, Array]:
    parts, largest = x.astype(np.float64).reshape(-1, 2, 32), float(ml_dtypes.finfo(kind).max)
    top = np.abs(parts).max(-1)
    with np.errstate(divide="ignore"):
        power = np.where(top >= 2.0**-126, np.floor(np.log2(top)), -127) - highest
    power = np.maximum(power, -127)
    elements = np.clip(parts / np.exp2(power)[..., None], -largest, largest).astype(np.float32).astype(kind)
    values = elements.astype(np.float64) * np.exp2(power)[..., None]
    return elements.reshape(x.shape), (power + 127).astype(np.uint8), values.reshape(x.shape).astype(np.float32)


@pytest.mark.one_in(6)
def test_blocks_share_a_power_of_two() -> None:
    rng, run = np.random.default_rng(0), compiled_equals_oracle(PROGRAM)
    x = (rng.normal(size=(6, 64)) * np.exp2(rng.uniform(-30, 30, (6, 1)))).astype(np.float32)
    x[1, :32], x[2], x[3, 5] = 0.0, 1e-42, 3e38
    found = run("blocks", x)
    kinds = (2, ml_dtypes.float4_e2m1fn), (8, ml_dtypes.float8_e4m3fn), (15, ml_dtypes.float8_e5m2)
    for place, (highest, kind) in enumerate(kinds):
        elements, scales, values = in_blocks(x, highest, kind)
        np.testing.assert_array_equal(found[3 * place].view(np.uint8) & 0xFF, elements.view(np.uint8))
        np.testing.assert_array_equal(found[3 * place + 1].view(np.uint8), scales)
        np.testing.assert_array_equal(found[3 * place + 2], values)
    x[4, 0], x[5, 40] = np.inf, np.nan
    _, scales, values = run("blocks", x)[:3]
    assert scales.view(np.uint8)[4, 0] == scales.view(np.uint8)[5, 1] == 255
    assert np.isnan(values[4, :32]).all() and np.isfinite(values[4, 32:]).all()


@pytest.mark.one_in(6)
def test_two_scales() -> None:
    x = np.random.default_rng(1).normal(size=(6, 64)).astype(np.float32)
    codes, scale, whole, values = compiled_equals_oracle(PROGRAM)("two_scales", x)
    assert whole == np.abs(x).max() / np.float32(2688)
    top = np.abs(x).reshape(6, 4, 16).max(-1) / np.float32(6)
    np.testing.assert_array_equal(scale.view(np.uint8), (top / whole).astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
    step = (scale.astype(np.float32) * whole)[..., None]
    wanted = np.clip(x.reshape(6, 4, 16) / step, -6, 6).astype(ml_dtypes.float4_e2m1fn)
    np.testing.assert_array_equal(codes.view(np.uint8), wanted.view(np.uint8).reshape(6, 64))
    np.testing.assert_array_equal(values, (wanted.astype(np.float32) * step).reshape(6, 64))


TANGENTS = """
def f(x: Tensor[M, 64, f32], w: Tensor[N, 64, f32]):
    return (
        mx_matmul(mxfp8(x), mxfp4(w)), nvfp4(x).to_float(), dequantize(quantize(x, 0.01, dtype=fp8_e4m3), 0.01),
        mx_matmul(x, mxfp4(w)),
    )
def along(x: Tensor[M, 64, f32], w: Tensor[N, 64, f32], dx: Tensor[M, 64, f32]):
    return jvp(lambda x: f(x, w), (x,), (dx,))[1]
"""


@pytest.mark.one_in(8)
def test_what_is_rounded_to_a_format_has_no_derivative() -> None:
    """A tangent in a format of 8 bits would be NaN where it is larger than the format's largest number."""
    rng = np.random.default_rng(0)
    x, w, dx = (rng.standard_normal((rows, 64), np.float32) for rows in (3, 2, 3))
    *steps, smooth = compiled_equals_oracle(TANGENTS)("along", x, w, dx * 1e4)
    assert not any(np.any(tangent) for tangent in steps)
    assert np.all(np.isfinite(smooth)) and np.all(smooth)
