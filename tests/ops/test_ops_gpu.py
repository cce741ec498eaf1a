"""Every operator of the registry and every function of the library as code for GPUs: it lowers, is verified after each
pass, and the vendor's assembler takes it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import cycle

import pytest

import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tessera.gpu_program import GpuProgram
from tesserac.base.source import SourceFile
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.ir.passes import run_passes
from tesserac.ops.registry import Operator
from tesserac.pipeline import schedule_passes
from tesserac.syntax import ast
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program
from tesserac.target.nvptx.ptx import assemble, find_ptxas
from tesserac.tile.build import tile_pass
from tests.ops.test_graph_lower import CASES, module_of, parse_type
from tests.stdlib.test_stdlib import FUNCTIONS
from tests.support import sampling
from tests.support.folding import folded
from tests.support.gpu_kernels import program_of
from tests.support.sampling import of_each_operator, spread

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")


def with_arches(cases: list[pytest.param]) -> Iterator[pytest.param]:
    """Each case with one architecture, in turn; with every one in a thorough run."""
    turn = cycle(PLATFORMS)
    for case in cases:
        for arch in PLATFORMS if sampling.thorough else [next(turn)]:
            yield pytest.param(*case.values, arch, id=f"{case.id}-{arch}")


def program_of_operator(operator: Operator, types: tuple[str, ...], arch: str) -> GpuProgram:
    gpu = PLATFORMS[arch]
    graph = [generalize, split_complex, fold_views]
    passes = [*graph, *schedule_passes(gpu.schedule), tile_pass(gpu.schedule), gpu_pass(gpu.tiles)]
    lowered = run_passes(module_of(operator, [parse_type(t) for t in types]), passes, verify=True)
    return gpu_program(lowered, "f", gpu, lambda span: ("", 0, 0), name="f", returns_tuple=False)


def assert_assembles(made: GpuProgram) -> None:
    for kernel in made.kernels:
        assert assemble(kernel.code(), made.arch).spilled_bytes == 0, kernel.name


@folded(("operator", "types", "arch"), list(with_arches(of_each_operator(CASES, 2))))
def test_every_operator_lowers(operator: Operator, types: tuple[str, ...], arch: str) -> None:
    assert program_of_operator(operator, types, arch).steps is not None


@needs_ptxas
@pytest.mark.parametrize(("operator", "types", "arch"), list(with_arches(spread(CASES, 40))))
def test_operators_assemble(operator: Operator, types: tuple[str, ...], arch: str) -> None:
    assert_assembles(program_of_operator(operator, types, arch))


@pytest.mark.parametrize(("path", "node", "arch"), list(with_arches(spread(FUNCTIONS, 24))))
def test_functions_of_the_library_lower(path: str, node: ast.FunctionDef, arch: str) -> None:
    doc = inspect.cleandoc(node.doc or "")
    made = program_of(SourceFile("m.tess", doc[doc.index("def ") :]), "f", arch)
    if sampling.thorough and find_ptxas() is not None:
        assert_assembles(made)
