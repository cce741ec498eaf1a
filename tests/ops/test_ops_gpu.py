"""Every operator of the registry and every function of the library as code for GPUs: it lowers, is verified after each
pass, the vendor's assembler takes it, and its threads give the oracle's bits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import numpy as np
import pytest

import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tessera.gpu_program import GpuProgram
from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.ir.core import Module
from tesserac.ir.passes import Pass, chosen, run_passes
from tesserac.ops.registry import Operator
from tesserac.pipeline import GRAPH_PASSES, schedule_passes
from tesserac.target.nvptx.build import PLATFORMS, GpuPlatform, gpu_pass, gpu_program, kernels_of
from tesserac.target.nvptx.ptx import assemble, find_ptxas
from tesserac.tile.build import tile_pass
from tesserac.types.ty import TensorType
from tests.ops.test_graph_lower import CASES
from tests.ops.test_ops_dtypes import pairs
from tests.stdlib.test_stdlib import FUNCTIONS
from tests.support import sampling
from tests.support.cpu_kernels import same_bits
from tests.support.folding import folded
from tests.support.gpu_emulator import CannotEmulate, Emulated
from tests.support.gpu_kernels import program_of
from tests.support.library_functions import example_of
from tests.support.registry_cases import module_of, parse_type, sample
from tests.support.sampling import of_each_operator, spread

GRAPH = chosen(GRAPH_PASSES, generalize, split_complex, fold_views)
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")


def with_arches(cases: list[pytest.param]) -> Iterator[pytest.param]:
    """Each case with one architecture, in turn; with every one in a thorough run."""
    turn = cycle(PLATFORMS)
    for case in cases:
        for arch in PLATFORMS if sampling.thorough else [next(turn)]:
            yield pytest.param(*case.values, arch, id=f"{case.id}-{arch}")


def program_of_operator(operator: Operator, types: tuple[str, ...], arch: str) -> GpuProgram:
    gpu = PLATFORMS[arch]
    passes = [*GRAPH, *lowering(gpu)]
    return whole_program(run_passes(module_of(operator, [parse_type(t) for t in types]), passes, verify=True), gpu)


def lowering(gpu: GpuPlatform) -> list[Pass]:
    return [*schedule_passes(gpu.schedule), tile_pass(gpu.schedule), gpu_pass(gpu.schedule)]


def whole_program(lowered: Module, gpu: GpuPlatform) -> GpuProgram:
    return gpu_program(lowered, "f", gpu, lambda span: ("", 0, 0), name="f", returns_tuple=False)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("operator", "types"), spread(of_each_operator(CASES, 1), 60))
def test_threads_give_the_bits_of_the_forms(operator: Operator, types: tuple[str, ...]) -> None:
    tensors, rng = [parse_type(t) for t in types], np.random.default_rng(0)
    args = [np.asarray(sample(ty, rng)) for ty in tensors]
    forms = run_passes(module_of(operator, tensors), GRAPH, verify=True)
    lowered = run_passes(forms, lowering(PLATFORMS["sm_80"]), verify=True)
    emulated = Emulated(whole_program(lowered, PLATFORMS["sm_80"]), kernels_of(lowered))
    try:
        results = emulated(*args)
    except CannotEmulate as unit:
        pytest.skip(f"needs {unit}")
    for result, expected in zip(results, run_function(forms, "f", args), strict=True):
        same_bits(result, np.asarray(expected))


def assert_assembles(made: GpuProgram) -> None:
    for kernel in made.kernels:
        assert assemble(kernel.code(), made.arch).spilled_bytes == 0, kernel.name


@pytest.mark.one_in(2)
@folded(("operator", "types", "arch"), list(with_arches(of_each_operator(CASES, 2))), one_in=12)
def test_every_operator_lowers(operator: Operator, types: tuple[str, ...], arch: str) -> None:
    assert program_of_operator(operator, types, arch).steps is not None


@pytest.mark.one_in(3)
@folded(("operator", "types", "arch"), lambda: list(with_arches(spread(pairs(), 120))), one_in=6)
def test_every_element_type_lowers(operator: Operator, types: list[TensorType], arch: str) -> None:
    gpu = PLATFORMS[arch]
    lowered = run_passes(module_of(operator, types), [generalize, fold_views, *lowering(gpu)], verify=True)
    assert whole_program(lowered, gpu).steps is not None


@pytest.mark.one_in(24)
@needs_ptxas
@pytest.mark.parametrize(("operator", "types", "arch"), list(with_arches(spread(CASES, 40))))
def test_operators_assemble(operator: Operator, types: tuple[str, ...], arch: str) -> None:
    assert_assembles(program_of_operator(operator, types, arch))


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("path", "name", "arch"), list(with_arches(spread(FUNCTIONS, 24))))
def test_functions_of_the_library_lower(path: str, name: str, arch: str) -> None:
    made = program_of(SourceFile("m.tess", example_of(path, name)), "f", arch)
    if sampling.thorough and find_ptxas() is not None:
        assert_assembles(made)
