"""The tile programs of the library have the bits of the functions that they implement."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.ir.forms import tensor_type
from tesserac.schedule.machine import SM_90A
from tesserac.types.dtype import BF16
from tests.graph.test_chosen_kernels import told
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_kernels import SESSION

HALF = "bf16 @accum(f32)"
PROGRAM = """
def softmax_pair(x: Tensor[M, N, {t}]):
    return softmax_rows(x), softmax(x)

def layernorm_pair(x: Tensor[M, N, {t}], w: Tensor[N, {t}], b: Tensor[N, {t}]):
    return layernorm_rows(x, w, b), layernorm(x, w, b)

def rmsnorm_pair(x: Tensor[M, N, {t}], w: Tensor[N, {t}]):
    return rmsnorm_rows(x, w, 1e-3), rmsnorm(x, w, 1e-3)

def transpose_pair(x: Tensor[M, N, {t}]):
    return transpose_tiles(x), transpose(x) + 0.0

def gelu_pair(x: Tensor[M, K, {t}], w: Tensor[K, N, {t}], b: Tensor[N, {t}]):
    return matmul_gelu(x, w, b), gemm(x, w, bias=b, epilogue="bias_gelu")

def swiglu_pair(x: Tensor[M, K, {t}], w: Tensor[K, N, {t}], u: Tensor[K, N, {t}]):
    return matmul_swiglu(x, w, u), cast(silu(wide(x) @ wide(w)) * (wide(x) @ wide(u)), x.dtype)

def rotary_pair(x: Tensor[B, S, D, {t}], c: Tensor[S, D/2, {t}], s: Tensor[S, D/2, {t}]) where D % 2 == 0:
    return rotary_rows(x, c, s), rotary_embedding(x, cos=c, sin=s)
"""
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "softmax_pair": [(19, 37)],
    "layernorm_pair": [(19, 37), (37,), (37,)],
    "rmsnorm_pair": [(19, 37), (37,)],
    "transpose_pair": [(19, 37)],
    "gelu_pair": [(19, 33), (33, 70), (70,)],
    "swiglu_pair": [(19, 33), (33, 70), (33, 70)],
    "rotary_pair": [(3, 19, 10), (19, 5), (19, 5)],
}
PRODUCTS = ("gelu_pair", "swiglu_pair")
LONG = {"softmax_pair": (3, 700), "rmsnorm_pair": (3, 700)}
"""Longer than what a program takes whole."""


@cache
def module(dtype: str) -> tessera.Module:
    return tessera.compile(PROGRAM.format(t=dtype))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", SHAPES)
def test_a_tile_program_has_the_bits_of_its_function(name: str) -> None:
    args = [numbers(*shape) for shape in SHAPES[name]]
    if name == "softmax_pair":
        args[0][:3, :2] = [[np.inf, 0], [np.nan, 1], [-np.inf, 2]]
        args[0][3] = -np.inf
    same_bits(*getattr(module("f32"), name)(*args))
    if name in LONG:
        args = [numbers(*LONG[name]), *(numbers(LONG[name][-1]) for _ in args[1:])]
        same_bits(*getattr(module("f32"), name)(*args))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", SHAPES)
def test_also_in_half(name: str) -> None:
    args = [numbers(*shape).astype(ml_dtypes.bfloat16) for shape in SHAPES[name]]
    ours, meant = getattr(module(HALF), name)(*args)
    assert np.array_equal(np.asarray(ours, np.float32), np.asarray(meant, np.float32), equal_nan=True)


LOSSES = """
def both(x: Tensor[M, C, f32], y: Tensor[M, i32]):
    slope, loss = cross_entropy_rows(x, y)
    def total(x): return sum(cross_entropy(x, y, ignore_index=-1))
    return slope, loss[:, 0], cross_entropy(x, y, ignore_index=-1), grad(total)(x)

def alone(x: Tensor[M, C, f32], y: Tensor[M, i32]):
    return cross_entropy_rows(x, y)
