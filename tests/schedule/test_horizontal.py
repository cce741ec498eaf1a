"""The same for several tensors is one launch: as many programs as all have together, and the bits of one by one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.schedule.dialect import launch_kind, launch_lengths
from tesserac.schedule.machine import MACHINES
from tesserac.schedule.maps.horizontal import WORD, WORDS_BESIDE
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import assemble, emit_ptx, find_ptxas
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, tile_of

NET = """struct Net[M, N]:
    w: Tensor[M, N, f32]
    b: Tensor[N, f32]
    scale: Tensor[64, f32]
    heat: f32

def step(p: Net[M, N], g: Net[M, N], mean: Net[M, N], square: Net[M, N], t: i32, lr: f32):
    state = OptimizerState(step=t, mean=mean, square=square, master=None)
    new, state = adamw(p, g, state, lr=lr)
    return new, state.mean, state.square

def alone(p: Tensor[N, f32], g: Tensor[N, f32], m: Tensor[N, f32], v: Tensor[N, f32], t: i32, lr: f32):
    return fused_adam(p, g, m, v, t + 1, lr=lr, weight_decay=0.01)
"""
OTHERS = """def same(x: Tensor[N, f32], y: Tensor[M, K, f32]):
    return exp2(x) * 3.0, exp2(y) * 3.0

def constants(x: Tensor[N, f32], y: Tensor[M, f32]):
    return x * 3.0, y * 2.0

def types(x: Tensor[N, f32], y: Tensor[M, f64]):
    return x * 3.0, y * 3.0

def chain(x: Tensor[N, f32], i: Tensor[M, i32]):
    y = exp2(x)
    return y, exp2(y[i])

def across(x: Tensor[N, M, f32], y: Tensor[N, M, f32]):
    return exp2(x).T, exp2(y)

def places(x: Tensor[N, f32], y: Tensor[M, f32]):
    return x + cast(arange(N), f32), y + cast(arange(M), f32)

def stretched(x: Tensor[N, M, f32], y: Tensor[M, f32], z: Tensor[K, f32]):
    return x + y, z + z

def by_a_number(x: Tensor[N, f32], y: Tensor[M, f32], a: f32, b: f32):
    return x * a, y * b
