"""Programs for GPUs from source: every kind of program lowers, its host program is right, and it survives as a file."""

from __future__ import annotations

import re
from itertools import product
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import tesserac.ir.func
import tesserac.schedule.dialect  # noqa: F401  (register the operations of random functions)
from benchmarks import bits_cases, gpu_cases
from tessera.devices import gpu
from tessera.errors import TesseraError
from tessera.gpu_artifact import MACHINES, GpuArtifact, read_gpu_artifact
from tessera.gpu_effects import checked_symbols
from tessera.gpu_function import GpuFunction
from tessera.gpu_program import (
    Argument,
    Cond,
    Condition,
    GpuProgram,
    Kernel,
    Launch,
    Loop,
    Select,
    TensorMap,
    While,
    Workspace,
)
from tessera.image import Image
from tessera.returned import VALUE
from tessera.sizes import Size
from tesserac.base.source import SourceFile
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.pipeline import schedule_passes
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import assemble, emit_ptx, find_ptxas
from tesserac.tile.build import tile_pass
from tests.support import sampling
from tests.support.fake_cuda import fake_cuda
from tests.support.form_gen import DENSE, modules
from tests.support.gpu_kernels import program, program_of, source
from tests.support.sampling import some_of_each

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")
BITS = source("benchmarks/bits.tess")


# --- every program lowers -----------------------------------------------------------------------------------------


def test_every_program_has_sizes() -> None:
    assert set(re.findall(r"^def ([a-z]\w*)", BITS.text, re.MULTILINE)) == set(bits_cases.SIZES)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("name", "arch"), some_of_each(product(bits_cases.SIZES, PLATFORMS), key=itemgetter(0)))
def test_programs_lower(name: str, arch: str) -> None:
    made = program_of(BITS, name, arch)
    assert made.kernels and made.signature.name == name


@pytest.mark.one_in(16)
@needs_ptxas
@pytest.mark.parametrize(
    "name", ["softmax_columns", "whole_numbers", "sums_of_two", "pointwise_f64", "rounded", "views", "by_sign"]
)
def test_programs_assemble(name: str) -> None:
    for kernel in program_of(BITS, name, "sm_80").kernels:
        assert assemble(kernel.code(), "sm_80").spilled_bytes == 0


@pytest.mark.one_in(4)
@given(modules(kinds=DENSE), st.sampled_from(sorted(PLATFORMS)))
@settings(
    max_examples=40 if sampling.thorough else 8,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
def test_random_functions_lower_and_the_short_ones_assemble(module: Module, arch: str) -> None:
    note(print_module(module))
    gpu = PLATFORMS[arch]
    passes = [*schedule_passes(gpu.schedule), tile_pass(gpu.schedule), gpu_pass(gpu.schedule)]
    lowered = run_passes(module, passes, verify=True)
    texts = [emit_kernel(op).llvm for op in kernels_of(lowered)]
    shortest = min(texts, key=len, default="")
    if 0 < len(shortest) < 60_000 and find_ptxas() is not None:
        assert assemble(emit_ptx(shortest, arch), arch).cubin.startswith(b"\x7fELF")


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", ["i32", "i64", "f16", "bf16", "f64", "f32 @accum(f64)", "f16 @accum(f32)", "i8"])
def test_products_of_all_number_types_lower(dtype: str) -> None:
    text = f"t = {dtype}\ndef f(a: Tensor[M, K, t], b: Tensor[K, N, t]):\n    return a @ b\n"
    assert program_of(SourceFile("product.tess", text), "f", "sm_80").kernels


# --- host programs ------------------------------------------------------------------------------------------------


def chosen(made: GpuProgram, **sizes: int) -> Kernel:
    """The kernel of the last launch, behind those that copy operands."""
    step = made.steps[-1]
    while isinstance(step, Select):
        held = [arm for p, arm in zip(step.predicates, step.arms, strict=False) if p.holds(sizes)]
        step = (held or step.arms[-1:])[0][-1]
    assert isinstance(step, Launch)
    kernels = [made.kernels[i] for i in step.kernels]
    return next(k for k in kernels if all(c.holds(sizes) for c in k.conditions))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("sizes", "suffix"),
    [
        ({"M": 8192, "K": 64, "N": 8192}, "$1"),
        ({"M": 2048, "K": 64, "N": 2048}, "$1"),
        ({"M": 512, "K": 4096, "N": 4096}, "$2"),
        ({"M": 256, "K": 4096, "N": 4096}, "$3"),
        ({"M": 1024, "K": 1024, "N": 1024}, "$3"),
        ({"M": 1, "K": 8, "N": 8}, "$0"),
        ({"M": 8, "K": 4096, "N": 4096}, "$0"),
        ({"M": 9, "K": 4096, "N": 4096}, "$5"),
        ({"M": 192, "K": 4096, "N": 5120}, "$4"),
        ({"M": 128, "K": 63, "N": 256}, "$5_mma"),
        ({"M": 8192, "K": 64, "N": 8191}, "$9"),
        ({"M": 300, "K": 1001, "N": 301}, "$13"),
        ({"M": 128, "K": 0, "N": 256}, "$5_mma"),
        ({"M": 128, "K": (1 << 20) + 8, "N": 256}, "$5_deep"),
    ],
)
def test_sizes_choose_the_kernel(sizes: dict[str, int], suffix: str) -> None:
    assert chosen(program("matmul_bf16", "sm_90a"), **sizes).name == "main_matmul_bf16" + suffix


