"""Streams, events, futures, and the ways of arrays onto a device and back, over a driver in the memory of the host."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tessera.device_array import DeviceArray
from tessera.gpu_staging import CHUNK, CHUNKS
from tessera.gpu_strides import gather_text
from tesserac.target.nvptx.ptx import assemble, find_ptxas
from tests.support.fake_cuda import FakeCuda, fake_cuda

PROGRAM = """
def double(x: Tensor[N, f32]) -> Tensor[N, f32]: return x + x
def rows(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]: return x + x
def picked(x: Tensor[N, f32], i: Tensor[K, i32]): return x[i]
"""
X = np.arange(6, dtype=np.float32)


def floats(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def double(values: list[int], programs: int, threads: int) -> None:
    count = int(np.prod(values[2:]))
    floats(values[1], count)[:] = floats(values[0], count) * 2.0


def gather(values: list[int], programs: int, threads: int) -> None:
    """What the kernel of `gpu_strides` does, by its parameters."""
    target, source, count, *rest = values
    rank = len(rest) // 2
    sizes, strides = rest[:rank], rest[rank:]
    assert count == np.prod(sizes)
    for number, index in enumerate(np.ndindex(*sizes)):
        offset = sum(i * s for i, s in zip(index, strides, strict=True))
        floats(target + 4 * number, 1)[0] = floats(source + 4 * offset, 1)[0]


@pytest.fixture
def fake() -> Iterator[FakeCuda]:
    with fake_cuda() as made:
        made.kernels |= {"main_double$0": double, "main_rows$0": double, "tessera_gather": gather}
        yield made


@pytest.fixture
def module(fake: FakeCuda) -> tessera.module.Module:
    return tessera.compile(PROGRAM, device="cuda")


# --- streams and events ---------------------------------------------------------------------------------------------


def test_calls_run_on_the_stream_that_is_chosen(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    first, second = tessera.Stream(), tessera.Stream()
    assert first.handle != second.handle and first.__cuda_stream__() == (0, first.handle)
    x = tessera.to_device(X)
    with tessera.stream(first):
        y = module.double(x)
        with tessera.stream(second):
            before = fake.calls["cuStreamWaitEvent"]
            z = module.double(y)
            assert fake.calls["cuStreamWaitEvent"] == before + 1, "another stream waits for what it reads"
        w = module.double(y)
    assert (y.stream, z.stream, w.stream) == (first.handle, second.handle, first.handle)
    assert fake.launched_on[-3:] == [first.handle, second.handle, first.handle]
    assert np.array_equal(z.numpy(), X * 4.0)
    assert module.double(x).stream == 0


def test_what_is_written_is_waited_for_once(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    """Once the device is known to have written an array no stream asks for it again, until somebody writes it anew or
    may do so unseen."""

    def waits(call) -> int:  # type: ignore[no-untyped-def]
        before = fake.calls["cuStreamWaitEvent"]
        with tessera.stream(stream):
            call()
        return fake.calls["cuStreamWaitEvent"] - before

    stream, x = tessera.Stream(), tessera.to_device(X)
    fake.failing["cuEventQuery"] = 600
    assert [waits(lambda: module.double(x)) for _ in range(2)] == [1, 1], "it is under way"
    del fake.failing["cuEventQuery"]
    pushed = fake.calls["cuCtxPushCurrent"]
    assert waits(lambda: module.double(x)) == 0 and fake.calls["cuEventQuery"]
    asked = fake.calls["cuEventQuery"]
    assert waits(lambda: module.double(x)) == 0 and fake.calls["cuEventQuery"] == asked
    assert fake.calls["cuCtxPushCurrent"] - pushed <= 3, "one for each call, one for the question"
    module.double(tessera.to_device(X + 1.0), out=x)
    assert waits(lambda: module.double(x)) == 1 and np.array_equal(x.numpy(), X * 2.0 + 2.0)
    x.share()
    assert [waits(lambda: module.double(x)) for _ in range(2)] == [1, 1]


def test_a_stream_that_nobody_holds_is_used_again(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    handle = tessera.Stream().handle
    assert tessera.Stream().handle == handle and not fake.calls["cuStreamDestroy"]


def test_events(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    one, other = tessera.Stream(), tessera.Stream()
    event = one.record()
    event.wait(other)
    other.wait(event)
    event.wait()
    assert fake.calls["cuStreamWaitEvent"] == 3 and event.done()
    event.synchronize()
    one.synchronize()
    fake.failing["cuEventQuery"] = 600
    assert not event.done()
    tessera.barrier()
    assert fake.calls["cuStreamWaitEvent"] == 3 + 4


class Torch:
    """Stands for a stream of another library."""

    def __init__(self, name: str, handle: int) -> None:
        setattr(self, name, handle)


def test_streams_of_other_libraries(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    for name in ("cuda_stream", "ptr"):
        with tessera.stream(Torch(name, 4242)):
            assert module.double(tessera.to_device(X)).stream == 4242
    for wrong in ("cuda", 7, None.__class__):
        with pytest.raises(TesseraError) as error, tessera.stream(wrong):
            pass
        assert error.value.code == "E0570"
    with pytest.raises(TesseraError) as error:
        tessera.Stream("cpu")
    assert error.value.code == "E0560"


class Tensor:
    """Stands for a tensor of torch on a GPU."""

    is_cuda, requires_grad, layout, dtype = True, False, "strided", "torch.float32"

    def __init__(self, base: DeviceArray) -> None:
        self.base, self.shape, self.asked = base, base.shape, 0

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return self.base.address

    def is_contiguous(self) -> bool:
        return True

    is_neg = __bool__ = lambda self: False

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: object) -> object:
        self.asked += 1
        raise BufferError("by its capsule")


def test_plain_tensors_of_torch_need_no_capsule(fake: FakeCuda, module, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    current = SimpleNamespace(cuda_stream=77)
    cuda = SimpleNamespace(is_initialized=lambda: True, current_stream=lambda index: current)
    names = {"float32": "torch.float32", "strided": "strided"}
    torch = ModuleType("torch")
    vars(torch).update(Tensor=Tensor, cuda=cuda, _C=None, **names)
    monkeypatch.setitem(sys.modules, "torch", torch)
    given = Tensor(tessera.to_device(X))
    made = module.double(given)
    assert made.stream == 77 and np.array_equal(made.numpy(), X * 2.0) and given.asked == 0
    with tessera.stream(tessera.Stream()):
        before = fake.calls["cuStreamWaitEvent"]
        assert module.double(given).stream != 77 and fake.calls["cuStreamWaitEvent"] > before
    given.requires_grad = True
    with pytest.raises(TesseraError) as error:
        module.double(given)
    assert error.value.code == "E0921" and given.asked


# --- futures --------------------------------------------------------------------------------------------------------


def test_futures(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    x, stream = tessera.to_device(X), tessera.Stream()
    with tessera.stream(stream):
        future = module.double.call_async(module.double.call_async(x))
    result = future.result(timeout=60)
    assert isinstance(future, Future) and future.done() and isinstance(result, DeviceArray)
    assert np.array_equal(result.numpy(), X * 4.0) and result.stream == stream.handle
    assert np.array_equal(module.double.call_async(X).result(timeout=60), X * 2.0)
    with pytest.raises(TesseraError):
        module.double.call_async(np.ones((2, 2), np.float32)).result(timeout=60)
    failed = module.double.call_async(np.ones((2, 2), np.float32))
    with pytest.raises(TesseraError):
        module.double.call_async(failed).result(timeout=60)


def test_futures_on_the_cpu() -> None:
    module = tessera.compile(PROGRAM)
    futures = [module.double.call_async(X * float(i)) for i in range(5)]
    assert all(np.array_equal(future.result(timeout=60), X * 2.0 * i) for i, future in enumerate(futures))


# --- arrays in any order --------------------------------------------------------------------------------------------


class Strided:
    """An array of another library, by the array interface."""

    def __init__(self, base: DeviceArray, view: np.ndarray, host: np.ndarray) -> None:
        offset = view.__array_interface__["data"][0] - host.__array_interface__["data"][0]
        self.__cuda_array_interface__ = {
            "shape": view.shape, "strides": view.strides, "typestr": "<f4", "version": 3,
            "data": (base.address + offset, False),
        }  # fmt: skip
        self.base = base


WIDE = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
VIEWS = {
    "transposed": WIDE[0].T,
    "sliced": WIDE[1, ::2, 1::3],
    "backwards": WIDE[2, ::-1, ::-1],
    "repeated": np.broadcast_to(WIDE[0, :1], (7, 6)),
    "of a middle dim": WIDE[:, 3],
    "of one row": WIDE[3, 2:3, ::2],
    "empty": WIDE[0, :0, ::2],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", VIEWS)
def test_arrays_in_any_order_are_taken(fake: FakeCuda, module, name: str) -> None:  # type: ignore[no-untyped-def]
    base = tessera.to_device(WIDE)
    given = Strided(base, VIEWS[name], WIDE)
    made = module.rows(given)
    assert isinstance(made, DeviceArray) and np.array_equal(made.numpy(), VIEWS[name] * 2.0)
    with pytest.raises(TesseraError) as error:
        module.rows(VIEWS[name].copy(), out=given) if VIEWS[name].size else module.rows(WIDE[0], out=given)
    assert error.value.code in ("E0921", "E0922", "E0924")


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")
def test_the_kernel_that_orders_assembles() -> None:
    for rank, itemsize in ((0, 4), (1, 1), (2, 2), (3, 8), (8, 16)):
        assert assemble(gather_text(rank, itemsize), "sm_80").spilled_bytes == 0


# --- copies ---------------------------------------------------------------------------------------------------------


def test_copies_go_through_pinned_memory(fake: FakeCuda, module) -> None:  # type: ignore[no-untyped-def]
    big = np.arange((CHUNK * (2 * CHUNKS + 1)) // 4 + 3, dtype=np.float32)
    before = fake.calls["cuStreamSynchronize"]
    there = tessera.to_device(big)
    assert fake.calls["cuStreamSynchronize"] == before, "nobody waits for a stream"
    assert len(fake.pinned) <= CHUNKS
    assert np.array_equal(there.numpy(), big) and len(fake.pinned) <= CHUNKS
    assert fake.calls["cuEventDestroy"] >= fake.calls["cuEventCreate"] - CHUNKS
    told = tessera.device_memory()
    assert (told.copied_in, told.copied_out) == (big.nbytes, big.nbytes)
