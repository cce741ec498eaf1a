"""The pool: every program runs once, on any number of threads, after idling, in children, under contention."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.errors import TesseraError
from tessera.loader import LoadedImage, load_image
from tessera.threads import get_num_threads, load_pool, resolve_import, resolve_libc, set_num_threads
from tesserac.target.compile import AARCH64, X86_64_V3, Machine, data_layout, emit_object, host_machine, parse
from tesserac.target.cpu.artifact import _begun_pool, begun_pool
from tesserac.target.cpu.pool.image import pool_module
from tesserac.target.cpu.pool.words import MAX_CHUNKS, MAX_THREADS
from tesserac.target.link import link
from tests.support.sampling import examples

KERNELS = """
; adds 1 to word p of ctx for each program p, and remembers the worker in word (total + worker)
define void @count(ptr %ctx, i64 %begin, i64 %end, i64 %worker) {
entry:
  %total = load i64, ptr %ctx
  %cells = getelementptr i64, ptr %ctx, i64 1
  %seen = getelementptr i64, ptr %cells, i64 %total
  %mine = getelementptr i64, ptr %seen, i64 %worker
  %before = atomicrmw add ptr %mine, i64 1 seq_cst
  %shared = icmp ne i64 %before, 0
  br i1 %shared, label %clash, label %start
clash:                                  ; two calls at once have one worker: leave a mark that no test expects
  store i64 -1000000, ptr %cells
  br label %start
start:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %p = phi i64 [ %begin, %start ], [ %next, %loop ]
  %cell = getelementptr i64, ptr %cells, i64 %p
  %old = atomicrmw add ptr %cell, i64 1 monotonic
  %next = add i64 %p, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  %after = atomicrmw sub ptr %mine, i64 1 seq_cst
  ret void
}
define void @repeat(ptr %run, ptr %ctx, i64 %n, i64 %chunk, i64 %threads, i64 %times) {
entry:
  %status = alloca [9 x i64]
  store [9 x i64] zeroinitializer, ptr %status
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void %run(ptr @count, ptr %ctx, i64 %n, i64 %chunk, i64 %threads, ptr %status)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@cache
def pool() -> LoadedImage:
    return load_pool(begun_pool(host_machine())())


@cache
def kernels() -> LoadedImage:
    return load_image(link([emit_object(KERNELS, host_machine())]), resolve_libc)


@cache
def repeat() -> Callable[..., None]:
    types = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4]
    return ctypes.CFUNCTYPE(None, *types)(kernels().address("repeat"))


def counts(programs: int, chunk: int, threads: int, times: int = 1) -> np.ndarray:
    """How often each program ran."""
    cells = np.zeros(1 + programs + MAX_THREADS, np.int64)
    cells[0] = programs
    repeat()(pool().address("pool_run"), cells.ctypes.data, programs, chunk, threads, times)
    assert not cells[1 + programs :].any()
    return cells[1 : 1 + programs]


@examples(60)
@given(st.integers(0, 3000), st.integers(1, 700), st.integers(1, 6), st.integers(1, 5))
def test_every_program_runs_once(programs: int, chunk: int, threads: int, times: int) -> None:
    assert (counts(programs, chunk, threads, times) == times).all()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_many_small_jobs(threads: int) -> None:
    assert (counts(16, 1, threads, 3000) == 3000).all()


def test_more_programs_than_chunks_fit_the_word() -> None:
    programs = MAX_CHUNKS + 5000
    assert (counts(programs, 1, 2) == 1).all()


def test_more_threads_than_the_word_can_name() -> None:
    assert (counts(64, 1, 2) == 1).all()
    set_num_threads(10**6)
    try:
        threads = ctypes.CFUNCTYPE(ctypes.c_int64)(pool().address("pool_threads"))()
        assert threads == MAX_THREADS
    finally:
        set_num_threads(2)


