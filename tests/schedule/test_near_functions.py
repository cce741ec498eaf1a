"""Functions of narrow numbers that a GPU may approximate: where they are marked, and how near the formulas are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.kernel_code import lowered
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.schedule.costs.approximate_functions import NEAR
from tesserac.schedule.machine import SM_90A, X86_64_V3, Machine
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.registers.approximations import NORMAL, NORMAL_RATE, TANH, TANH_NEAR

HALF = "half = bf16 @accum(f32)\n"


def marked(body: str, machine: Machine = SM_90A, given: str = "x: Tensor[64, 64, half]") -> list[str]:
    session, file = Session(), SourceFile("near.tess", f"{HALF}def f({given}):\n    return {body}\n")
    module = session.levels(file, session.function(file, "f"), machine).tile
    return sorted(op.name.removeprefix("scalar.") for op in module.walk() if NEAR in op.attrs)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("exp(x)", ["exp"]),
        ("cast(exp(cast(x, f32)) * 2.0, bf16)", ["exp"]),
        ("gelu(x, approximate=\"tanh\")", ["div", "exp"]),
        ("gelu(x)", ["xndtr"]),
        ("sigmoid(x)", ["div", "exp"]),
        ("cast(exp(cast(x, f32)).T, bf16)", ["exp"]),
        ("exp(cast(x, f32))", []),  # a result of f32
        ("(cast(exp(cast(x, f32)), bf16), exp(cast(x, f32)))", []),  # one of two is
        ("sum(exp(x), axis=1)", ["exp"]),  # the terms are bf16
        ("sum(exp(wide(x)), axis=1)", []),  # they are f32
        ("cast(floor(exp(cast(x, f32))), bf16)", []),  # a small error may become a large one
        ("where(exp(cast(x, f32)) > 1.0, x, -x)", []),
        ("x / (x + 1)", []),  # no function was near: correctly rounded
    ],
)
def test_marks(body: str, expected: list[str]) -> None:
    assert marked(body) == expected


def test_what_comes_from_f32_is_not_marked() -> None:
    assert marked("cast(exp(y), bf16)", given="y: Tensor[64, 64, f32]") == []
    assert marked("cast(exp(y + cast(x, f32)), bf16)", given="x: Tensor[64, 64, half], y: Tensor[64, 64, f32]") == []


def test_processors_have_no_marks() -> None:
    assert marked("exp(x)", X86_64_V3) == []


def test_hardware_computes_what_is_marked(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "near.tess"
    path.write_text(f"{HALF}def f(x: Tensor[64, 64, half]):\n    return tanh(x) / exp2(x)\n")
    (kernel,) = lowered(path, "f", "sm_90a")
    text = emit_kernel(kernel).llvm
    assert "ex2.approx" in text and "rcp.approx" in text


def test_series_of_tanh_meets_its_bound() -> None:
    x = np.linspace(-TANH_NEAR, TANH_NEAR, 20001).astype(np.float32)[1:]
    x = x[x != 0]
    square = x * x
    rest = np.full_like(square, TANH[-1])
    for coefficient in reversed(TANH[:-1]):
        rest = rest * square + np.float32(coefficient)
    found = x + x * square * rest
    assert np.max(np.abs(found / np.tanh(x.astype(np.float64)) - 1)) < 2.0**-18
    e = np.float32(np.exp2(2 * np.float64(TANH_NEAR) * np.log2(np.e)) * (1 + 2.0**-22))
    far = 1.0 - 2.0 / (np.float64(e) + 1.0)
    assert abs(far / np.tanh(TANH_NEAR) - 1) < 2.0**-18


def test_normal_distribution_meets_its_bound() -> None:
    """Of f32 steps, with powers and reciprocals that are rounded once."""
    z = np.linspace(0, 13, 20001).astype(np.float32)
    t = np.float32(1) / (np.float32(1) + z * np.float32(NORMAL_RATE))
    small = np.full_like(t, NORMAL[-1])
    for coefficient in reversed(NORMAL[:-1]):
        small = small * t + np.float32(coefficient)
    exponent = (z * np.float32(-0.5 / np.log(2.0))) * z
    found = small * t * np.exp2(exponent.astype(np.float64))
    expected = np.array([0.5 * math.erfc(float(v) / math.sqrt(2.0)) for v in z])
    assert np.max(np.abs(found / expected - 1)[z < 4]) < 2.0**-18.5
    assert np.max(np.abs(found / expected - 1)) < 2.0**-16
