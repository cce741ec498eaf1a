"""Modules on a GPU: the whole way from Python to the driver's table, over a driver in the memory of the host."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import tessera
from tessera import TesseraError, gpu_launch
from tessera.device_array import DeviceArray
from tessera.gpu_memory import rounded_size
from tesserac.tile.gpu.model.matrix import BYTES
from tesserac.types.dtype import BF16, F16
from tests.support.fake_cuda import FakeCuda, fake_cuda
from tests.support.gpu_kernels_by_hand import X, add_to, code_of, computes

PROGRAM = """
struct Pair[N]:
    a: Tensor[N, f32] = zeros(N)
    b: Tensor[N, f32] = zeros(N)

struct Both[N]:
    first: Pair[N]
    rest: Tensor[N, f32]

param w: Tensor[6, f32]

def double(x: Tensor[N, f32]) -> Tensor[N, f32]: return x + x
def scaled(x: Tensor[N, f32], s: f32): return x * s
def any_rank(x: Tensor[..., f32]): return x + x
def open_(x): return x + x
def summed(p: Both[N]) -> Tensor[N, f32]: return p.first.a + p.first.b + p.rest
def parts(x: Tensor[N, f32]) -> Pair[N]: return Pair(a=x + x, b=x * 3.0)
def weighted(x: Tensor[6, f32]) -> Tensor[6, f32]: return x * w
def twice(x: Tensor[N, f32]): return softmax(x @ reshape(x, (N, 1)) * softmax(x))

@export(donate=(x,))
def step(x: Tensor[N, f32], g: Tensor[N, f32]) -> Tensor[N, f32]: return x - g

@export(donate=(p,))
def pair_step(p: Pair[N], g: Tensor[N, f32]) -> Pair[N]: return Pair(a=p.a - g, b=p.b - g)

def placed(x: Tensor[N, f32]):
    with device(gpu[7]):
        y = x + x
    return y

