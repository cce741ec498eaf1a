"""Types and effects that the papers write: what stands for the first of several, and what is told."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        ("state", "    return cache.append(k, k)"),
        ("state", '    with prefetch(cache, into="smem"): pass\n    return cache'),
        ("random", "    return dropout_in_kernel(k, p=0.5)"),
    ],
)
def test_effects_of_the_seeds_are_told(effect: str, text: str) -> None:
    program = "def f(cache: KVCache[1, 1, M, D, f32], k: Tensor[1, 1, S, D, f32]) uses {}:\n" + text + "\n"
    found = Session().check(SourceFile("uses.tess", program.format("none"))).diagnostics
    assert [d.code for d in found] == ["E0601"] and effect in found[0].title
    assert not Session().check(SourceFile("uses.tess", program.format(effect))).diagnostics


@pytest.mark.parametrize(
    ("code", "text"),
    [("E0204", "a = Operator[N, N] @pagd"), ("E0408", "a = bf16 @accum(f33|f32)"), ("E0201", "a = Operator[n]")],
)
def test_wrong_types_are_told(code: str, text: str) -> None:
    found = Session().check(SourceFile("wrong.tess", text + "\n")).diagnostics
    assert [d.code for d in found] == [code]


def test_alternatives_stand_for_the_first() -> None:
    text = """
half = bf16 @accum(f32|bf16)
def f(x: Tensor[N, f32]): return cast(x, half), cast(x, fp8(e4m3|e5m2) @accum(f32) @saturate)
"""
    a, b = tessera.compile(text).f(np.array([1.5, 500], "f4"))
    assert a.dtype == ml_dtypes.bfloat16 and b.dtype == ml_dtypes.float8_e4m3fn and float(b[1]) == 448
