"""The interpreter lock: a call that is over at once keeps it, any other gives it up while compiled code runs."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tessera
from tessera.function import CompiledFunction
from tesserac.target.cpu.host.launches import INLINE_ELEMENTS
from tesserac.target.entry.system import call_imported
from tesserac.target.llvm_types import F32, I32
from tests.support.native_support import Kernel, build

HOST = """
schedule.func @held {params = ["x"]} {
  ^(%x: memref<[N], f32, global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[1], f32, global>
    BODY
    schedule.return(%z)
}
cpu.kernel @asks {grid = [`1`], scratch = `0`, symbols = [], target = "neon"} {
  ^(%p: index, %x: memref<[N], f32, global>, %z: memref<[1], f32, global>):
    cpu.return()
}
"""
LAUNCH = 'tile.launch(%x, %z) {kernel = "asks", touched = `TOUCHED`}'
LOOP = """%low = index.dim() {dim = `0`} : index
    %high = index.dim() {dim = `2`} : index
    schedule.loop(%low, %high) {counter = "i"} {
      ^(%i: index):
        tile.launch(%x, %z) {kernel = "asks", touched = `N`}
        schedule.end()
    }"""


def asks(k: Kernel) -> None:
    """Stores 1 where the thread that runs the kernel has the lock."""
    holds = call_imported(k.b, "python.PyGILState_Check", [], I32)
    k.b.store(k.b.cast("sitofp", holds, F32), k.memory[1], 4)


def holds_lock(body: str, size: int) -> bool:
    function = CompiledFunction(build(HOST.replace("BODY", body), {"asks": asks})).fast
    return bool(np.asarray(function(np.zeros(size, "f4")))[0])


@pytest.mark.parametrize(
    ("touched", "size", "held"),
    [
        ("N", 4, True),
        ("N", INLINE_ELEMENTS - 1, True),
        ("N", INLINE_ELEMENTS, False),
        ("N*N", 1 << 10, False),
        ("1000000*N", 1, False),
        ("N - 2*N + 1", 1 << 20, False),  # what is subtracted may make it small, and is not relied upon
    ],
)
def test_a_call_keeps_the_lock_where_it_touches_little(touched: str, size: int, held: bool) -> None:
    assert holds_lock(LAUNCH.replace("TOUCHED", touched), size) is held


def test_a_call_with_a_loop_gives_up_the_lock() -> None:
    assert not holds_lock(LOOP, 4)


def test_another_thread_runs_during_a_call_that_goes_many_steps_over_little() -> None:
    """A loop inside one launch, which touches 64 elements of memory and computes for seconds."""
    module = tessera.compile("""
@kernel
def steps(x: KTile[M, 64, f32]) -> Tile[M, 64, f32]:
    T = tile.context()
    h = tile.load(x, rows=T.m)
    for t in range(20000000):
        h = h * 0.5 + 1.0
    return h

def f(x: Tensor[M, 64, f32]) -> Tensor[M, 64, f32]:
    return steps(x)
""")
    module.f(np.zeros((0, 64), "f4"))
    started, turns, ended = threading.Event(), [0], threading.Event()

    def count() -> None:
        started.set()
        while not ended.is_set():
            turns[0] += 1

    other = threading.Thread(target=count)
    other.start()
    started.wait()
    before = turns[0]
    module.f(np.ones((1, 64), "f4"))
    during = turns[0] - before
    ended.set()
    other.join()
    assert during > 1000
