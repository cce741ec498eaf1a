"""Calls on a GPU return before it is known whether their indices were in range: nothing that was wrong is lost."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tessera.device_array import DeviceArray
from tests.support.fake_cuda import FakeCuda

PROGRAM = """
def picked(x: Tensor[N, f32], i: Tensor[K, i32]): return x[i]
def double(x: Tensor[N, f32]): return x + x

@export(donate=(x,))
def moved(x: Tensor[N, f32], i: Tensor[N, i32]) -> Tensor[N, f32]: return x[i] + 1.0
"""
X = np.arange(4, dtype=np.float32)
GOOD, BAD = np.array([3, 0, 1, 2], np.int32), np.array([3, 9, 1, 2], np.int32)
NOT_READY = 600
pytestmark = pytest.mark.one_in(8)


@pytest.fixture
def busy(device: FakeCuda) -> Iterator[FakeCuda]:
    """The device has not come to anything yet: only who waits sees it done."""
    device.failing["cuEventQuery"] = NOT_READY
    yield device
    device.failing.clear()
    assert not device.contexts


def fails(run: Callable[[], object]) -> None:
    with pytest.raises(TesseraError) as error:
        run()
    assert error.value.code == "E0927" and "9" in error.value.text


def test_a_call_returns_before_its_indices_are_looked_at(module, busy: FakeCuda) -> None:  # type: ignore[no-untyped-def]
    x, good, bad = tessera.to_device((X, GOOD, BAD))
    module.picked(x, good)  # constants are on the device then
    waits = busy.calls["cuStreamSynchronize"] + busy.calls["cuEventSynchronize"]
    fine, wrong = module.picked(x, good), module.picked(x, bad)
    after = module.double(module.double(wrong))
    assert isinstance(after, DeviceArray)
    assert busy.calls["cuStreamSynchronize"] + busy.calls["cuEventSynchronize"] == waits, "nobody has waited"
    assert np.array_equal(fine.numpy(), X[GOOD]), "what does not come from it is there"
    for _ in range(2):
        fails(after.numpy)
        fails(lambda: float(wrong.numpy()[0]))
    fails(lambda: module.double(after))
    assert np.array_equal(module.double(x).numpy(), X + X)


def test_other_libraries_and_the_host_see_nothing_unchecked(module, busy: FakeCuda) -> None:  # type: ignore[no-untyped-def]
    x, bad = tessera.to_device((X, BAD))
    fails(lambda: module.picked(x, bad).__dlpack__())
    fails(lambda: module.picked(x, bad).__cuda_array_interface__)
    fails(lambda: tessera.to_host([module.picked(x, bad)]))
    fails(lambda: tessera.freeze(module.picked(x, bad)).numpy())
    fails(lambda: module.picked(X, BAD))
    shared = tessera.to_device(X)
    shared.__dlpack__()
    fails(lambda: module.picked(x, bad, out=shared))
    fails(lambda: module.picked.call_async(x, bad).result())
    assert np.array_equal(module.picked.call_async(x, tessera.to_device(GOOD)).result().numpy(), X[GOOD])


def test_what_nobody_reads_is_told_by_the_next_call_once(module, device: FakeCuda) -> None:  # type: ignore[no-untyped-def]
    x, bad = tessera.to_device((X, BAD))
    module.picked(x, bad)
    fails(lambda: module.double(x))
    module.double(x)
    module.picked(x, bad)
    fails(tessera.synchronize)
    tessera.synchronize()
    stream = tessera.Stream()
    with tessera.stream(stream):
        module.picked(x, bad)
    fails(stream.synchronize)
    module.picked(x, bad)
    from tessera.devices import gpu

    fails(gpu(0).checks.leave)


def test_what_was_given_away_is_as_wrong_as_its_result(module, busy: FakeCuda) -> None:  # type: ignore[no-untyped-def]
    x, good, bad = tessera.to_device((X, GOOD, BAD))
    assert module.moved(module.moved(x, good), good) is x
    module.moved(x, bad)
    module.moved(x, good)
    fails(x.numpy)
    fails(lambda: module.moved(x, good))


def test_replayed_calls_are_looked_at_too(module, device: FakeCuda) -> None:  # type: ignore[no-untyped-def]
    x, places = tessera.to_device((X, GOOD))
    for _ in range(6):
        assert np.array_equal(module.picked(x, places).numpy(), X[GOOD])
    ctypes.memmove(places.address, BAD.ctypes.data, BAD.nbytes)
    fails(module.picked(x, places).numpy)
    ctypes.memmove(places.address, GOOD.ctypes.data, GOOD.nbytes)
    assert np.array_equal(module.picked(x, places).numpy(), X[GOOD])


@pytest.mark.one_in(12)
def test_many_calls_under_way_hold_no_more_than_some(
    module: tessera.Module, busy: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tessera import gpu_checks

    most = 8
    monkeypatch.setattr(gpu_checks, "MOST_UNDER_WAY", most)
    x, good = tessera.to_device((X, GOOD))
    pinned, made = len(busy.pinned), busy.calls["cuEventCreate"]
    for _ in range(2 * most):
        x = module.picked(x, good)
    assert len(busy.pinned) - pinned <= 1 and busy.calls["cuEventCreate"] - made <= most + 1
    x.numpy()
    gc.collect()