def divided(x: Tensor[N, f32]) -> Tensor[N / 4, 4, f32]: return reshape(x, (N / 4, 4))
def half(x: Tensor[N, bf16]): return x + x
"""


@pytest.fixture
def module(fake: FakeCuda) -> tessera.module.Module:
    return tessera.compile(PROGRAM, device="cuda")


# --- where results lie ----------------------------------------------------------------------------------------------


def test_numpy_in_numpy_out_device_in_device_out(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    computes(fake, "double", add_to)
    result = module.double(X)
    assert isinstance(result, np.ndarray) and np.array_equal(result, X + X)
    x = tessera.to_device(X)
    assert isinstance(x, DeviceArray) and x.device == "cuda:0" and (x.shape, x.dtype, x.nbytes) == ((6,), X.dtype, 24)
    before = tessera.device_memory()
    y = module.double(module.double(x))
    after = tessera.device_memory()
    assert (before.copied_in, before.copied_out) == (after.copied_in, after.copied_out)
    assert isinstance(y, DeviceArray) and np.array_equal(y.numpy(), X * 4.0)
    assert not fake.contexts, "every call gives the context back"


@pytest.mark.one_in(3)
def test_every_kind_of_argument_takes_arrays_of_the_device(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(X)
    assert isinstance(module.any_rank(x), DeviceArray) and isinstance(module.open_(x), DeviceArray)
    module.scaled(x, 2.0)
    module.scaled(x, tessera.to_device(np.float32(2.0)))
    module.scaled(x, s=np.float32(2.0))
    both = {"first": {"a": x, "b": x}, "rest": X}
    assert isinstance(module.summed(both), DeviceArray)
    struct = tessera.to_device(module.Both(first=module.Pair(a=X, b=X), rest=X))
    assert isinstance(struct.first.a, DeviceArray) and isinstance(module.summed(struct), DeviceArray)
    made = module.parts(x)
    assert type(made).__name__ == "Pair" and isinstance(made.a, DeviceArray)
    assert isinstance(tessera.to_host(made).a, np.ndarray)
    assert isinstance(module.half(tessera.to_device(X.astype(ml_dtypes.bfloat16))), DeviceArray)


def test_params_are_uploaded_once(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    def multiply(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        out[:] = x * w

    computes(fake, "weighted", multiply)
    module.params = {"w": X}
    assert isinstance(module.weighted(X), np.ndarray), "params are no arguments: results follow those"
    x, told = tessera.to_device(X), tessera.device_memory()
    assert np.array_equal(module.weighted(x).numpy(), X * X)
    assert tessera.device_memory().copied_in == told.copied_in
    module.params = {"w": X + 1}
    assert np.array_equal(module.weighted(x).numpy(), X * (X + 1))


def test_out_is_written_where_it_lies(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    computes(fake, "double", add_to)
    y = np.empty_like(X)
    assert module.double(X, out=y) is y and np.array_equal(y, X + X)
    x, z = tessera.to_device(X), tessera.to_device(y * 0)
    address = z.address
    assert module.double(x, out=z) is z and z.address == address and np.array_equal(z.numpy(), X + X)
    with pytest.raises(TesseraError) as overlapping:
        module.double(x, out=x)
    assert overlapping.value.code == "E0920"


def test_donated_arrays_are_the_results(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    def subtract(x: np.ndarray, g: np.ndarray, out: np.ndarray) -> None:
        out[:] = x - g

    computes(fake, "step", subtract)
    x, g = tessera.to_device(X.copy()), tessera.to_device(np.ones_like(X))
    assert module.step(x, g) is x and np.array_equal(x.numpy(), X - 1)
    host = X.copy()
    assert module.step(host, np.ones_like(X)) is host and np.array_equal(host, X - 1)
    x.__dlpack__()
    address = x.address
    module.step(x, g)
    assert x.address == address and np.array_equal(x.numpy(), X - 2), "who knows the memory sees the result there"
    with pytest.raises(TesseraError) as shared:
        module.step(x, x)
    assert shared.value.code == "E0935"
    pair = tessera.to_device(module.Pair(a=X.copy(), b=X.copy()))
    module.pair_step(pair, g)
    with pytest.raises(TesseraError) as consumed:
        pair.a  # noqa: B018
    assert consumed.value.code == "E0936"
    with pytest.raises(TesseraError) as frozen:
        module.step(tessera.freeze(x), g)
    assert frozen.value.code == "E0935"


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
def test_what_is_wrong_with_a_call_has_the_codes_of_the_cpu(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(X)
    assert code_of(lambda: module.double()) == "E0920"
    assert code_of(lambda: module.double("x")) == "E0921"
    assert code_of(lambda: module.double(tessera.to_device(X.astype(np.float64)))) == "E0922"
    assert code_of(lambda: module.double(tessera.to_device(X[None]))) == "E0923"
    assert code_of(lambda: module.step(x, tessera.to_device(X[:3].copy()))) == "E0924"
    assert code_of(lambda: module.divided(x)) == "E0925"
    assert not fake.launched


def test_devices_have_names(fake: FakeCuda) -> None:
    for name in ("gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA", 3, None):
        assert code_of(lambda name=name: tessera.compile(PROGRAM, device=name)) == "E0560"
    assert code_of(lambda: tessera.compile(PROGRAM, device="cuda:1")) == "E0561"
    assert code_of(lambda: tessera.to_device(X, "cuda:1")) == "E0561"
    assert isinstance(tessera.to_device(X, "cpu"), np.ndarray)


def test_a_placement_on_another_gpu_is_an_error(module) -> None:  # type: ignore[no-untyped-def]
    assert code_of(lambda: module.placed(X)) == "E0561"
    with fake_cuda(devices=8):
        assert code_of(lambda: tessera.compile(PROGRAM, device="cuda").placed(X)) == "E0569"
        tessera.compile(PROGRAM, device="cuda:7").placed(X)


@pytest.mark.one_in(3)
def test_old_gpus_and_no_driver_are_errors() -> None:
    with fake_cuda(capability=(7, 5)):
        assert code_of(lambda: tessera.compile(PROGRAM, device="cuda")) == "E0562"
    program = "import tessera\ntry: tessera.compile('', device='cuda')\nexcept tessera.TesseraError as e: print(e.code)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() in ("E0930", "E0562", ""), done.stderr


def test_arrays_do_not_change_devices_in_silence() -> None:
    with fake_cuda(devices=2):
        x, other = tessera.to_device(X), tessera.to_device(X, "cuda:1")
        on_cpu, on_gpu = tessera.compile(PROGRAM), tessera.compile(PROGRAM, device="cuda")
        assert code_of(lambda: on_cpu.double(x)) == "E0563"
        assert code_of(lambda: on_cpu.open_(x)) == "E0563"
        assert code_of(lambda: on_gpu.double(other)) == "E0563"
        assert code_of(lambda: on_gpu.step(x, other)) == "E0563"
        assert code_of(lambda: on_gpu.double(x, out=other)) == "E0563"
        assert code_of(lambda: on_cpu.double(X, out=x)) == "E0563"
        assert code_of(lambda: tessera.to_device(x, "cuda:1")) == "E0563"
        assert code_of(lambda: np.asarray(x)) == "E0566"


def test_a_fault_breaks_the_gpu_and_not_the_cpu(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(X)
    fake.failing["cuLaunchKernelEx"] = 700
    assert code_of(lambda: module.double(x)) == "E0565"
    fake.failing.clear()
    for again in (lambda: module.double(x), lambda: x.numpy(), lambda: tessera.to_device(X), tessera.device_memory):
        assert code_of(again) == "E0565"
    assert np.array_equal(tessera.compile(PROGRAM).double(X), X + X)
    assert not fake.contexts


def test_a_failure_that_is_no_fault_leaves_the_gpu_usable(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(X)
    module.double(x)
    fake.failing["cuLaunchKernelEx"] = 1
    assert code_of(lambda: module.double(x)) == "E0932"
    fake.failing.clear()
    module.double(x)
    assert not fake.contexts


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(48)
def test_memory_is_level_and_used_again(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(np.ones(1000, np.float32))
    y = module.twice(x)
    before = tessera.device_memory(), fake.calls["cuMemAlloc"]
    for _ in range(50):
        y = module.twice(x)
    after = tessera.device_memory(), fake.calls["cuMemAlloc"]
    assert before[0].in_use == after[0].in_use and after[1] - before[1] <= 2
    assert after[0].blocks == before[0].blocks
    del x, y
    gc.collect()
    tessera.release_device_memory()
    assert tessera.device_memory().cached == 0


@pytest.mark.one_in(16)
def test_out_of_memory_says_who_holds_it_and_leaves_the_gpu_usable(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    held = tessera.to_device(np.zeros(1 << 26, np.float32))
    with pytest.raises(TesseraError) as error:
        [tessera.to_device(np.zeros(1 << 26, np.float32)) for _ in range(5)]
    assert error.value.code == "E0564"
    assert "256.0 MiB in" in str(error.value) or "held by arrays" in str(error.value)
    module.double(tessera.to_device(X))
    tessera.set_device_memory_limit(1 << 20)
    del held
    assert code_of(lambda: tessera.to_device(np.zeros(1 << 20, np.float32))) == "E0564"
    module.double(tessera.to_device(X))
    assert code_of(lambda: tessera.set_device_memory_limit(-1)) == "E0920"


def test_sizes_are_rounded_by_an_eighth_at_most() -> None:
    for size in [0, 1, 511, 512, 513, 5000, 123_456, 1 << 20, (1 << 20) + 1, 10**9]:
        rounded = rounded_size(size)
        assert rounded % 512 == 0 and size <= rounded <= max(512 * 8, size * 9 / 8 + 512)


def test_calls_from_threads(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    computes(fake, "double", add_to)
    wrong: list[object] = []

    def work(value: float) -> None:
        x = tessera.to_device(np.full(100, value, np.float32))
        for _ in range(50):
            if not (module.double(x).numpy() == 2 * value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not fake.contexts


def test_launches_of_few_programs_begin_early(fake: FakeCuda) -> None:
    """Of maps also where only a run knows how many they are; others read memory in a way that does not allow it."""
    text = "def few(x: Tensor[100, f32]): return x + x\ndef some(x: Tensor[N, f32]): return x + x\n"
    made = tessera.compile(text, device="cuda")
    for name, size in (("few", 100), ("some", 100), ("some", 1_000_000)):
        made[name](tessera.to_device(np.ones(size, np.float32)))
    assert [early for _, early in fake.launched_early] == [True, True, False], fake.launched_early


@pytest.mark.one_in(12)
def test_repeated_calls_are_replayed_as_graphs(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(np.ones(100, np.float32))
    module.twice(x)
    launches, alone = len(fake.launched), fake.calls["cuLaunchKernelEx"]
    assert launches >= 2
    for _ in range(20):
        module.twice(x)
    assert fake.calls["cuGraphLaunch"] >= 15, "the same addresses come again"
    assert len(fake.launched) == 21 * launches, "a graph runs what the launches would"
    assert fake.calls["cuLaunchKernelEx"] - alone < 10 * launches


def test_a_thousand_replays_with_different_arrays_are_right(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    placed, read = [tessera.to_device(np.full(100, value, np.float32)) for value in range(7)], set[int]()
    module.twice(placed[0])
    fake.kernels |= dict.fromkeys(fake.launched, lambda values, programs, threads: read.update(values))
    for number in range(1000):
        read.clear()
        module.twice(placed[number % 7])
        assert [place for place, array in enumerate(placed) if array.address in read] == [number % 7]
    assert fake.calls["cuGraphLaunch"] > 900


# --- other libraries -----------------------------------------------------------------------------------------------


class Tensor:
    """An array of another library, on the device."""

    def __init__(self, array: DeviceArray, strides: tuple[int, ...] | None = None) -> None:
        self._array = array
        self.streams: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: int) -> object:
        self.streams.append(stream)
        return self._array.__dlpack__(stream=stream)


def test_arrays_of_other_libraries_go_in_without_a_copy(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    computes(fake, "double", add_to)
    own = tessera.to_device(X)
    other = Tensor(own)
    told = tessera.device_memory()
    result = module.double(other)
    assert isinstance(result, DeviceArray) and np.array_equal(result.numpy(), X + X)
    assert tessera.device_memory().copied_in == told.copied_in and other.streams == [1]
    gc.collect()
    from tessera.dlpack import _lent

    assert not _lent, "what was lent has come back"


def test_the_array_interface_goes_both_ways(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    computes(fake, "double", add_to)
    x = tessera.to_device(X)
    told = x.__cuda_array_interface__
    assert (told["shape"], told["typestr"], told["data"], told["version"]) == ((6,), "<f4", (x.address, False), 3)
    other = type("Numba", (), {"__cuda_array_interface__": told})()
    assert np.array_equal(module.double(other).numpy(), X + X)
    with pytest.raises(AttributeError):
        _ = tessera.to_device(X.astype(ml_dtypes.bfloat16)).__cuda_array_interface__


def test_capsules_that_nobody_reads_are_taken_back(fake: FakeCuda) -> None:
    from tessera.dlpack import _lent

    x = tessera.to_device(X)
    x.__dlpack__()
    x.__dlpack__(max_version=(1, 0), copy=True)
    gc.collect()
    assert not _lent
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError):
        tessera.freeze(x).__dlpack__()
    assert tessera.freeze(x).__dlpack__(max_version=(1, 0)) is not None


def test_what_a_matrix_unit_reads_has_a_number_of_the_driver() -> None:
    """Tiles come by tensor maps; a dtype without its number was found out by the first launch."""
    assert {dtype.numpy_name for dtype in (F16, BF16, *BYTES)} <= gpu_launch._DATA_TYPES.keys()