"""


@cache
def net() -> object:
    return tessera.compile(NET)


def launches(text: str, name: str, arch: str = "aarch64") -> list[Op]:
    file = SourceFile("horizontal.tess", text)
    levels = SESSION.levels(file, SESSION.function(file, name), MACHINES[arch])
    return [op for op in levels.schedule.walk() if op.name == "schedule.launch"]


def lengths(text: str, name: str, arch: str = "aarch64") -> list[list[str]]:
    return [list(map(str, launch_lengths(op))) for op in launches(text, name, arch) if launch_lengths(op)]


def weights(seed: int, rows: int, columns: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"w": (rows, columns), "b": (columns,), "scale": (64,), "heat": ()}
    return {name: rng.normal(size=shape).astype(np.float32) ** 2 for name, shape in shapes.items()}


def arguments(rows: int, columns: int) -> list[dict[str, np.ndarray]]:
    return [weights(seed, rows, columns) for seed in range(4)]


def one_by_one(parts: list[dict[str, np.ndarray]], field: str) -> tuple[np.ndarray, ...]:
    flat = [np.atleast_1d(part[field]).ravel() for part in parts]
    return net().alone(*flat, np.int32(3), np.float32(0.1))  # type: ignore[attr-defined,no-any-return]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("arch", ["aarch64", "x86-64-v4", "sm_80", "sm_90a"])
def test_a_step_over_all_weights_is_one_launch(arch: str) -> None:
    found = launches(NET, "step", arch)
    assert [launch_kind(op) for op in found if str(op.attrs["space"]) != "()"] == ["map"]
    assert lengths(NET, "step", arch) == [["M*N", "N", "64", "1"]]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sizes", [(3, 5), (700, 90), (0, 5), (1, 1)])
def test_bits_are_those_of_one_tensor_after_another(sizes: tuple[int, int]) -> None:
    parts = arguments(*sizes)
    results = net().step(*parts, np.int32(3), np.float32(0.1))  # type: ignore[attr-defined]
    for field in parts[0]:
        for got, wanted in zip(results, one_by_one(parts, field), strict=True):
            same_bits(np.atleast_1d(getattr(got, field)).ravel(), wanted)


@pytest.mark.one_in(6)
def test_a_program_on_a_gpu_finds_its_tensor() -> None:
    gpu, file, parts = PLATFORMS["sm_80"], SourceFile("horizontal.tess", NET), arguments(40, 70)
    lowered = run_passes(tile_of(file, "step", "sm_80"), [gpu_pass(gpu.schedule)], verify=True)
    symbol = SESSION.function(file, "step").symbol
    program = gpu_program(lowered, symbol, gpu, SESSION.locate, name="step", returns_tuple=True)
    several = [kernel for kernel in program.kernels if kernel.tensors]
    assert [kernel.tensors for kernel in several] == [4]
    if find_ptxas() is not None:
        (kernel,) = (op for op in kernels_of(lowered) if "tensors" in op.attrs)
        assert not assemble(emit_ptx(emit_kernel(kernel).llvm, "sm_80"), "sm_80").stack_bytes, "the table is not copied"
    given = [part[field] for part in parts for field in part]
    results = Emulated(program, kernels_of(lowered))(*given, np.int32(3), np.float32(0.1))
    for place, field in enumerate(parts[0]):
        for number, wanted in enumerate(one_by_one(parts, field)):
            same_bits(np.atleast_1d(results[number * 4 + place]).ravel(), wanted)


@pytest.mark.parametrize(("name", "found"), [
    ("same", [["N", "K*M"]]),
    ("by_a_number", [["N", "M"]]),
    ("constants", []),
    ("types", []),
    ("chain", []),
    ("across", []),
    ("places", []),
    ("stretched", []),
])  # fmt: skip
def test_what_is_joined(name: str, found: list[list[str]]) -> None:
    assert lengths(OTHERS, name) == found


def test_numbers_of_each_tensor_are_its_own() -> None:
    x, y = np.arange(5, dtype=np.float32), np.arange(7, dtype=np.float32)
    got = tessera.compile(OTHERS).by_a_number(x, y, np.float32(2), np.float32(3))
    assert (got[0] == x * 2).all() and (got[1] == y * 3).all()


def test_what_one_reads_and_the_other_writes_keeps_its_order() -> None:
    """Donated memory: the second tensor is read before the first result goes there."""
    text = """@export(donate=(y,))
def f(x: Tensor[N, f32], y: Tensor[N, f32]):
    return x * 2.0, y * 2.0
"""
    x, y = np.ones(9, np.float32), np.full(9, 3, np.float32)
    got = tessera.compile(text).f(x, y.copy())
    assert (got[0] == 2).all() and (got[1] == 6).all()


@pytest.mark.one_in(48)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_no_launch_is_given_more_than_a_kernel_takes(arch: str) -> None:
    """As parameters: 4 KiB of PTX 8.0, 32764 bytes from 8.1 on."""
    machine, many = MACHINES[arch], 120
    parameters = ", ".join(f"x{i}: Tensor[N{i}, f32]" for i in range(many))
    text = f"def f({parameters}):\n    return [exp2(x) * 2.0 for x in [{', '.join(f'x{i}' for i in range(many))}]]\n"
    found = lengths(text, "f", arch)
    most = machine.parameter_bytes // WORD // (2 + WORDS_BESIDE)
    assert [len(row) for row in found] == [min(most, many)] + [many - most] * (most < many)
    lowered = run_passes(tile_of(SourceFile("horizontal.tess", text), "f", arch), [gpu_pass(machine)], verify=True)
    for kernel in kernels_of(lowered) if find_ptxas() is not None else ():
        assemble(emit_ptx(emit_kernel(kernel).llvm, arch), arch)


def test_maps_around_a_running_fold_are_one_launch_of_a_cpu() -> None:
    text = "def f(x: Tensor[M, N, f32]): return 2.0 * cumsum(exp(x), axis=1)"
    assert len(launches(text, "f")) == 1
    assert len(launches(text, "f", "sm_90a")) == 3


def test_long_maps_stay_apart_from_a_single_row() -> None:
    text = "def f(x: Tensor[N, f32]): return cumsum(exp(x) * tanh(x))"
    assert len(launches(text, "f")) == 2
