"""Kernels of rows are launches like any other: what a program keeps near is computed once, its results go where they
are wanted, and sizes decide on the host which of two ways is taken."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.ir.core import Module, Op
from tesserac.ir.parser import parse_module
from tesserac.schedule.dialect import launch_kind, launch_units
from tesserac.schedule.machine import MACHINES
from tesserac.target.cpu.build import AARCH64, PLATFORMS
from tesserac.tile.cpu.join_rows import join_rows
from tesserac.types.dims import Dim
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_kernels import SESSION

PROGRAM = """
def softmaxes(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return softmax_rows(x)

def norms(x: Tensor[M, N, f32], s: Tensor[N, f32], b: Tensor[N, f32]) -> Tensor[M, N, f32]:
    return layernorm_rows(x, s, b)

def losses(x: Tensor[M, N, f32], y: Tensor[M, i32]):
    return cross_entropy_rows(x, y)

def both(x: Tensor[M, N, f32]):
    y = softmax_rows(x)
    return y, y * 2.0

def twice(x: Tensor[M, N, f32]):
    y = softmax_rows(x)
    return y, y

def nested(x: Tensor[M, N, f32], z: bool):
    y = x
    if z:
        y = softmax_rows(x) if N > 3 else x * 2.0
    return y

@export(donate=(x,))
def given(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return softmax_rows(x)
"""
FILE = SourceFile("rows.tess", PROGRAM)


def schedule(name: str, arch: str = "aarch64") -> Module:
    return SESSION.levels(FILE, SESSION.function(FILE, name), MACHINES[arch]).schedule


def inside(module: Module, name: str) -> list[Op]:
    return [op for op in module.walk() if op.name == name]


def launches(op: Op) -> list[Op]:
    return [inner for inner in op.walk() if inner.name == "schedule.launch"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("arch", ["aarch64", "x86-64-v4", "sm_90a"])
@pytest.mark.parametrize("name", ["softmaxes", "norms"])
def test_sizes_decide_on_the_host_and_nothing_is_copied(name: str, arch: str) -> None:
    module = schedule(name, arch)
    select, *by_length = inside(module, "schedule.select")
    assert not inside(module, "schedule.cond") and not inside(module, "schedule.while")
    kinds = [[launch_kind(op) for top in region.block.ops for op in launches(top)] for region in select.regions]
    rooms, lengths = (4, 13) if arch == "sm_90a" else (1, 1)
    assert kinds == [["program"], ["program"] * (rooms - 1) + ["rows"] * lengths]
    assert len(by_length) == (rooms if lengths > 1 else 0)
    assert not [op for op in inside(module, "schedule.buffer") if op.attrs["role"] == "workspace"]


def test_rows_without_elements_have_a_warp() -> None:
    file = SourceFile("m.tess", "def f(x: Tensor[4, 0, f32]): return sum(x, axis=1), all(x > 0.0, axis=1)")
    module = SESSION.levels(file, SESSION.function(file, "f"), MACHINES["sm_90a"]).schedule
    assert all(launch_units(launch).warps >= 1 for launch in inside(module, "schedule.launch"))


def test_a_costly_tile_is_computed_in_the_first_loop_that_needs_it() -> None:
    tiles = SESSION.levels(FILE, SESSION.function(FILE, "softmaxes"), MACHINES["aarch64"]).tile
    kernels = [op for op in AARCH64.lowering.run(tiles).ops if op.name == "cpu.kernel"]
    assert [sum(op.name == "scalar.exp_term" for op in kernel.walk()) for kernel in kernels] == [1, 1]
    own = [[op for op in kernel.walk() if op.name == "cpu.scratch"] for kernel in kernels]
    assert len(own[1]) == 1, "what a loop stores and sums at once is not kept beside"


def lowered_to_cpu(text: str) -> list[Op]:
    file = SourceFile("m.tess", text)
    tiles = SESSION.levels(file, SESSION.function(file, "f"), MACHINES["x86-64-v4"]).tile
    return [op for op in PLATFORMS["x86-64-v4"].lowering.run(tiles).ops if op.name == "cpu.kernel"]


@pytest.mark.parametrize("rows", [1, 8, 64])
def test_a_block_of_rows_is_one_loop_and_room_for_one_row(rows: int) -> None:
    [kernel] = lowered_to_cpu(
        f"def f(x: Tensor[M, 512, f32]): return softmax_rows.with_schedule(Schedule(block=({rows},)))(x)"
    )
    assert sum(op.name == "cpu.loop" for op in kernel.walk()) == 1
    assert kernel.attrs["scratch"] == Dim.const(4 * 512), "what is known of a row is a value"


def loop(body: str) -> str:
    return f"cpu.loop(%z, %n) {{step = 1}} {{\n ^(%r: index):\n {body}\n cpu.yield()\n }}"


KEPT = "%v = cpu.load(%x, %r) : scalar<f32>\n cpu.store(%v, %s, %r)"
READ = "%w = cpu.load(%s, {}) : scalar<f32>\n cpu.store(%w, %y, %r)"
ROWS = {
    "reads what was written in its row": (KEPT, READ.format("%r"), 1),
    "reads the first row": (KEPT, READ.format("%z"), 2),
    "reads rows from the end": (KEPT, "%t = index.sub(%n, %r) : index\n " + READ.format("%t"), 2),
    "writes what was read in all rows": (READ.format("%z"), KEPT, 2),
    "writes the first row again": (KEPT, KEPT.replace("%s, %r", "%s, %z"), 2),
}


@pytest.mark.parametrize("name", ROWS)
def test_loops_are_one_where_rows_do_not_meet(name: str) -> None:
    first, second, left = ROWS[name]
    [kernel] = parse_module(
        f"""cpu.kernel @k {{grid = [`1`], scratch = `32`, symbols = [], target = "avx512"}} {{
 ^(%p: index, %x: memref<[8], f32, global>, %y: memref<[8], f32, global>):
 %z = index.dim() {{dim = `0`}} : index
 %n = index.dim() {{dim = `7`}} : index
 %s = cpu.scratch() {{offset = `0`}} : memref<[8], f32, local>
 {loop(first)}
 {loop(second)}
 cpu.return()
}}"""
    ).ops
    join_rows(kernel.body)
    assert sum(op.name == "cpu.loop" for op in kernel.walk()) == left


@pytest.mark.one_in(24)
@pytest.mark.parametrize("columns", [1, 7, 256, 257, 600])
def test_both_ways_have_the_bits_of_the_meaning(columns: int) -> None:
    rng, module = np.random.default_rng(columns), tessera.compile(PROGRAM)
    x, s, b = (rng.normal(size=n).astype(np.float32) for n in ((5, columns), (columns,), (columns,)))
    softmaxes = tessera.compile("def f(x: Tensor[M, N, f32]): return softmax(x)").f(x)
    layers = tessera.compile(
        "def f(x: Tensor[M, N, f32], s: Tensor[N, f32], b: Tensor[N, f32]): return layernorm(x, s, b)"
    ).f(x, s, b)
    same_bits(module.softmaxes(x), softmaxes)
    same_bits(module.norms(x, s, b), layers)
    expected = (softmaxes, softmaxes * 2, softmaxes, softmaxes)
    for got, wanted in zip((*module.both(x), *module.twice(x)), expected, strict=True):
        same_bits(got, wanted)
    same_bits(module.nested(x, True), softmaxes if columns > 3 else x * 2)
    same_bits(module.nested(x, False), x)
    same_bits(module.given(x.copy()), softmaxes)


def test_a_flag_that_sizes_and_values_make_is_computed() -> None:
    text = """def f(x: Tensor[N, f32], n: i64) -> Tensor[N, f32]:
    if N > 4 and n > 2:
        return x * 2.0
    return x
"""
    f = tessera.compile(text).f
    for size, n in ((5, 3), (5, 1), (3, 3)):
        x = np.ones(size, np.float32)
        same_bits(f(x, np.int64(n)), x * (2 if size > 4 and n > 2 else 1))
