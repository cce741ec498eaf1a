"""Products of bf16 and i8 in the matrix unit of a core: tiles, edges, one order whatever the schedule. Kernels that are
shaped for the unit run here with its sums written out; the code for it is looked at as assembly."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.ir.passes import run_passes
from tesserac.numerics.tiles import tile_contract
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import X86_64_V4_AMX
from tesserac.target.compile import described, emit_assembly
from tesserac.target.cpu.kernels import emit_kernel
from tesserac.target.emit import Module
from tesserac.tile.build import tile_pass
from tesserac.tile.cpu.target import AVX512, TARGETS
from tests.support.cpu_kernels import lower_all, same_bits
from tests.support.source_support import compile_to_forms
from tests.tile.test_tile_cpu_random import Native

HALF = "bf16 @accum(f32)"
SOURCE = f"""
def product(a: Tensor[M, K, {HALF}], b: Tensor[K, N, {HALF}]):
    return a @ b

def right_turned(a: Tensor[M, K, {HALF}], b: Tensor[N, K, {HALF}]):
    return a @ b.T

def left_turned(a: Tensor[K, M, {HALF}], b: Tensor[K, N, {HALF}]):
    return a.T @ b

def after(a: Tensor[M, K, {HALF}], b: Tensor[K, N, {HALF}]):
    return relu(a * 2.0) @ b + a[0, 0]
"""
BYTES = """
def product(a: Tensor[M, K, i8], b: Tensor[K, N, i8]) -> Tensor[M, N, i32]:
    return a @ b

def right_turned(a: Tensor[M, K, i8], b: Tensor[N, K, i8]) -> Tensor[M, N, i32]:
    return a @ b.T

def left_turned(a: Tensor[K, M, i8], b: Tensor[K, N, i8]) -> Tensor[M, N, i32]:
    return a.T @ b

def after(a: Tensor[M, K, i8], b: Tensor[K, N, i8]) -> Tensor[M, N, i32]:
    return (a + a) @ b + 1
"""
SIZES = [(1, 3, 5), (5, 40, 33), (17, 64, 16), (200, 31, 70), (33, 600, 40), (1, 4100, 20)]


@cache
def compiled(text: str = SOURCE) -> Native:
    passes = [*schedule_passes(X86_64_V4_AMX), tile_pass(X86_64_V4_AMX)]
    return Native(run_passes(compile_to_forms(text), passes, verify=True), AVX512)


def half(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_have_the_order_of_the_unit(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k)
    a, b = half(rng, m, k), half(rng, k, n)
    wide = [x.astype(np.float32) for x in (a, b)]
    expected = tile_contract(*wide).astype(ml_dtypes.bfloat16)
    same_bits(compiled().run("m.product", [a, b])[0], expected)
    same_bits(compiled().run("m.right_turned", [a, b.T])[0], expected)
    same_bits(compiled().run("m.left_turned", [a.T, b])[0], expected)
    more = tile_contract(np.maximum(wide[0], 0) * 2, wide[1]).astype(ml_dtypes.bfloat16)
    same_bits(compiled().run("m.after", [a, b])[0], (more.astype("f4") + wide[0][0, 0]).astype(ml_dtypes.bfloat16))


def instructions(text: str, kind: str, own: str) -> list[str]:
    """Those of the kernels of a program for the unit of a kind, whose function is the `own` one."""
    kernels = [op for op in compiled(text).module.ops if op.name == "tile.kernel"]
    machine = described(X86_64_V4_AMX)
    module = Module("test", machine.triple)
    for kernel in lower_all(kernels[:2], TARGETS[f"avx512-{kind}"]):
        emit_kernel(module, kernel)
    common = [text for _, text, _ in module.take_common()]
    assert any(f"@{own}(" in text for text in common) and ("@import.libc.syscall" in str(module)) == (kind == "amx")
    code = "".join(emit_assembly(text, machine) for text in (*common, str(module)))
    return [line.split()[0] for line in code.splitlines() if line.startswith("\t")]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("text", "dtype", "multiply"), [(SOURCE, "bf16", "tdpbf16ps"), (BYTES, "i8", "tdpbssd")])
def test_the_unit_multiplies_and_is_left_as_it_was(text: str, dtype: str, multiply: str) -> None:
    """In code that many programs have; each asks the system for the unit itself."""
    lines = instructions(text, "amx", f"tiles_{dtype}_amx")
    counts = {name: lines.count(name) for name in ("ldtilecfg", multiply, "tileloadd", "tilestored", "tilerelease")}
    assert counts == {"ldtilecfg": 1, multiply: 4, "tileloadd": 8, "tilestored": 4, "tilerelease": 1}


@pytest.mark.one_in(2)
def test_vectors_of_bytes_are_multiplied_from_registers() -> None:
    lines = instructions(BYTES, "vnni", "tiles_i8_vnni")
    assert lines.count("vpdpbusd") == 16 * (16 + 2) and "ldtilecfg" not in lines


def integers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, dtype=np.int8)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.matmul(a.astype(np.int32), b.astype(np.int32))


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_bytes_are_exact_where_they_are_written_out(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k)
    a, b = integers(rng, m, k), integers(rng, k, n)
    for name, given in (("product", (a, b)), ("right_turned", (a, b.T)), ("left_turned", (a.T, b))):
        same_bits(compiled(BYTES).run(f"m.{name}", list(given))[0], exact(a, b))
    same_bits(compiled(BYTES).run("m.after", [a, b])[0], exact(a + a, b) + np.int32(1))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_bytes_are_exact_here(threads: int) -> None:
    """By whatever this machine has for them; sums of products of -128 are the largest."""
    module, before = tessera.compile(BYTES), tessera.get_num_threads()
    tessera.set_num_threads(threads)
    try:
        for m, k, n in (*SIZES, (300, 1030, 257), (3, 70, 2100)):  # the last in long runs on one thread, not on three
            rng = np.random.default_rng(n)
            least = np.full((m, k), -128, np.int8), np.full((k, n), -128, np.int8)
            for a, b in ((integers(rng, m, k), integers(rng, k, n)), least):
                same_bits(module.product(a, b), exact(a, b))
                same_bits(module.product(a, tessera.freeze(b)), exact(a, b))
                same_bits(module.right_turned(a, np.ascontiguousarray(b.T)), exact(a, b))
                same_bits(module.left_turned(np.ascontiguousarray(a.T), b), exact(a, b))
    finally:
        tessera.set_num_threads(before)


def test_long_runs_are_for_threads_with_many_columns() -> None:
    """And for units that have two tiles of terms in them: of i8 a tile has as many as a run."""
    for text, wanted in ((SOURCE, True), (BYTES, False)):
        scheduled = run_passes(compile_to_forms(text), schedule_passes(X86_64_V4_AMX), verify=True)
        chosen = [op.attrs["predicates"] for op in scheduled.walk() if op.name == "schedule.select"]
        kinds = {p.kind for predicates in chosen for p in predicates}
        assert ("each_thread" in kinds) == wanted, kinds


@pytest.mark.one_in(2)
def test_no_other_order_for_a_few_rows() -> None:
    """What a call's sizes select is one order: nothing reads rows as they lie."""
    kernels = [op for op in compiled().module.ops if op.name == "tile.kernel"]
    lowered = [inner.name for kernel in lower_all(kernels, AVX512) for inner in kernel.walk()]
    assert "cpu.tile_product" in lowered
    assert "cpu.row_product" not in lowered and "cpu.micro_kernel" not in lowered
