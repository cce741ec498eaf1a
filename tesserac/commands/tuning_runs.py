"""Candidates compiled and measured: on this CPU, or on a GPU of this machine.

Enters: a task and arguments. Leaves: of each candidate how long it takes, or why it is none. Workers compile, nothing
is measured meanwhile. A candidate whose results differ in a bit from those of the compiler's choice is none.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.commands.select import select_one
from tesserac.commands.targets import CpuTarget, find_target
from tesserac.commands.tuning_tasks import Task
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.schedule.machine import Machine
from tesserac.tune.measure import Measured, Timed, Times, measure
from tesserac.tune.schedules import Entry, Schedules
from tesserac.tune.space import Settings

if TYPE_CHECKING:
    import numpy as np

    from tessera.devices import Gpu

Bar = Callable[[int, int], None]
"""Told how many candidates are done, of how many."""
Call = Callable[[], object]
Tried = tuple[Settings, "Measured | str"]
BATCH_MS = 0.5
"""What one run on a GPU takes at least: as many calls, so that starting them does not show."""


@dataclass(frozen=True)
class Run:
    """The candidates of a task, the compiler's choice first, and whether the user had no patience for more runs."""

    tried: list[Tried]
    interrupted: bool = False


class Bench(Protocol):
    """Where candidates run: `load` makes a call of code, whose results `bits` gives."""

    @property
    def target(self) -> str: ...

    @property
    def machine(self) -> Machine: ...

    def load(self, code: bytes, args: Sequence[np.ndarray]) -> Callable[[], object]: ...

    def bits(self, result: object) -> bytes: ...

    def timed(self, call: Callable[[], object]) -> Timed: ...


class CpuBench:
    target = "cpu"

    @property
    def machine(self) -> Machine:
        return find_target(self.target).machine

    def load(self, code: bytes, args: Sequence[np.ndarray]) -> Callable[[], object]:
        from tessera.artifact import read_artifact
        from tessera.function import CompiledFunction

        function = CompiledFunction(read_artifact(code, "candidate"))
        return lambda: function.fast(*args)

    def bits(self, result: object) -> bytes:
        import numpy as np

        return b"".join(map(self.bits, result)) if isinstance(result, tuple) else np.asarray(result).tobytes()

    def timed(self, call: Callable[[], object]) -> Timed:
        def run() -> float:
            start = perf_counter()
            call()
            return (perf_counter() - start) * 1e3

        return run


class GpuBench:
    """Arguments are on the device before, and its own clock tells."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.target = f"cuda:{gpu.code_arches[0]}"

    @property
    def machine(self) -> Machine:
        return find_target(self.target).machine

    def load(self, code: bytes, args: Sequence[np.ndarray]) -> Callable[[], object]:
        from tessera.device_array import to_device
        from tessera.gpu_artifact import read_gpu_artifact
        from tessera.gpu_function import GpuFunction

        function = GpuFunction(read_gpu_artifact(code, "candidate"), self._gpu)
        here = [to_device(array, self._gpu.name) for array in args]
        return lambda: function.fast(*here)

    def bits(self, result: object) -> bytes:
        from tessera.device_array import to_host

        return CpuBench().bits(to_host(result))

    def timed(self, call: Callable[[], object]) -> Timed:
        from tessera import cuda_streams

        stream = cuda_streams.current(self._gpu)

        def run(calls: int) -> float:
            with self._gpu.entered() as driver:
                return driver.milliseconds(stream, lambda: [call() for _ in range(calls)]) / calls

        run(1)
        batch = max(1, round(BATCH_MS / max(run(2), 1e-3)))
        return lambda: run(batch)


def find_bench(device: str) -> Bench:
    """Raises TesseraError where there is no such device."""
    from tessera.devices import find_device

    gpu = find_device(device)
    return CpuBench() if gpu is None else GpuBench(gpu)


@contextmanager
def workers() -> Iterator[Executor]:
    """Processes that compile candidates; each reads the library once. Ctrl-C ends them without a word, and nothing
    that waits is begun after it."""
    count, silent = max(1, (os.cpu_count() or 2) // 2), (signal.SIGINT, signal.SIG_DFL)
    with ProcessPoolExecutor(count, get_context("spawn"), signal.signal, silent) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_candidates(
    bench: Bench,
    pool: Executor,
    task: Task,
    known: Sequence[Entry],
    args: Sequence[np.ndarray],
    budget: float,
    bar: Bar,
) -> Run:
    """`known` is what earlier tasks of the function have found."""
    every: list[Settings] = [{}, *task.tried]
    wanted_entries = [(*known, *([task.entry(settings)] if settings else [])) for settings in every]
    codes = _compiled(bench, pool, task, wanted_entries, bar)
    found: list[Tried] = []
    running: list[tuple[int, Timed]] = []
    wanted = b""
    for number, (settings, code) in enumerate(zip(every, codes, strict=True)):
        loaded = code if isinstance(code, str) else _first_call(bench, code, args)
        if isinstance(loaded, str):
            found.append((settings, loaded))
            continue
        call, bits = loaded
        wanted = wanted or bits
        if bits == wanted:
            running.append((number, bench.timed(call)))
        found.append((settings, "" if bits == wanted else "its results differ"))
    times = measure([timed for _, timed in running], budget) if running else Times([])
    for (number, _), measured in zip(running, times.measured, strict=True):
        found[number] = found[number][0], measured
    return Run(found, times.interrupted)


def _first_call(bench: Bench, code: bytes, args: Sequence[np.ndarray]) -> tuple[Call, bytes] | str:
    """A candidate to call, and the bits of its results; or why it does not run: a machine may lack the room."""
    from tessera.errors import TesseraError

    try:
        call = bench.load(code, args)
        return call, bench.bits(call())
    except TesseraError as problem:
        return str(problem).splitlines()[0]


def _compiled(
    bench: Bench, pool: Executor, task: Task, every: Sequence[tuple[Entry, ...]], bar: Bar
) -> list[bytes | str]:
    """All of them: measuring begins when nothing else runs."""
    name, codes = task.function.name, list[bytes | str]()
    jobs = [pool.submit(compile_candidate, task.source, name, entries, bench.target) for entries in every]
    for job in jobs:
        codes.append(job.result())
        bar(len(codes), len(jobs))
    return codes


def compile_candidate(source: SourceFile, function: str, entries: tuple[Entry, ...], target: str) -> bytes | str:
    """In a worker: the code of a function with these schedules, or why there is none."""
    from tesserac.driver.gpu_functions import artifact_for_gpu

    session, goal = Session(release=True, schedules=Schedules(entries)), find_target(target)
    try:
        found = select_one(session, source, function).function
        if isinstance(goal, CpuTarget):
            return session.artifact(source, found, goal.platform).to_bytes()
        made = artifact_for_gpu(session, source, found, goal.platform)
        made.make_code()
        return made.to_bytes()
    except ProgramError as problem:
        return str(problem)