"""


@pytest.mark.one_in(4)
def test_losses_come_with_their_gradient() -> None:
    m, x = tessera.compile(LOSSES), numbers(21, 40) * 30
    labels = np.arange(21, dtype=np.int32) - 1
    slope, loss, meant, back = m.both(x, labels)
    same_bits(loss, meant)
    assert np.abs(slope - back).max() < 1e-6 and not slope[0].any()
    slope, loss = m.alone(x, labels + 30)
    bad = labels + 30 >= 40
    assert np.isnan(loss[bad]).all() and np.isnan(slope[bad]).all() and not np.isnan(slope[~bad]).any()


DECODE = """
def whole(q: Tensor[B, 4, 1, 8, f32], c: KVCache[B, 2, S_max, 8]):
    return flash_attention(q, c)

def split(q: Tensor[B, 4, 8, f32], c: KVCache[B, 2, S_max, 8]) where S_max % 256 == 0:
    return decode_attention(q, c)
"""


@pytest.mark.one_in(12)
def test_a_cache_in_segments() -> None:
    """What it holds decides, alone: not how much room there is, what lies behind, or what else is in the batch."""
    m, size = tessera.compile(DECODE), 5 * 256
    q, keys, values = numbers(2, 4, 1, 8), numbers(2, 2, size, 8) * 3, numbers(2, 2, size, 8)
    values[:, :, 900] = 0.0
    for length in (1, 256, 257, 900, size):
        keys_there, there = keys.copy(), values.copy()
        keys_there[:, :, length:], there[:, :, length:] = np.inf, np.nan
        cache = {"K": keys_there, "V": there, "len": np.int32(length)}
        got, wanted = m.split(q[:, :, 0], cache), m.whole(q, cache)[:, 0]
        assert np.abs(got.reshape(wanted.shape) - wanted).max() < 1e-5
        room = -(-length // 256) * 256
        least = {"K": keys[1:, :, :room], "V": there[1:, :, :room], "len": np.int32(length)}
        same_bits(m.split(q[1:, :, 0], least), got[1:])
    assert np.isnan(m.split(q[:, :, 0], {**cache, "len": np.int32(0)})).all()


@pytest.mark.one_in(48)
@pytest.mark.parametrize("target", ["cpu:aarch64", "cuda:sm_90a"])
@pytest.mark.parametrize("name", SHAPES)
def test_they_run_as_tiles(name: str, target: str, tmp_path: Path) -> None:
    """But for products and what follows them, which the compiler's own launches compute in less time."""
    lines = told(PROGRAM.format(t="f32"), tmp_path, name, target)
    said = "does not take kernel `_" if name in PRODUCTS else "runs as tiles"
    assert any(said in line for line in lines), lines


NARROW = """
def f(x: Tensor[64, 64, {t}], w: Tensor[64, 64, {t}], b: Tensor[64, {t}], c: Tensor[64, 64, {t}]):
    _, back = vjp(lambda x, w, b: {call}, x, w, b)
    return back(c)
"""
GELUS = ["matmul_gelu(x, w, b)", 'gemm(x, w, bias=b, epilogue="bias_gelu")']


@pytest.mark.one_in(4)
@pytest.mark.parametrize("call", [*GELUS, "matmul_swiglu(x, w, w + b)"])
def test_gradients_of_narrow_products_are_products_of_narrow_numbers(call: str) -> None:
    file = SourceFile("m.tess", NARROW.format(t=HALF, call=call))
    forms = SESSION.levels(file, SESSION.function(file, "f"), SM_90A).schedule
    products = [op for op in forms.walk() if op.name == "form.contract"]
    assert len(products) >= 3
    assert {tensor_type(v).dtype for op in products for v in op.operands} == {BF16}, "matrix units take them"


@pytest.mark.one_in(8)
@pytest.mark.parametrize("call", GELUS)
def test_their_gradients_are_those_of_wide_numbers_but_for_rounding(call: str) -> None:
    args = [numbers(64, 64).astype(ml_dtypes.bfloat16) / 8, *(numbers(*s) for s in ((64, 64), (64,), (64, 64)))]
    narrow = [np.asarray(a, ml_dtypes.bfloat16) for a in args]
    ours = tessera.compile(NARROW.format(t=HALF, call=call)).f(*narrow)
    wide = tessera.compile(NARROW.format(t="f32", call=call)).f(*(np.asarray(a, np.float32) for a in narrow))
    for mine, exact in zip(ours, wide, strict=True):
        np.testing.assert_allclose(np.asarray(mine, np.float32), exact, rtol=2**-5, atol=2**-7 * np.abs(exact).max())
