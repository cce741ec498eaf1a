"""Dtypes and policies: spellings, what a literal may become, text that reads back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.ops.registry import numpy_dtype
from tesserac.types import dtype as dtypes
from tesserac.types.dims import parse_dim
from tesserac.types.policy import NO_POLICY, Policy, PolicyError, compute_dtype, parse_policy
from tesserac.types.ty import TensorType

POLICIES = st.builds(
    Policy,
    accum=st.none() | st.sampled_from((dtypes.F32, dtypes.F64)),
    saturate=st.booleans(),
    stochastic_round=st.booleans(),
    loss_scale=st.none() | st.integers(1, 2**16),
    scale_axis=st.none() | st.integers(-2, 3),
)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("fp32", "f32"), ("F32", "f32"), ("float64", "f64"), ("BF16", "bf16"), ("bfloat16", "bf16"), ("fp16", "f16"),
        ("fp8(e4m3)", "fp8_e4m3"), ("FP8(E5M2)", "fp8_e5m2"), ("fp8_e4m3", "fp8_e4m3"), ("int8", "i8"),
        ("INT8", "i8"), ("uint8", "u8"), ("complex64", "c64"), ("tf32", "tf32"), ("bool", "bool"),
        ("fp4", "fp4_e2m1"), ("float4_e2m1", "fp4_e2m1"), ("e8m0", "fp8_e8m0"), ("fp8(e8m0)", "fp8_e8m0"),
    ],
)  # fmt: skip
def test_spellings(spelling: str, name: str) -> None:
    found = dtypes.lookup(spelling)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("text", ["float", "int", "f8", "i7", "Tensor", ""])
def test_not_a_dtype(text: str) -> None:
    assert dtypes.lookup(text) is None


def test_there_are_22_and_numpy_knows_them() -> None:
    assert len({dtype.name for dtype in dtypes.ALL}) == 22
    for dtype in dtypes.ALL:
        assert numpy_dtype(dtype).itemsize * 8 >= dtype.bits


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.is_float and d is not dtypes.TF32], ids=str)
def test_float_facts_are_true(dtype: dtypes.DType) -> None:
    largest = np.array(dtype.largest).astype(numpy_dtype(dtype))
    assert float(largest) == dtype.largest
    exact = 2**dtype.significand
    assert float(np.array(exact).astype(numpy_dtype(dtype))) == exact
    assert float(np.array(exact + 1, np.float64).astype(numpy_dtype(dtype))) != exact + 1 or dtype is dtypes.F64


def test_what_a_literal_may_become() -> None:
    assert dtypes.U8.holds(255)
    assert not dtypes.U8.holds(256)
    assert not dtypes.U8.holds(-1)
    assert dtypes.I8.holds(-128)
    assert not dtypes.I8.holds(-129)
    assert not dtypes.I32.holds(0.5)
    assert dtypes.BF16.holds(0.5)
    assert not dtypes.BOOL.holds(1)


@given(POLICIES)
def test_policy_text_reads_back(policy: Policy) -> None:
    assert parse_policy(str(policy)) == policy


@pytest.mark.parametrize("text", ["@acum(f32)", "accum(f32)", "@accum", "@accum(x)", "@saturate(1)", "@scale(2)"])
def test_not_a_policy(text: str) -> None:
    with pytest.raises(PolicyError):
        parse_policy(text)


def test_compute_dtype() -> None:
    assert compute_dtype(dtypes.BF16, Policy(accum=dtypes.F32)) is dtypes.F32
    assert compute_dtype(dtypes.BF16, NO_POLICY) is dtypes.BF16


def test_tensor_text() -> None:
    ty = TensorType((parse_dim("M"), parse_dim("2*K")), dtypes.BF16, parse_policy("@accum(f32)"))
    assert str(ty) == "tensor<[M, 2*K], bf16 @accum(f32)>"
    assert ty.show() == "Tensor[M, 2*K, bf16 @accum(f32)]"
