"""How things are timed: contestants take turns in one process, so that noise meets all of them alike.

The figure of a contestant is the minimum over many turns, and the ratio is that of the minima; the median is kept
beside it to show how noisy the machine was.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds per call."""

    best: float
    median: float


def interleaved(contestants: dict[str, Callable[[], object]], *, turns: int, repeat: int) -> dict[str, Timing]:
    """Times each contestant `turns` times, `repeat` calls a turn, in rotating order."""
    names = list(contestants)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            samples[name].append(_one_turn(contestants[name], repeat))
    return {name: Timing(min(times), statistics.median(times)) for name, times in samples.items()}


def _one_turn(call: Callable[[], object], repeat: int) -> float:
    call()
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat
