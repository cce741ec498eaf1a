"""Host programs for a GPU: parameters, variants chosen by sizes, and the device itself where there is one."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from benchmarks import gpu_cases
from tessera import cuda
from tessera.errors import TesseraError
from tessera.gpu_program import Argument, Condition, GpuProgram, Kernel, Launch, TensorMap, Workspace
from tessera.sizes import Size
from tesserac.target.nvptx.plan import build_program
from tesserac.tile.gpu.variants import SM_80, SM_90A
from tests.gpu_kernels import neutral


@pytest.fixture(scope="module")
def product() -> GpuProgram:
    return build_program(neutral("matmul_bf16_sm90"), SM_90A)


def chosen(program: GpuProgram, **sizes: int) -> Kernel:
    (launch,) = program.steps
    assert isinstance(launch, Launch)
    kernels = [program.kernels[i] for i in launch.kernels]
    return next(k for k in kernels if all(c.holds(sizes) for c in k.conditions))


@pytest.mark.parametrize(
    ("sizes", "suffix"),
    [
        ({"M": 128, "K": 64, "N": 256}, ""),
        ({"M": 1, "K": 8, "N": 8}, ""),
        ({"M": 128, "K": 63, "N": 256}, "_mma"),
        ({"M": 128, "K": 64, "N": 255}, "_mma"),
        ({"M": 128, "K": 0, "N": 256}, "_mma"),
        ({"M": 128, "K": (1 << 20) + 8, "N": 256}, "_deep"),
    ],
)
def test_sizes_choose_the_variant(product: GpuProgram, sizes: dict[str, int], suffix: str) -> None:
    assert chosen(product, **sizes).name == "matmul_bf16_sm90" + suffix


def test_parameters_of_the_tensor_copy_kernel(product: GpuProgram) -> None:
    kernel = product.kernels[0]
    assert kernel.parameters[:3] == (Argument(0), Argument(1), Argument(2))
    a, b = kernel.parameters[3:]
    assert isinstance(a, TensorMap) and isinstance(b, TensorMap)
    assert (a.operand, a.box, b.operand, b.box) == (0, (128, 64), 1, (64, 64))
    assert kernel.symbols == ("K", "M", "N")
    assert kernel.programs.evaluate({"M": 129, "N": 257, "K": 1}) == 4
    assert kernel.shared.evaluate({}) == 4 * (128 * 64 + 64 * 256) * 2 + 64


def test_scratch_is_shared_or_workspace() -> None:
    program = build_program(neutral("softmax"), SM_80)
    assert chosen(program, M=3, N=1000).name == "softmax"
    long = chosen(program, M=3, N=100_000)
    assert long.name == "softmax_workspace"
    (space,) = [p for p in long.parameters if isinstance(p, Workspace)]
    assert space.bytes.evaluate({"M": 3, "N": 100_000}) == 3 * 100_000 * 4
    assert long.shared.evaluate({"M": 3, "N": 100_000}) < 1024


def test_symbols_follow_from_shapes(product: GpuProgram) -> None:
    from tessera.call import bind_symbols

    assert bind_symbols(product.signature, [(3, 5), (5, 7)]) == {"M": 3, "K": 5, "N": 7}
    with pytest.raises(TesseraError) as error:
        bind_symbols(product.signature, [(3, 5), (6, 7)])
    assert error.value.code == "E0924"


@pytest.mark.parametrize(
    ("kind", "left", "right", "expected"),
    [("divides", 8, 16, True), ("divides", 8, 12, False), ("divides", 0, 0, True), ("at_least", 3, 3, True),
     ("at_least", 2, 3, False), ("equal", 2, 2, True), ("equal", 2, 3, False)],
)  # fmt: skip
def test_conditions(kind: str, left: int, right: int, expected: bool) -> None:
    assert Condition(kind, Size("a", "a"), Size("b", "b"), "").holds({"a": left, "b": right}) is expected


@pytest.mark.skipif(importlib.util.find_spec("pycuda") is not None, reason="pycuda is installed")
def test_without_pycuda_the_error_says_what_to_install(product: GpuProgram) -> None:
    with pytest.raises(TesseraError) as error:
        cuda.run(product, [np.zeros((1, 8)), np.zeros((8, 8))])
    assert error.value.code == "E0930"
    assert "gpu" in str(error.value)


def _device_problem() -> str:
    """Why the programs cannot run here; empty where they can."""
    try:
        arch = cuda.device_arch()
    except TesseraError as error:
        return f"no GPU: {error.text.splitlines()[0]}"
    return "" if arch == "sm_90a" else f"the GPU is {arch}, the tests are for sm_90a"


@pytest.mark.skipif(bool(_device_problem()), reason=_device_problem())
@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("vadd", gpu_cases.vadd_cases),
        ("softmax", gpu_cases.softmax_cases),
        ("matmul_f32_gpu", gpu_cases.matmul_f32_cases),
        ("matmul_bf16_sm80", gpu_cases.matmul_bf16_cases),
        ("matmul_bf16_sm90", gpu_cases.matmul_bf16_cases),
    ],
)
def test_results_on_a_device(name: str, cases: object) -> None:
    assert callable(cases)
    program = build_program(neutral(name), SM_90A)
    for case in cases():
        (result,) = cuda.run(program, case.inputs)
        assert case.check(result) is None, case.name