def test_sleeping_workers_wake() -> None:
    for pause in (0.0, 0.001, 0.03, 0.1):
        time.sleep(pause)
        assert (counts(100, 1, 3, 20) == 20).all()


def times_slept() -> dict[str, int]:
    """Of each other thread of this process, how often it has gone to sleep."""
    found = {}
    for task in set(Path("/proc/self/task").iterdir()) - {Path(f"/proc/self/task/{threading.get_native_id()}")}:
        lines = (task / "status").read_text(encoding="ascii").splitlines()
        found[task.name] = next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))
    return found


def settled() -> dict[str, int]:
    """The same, once all have been asleep for a while."""
    before, now = None, times_slept()
    while now != before:
        time.sleep(0.2)
        before, now = now, times_slept()
    return now


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system how often threads have slept")
def test_a_job_of_few_threads_leaves_the_others_asleep() -> None:
    def check() -> bool:
        counts(6400, 1, 12)
        before = settled()
        for _ in range(20):
            counts(64, 1, 2)
            time.sleep(0.005)
        after = times_slept()
        return len(before) == 11 and sum(after[name] != times for name, times in before.items()) == 1

    assert in_child(check)


@pytest.mark.parametrize("threads", [33, 70])
def test_more_workers_than_have_bits_of_their_own(threads: int) -> None:
    for pause in (0.0, 0.05):
        assert in_child(lambda: bool((counts(500, 1, threads, 20) == 20).all()))
        time.sleep(pause)


def test_two_callers_at_once() -> None:
    results: list[bool] = []

    def caller() -> None:
        results.append(bool((counts(64, 1, 3, 2000) == 2000).all()))

    callers = [threading.Thread(target=caller) for _ in range(3)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert results == [True] * 3


def in_child(check: Callable[[], bool]) -> bool:
    """Whether the check holds in a forked child."""
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_starts_its_own_threads() -> None:
    assert (counts(64, 1, 2, 10) == 10).all()

    def child() -> bool:
        before = len(os.listdir("/proc/self/task"))
        right = bool((counts(64, 1, 2, 500) == 500).all())
        grandchild = in_child(lambda: bool((counts(64, 1, 2, 100) == 100).all()))
        return right and grandchild and before == 1 and len(os.listdir("/proc/self/task")) == 2

    assert in_child(child)
    assert (counts(64, 1, 2, 10) == 10).all()


@pytest.mark.one_in(12)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_job() -> None:
    """The child inherits a pool that its parent was using; it still finishes its own work."""
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            counts(64, 1, 2, 200)

    worker = threading.Thread(target=keep_busy)
    worker.start()
    try:
        for _ in range(10):
            assert in_child(lambda: bool((counts(64, 1, 2, 50) == 50).all()))
    finally:
        stop.set()
        worker.join()


def test_workers_take_no_signals() -> None:
    counts(64, 1, 2, 10)
    masks = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as status:
            masks += [int(line.split()[1], 16) for line in status if line.startswith("SigBlk")]
    assert any(mask & 0x7FFFFFFE == 0x7FFFFFFE & ~(1 << 8) & ~(1 << 18) for mask in masks)  # all but KILL and STOP


def test_the_number_of_threads_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    set_num_threads(np.int64(3))
    assert get_num_threads() == 3
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(pool().address("pool_threads"))() == 3
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(TesseraError, match="E0914"):
            set_num_threads(wrong)  # type: ignore[arg-type]
    set_num_threads(2)


@pytest.mark.parametrize(("text", "expected"), [("3", 3), ("", len(os.sched_getaffinity(0)))])
def test_the_environment_sets_the_number_of_threads(monkeypatch: pytest.MonkeyPatch, text: str, expected: int) -> None:
    from tessera import threads

    monkeypatch.setattr(threads, "_POOLS", threads._Pools())
    monkeypatch.setenv("TESSERA_NUM_THREADS", text)
    assert threads.get_num_threads() == expected


@pytest.mark.parametrize("text", ["0", "-2", "two", "1.5"])
def test_a_wrong_environment_is_an_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    from tessera import threads

    monkeypatch.setattr(threads, "_POOLS", threads._Pools())
    monkeypatch.setenv("TESSERA_NUM_THREADS", text)
    with pytest.raises(TesseraError, match="TESSERA_NUM_THREADS must be a positive integer"):
        threads.get_num_threads()


@pytest.mark.parametrize("machine", [X86_64_V3, AARCH64], ids=lambda m: m.triple)
def test_the_pool_builds_for_every_machine(machine: Machine) -> None:
    image = begun_pool(machine)()
    packs = ["freeze", "frozen", "hold_packs", "pack_dropped", "pack_filled", "packed", "release_packs", "thaw"]
    others = ["begin", "end", "give", "poll", "run", "set_threads", "take", "threads"]
    names = sorted(f"pool_{name}" for name in (*packs, *others))
    assert [name for name, _ in image.symbols] == names
    assert all(name.startswith(("libc.", "python.")) for name, _ in image.imports)


@pytest.mark.one_in(2)
def test_the_pool_is_compiled_once_for_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path))
    expected = _begun_pool.__wrapped__(AARCH64)()
    (entry,) = tmp_path.glob("*/*")
    with monkeypatch.context() as patch:
        patch.setattr("tesserac.target.cpu.artifact.Job", None)  # not needed again
        assert _begun_pool.__wrapped__(AARCH64)() == expected
    entry.write_bytes(entry.read_bytes()[:-7])
    assert _begun_pool.__wrapped__(AARCH64)() == expected
    with monkeypatch.context() as patch:
        patch.setattr("tesserac.target.cpu.artifact.Job", None)
        assert _begun_pool.__wrapped__(AARCH64)() == expected


