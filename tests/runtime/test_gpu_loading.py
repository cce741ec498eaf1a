"""Kernels of a first call are made and loaded by other threads before it starts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import TesseraError, gpu_loading
from tessera.cuda_driver import Driver
from tessera.gpu_artifact import GpuArtifact
from tessera.gpu_program import Condition, GpuProgram, Kernel, Launch, Loop, Select, Steps
from tessera.returned import VALUE
from tessera.sizes import Size
from tesserac.target.compile import CodegenError
from tesserac.target.nvptx import plan
from tests.support.caches import new_cache
from tests.support.fake_cuda import FakeCuda

PROGRAM = "def twice(x: Tensor[N, f32]):\n    return softmax(x @ reshape(x, (N, 1)) * softmax(x))\n"
X = np.arange(6, dtype=np.float32)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that loaded something."""
    found: list[str] = []
    load = Driver.load

    def told(self: Driver, code: bytes) -> int:
        found.append(threading.current_thread().name)
        return load(self, code)

    monkeypatch.setattr(Driver, "load", told)
    return found


def test_a_first_call_finds_its_kernels_loaded(fake: FakeCuda, loads: list[str]) -> None:
    module = tessera.compile(PROGRAM, device="cuda")
    module.twice(X)
    assert len(loads) >= 2 and threading.main_thread().name not in loads
    assert not fake.contexts
    before = len(loads)
    module.twice(X)
    module.twice(X[:5])
    assert len(loads) == before, "other sizes that choose the same kernels load nothing"


def test_what_has_no_code_is_said_by_the_call(
    fake: FakeCuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a cache of its own: another run may have kept code."""
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path))
    def fails(text: str, arch: str) -> str:
        raise CodegenError("it has none")

    monkeypatch.setattr(plan, "alike", fails)
    with pytest.raises(TesseraError, match="it has none"):
        tessera.compile(PROGRAM.replace("twice", "never"), device="cuda").never(X)
    assert not fake.contexts


def kernel(name: str, *conditions: Condition) -> Kernel:
    one = Size("1", 1)
    return Kernel(name, lambda: name, 32, one, one, (), (), conditions, False, False)


def program_of(steps: Steps, *kernels: Kernel) -> GpuProgram:
    return GpuProgram(None, "sm_90a", (), kernels, (), steps, None)  # type: ignore[arg-type]


def expected(steps: Steps, *kernels: Kernel) -> list[str]:
    program = program_of(steps, *kernels)
    return [found.name for found in gpu_loading.expected_kernels(program, {"N": 8})]


def test_the_variants_that_sizes_choose_are_expected() -> None:
    n, i, eight, nine = Size("N", "N"), Size("i", "i"), Size("8", 8), Size("9", 9)
    large, whole = Condition("at_least", n, nine), Condition("divides", eight, n)
    counted = Condition("at_least", i, eight)
    first, second = kernel("large", large), kernel("whole", whole)
    third, fourth = kernel("counted", counted), kernel("any")
    variants = (first, second, third, fourth)
    assert expected((Launch((0, 1, 3), ()), Launch((0, 3), ()), Launch((1,), ())), *variants) == ["whole", "any"]
    arms = ((Launch((0,), ()),), (Launch((1,), ()),))
    assert expected((Select((large,), arms),), *variants) == ["whole"]
    assert expected((Loop("i", eight, n, (Launch((2, 3), ()), Launch((3,), ()))),), *variants) == ["any"]


def test_who_waits_for_all_code_is_told_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    made = GpuArtifact(program_of((), *map(kernel, "abcdefghij")), VALUE)
    made.make_code(lambda *so_far: told.append(so_far))
    assert sorted(told) == [(done, 10) for done in range(1, 11)]
