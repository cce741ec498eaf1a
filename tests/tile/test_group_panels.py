"""Operands of products that are packed from groups of dims: windows, strided and batched, on the vectors of every
processor, with the interpreter's bits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.build import tile_pass
from tesserac.tile.cpu.lower import lower_kernel
from tesserac.tile.cpu.target import AVX2, AVX512, NEON, CpuTarget
from tesserac.tile.dialect import memref_type
from tests.support import tile_eval
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms
from tests.tile.test_tile_build import values
from tests.tile.test_tile_cpu_random import Native

PROGRAM = """
def plain(x: Tensor[N, C, H, W, f32], w: Tensor[O, C, 3, 3, f32]) where H >= 3, W >= 3:
    return relu(conv2d(x, w))

def strided(x: Tensor[N, C, H, W, f64], w: Tensor[O, C, 3, 2, f64]) where H >= 5, W >= 5:
    return conv2d(x, w, stride=(1, 2), dilation=(2, 1), padding=1)

def grouped(x: Tensor[N, 2*C, H, W, bf16 @accum(f32)], w: Tensor[2*O, C, 2, 3, bf16 @accum(f32)]) where H >= 3, W >= 3:
    return conv2d(x, w, padding="same", groups=2)

def loss(x: Tensor[N, C, H, W, f32], w: Tensor[O, C, 3, 3, f32]) -> Tensor[f32] where H >= 3, W >= 3:
    y = conv2d(x, w, padding=1)
    return sum(y * y)

def gradients(x: Tensor[N, C, H, W, f32], w: Tensor[O, C, 3, 3, f32]) where H >= 3, W >= 3:
    return grad(loss, wrt=(0, 1))(x, w)

def shared(w: Tensor[O, K, f32], x: Tensor[N, K, S, f32]):
    return einsum("ok,nks->nos", w, x)

def back(x: Tensor[N, H, K, f32], y: Tensor[N, O, H, f32]):
    return einsum("nhk,noh->ok", x, y)

def crossed(x: Tensor[A, B, C, f32], y: Tensor[C, A, E, f32]):
    return einsum("abc,cae->be", x, y)
"""
SIZES = {
    "plain": [((2, 3, 5, 30), (11, 3, 3, 3)), ((1, 4, 9, 7), (20, 4, 3, 3)), ((3, 2, 4, 4), (9, 2, 3, 3)),
              ((0, 2, 4, 4), (9, 2, 3, 3)), ((1, 60, 18, 24), (10, 60, 3, 3)), ((1, 2, 9, 16), (3, 2, 3, 3))],
    "strided": [((2, 3, 9, 13), (10, 3, 3, 2)), ((1, 2, 5, 70), (9, 2, 3, 2)), ((1, 2, 8, 29), (2, 2, 3, 2))],
    "grouped": [((2, 6, 5, 9), (22, 3, 2, 3)), ((1, 4, 3, 40), (18, 2, 2, 3))],
    "gradients": [((2, 3, 6, 16), (10, 3, 3, 3)), ((1, 9, 5, 5), (4, 9, 3, 3)), ((2, 3, 18, 16), (12, 3, 3, 3)),
                  ((1, 3, 32, 32), (8, 3, 3, 3))],
    "shared": [((20, 33), (3, 33, 50)), ((9, 5), (2, 5, 1))],
    "back": [((3, 7, 10), (3, 12, 7)), ((1, 40, 9), (1, 30, 40))],
    "crossed": [((4, 30, 5), (5, 4, 33)), ((3, 12, 1), (1, 3, 7))],
}  # fmt: skip


@cache
def forms() -> Module:
    return compile_to_forms(PROGRAM)


@cache
def tiles() -> Module:
    return run_passes(forms(), [*schedule_passes(AARCH64), tile_pass(AARCH64)], verify=True)


@cache
def arguments(name: str, number: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of a call, with what the interpreter gives."""
    types = [tensor_type(value).dtype for value in forms().lookup(f"m.{name}").body.args]
    made = [values(ty, shape, i) for i, (ty, shape) in enumerate(zip(types, SIZES[name][number], strict=True))]
    return made, run_function(forms(), f"m.{name}", made)


@cache
def native(target: CpuTarget) -> Native:
    return Native(tiles(), target)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("target", [NEON, AVX2, AVX512], ids=lambda t: t.name)
def test_groups_are_packed_with_the_bits_of_the_forms(target: CpuTarget) -> None:
    for name, calls in SIZES.items():
        for number in range(len(calls)):
            made, expected = arguments(name, number)
            for got, wanted in zip(native(target).run(f"m.{name}", made), expected, strict=True):
                same_bits(got, wanted)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["strided", "crossed"])
def test_tiles_say_what_forms_do(name: str) -> None:
    made, expected = arguments(name, 1)
    for got, wanted in zip(tile_eval.run_host(tiles(), f"m.{name}", made), expected, strict=True):
        same_bits(got, wanted)


def lefts(target: CpuTarget, name: str) -> set[bool]:
    """Of the register blocks of a function, whether the left operand is in panels."""
    kernels = [op for op in tiles().ops if op.name == "tile.kernel" and op.symbol.startswith(f"m.{name}$")]
    lowered = [op for kernel in kernels for op in lower_kernel(kernel, target).walk()]
    blocks = [op for op in lowered if op.name == "cpu.micro_kernel"]
    return {memref_type(op.operands[0]).layout == "panels" for op in blocks}


@pytest.mark.parametrize("name", ["plain", "gradients"])
def test_left_operands_are_read_as_they_lie_where_elements_are_spread(name: str) -> None:
    """Or from panels, if a run finds that they had better be packed."""
    assert lefts(AVX512, name) == lefts(AVX2, name) == {False, True}
    assert lefts(NEON, name) == {True}, "a lane of a vector is an operand there"


def test_narrow_left_operands_are_packed() -> None:
    assert lefts(AVX512, "grouped") == {True}


def test_no_windows_are_written() -> None:
    """What a product reads is the image, or its frame."""
    loads = [op for op in tiles().walk() if op.name == "tile.load" and "groups" in op.attrs]
    assert len(loads) >= 8