def test_a_pool_without_a_futex_works_too() -> None:
    machine = host_machine()
    text = str(pool_module(f"{machine.triple.partition('-')[0]}-unknown-freebsd", data_layout(machine)))
    napping = load_image(link([emit_object(text, machine)]), resolve_import)
    for pause in (0.0, 0.01):
        time.sleep(pause)
        cells = np.zeros(1 + 64 + MAX_THREADS, np.int64)
        cells[0] = 64
        repeat()(napping.address("pool_run"), cells.ctypes.data, 64, 1, 3, 500)
        assert (cells[1:65] == 500).all()


def test_systems_without_a_futex_nap() -> None:
    machine = Machine("arm64-apple-macosx", "apple-m1")
    text = str(pool_module(machine.triple, data_layout(machine)))
    parse(text)
    assert "libc.nanosleep" in text and "libc.syscall" not in text


def begin_task(cells: np.ndarray, threads: int) -> bool:
    types = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    begin = ctypes.CFUNCTYPE(ctypes.c_bool, *types)(pool().address("pool_begin"))
    return bool(begin(kernels().address("count"), cells.ctypes.data, threads))


def end_task() -> None:
    ctypes.CFUNCTYPE(None)(pool().address("pool_end"))()


def task_cells() -> np.ndarray:
    """Of a task that counts one program."""
    cells = np.zeros(2 + MAX_THREADS, np.int64)
    cells[0] = 1
    return cells


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("pause", [0.0, 0.03])
def test_a_task_runs_once_beside_jobs(threads: int, pause: float) -> None:
    for _ in range(20 if pause == 0.0 else 2):
        cells = task_cells()
        time.sleep(pause)
        assert begin_task(cells, threads)
        assert (counts(16, 1, threads - 1, 5) == 5).all()
        end_task()
        assert cells[1] == 1 and not cells[2:].any()


def test_there_is_one_task_at_a_time() -> None:
    first, second = task_cells(), task_cells()
    assert begin_task(first, 3)
    assert not begin_task(second, 3)
    end_task()
    assert (first[1], second[1]) == (1, 0)
    assert begin_task(second, 3)
    end_task()
    assert second[1] == 1
