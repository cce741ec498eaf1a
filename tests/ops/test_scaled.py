"""Values with scales: quantised and multiplied out to the bit, carried through programs, refused by operators."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import tessera
from tesserac.numerics.narrow import convert
from tesserac.types.dtype import FP8_E4M3, I4, I8, DType
from tests.runtime.test_params import write_safetensors
from tests.support.checking import check_text
from tests.support.cpu_kernels import same_bits
from tests.support.sampling import examples

PROGRAM = """
struct Linear[K, N]:
    w: Tensor[K, N, i8 @scale(axis=1)]
    def apply(self, x: Tensor[B, K, f32]) -> Tensor[B, N, f32]:
        return x @ cast(self.w, f32)

param W: Tensor["PK", "PN", i4 @scale(axis=-1)]

def i8_rows(x: Tensor[M, N, f32]): return cast(x, i8 @scale(axis=0))
def i8_columns(x: Tensor[M, N, f32]): return cast(x, i8 @scale(axis=1))
def i4_rows(x: Tensor[M, N, f32]): return cast(x, i4 @scale(axis=0))
def fp8_columns(x: Tensor[M, N, f32]): return cast(x, fp8_e4m3 @accum(f32) @scale(axis=-1))
def wide(w: Tensor[M, N, i8 @scale(axis=0)]): return cast(w, f32), cast(w, f64), cast(w, bf16)
def parts(w: Tensor[M, N, i8 @scale(axis=0)]): return w.T, w.q, w.scale
def again(w: Tensor[M, N, i8 @scale(axis=0)]): return cast(w, i4 @scale(axis=1))
def made(w: Tensor[K, N, f32]) -> Linear[K, N]: return Linear(w=cast(w, i8 @scale(axis=1)))
def linear(x: Tensor[B, PK, f32]): return x @ cast(W, f32)
def of_any(l: Linear): return cast(l.w, f32)
def turns(w: Tensor[M, N, i8 @scale(axis=0)], n: int):
    for i in range(n):
        w = cast(cast(w, f32) * 2.0, i8 @scale(axis=0))
    return w if w.scale[0] > 0.0 else cast(zeros(M, N), w.dtype)
"""


@cache
def program() -> tessera.module.Module:
    return tessera.compile(PROGRAM)


def quantised(x: np.ndarray, dtype: DType, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The rule, in NumPy's f32."""
    with np.errstate(all="ignore"):
        size = np.max(np.abs(x), axis=1 - axis, keepdims=True, initial=0.0)
        scale = size / np.float32(dtype.largest)
        scale = np.where(scale == 0, np.float32(1), scale)
        numbers = x / scale
        return convert(np.rint(numbers) if dtype.is_integer else numbers, dtype), scale.reshape(-1)


CASES = {"i8_rows": (I8, 0), "i8_columns": (I8, 1), "i4_rows": (I4, 0), "fp8_columns": (FP8_E4M3, 1)}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CASES)
@examples(25)
@given(data=st.data())
def test_quantising_is_its_rule_to_the_bit(name: str, data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=40))
    x = data.draw(arrays(np.float32, shape, elements=st.floats(-1e3, 1e3, width=32)))
    got = getattr(program(), name)(x)
    q, scale = quantised(x, *CASES[name])
    same_bits(got.q, q)
    same_bits(got.scale, scale)


def test_rows_of_zeros_tiny_numbers_and_nan() -> None:
    x = np.float32([[0, -0.0, 0], [1e-45, 0, -1e-45], [np.nan, 1, 2], [3e38, -3e38, 1], [1, -1, 0.5]])
    got = program().i8_rows(x)
    q, scale = quantised(x, I8, 0)
    same_bits(got.q, q)
    same_bits(got.scale, scale)
    assert got.scale[0] == got.scale[1] == 1.0 and got.q[4].tolist() == [127, -127, 64]


def test_the_error_is_at_most_half_a_step() -> None:
    x = np.random.default_rng(0).normal(size=(50, 70)).astype(np.float32)
    w = program().i8_rows(x)
    exact = w.q.astype(np.float64) * w.scale.astype(np.float64)[:, None]
    assert np.all(np.abs(exact - x) <= w.scale[:, None] * 0.5000001)
    single, double, half = program().wide(w)
    same_bits(single, exact.astype(np.float32))
    same_bits(double, exact)
    same_bits(half, single.astype(ml_dtypes.bfloat16))


def test_a_transpose_carries_the_axis_and_parts_have_names() -> None:
    w = program().i8_rows(np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32))
    turned, q, scale = program().parts(w)
    assert isinstance(turned, tessera.Scaled)
    same_bits(turned.q, np.ascontiguousarray(w.q.T))
    for part, of in ((turned.scale, w.scale), (q, w.q), (scale, w.scale)):
        same_bits(part, of)