def test_parameters_of_the_tensor_copy_kernel() -> None:
    kernel = chosen(program("matmul_bf16", "sm_90a"), M=8192, K=64, N=8192)
    assert kernel.parameters[:3] == (Argument(0), Argument(1), Argument(2))
    a, b = kernel.parameters[3:]
    assert isinstance(a, TensorMap) and isinstance(b, TensorMap)
    assert (a.operand, a.box, b.operand, b.box) == (0, (128, 64), 1, (64, 64))
    assert kernel.symbols == ("K", "M", "N")
    assert kernel.programs.evaluate({"M": 129, "N": 257, "K": 1}) == 4
    copies, waiting = 3 * (128 * 64 + 64 * 256) * 2, 20 * 16 * 256
    assert kernel.shared.evaluate({}) == copies + waiting + 64


@pytest.mark.one_in(3)
def test_scratch_is_shared_or_workspace() -> None:
    made = program("softmax_rows", "sm_80")
    lengths = (9000, 8192, 6144, 5000, 4096, 3072, 2048, 1536, 1024, 768, 512, 256, 100)
    names = [chosen(made, M=3, N=length).name for length in lengths]
    assert names == [f"main_softmax_rows${number}" for number in range(13)]
    long = chosen(made, M=3, N=100_000)
    assert long.name == "main_softmax_rows$0_workspace"
    (space,) = [p for p in long.parameters if isinstance(p, Workspace)]
    assert space.bytes.evaluate({"M": 3, "N": 100_000}) == 3 * 100_000 * 4
    assert long.shared.evaluate({"M": 3, "N": 100_000}) < 1024


@pytest.mark.one_in(2)
def test_control_flow_on_the_host() -> None:
    kinds = {
        name: [type(step) for step in program_of(BITS, name, "sm_80").steps if not isinstance(step, Launch)]
        for name in ("rows_in_turn", "until_small", "by_sign")
    }
    assert kinds == {"rows_in_turn": [Loop], "until_small": [While], "by_sign": [Select, Cond]}  # a sum, by its length


def test_a_loop_counts_to_a_size() -> None:
    (loop,) = [s for s in program_of(BITS, "rows_in_turn", "sm_80").steps if isinstance(s, Loop)]
    assert (loop.low.evaluate({"N": 7, "D": 2}), loop.high.evaluate({"N": 7, "D": 2})) == (0, 7)
    launched = [i for step in loop.body if isinstance(step, Launch) for i in step.kernels]
    kernels = program_of(BITS, "rows_in_turn", "sm_80").kernels
    assert any(loop.counter in kernels[i].symbols for i in launched), "a row is found by the counter"


@pytest.mark.parametrize(
    ("kind", "left", "right", "expected"),
    [("divides", 8, 16, True), ("divides", 8, 12, False), ("divides", 0, 0, False), ("at_least", 3, 3, True),
     ("at_least", 2, 3, False), ("equal", 2, 2, True), ("equal", 2, 3, False)],
)  # fmt: skip
def test_conditions(kind: str, left: int, right: int, expected: bool) -> None:
    assert Condition(kind, Size("a", "a"), Size("b", "b")).holds({"a": left, "b": right}) is expected


# --- files and calls ----------------------------------------------------------------------------------------------


def _nowhere(name: str) -> Image:
    raise AssertionError(name)


