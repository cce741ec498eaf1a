"""Convolutions on GPUs: windows are read where they lie, with the bits of windows that are written out."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.schedule.dialect import launch_kind, launch_loops, memory
from tesserac.schedule.machine import SM_90A
from tesserac.schedule.products.shifted import WHOLE_DIGITS
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_kernels import SESSION, emulated, tile_of
from tests.support.source_support import compile_to_forms

ARCH = "sm_90a"
IMAGE = "x: Tensor[B, {c}, H, W, {t}], w: Tensor[O, {c}, 3, 3, {t}]"
HALF = "bf16 @accum(f32)"

RUN = {
    "any channels, in a frame": ("def f(" + IMAGE.format(c="C", t="f32") + "):\n    return conv2d(x, w, padding=1)\n",
        [(2, 16, 5, 6), (5, 16, 3, 3)]),
    "channels that do not fit": ("def f(" + IMAGE.format(c="C", t="f32") + "):\n    return conv2d(x, w, padding=1)\n",
        [(1, 3, 4, 5), (4, 3, 3, 3)]),
    "bias, dilation, an odd frame": (
        "def f(x: Tensor[B, 16, H, W, f32], w: Tensor[O, 16, 3, 2, f32], c: Tensor[O, f32]):\n"
        "    return relu(conv2d(x, w, c, padding=(1, 0), dilation=(1, 2)))\n", [(2, 16, 5, 6), (5, 16, 3, 2), (5,)]),
    "groups of lines": ("def f(x: Tensor[B, 32, L, f32], w: Tensor[O, 16, 3, f32]):\n"
        "    return conv1d(x, w, groups=2)\n", [(2, 32, 37), (6, 16, 3)]),
    "space": ("def f(x: Tensor[B, 16, D, H, W, f32], w: Tensor[O, 16, 2, 3, 2, f32]):\n    return conv3d(x, w)\n",
        [(1, 16, 3, 4, 5), (3, 16, 2, 3, 2)]),
    "something else to add": ("def f(" + IMAGE.format(c="C", t="f32") + ", r: Tensor[B, O, H, W, f32]):\n"
        "    return conv2d(x, w, padding=1) + r\n", [(2, 16, 5, 6), (5, 16, 3, 3), (2, 5, 5, 6)]),
    "one after the other": ("def f(x: Tensor[B, 16, H, W, f32], w: Tensor[16, 16, 3, 3, f32]):\n"
        "    return conv2d(relu(conv2d(x, w, padding=1)), w)\n", [(2, 16, 5, 6), (16, 16, 3, 3)]),
}  # fmt: skip


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", RUN)
def test_windows_read_where_they_lie_give_the_same_bits(name: str) -> None:
    text, shapes = RUN[name]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    forms = compile_to_forms(text)
    same_bits(emulated(text, ARCH)(*arrays)[0], run_function(forms, "m.f", arrays)[0])


@cache
def host(text: str) -> Op:
    file = SourceFile("m.tess", text)
    return next(iter(SESSION.levels(file, SESSION.function(file, "f"), SM_90A).schedule.ops))


def products(op: Op) -> list[Op]:
    launches = [inner for inner in op.walk() if inner.name == "schedule.launch"]
    return [launch for launch in launches if launch_kind(launch) == "contract"]


@pytest.mark.one_in(2)
def test_a_run_knows_whether_channels_fit_and_takes_memory_for_one_way_only() -> None:
    op = host("def f(" + IMAGE.format(c="C", t=HALF) + "):\n    return conv2d(x, w, padding=1)\n")
    shifted = [launch for launch in products(op) if WHOLE_DIGITS in launch.attrs]
    assert shifted and len(shifted) < len(products(op))
    sizes = {"B": 2, "H": 10, "W": 12, "O": 32}
    windows = 9 * 2 * 10 * 12
    for channels, written in ((64, False), (3, True)):
        buffers = [b for b in op.body.ops if b.attrs.get("role") == "workspace"]
        dims = [dim for b in buffers for dim in memory(b.result).dims]
        assert all(dim.symbols() <= {*sizes, "C"} for dim in dims)
        rooms = [np.prod([dim.evaluate({**sizes, "C": channels}) for dim in memory(b.result).dims]) for b in buffers]
        assert (max(rooms) >= windows * channels) == written


@pytest.mark.one_in(2)
def test_known_channels_need_no_choice() -> None:
    op = host("def f(" + IMAGE.format(c="64", t=HALF) + "):\n    return conv2d(x, w, padding=1)\n")
    assert all(WHOLE_DIGITS in launch.attrs for launch in products(op))
    op = host("def f(" + IMAGE.format(c="3", t=HALF) + "):\n    return conv2d(x, w, padding=1)\n")
    assert not any(WHOLE_DIGITS in launch.attrs for launch in products(op))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("channels", "dtype", "unit"),
    [("16", "f32", 48), ("C", "f32", 16), ("64", HALF, 192), ("128", HALF, 384), ("C", HALF, 64)])  # fmt: skip
def test_no_block_of_terms_crosses_a_row_of_a_window(channels: str, dtype: str, unit: int) -> None:
    op = host("def f(" + IMAGE.format(c=channels, t=dtype) + "):\n    return conv2d(x, w, padding=1)\n")
    shifted = [launch for launch in products(op) if WHOLE_DIGITS in launch.attrs]
    assert {launch.attrs[WHOLE_DIGITS] for launch in shifted} == {unit}
    assert all(unit % launch_loops(launch)[-1].block == 0 for launch in shifted)


@pytest.mark.one_in(6)
def test_narrow_windows_are_multiplied_by_tensor_copies_and_matrix_units() -> None:
    file = SourceFile("m.tess", "def f(" + IMAGE.format(c="64", t=HALF) + "):\n    return conv2d(x, w, padding=1)\n")
    kernels = kernels_of(run_passes(tile_of(file, "f", ARCH), [gpu_pass(PLATFORMS[ARCH].schedule)], verify=True))
    fed = [kernel for kernel in kernels if any(op.name == "gpu.tensor_copy" for op in kernel.walk())]
    multiplied = [kernel for kernel in kernels if any(op.name == "gpu.multiply" for op in kernel.walk())]
    assert fed and {k.attrs["variant_of"] for k in fed} == {k.attrs["variant_of"] for k in multiplied}


TURNED = "def f(x: Tensor[A, B, C, f32]):\n    return permute(x, (0, 2, 1)) * 2.0\n"


@pytest.mark.one_in(6)
def test_maps_across_memory_exchange_their_blocks() -> None:
    run, rng = emulated(TURNED, ARCH), np.random.default_rng(4)
    for shape in ((2, 70, 90), (1, 3, 5), (1, 64, 128), (1, 66, 4), (2, 32, 70), (1, 33, 3)):
        x = rng.standard_normal(shape).astype(np.float32)
        same_bits(run(x)[0], x.transpose(0, 2, 1) * np.float32(2))
    file = SourceFile("m.tess", TURNED)
    wide, narrow = kernels_of(run_passes(tile_of(file, "f", ARCH), [gpu_pass(PLATFORMS[ARCH].schedule)], verify=True))
    assert all(any(op.name == "gpu.barrier" for op in kernel.walk()) for kernel in (wide, narrow))


@pytest.mark.one_in(6)
def test_lines_that_end_with_a_vector_move_in_vectors() -> None:
    run = emulated("def f(x: Tensor[A, B, C, f32]):\n    return x[:, 1:, : C - 4] * 2.0\n", ARCH)
    for columns in (36, 37, 8):
        x = np.random.default_rng(5).standard_normal((5, 7, columns)).astype(np.float32)
        same_bits(run(x)[0], x[:, 1:, : columns - 4] * np.float32(2))


@pytest.mark.one_in(2)
def test_what_lies_across_is_read_by_products_in_blocks_of_any_shape() -> None:
    text = "def f(a: Tensor[M, K, t], b: Tensor[K, N, t], c: Tensor[N, M, t]):\n    return a @ b + transpose(c)\n"
    file = SourceFile("m.tess", f"t = {HALF}\n{text}")
    kernels = kernels_of(run_passes(tile_of(file, "f", ARCH), [gpu_pass(PLATFORMS[ARCH].schedule)], verify=True))
    assert emit_kernel(next(k for k in kernels if any(op.name == "gpu.multiply" for op in k.walk()))).llvm
