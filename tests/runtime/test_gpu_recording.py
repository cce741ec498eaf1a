"""Calls on a stream that another library records into a graph of its own, over a driver in the memory of the host that
forbids what a real one does."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tessera.device_array import DeviceArray
from tests.support.fake_cuda import FakeCuda, fake_cuda

PROGRAM = """
def double(x: Tensor[N, f32]): return x + x
def total(x: Tensor[M, N, f32]): return softmax(sum(x, axis=0) * 0.5 + sum(x))
def scaled(x: Tensor[N, f32], s: f32): return x * s
def picked(x: Tensor[N, f32], i: Tensor[K, i32]): return x[i]

def until(x: Tensor[N, f32]):
    while sum(x) > 1.0:
        x = x * 0.5
    return x

@export(donate=(x,))
def step(x: Tensor[N, f32], g: Tensor[N, f32]): return x - g
"""
X = np.arange(6, dtype=np.float32)
pytestmark = pytest.mark.one_in(4)


class Recorder:
    """A library that records a stream, and runs what it recorded elsewhere."""

    def __init__(self, device: FakeCuda) -> None:
        self.device, self.stream, self.graph = device, tessera.Stream(), 0

    def record(self, call: Callable[[], Any]) -> Any:
        with tessera.stream(self.stream), self.device.recorded(self.stream.handle) as made:
            result = call()
        (self.graph,) = made
        return result

    def run(self) -> None:
        assert self.device.cuGraphLaunch(self.graph, None) == 0

    def end(self) -> None:
        self.device.cuGraphExecDestroy(self.graph)


@pytest.fixture
def recorder(device: FakeCuda) -> Iterator[Recorder]:
    yield Recorder(device)
    assert not device.contexts


def code_of(run: Callable[[], object]) -> str:
    with pytest.raises(TesseraError) as error:
        run()
    return error.value.code


def fill(array: DeviceArray, values: np.ndarray) -> None:
    array.gpu.driver._functions["cuCtxPushCurrent"](1)
    array.gpu.driver.copy_in(array.address, values.ctypes.data, values.nbytes, 0)
    array.gpu.driver.pop()


@pytest.mark.parametrize("before", [0, 1, 4], ids=["compiled inside", "met before", "replayed before"])
def test_a_call_becomes_part_of_the_graph(module, recorder: Recorder, before: int) -> None:  # type: ignore[no-untyped-def]
    """Also one that has a graph of its own by then, or none of its code."""
    rows, used = np.ones((3, 4), np.float32), module if before else tessera.compile(PROGRAM, device="cuda")
    x = tessera.to_device(rows)
    for _ in range(before):
        used.total(x)
    replays = recorder.device.calls["cuGraphLaunch"]
    y = recorder.record(lambda: used.total(x))
    assert recorder.device.calls["cuGraphLaunch"] == replays
    for values in (rows, np.arange(12, dtype=np.float32).reshape(3, 4)):
        fill(x, values)
        recorder.run()
        assert y.numpy().tobytes() == module.total(tessera.to_device(values)).numpy().tobytes()


def test_memory_of_a_graph_is_its_own_until_it_is_gone(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(np.full(1000, 3.0, np.float32))
    module.double(x)
    y = recorder.record(lambda: module.double(module.double(module.double(x))))
    address, held = y.address, tessera.device_memory().in_use
    del y
    others = [module.double(x) for _ in range(8)]
    tessera.release_device_memory()
    assert address not in {other.address for other in others}, "runs would write into them"
    recorder.run()
    assert all((other.numpy() == 6.0).all() for other in others)
    del others
    gc.collect()
    assert tessera.device_memory().in_use == held
    recorder.end()
    assert tessera.device_memory().in_use < held, "nothing keeps it any more"


def test_what_runs_read_is_kept(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    held = [tessera.to_device(X)]
    y = recorder.record(lambda: module.double(held[0]))
    held.clear()
    gc.collect()
    others = [tessera.to_device(X + 10) for _ in range(4)]
    recorder.run()
    assert np.array_equal(y.numpy(), X + X)
    del others


def test_numbers_of_the_host_are_those_of_the_recording(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    x, s = tessera.to_device(X), np.float32(3.0)
    y, z = recorder.record(lambda: (module.scaled(x, s), tessera.to_device(X + 1)))
    recorder.run()
    assert np.array_equal(y.numpy(), X * 3) and np.array_equal(z.numpy(), X + 1)


def test_what_is_given_away_is_written_by_each_run(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    x, g, out = tessera.to_device(X), tessera.to_device(np.ones_like(X)), tessera.to_device(X * 0)
    address = x.address
    assert recorder.record(lambda: (module.step(x, g), module.double(g, out=out)))[0] is x
    assert np.array_equal(x.numpy(), X), "recording runs nothing"
    for _ in range(3):
        recorder.run()
    assert x.address == address and np.array_equal(x.numpy(), X - 3) and (out.numpy() == 2.0).all()


def test_a_result_is_an_argument_within_and_after(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(X)
    y = recorder.record(lambda: module.double(module.double(x)))
    recorder.run()
    assert np.array_equal(module.double(y).numpy(), X * 8)
    with tessera.stream(tessera.Stream()):
        assert np.array_equal(module.double(y).numpy(), X * 8)
    other = Recorder(recorder.device)
    z = other.record(lambda: module.double(y))
    other.run()
    assert np.array_equal(z.numpy(), X * 8)


def test_a_bad_index_of_a_run_is_told(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    x, i = tessera.to_device((X, np.array([1, 2], np.int32)))
    module.picked(x, i)
    y = recorder.record(lambda: module.double(module.picked(x, i)))
    recorder.run()
    assert np.array_equal(y.numpy(), [2.0, 4.0])
    fill(i, np.array([1, 60], np.int32))
    recorder.run()
    fill(i, np.array([1, 2], np.int32))
    recorder.run()  # which does not hide what was
    assert code_of(lambda: module.double(x)) == "E0927"
    module.double(x)
    for _ in range(2):
        assert code_of(y.numpy) == "E0927", "each time"
    tessera.synchronize()


def test_a_graph_that_is_gone_is_not_told_what_another_has_met(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    x, i = tessera.to_device((X, np.array([1, 2], np.int32)))
    y = recorder.record(lambda: module.picked(x, i))
    recorder.run()
    recorder.end()
    later = Recorder(recorder.device)
    z = later.record(lambda: module.picked(x, i))
    fill(i, np.array([1, 60], np.int32))
    later.run()
    assert code_of(tessera.synchronize) == "E0927"
    tessera.synchronize()
    assert np.array_equal(y.numpy(), X[1:3]) and code_of(z.numpy) == "E0927"


def test_what_cannot_be_recorded_is_refused_and_leaves_the_recording_whole(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    x = tessera.to_device(X)

    def calls() -> DeviceArray:
        assert code_of(lambda: module.until(x)) == "E0571"
        assert code_of(lambda: module.double(X)) == "E0571"
        y = module.double(x)
        assert code_of(y.numpy) == "E0571"
        return y  # type: ignore[no-any-return]

    y = recorder.record(calls)
    recorder.run()
    assert np.array_equal(y.numpy(), X + X)


def test_a_check_under_way_is_waited_for(module, recorder: Recorder) -> None:  # type: ignore[no-untyped-def]
    x, i = tessera.to_device((X, np.array([1, 2], np.int32)))
    before, wrong = module.picked(x, i), module.picked(x, tessera.to_device(np.array([1, 99], np.int32)))

    def calls() -> DeviceArray:
        assert code_of(lambda: module.double(wrong)) == "E0927"
        return module.double(before)  # type: ignore[no-any-return]

    y = recorder.record(calls)
    recorder.run()
    assert np.array_equal(y.numpy(), [2.0, 4.0])


def test_the_default_stream_is_never_asked() -> None:
    with fake_cuda() as fake:
        made = tessera.compile("def double(x: Tensor[N, f32]): return x + x\n", device="cuda")
        x = tessera.to_device(X)
        for _ in range(4):
            x = made.double(x)
        assert not fake.calls["cuStreamIsCapturing"]
