"""Random functions: what is scheduled, lowered to the CPU and compiled gives the oracle's bits."""

from __future__ import annotations

from itertools import product
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import tesserac.ir.func
import tesserac.schedule.dialect  # noqa: F401
from tesserac.graph.interp import bind_sizes, run_function
from tesserac.ir.core import Module, Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.numerics.narrow import storage
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.build import tile_pass
from tesserac.tile.cpu.lower import buffer_bytes
from tesserac.tile.cpu.target import AVX2, AVX512, NEON, CpuTarget
from tesserac.tile.dialect import CODE, memref_type
from tests.support import tile_eval
from tests.support.cpu_kernels import Compiled, lower_all, same_bits
from tests.support.form_gen import SYMBOLS, modules
from tests.support.sampling import some_of_each
from tests.support.source_support import compile_to_forms
from tests.tile.test_tile_build import values

SLOT_BYTES = 1 << 26


class NativeHost(tile_eval._Host):
    """The host program in Python, its kernels as machine code."""

    target: CpuTarget
    compiled: Compiled

    def _run_code(self, kernel: Op, memories: list[np.ndarray], sizes: dict[str, int]) -> None:
        self.compiled.run(memories, sizes, name=kernel.symbol)

    def _buffer(self, op: Op) -> np.ndarray:
        """Buffers of one slot share memory."""
        ty = memref_type(op.result)
        size = buffer_bytes(ty, self.target).evaluate(self.sizes)
        dtype = storage(ty.dtype) if ty.layout == "strided" else np.dtype(np.uint8)
        if op.attrs["role"] in ("output", "register"):
            return np.full(size, tile_eval.POISON, np.uint8).view(dtype)
        memory = self.slots.setdefault(op.attrs["slot"], np.zeros(SLOT_BYTES, np.uint8))
        assert size < SLOT_BYTES
        return memory[:size].view(dtype)


class Native:
    """A module as machine code, compiled once for runs with any sizes."""

    def __init__(self, module: Module, target: CpuTarget) -> None:
        self.module, self.target = module, target
        own = [op for op in module.ops if op.name == "tile.kernel" and CODE not in op.attrs]
        kernels = lower_all(own, target)  # the host runs the code that others share under its own name
        self.compiled = Compiled(kernels, fast=True)

    def run(self, name: str, args: list[np.ndarray]) -> list[np.ndarray]:
        host = self.module.lookup(name)
        sizes = bind_sizes([memref_type(a).dims for a in host.body.args], [a.shape for a in args])
        env = {v: np.array(a, order="C").reshape(-1) for v, a in zip(host.body.args, args, strict=True)}
        runner = NativeHost(self.module, sizes, env, tile_eval.Peak())
        runner.target, runner.compiled = self.target, self.compiled
        runner.run(host.body)
        return [
            env[v].reshape(tuple(d.evaluate(sizes) for d in memref_type(v).dims))
            for v in host.body.terminator.operands
        ]


def run_native(module: Module, name: str, args: list[np.ndarray], target: CpuTarget) -> list[np.ndarray]:
    return Native(module, target).run(name, args)


SIZES = st.sampled_from([0, 1, 2, 3, 7, 16, 35])


@pytest.mark.one_in(6)
@given(modules(), st.tuples(SIZES, SIZES, SIZES), st.sampled_from([NEON, AVX2, AVX512]))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_functions_as_machine_code(module: Module, sizes: tuple[int, int, int], target: CpuTarget) -> None:
    """Kernels shaped for either processor run on this one: LLVM splits vectors that are too wide."""
    note(print_module(module))
    known = dict(zip(SYMBOLS, sizes, strict=True))
    args = []
    for number, value in enumerate(module.lookup("f").body.args):
        ty = tensor_type(value)
        args.append(values(ty.dtype, tuple(d.evaluate(known) for d in ty.dims), number))
    expected = run_function(module, "f", args)
    lowered = run_passes(module, [*schedule_passes(AARCH64), tile_pass(AARCH64)], verify=True)
    for got, wanted in zip(run_native(lowered, "f", args, target), expected, strict=True):
        same_bits(got, wanted)


LONG = "((x * x + x) * x - x) * x + x"


SUMS = product(
    ["u8", "i8", "i16", "i32", "i64", "bf16 @accum(f32)", "f64"],
    ["sum(x)", f"sum({LONG})", "x @ x", f"({LONG}) @ x"],
    [NEON, AVX2, AVX512],
)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("dtype", "terms", "target"), some_of_each(SUMS, key=itemgetter(0, 1)))
def test_sums_keep_the_lanes_of_their_order(dtype: str, terms: str, target: CpuTarget) -> None:
    """However many elements a vector holds and however long the body is."""
    module = compile_to_forms(f"def f(x: Tensor[N, {dtype}]):\n    return {terms}\n")
    x = values(tensor_type(module.lookup("m.f").body.args[0]).dtype, (700,))
    lowered = run_passes(module, [*schedule_passes(AARCH64), tile_pass(AARCH64)], verify=True)
    same_bits(run_native(lowered, "m.f", [x], target)[0], run_function(module, "m.f", [x])[0])