def kept(made: GpuProgram) -> GpuProgram:
    artifact = GpuArtifact(made, VALUE, ("w",), (), (1,), MACHINES)
    again = read_gpu_artifact(artifact.to_bytes(), "a file")
    assert again[1:5] == artifact[1:5]
    return again.program


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", ["rows_in_turn", "until_small", "by_sign", "softmax_rows", "gradient_recurrent"])
def test_a_program_survives_as_a_file(name: str) -> None:
    made = program_of(BITS, name, "sm_80")
    again = kept(made)
    assert [k.code() for k in again.kernels] == [k.code() for k in made.kernels]

    assert [again.host(name) for name in MACHINES] == [made.host(name) for name in MACHINES]

    def without_code(whole: GpuProgram) -> GpuProgram:
        return whole._replace(kernels=tuple(k._replace(code=str) for k in whole.kernels), host=_nowhere)

    assert without_code(again) == without_code(made)


def test_tensor_maps_survive_as_a_file() -> None:
    made = program("matmul_bf16", "sm_90a")
    short = made._replace(kernels=tuple(k._replace(code=lambda: "ptx") for k in made.kernels))
    again = kept(short)
    assert [k.parameters for k in again.kernels] == [k.parameters for k in made.kernels]


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(TesseraError) as error:
        read_gpu_artifact(b"TESSERA\n", "broken.tessb")
    assert error.value.code == "E0910"


FLOATS = np.zeros((3, 4), np.float32)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((FLOATS,), "E0920"),
        ((FLOATS, None), "E0921"),
        ((FLOATS, np.zeros((4, 5))), "E0922"),
        ((FLOATS, np.zeros(4, np.float32)), "E0923"),
        ((FLOATS, np.zeros((5, 4), np.float32)), "E0924"),
    ],
)
def test_mistakes_in_a_call_are_found_before_a_device_is_needed(args: tuple[object, ...], code: str) -> None:
    with fake_cuda() as fake, pytest.raises(TesseraError) as error:
        GpuFunction(GpuArtifact(program("matmul_f32", "sm_80"), VALUE), gpu(0))(*args)
    assert error.value.code == code and not fake.calls["cuCtxPushCurrent"]


def test_guards_fail_as_on_the_cpu(tmp_path: Path) -> None:
    import tessera

    text = "def f(x: Tensor[N, f32]) -> Tensor[N / 4, 4, f32]:\n    return reshape(x, (N / 4, 4))\n"
    path = tmp_path / "guard.tess"
    path.write_text(text)
    made = program_of(SourceFile(str(path), text), "f", "sm_80")
    wrong = np.zeros(7, np.float32)
    with pytest.raises(TesseraError) as there:
        tessera.load(path).f(wrong)
    with pytest.raises(TesseraError) as here:
        checked_symbols(made, [wrong.shape])
    assert (here.value.code, here.value.text) == (there.value.code, there.value.text)


def _device_problem() -> str:
    """Why the programs cannot run here; empty where they can."""
    try:
        arch = gpu(0).arch
    except TesseraError as error:
        return f"no GPU: {error.text.splitlines()[0]}"
    return "" if arch == "sm_90a" else f"the GPU is {arch}, the tests are for sm_90a"


@pytest.mark.skipif(bool(_device_problem()), reason=_device_problem())
@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("add", gpu_cases.vadd_cases),
        ("softmax_rows", gpu_cases.softmax_cases),
        ("matmul_f32", gpu_cases.matmul_f32_cases),
        ("matmul_bf16", gpu_cases.matmul_bf16_cases),
    ],
)
def test_results_on_a_device(name: str, cases: object) -> None:
    assert callable(cases)
    function = GpuFunction(GpuArtifact(program(name, "sm_90a"), VALUE), gpu(0))
    for case in cases():
        result = function(*case.inputs)
        assert isinstance(result, np.ndarray)
        assert case.check(result) is None, case.name


@pytest.mark.one_in(3)
def test_what_a_call_is_checked_for_depends_on_its_sizes_alone() -> None:
    """Launches of a factorisation shrink from step to step: how many programs they have is asked when they run."""
    text = "def f(a: Tensor[N, N, f64]):\n    return cholesky(a)\n"
    made = program_of(SourceFile("m.tess", text), "f", "sm_90a")
    asked = [side for check in made.checks for side in (check.condition.left, check.condition.right)]
    assert asked and all(side.symbols() <= {"N"} for side in asked)
    assert any(kernel.programs.symbols() - {"N"} for kernel in made.kernels)
