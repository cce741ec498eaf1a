"""Functions for tests of calls from Python, and the two ways a call may go."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tessera.function import CompiledFunction
from tesserac.target.llvm_types import const_i64
from tests.support.native_support import Kernel, add_artifact, build

f4 = np.float32


@cache
def add() -> CompiledFunction:
    return CompiledFunction(add_artifact())


def ways(function: CompiledFunction) -> list[Callable[..., object]]:
    """The stub, and the careful way that it falls back to."""
    slow = CompiledFunction.__new__(CompiledFunction)
    slow.__dict__.update(function.__dict__, _fast=None)
    return [function.fast, slow]


SOLVED = """
schedule.func @halves {params = ["x", "s", "w"]} {
  ^(%x: memref<[2*N + 1], f32, global>, %s: memref<[], f32, global>, %w: memref<[N, M], f32, global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    %t = schedule.buffer() {role = "output", slot = 1} : memref<[], f32, global>
    tile.launch(%x, %s, %z, %t) {kernel = "k"}
    schedule.return(%z, %t)
}
cpu.kernel @k {grid = [`1`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[2*N + 1], f32, global>, %s: memref<[], f32, global>, %z: memref<[N], f32, global>,
    %t: memref<[], f32, global>):
    cpu.return()
}
"""


def solved_code(k: Kernel) -> None:
    x, s, z, t = k.memory
    factor = k.load(s, const_i64(0))
    k.each(const_i64(0), k.sizes["N"], lambda i: k.store(k.b.fmul(k.load(x, i), factor), z, i))
    k.store(k.load(x, k.b.mul(k.sizes["N"], const_i64(2))), t, const_i64(0))


@cache
def solved() -> CompiledFunction:
    return CompiledFunction(build(SOLVED, {"k": solved_code}, returns_tuple=True))
