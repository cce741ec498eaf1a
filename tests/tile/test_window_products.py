"""Rows times windows: read where they lie, whatever is between columns and terms, with the interpreter's bits."""

from __future__ import annotations

import platform
from functools import cache

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64, X86_64_V4, Machine
from tesserac.tile.build import tile_pass
from tesserac.tile.cpu.lower import lower_kernel
from tesserac.tile.cpu.target import AVX512, CpuTarget, cpu_target
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms
from tests.tile.test_tile_build import values
from tests.tile.test_tile_cpu_random import Native

PROGRAM = """
def alone(x: Tensor[N, 3, H, W, f32], w: Tensor[3, 1, KH, KW, f32]) where H >= KH, W >= KW:
    return relu(conv2d(x, w, padding=1, groups=3))

def apart(x: Tensor[N, 2, H, W, f64], w: Tensor[4, 1, KH, KW, f64]) where H >= 2*KH, W >= 2*KW:
    return conv2d(x, w, stride=(1, 2), dilation=(2, 1), padding=1, groups=2)

def narrow(x: Tensor[N, C, H, W, bf16 @accum(f32)], w: Tensor[5, C, KH, 2, bf16 @accum(f32)]) where H >= KH, W >= 3:
    return conv2d(x, w)

def by_weights(x: Tensor[N, 3, H, W, f32], w: Tensor[3, 1, 3, 3, f32], g: Tensor[N, 3, H, W, f32]) where H >= 3, W >= 3:
    _, back = vjp(lambda k: conv2d(x, k, padding=1, groups=3), w)
    return back(g)[0]

def many(x: Tensor[N, 2, H, 20, f32], w: Tensor[13, 2, 3, 3, f32]) where H >= 3:
    return conv2d(x, w, padding=1)

def many_wide(x: Tensor[N, 3, H, 9, f64], w: Tensor[20, 3, KH, 2, f64]) where H >= KH:
    return conv2d(x, w)

def many_narrow(x: Tensor[N, 2, H, 30, bf16 @accum(f32)], w: Tensor[24, 2, KH, 3, bf16 @accum(f32)]) where H >= KH:
    return relu(conv2d(x, w, dilation=(1, 4)))
"""
SIZES = {
    "alone": [((2, 3, 5, 30), (3, 1, 3, 3)), ((1, 3, 4, 120), (3, 1, 2, 5)), ((2, 3, 6, 3), (3, 1, 4, 3)),
              ((0, 3, 5, 4), (3, 1, 3, 3))],
    "apart": [((2, 2, 9, 13), (4, 1, 3, 2)), ((1, 2, 8, 70), (4, 1, 2, 3))],
    "narrow": [((1, 4, 5, 9), (5, 4, 2, 2)), ((2, 1, 4, 40), (5, 1, 3, 2))],
    "many": [((2, 2, 5, 20), (13, 2, 3, 3)), ((1, 2, 3, 20), (13, 2, 3, 3)), ((0, 2, 4, 20), (13, 2, 3, 3))],
    "many_wide": [((1, 3, 1, 9), (20, 3, 1, 2)), ((2, 3, 4, 9), (20, 3, 2, 2)), ((1, 3, 12, 9), (20, 3, 5, 2))],
    "many_narrow": [((1, 2, 2, 30), (24, 2, 2, 3)), ((2, 2, 9, 30), (24, 2, 3, 3))],
    "by_weights": [((2, 3, 6, 16), (3, 1, 3, 3), (2, 3, 6, 16)), ((1, 3, 70, 60), (3, 1, 3, 3), (1, 3, 70, 60))],
}  # fmt: skip


@cache
def forms() -> Module:
    return compile_to_forms(PROGRAM)


@cache
def tiles(machine: Machine) -> Module:
    return run_passes(forms(), [*schedule_passes(machine), tile_pass(machine)], verify=True)


def lowered(machine: Machine, target: CpuTarget) -> list[str]:
    kernels = [op for op in tiles(machine).ops if op.name == "tile.kernel"]
    return [op.name for kernel in kernels for op in lower_kernel(kernel, target).walk()]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM's AArch64 ends on vectors of 16 numbers with masks")
@pytest.mark.one_in(24)
def test_windows_are_multiplied_with_the_bits_of_the_forms() -> None:
    native = Native(tiles(X86_64_V4), AVX512)
    for name, calls in SIZES.items():
        types = [tensor_type(value).dtype for value in forms().lookup(f"m.{name}").body.args]
        for shapes in calls:
            made = [values(ty, shape, i) for i, (ty, shape) in enumerate(zip(types, shapes, strict=True))]
            expected = run_function(forms(), f"m.{name}", made)
            for got, wanted in zip(native.run(f"m.{name}", made), expected, strict=True):
                same_bits(np.asarray(got), wanted)


@pytest.mark.one_in(4)
def test_windows_are_packed_only_where_vectors_have_no_masks() -> None:
    with_masks = lowered(X86_64_V4, AVX512)
    assert with_masks.count("cpu.window_product") == len(SIZES) and "cpu.pack_groups" not in with_masks
    without = lowered(AARCH64, cpu_target(AARCH64))
    assert "cpu.window_product" not in without and "cpu.pack_groups" in without
