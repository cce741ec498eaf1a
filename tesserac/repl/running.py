"""Compiled inputs are called: once for their result, or many times for their speed.

Enters: a function whose sizes are all numbers, and values. Leaves: arrays, or seconds per call.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tessera.dispatch import Compiled
from tessera.function import CompiledFunction
from tessera.random_stream import STREAM, Stream, key_array
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.check.model.typed import TypedFunction
from tesserac.driver.session import Session
from tesserac.repl.apart import run_apart, shared_arrays
from tesserac.repl.values import Value

if TYPE_CHECKING:
    from tessera.arguments import Array
    from tessera.devices import Gpu

MEASURED_SECONDS = 0.3
MOST_CALLS = 10_000


@dataclass(frozen=True)
class Timing:
    """`best` and `median` are seconds per call."""

    best: float
    median: float
    calls: int


def on_cpu(session: Session, source: SourceFile, function: TypedFunction) -> Compiled:
    from tesserac.target.cpu.build import host_platform

    return CompiledFunction(session.artifact(source, function, host_platform()))


def on_gpu(session: Session, source: SourceFile, function: TypedFunction, gpu: Gpu) -> Compiled:
    from tessera.gpu_function import GpuFunction
    from tesserac.driver.gpu_functions import artifact_for_gpu
    from tesserac.target.nvptx.build import PLATFORMS

    return GpuFunction(artifact_for_gpu(session, source, function, PLATFORMS[gpu.code_arches[0]]), gpu)


def run(function: Compiled, arguments: Iterable[Value], stream: Stream) -> tuple[Array, ...]:
    """The results of one call, flat. Random numbers come from the next key of the stream."""
    leaves = _leaves(function, arguments, stream)
    if not isinstance(function, CompiledFunction):  # a context of a GPU is not there in a forked process
        return tuple(np.asarray(value) for value in _flat(function.fast(*leaves)))
    results = shared_arrays(function.signature.results)

    def action() -> bytes:
        for place, value in zip(results, _flat(function.fast(*leaves)), strict=False):
            np.copyto(place, np.asarray(value))
        return b""

    run_apart(action)
    return results


def _flat(found: object) -> tuple[object, ...]:
    return found if isinstance(found, tuple) else (found,)


def measure(function: Compiled, arguments: Iterable[Value], stream: Stream) -> Timing:
    """Calls again and again for a while, at least once; the first call, which starts threads, does not count."""
    leaves, call = _leaves(function, arguments, stream), function.fast

    def action() -> bytes:
        call(*leaves)
        times: list[float] = []
        end = time.perf_counter() + MEASURED_SECONDS
        while not times or (time.perf_counter() < end and len(times) < MOST_CALLS):
            start = time.perf_counter()
            call(*leaves)
            times.append(time.perf_counter() - start)
        times.sort()
        return f"{times[0]} {times[len(times) // 2]} {len(times)}".encode()

    answer = run_apart(action) if isinstance(function, CompiledFunction) else action()
    best, median, calls = answer.split()
    return Timing(float(best), float(median), int(calls))


def _leaves(function: Compiled, arguments: Iterable[Value], stream: Stream) -> Sequence[Array]:
    keys = [key_array(stream.next())] if STREAM in function.params else []
    return [*(leaf for value in arguments for leaf in value.leaves), *keys]
