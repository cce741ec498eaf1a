"""Kernels under the records of other machines, run here: their blocks, register blocks and matrix units, this machine's
code. What is wrong in the schedule or the tiles of a processor that is not at hand shows here.
"""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tessera.function import CompiledFunction
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tesserac.schedule.machine import AARCH64_SVE, X86_64_V3, X86_64_V4, X86_64_V4_AMX, Machine
from tesserac.target.cpu.build import host_platform
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_programs import PROGRAMS
from tests.support.kernel_programs import arguments as program_arguments
from tests.support.source_support import compile_to_forms
from tests.tile.test_user_kernels import KERNELS
from tests.tile.test_user_kernels import arguments as kernel_arguments

WRITTEN_OUT = replace(X86_64_V4_AMX, vectors=X86_64_V4.vectors)
"""Tiles of AMX as loops of ordinary instructions, in the same order."""
FOREIGN = {machine.arch: machine for machine in (X86_64_V3, X86_64_V4, WRITTEN_OUT, AARCH64_SVE)}
HALF = "bf16 @accum(f32)"
SHORT = f"""
@kernel
def f(q: KTile[2, S, 64, {HALF}], k: KTile[2, 40, 64, {HALF}], v: KTile[2, 40, 64, {HALF}]) -> Tile[2, S, 64, {HALF}]:
    T = tile.context()
    x = tile.load(q, rows=T.m, cols=T.d)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n):
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.transpose(tile.load(k, j))) * 0.25)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j), mc, lc)
    return cast(acc / l[:, None], {HALF})
"""
"""Of keys that are fewer than a block, and no multiple of what a matrix unit adds at a time."""
NARROW = {
    "few keys": (SHORT, "2SD 2tD 2tD"),
    "attention": (f"def f(q: Tensor[2, S, 64, {HALF}], k: Tensor[2, L, 64, {HALF}], v: Tensor[2, L, 64, {HALF}]): "
                  "return attention(q, k, v)", "2SD 2LD 2LD"),
    "causal": (f"def f(q: Tensor[2, S, 64, {HALF}], k: Tensor[2, S, 64, {HALF}], v: Tensor[2, S, 64, {HALF}]): "
               "return attention(q, k, v, causal=True)", "2SD 2SD 2SD"),
    "product": (f"def f(a: Tensor[S, L, {HALF}], b: Tensor[L, 40, {HALF}]): return gelu(a @ b)", "SL Lt"),
    "softmax": (f"def f(x: Tensor[S, L, {HALF}]): return softmax(x)", "SL"),
    "layer norm": (f"def f(x: Tensor[S, L, {HALF}]): return layernorm(x)", "SL"),
}  # fmt: skip
"""Functions whose kernels the library has, in numbers that each architecture sums in an order of its own."""
SIZES = {"S": 37, "L": 70, "D": 64, "2": 2, "t": 40}
TOLERANCE = 2.0**-6


def under(machine: Machine, text: str) -> CompiledFunction:
    """The function `f` of a program as it is compiled for a machine, in code that runs here."""
    here, session, source = host_platform(), Session(), SourceFile("m.tess", text)
    foreign = replace(machine, code=here.schedule.code, cores=2)
    return CompiledFunction(session.artifact(source, session.function(source, "f"), replace(here, schedule=foreign)))


def exact(machine: Machine, text: str, args: list[np.ndarray]) -> None:
    found = under(machine, text)(*args)
    wanted = run_function(compile_to_forms(text), "m.f", args)
    for got, expected in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        same_bits(np.asarray(got), np.asarray(expected))


@pytest.mark.one_in(48)
@pytest.mark.parametrize("machine", FOREIGN)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_users_have_the_bits_of_their_meaning(name: str, machine: str) -> None:
    exact(FOREIGN[machine], KERNELS[name][0], kernel_arguments(name, 9, 600))


@pytest.mark.one_in(48)
@pytest.mark.parametrize("machine", FOREIGN)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_bits_of_their_meaning(name: str, machine: str) -> None:
    exact(FOREIGN[machine], PROGRAMS[name], program_arguments(name, 37, 41))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("machine", FOREIGN)
@pytest.mark.parametrize("name", NARROW)
def test_narrow_numbers_are_near_wide_ones(name: str, machine: str) -> None:
    text, shapes = NARROW[name]
    rng = np.random.default_rng(1)
    wide = [rng.standard_normal([SIZES[letter] for letter in shape], "f4") for shape in shapes.split()]
    args = [array.astype(ml_dtypes.bfloat16) for array in wide]
    found = np.asarray(under(FOREIGN[machine], text)(*args)).astype("f4")
    (wanted,) = run_function(compile_to_forms(text.replace(HALF, "f32")), "m.f", [a.astype("f4") for a in args])
    np.testing.assert_allclose(found, wanted, rtol=2 * TOLERANCE, atol=TOLERANCE)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("machine", FOREIGN)
@pytest.mark.parametrize("count", (3, 10, 50, 100))
def test_what_vectors_leave_over_of_a_row_has_the_bits_of_its_meaning(count: int, machine: str) -> None:
    text = f"""
def f(x: Tensor[B, {count}, f32], i: Tensor[B, {count}, i16]):
    return softmax(x), logsumexp(x, axis=1), sum(exp(x) * x, axis=1), max(i, axis=1), min(x, axis=1), exp(x) + 1.0
"""
    rng = np.random.default_rng(count)
    x, i = rng.standard_normal((37, count), "f4"), rng.integers(-9, 9, (37, count)).astype("i2")
    x[0, 0], x[1, -1], x[2, 1] = np.nan, np.inf, -0.0
    exact(FOREIGN[machine], text, [x, i])
