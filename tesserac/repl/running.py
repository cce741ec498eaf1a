"""Compiled inputs are called: once for their result, or many times for their speed.

Enters: an artifact whose sizes are all numbers, and values. Leaves: arrays, or seconds per call.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tessera.artifact import Artifact
from tessera.function import CompiledFunction
from tessera.stream import STREAM, Stream, key_array
from tesserac.base.dataclass import dataclass
from tesserac.repl.apart import run_apart, shared_arrays
from tesserac.repl.values import Value

if TYPE_CHECKING:
    from tessera.arguments import Array

MEASURED_SECONDS = 0.3
MOST_CALLS = 10_000


@dataclass(frozen=True)
class Timing:
    """`best` and `median` are seconds per call."""

    best: float
    median: float
    calls: int


def run(artifact: Artifact, arguments: Iterable[Value], stream: Stream) -> tuple[Array, ...]:
    """The results of one call, flat. Random numbers come from the next key of the stream."""
    function = CompiledFunction(artifact)
    leaves = _leaves(artifact, arguments, stream)
    results = shared_arrays(artifact.signature.results)

    def action() -> bytes:
        found = function.fast(*leaves)
        for place, value in zip(results, found if isinstance(found, tuple) else (found,), strict=False):
            place[...] = value
        return b""

    run_apart(action)
    return results


def measure(artifact: Artifact, arguments: Iterable[Value], stream: Stream) -> Timing:
    """Calls again and again for a while, at least once; the first call, which starts threads, does not count."""
    function = CompiledFunction(artifact).fast
    leaves = _leaves(artifact, arguments, stream)

    def action() -> bytes:
        function(*leaves)
        times: list[float] = []
        end = time.perf_counter() + MEASURED_SECONDS
        while not times or (time.perf_counter() < end and len(times) < MOST_CALLS):
            start = time.perf_counter()
            function(*leaves)
            times.append(time.perf_counter() - start)
        times.sort()
        return f"{times[0]} {times[len(times) // 2]} {len(times)}".encode()

    best, median, calls = run_apart(action).split()
    return Timing(float(best), float(median), int(calls))


def _leaves(artifact: Artifact, arguments: Iterable[Value], stream: Stream) -> Sequence[Array]:
    keys = [key_array(stream.next())] if STREAM in artifact.params else []
    return [*(leaf for value in arguments for leaf in value.leaves), *keys]