def test_one_scaled_type_becomes_another() -> None:
    w = program().i8_rows(np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32))
    got = program().again(w)
    q, scale = quantised(w.q.astype(np.float32) * w.scale[:, None], I4, 1)
    same_bits(got.q, q)
    same_bits(got.scale, scale)


@pytest.mark.one_in(3)
def test_structs_params_loops_and_branches_carry_them() -> None:
    rng, m = np.random.default_rng(3), program()
    x, w = rng.normal(size=(4, 6)).astype(np.float32), rng.normal(size=(6, 5)).astype(np.float32)
    layer = m.made(w)
    plain = layer.w.q.astype(np.float32) * layer.w.scale
    np.testing.assert_allclose(layer(x), x @ plain, rtol=1e-5, atol=1e-5)
    same_bits(m.of_any(layer), plain)
    same_bits(m.of_any(tessera.freeze(layer)), plain)
    m.params = {"W": {"q": (w * 2).astype(ml_dtypes.int4), "scale": np.ones(5, np.float32)}}
    np.testing.assert_allclose(m.linear(x), x @ np.trunc(w * 2), rtol=1e-5, atol=1e-5)
    once = m.i8_rows(w)
    thrice = m.turns(once, 3)
    same_bits(thrice.q, once.q)
    same_bits(thrice.scale, once.scale * 8)


def test_python_gives_anything_that_has_both_parts() -> None:
    q, scale = np.ones((2, 3), np.int8), np.float32([1, 2])
    for value in (tessera.Scaled(q, scale), {"q": q, "scale": scale}, SimpleNamespace(q=q, scale=scale)):
        assert program().wide(value)[0].tolist() == [[1, 1, 1], [2, 2, 2]]


def test_a_parameter_without_a_type_takes_none() -> None:
    with pytest.raises(tessera.TesseraError, match="must be declared"):
        tessera.compile("def f(w): return w").f(tessera.Scaled(np.ones((2, 3), np.int8), np.ones(2, np.float32)))


def test_files_name_the_parts(tmp_path: Path) -> None:
    q, scale = np.arange(6, dtype=np.int8).reshape(2, 3), np.float32([0.5, 2])
    write_safetensors(tmp_path / "w.safetensors", {"w.q": q, "w.scale": scale})
    m = tessera.compile('param w: Tensor["M", "N", i8 @scale(axis=0)]\ndef f(): return cast(w, f32)')
    m.load(tmp_path / "w.safetensors")
    same_bits(m.f(), q.astype(np.float32) * scale[:, None])


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (np.ones((2, 3), np.int8), "E0921"),
        ({"q": np.ones((2, 3), np.int8)}, "E0921"),
        ({"q": np.ones((2, 3), np.uint8), "scale": np.ones(2, np.float32)}, "E0922"),
        ({"q": np.ones((2, 3), np.int8), "scale": np.ones(3, np.float32)}, "E0924"),
    ],
)
def test_what_python_gives_must_fit(value: object, code: str) -> None:
    with pytest.raises(tessera.TesseraError, match=code):
        program().wide(value)


@pytest.mark.parametrize(
    "expression",
    ["x + x", "-x", "sum(x)", "x @ x.T", "x[0]", "reshape(x, (M * N,))", "concat([x, x], axis=0)", "wide(x)",
     "zeros(M, N, dtype=x.dtype)", "cast(1.0, x.dtype)", "x.at[0].set(1)", 'einsum("ij,ij->i", x, x)'],
)  # fmt: skip
def test_operators_refuse_them(expression: str) -> None:
    [found] = check_text(f"def f(x: Tensor[M, N, i8 @scale(axis=0)]): return {expression}\n").diagnostics
    assert found.code == "E0409"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f(x: Tensor[N, i8 @scale(axis=1)]): return x\n", "E0408"),
        ("def f(x: Tensor[N, f32 @scale(axis=0)]): return x\n", "E0408"),
        ("def f(x: Tensor[N, f32]): return cast(x, i8 @scale(axis=-2))\n", "E0408"),
        ("def f(x: Tensor[N, i32]): return cast(x, i8 @scale(axis=0))\n", "E0405"),
        ("def f(x: Tensor[N, i8 @scale(axis=0)]): return cast(x, i32)\n", "E0405"),
        ("def f(x: Tensor[N, i8]) -> Tensor[N, i8 @scale(axis=0)]: return x\n", "E0401"),
    ],
)
def test_scales_where_none_can_be(text: str, code: str) -> None:
    assert [found.code for found in check_text(text).diagnostics] == [code]
