"""Products of bf16 numbers and of weights that a kernel makes of integers: matrix units take them; of bytes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.ir.forms import tensor_type
from tesserac.schedule.machine import MACHINES, SM_90A, Machine
from tesserac.types.dtype import BF16, F32
from tests.schedule.test_given_schedules import levels
from tests.tile.test_programs_gpu import emulated, lowered
from tests.tile.test_user_kernels import why

HEAD = """
half = bf16 @accum(f32)

@kernel
def f(x: KTile[M, K, half], w: KTile[{rows}, N, {stored}], scale: KTile[{scales}, half]) -> Tile[M, N, half]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
"""
BYTES = HEAD.format(rows="K", stored="i8", scales="N") + """
        acc += tile.dot(tile.load(x, None, k, rows=T.m), cast(tile.load(w, k, None, cols=T.n), {dtype}))
    return cast(acc * tile.load(scale, cols=T.n)[None, :], half)
"""
NIBBLES = HEAD.format(rows='"K/2"', stored="u8", scales='"K/32", N') + """
        r = tile.col_index(k)
        packed = tile.load(w, r // 2, None, cols=T.n)
        q = where(r[:, None] % 2 == 0, packed & 15, packed >> 4)
        s = tile.load(scale, r // 32, None, cols=T.n)
        acc += tile.dot(tile.load(x, None, k, rows=T.m), cast((cast(q, f32) - 8.0) * s, half))
    return cast(acc, half)
"""
KERNELS = {**{dtype: BYTES.replace("{dtype}", dtype) for dtype in ("half", "bf16", "f32")}, "nibbles": NIBBLES}
M, K, N = 37, 96, 50


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", KERNELS)
def test_they_are_right(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, K)).astype(ml_dtypes.bfloat16)
    if name == "nibbles":
        w, scale = rng.integers(0, 256, (K // 2, N)).astype("u1"), rng.random((K // 32, N)).astype(x.dtype)
        q = np.stack([w & 15, w >> 4], 1).reshape(K, N).astype("f4") - 8
        weights, factor = (q * np.repeat(scale.astype("f4"), 32, 0)).astype(x.dtype).astype("f8"), np.ones(N)
    else:
        w, scale = rng.integers(-128, 128, (K, N)).astype("i1"), rng.random(N).astype(x.dtype)
        weights, factor = w.astype("f8"), scale.astype("f8")
    got = np.asarray(tessera.compile(KERNELS[name]).f(x, w, scale)).astype("f8")
    wide = x.astype("f8")
    assert np.max(abs(got - wide @ weights * factor) / (abs(wide) @ abs(weights) * factor)) < 2.0**-8


@pytest.mark.one_in(8)
@pytest.mark.parametrize("machine", [MACHINES["x86-64-v4-amx"], SM_90A], ids=lambda machine: machine.arch)
@pytest.mark.parametrize("name", KERNELS)
def test_the_product_is_of_narrow_numbers(name: str, machine: Machine) -> None:
    [product] = [op for op in levels(KERNELS[name], machine).forms.walk() if op.name == "form.contract"]
    assert {tensor_type(value).dtype for value in product.operands} == {BF16}


@pytest.mark.one_in(8)
def test_tensor_cores_take_it() -> None:
    text = NIBBLES.replace("@kernel", "@kernel.schedule(Schedule(warps=8))")
    units = {op.attrs["unit"].name for op in lowered(text).walk() if "unit" in op.attrs}  # type: ignore[union-attr]
    assert units == {"mma"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["half", "nibbles"])
def test_they_are_tiles_where_that_pays_or_a_schedule_says_so(name: str) -> None:
    """A GPU rounds weights once and multiplies then; a core has them in its cache."""
    (told,) = why(KERNELS[name], SM_90A)
    assert "as tiles it would cost" in told and why(KERNELS[name], MACHINES["x86-64-v4-amx"]) == [""]
    assert why(KERNELS[name].replace("@kernel", "@kernel.schedule(Schedule(block=(64, 64, 64)))"), SM_90A) == [""]


@pytest.mark.parametrize("stored", ["i16", "i32"])
def test_integers_that_bf16_does_not_hold_stay_wide(stored: str) -> None:
    text = KERNELS["f32"].replace("i8", stored)
    [product] = [op for op in levels(text, SM_90A).forms.walk() if op.name == "form.contract"]
    assert {tensor_type(value).dtype for value in product.operands} == {F32}


@pytest.mark.one_in(2)
def test_products_of_bytes_are_summed_in_words() -> None:
    """Whatever multiplies them: a schedule keeps tiles where a matrix unit would take the meaning's."""
    text = """
@kernel.schedule(Schedule(block=(16, 16, 64)))
def f(a: KTile[M, K, i8], b: KTile[K, N, i8], scale: KTile[N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), i32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return cast(acc, f32) * tile.load(scale, cols=T.n)[None, :]
"""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (M, K)).astype("i1"), rng.integers(-128, 128, (K, N)).astype("i1")
    scale = rng.random(N).astype("f4")
    wanted = (a.astype("i4") @ b.astype("i4")).astype("f4") * scale
    assert np.array_equal(np.asarray(tessera.compile(text).f(a, b, scale)), wanted)
    assert np.array_equal(emulated(text)(a, b, scale)[0], wanted)
    free = text.replace(".schedule(Schedule(block=(16, 16, 64)))", "")
    assert why(text, SM_90A) == [""] and why(free, SM_90A) != [""]
