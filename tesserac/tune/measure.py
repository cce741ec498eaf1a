"""How long a call takes, as well as a shared machine lets one tell.

Enters: a function without arguments. Leaves: the median of its runs, and between which times half of them lie. Where
these times of two functions overlap, neither is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import quantiles
from time import perf_counter

from tesserac.base.dataclass import dataclass

LEAST_RUNS, MOST_RUNS, WARM_UP = 10, 1000, 3


@dataclass(frozen=True)
class Measured:
    """Milliseconds: the median of runs, and their quartiles."""

    ms: float
    low: float
    high: float
    runs: int

    def is_faster(self, other: Measured) -> bool:
        """Whether the difference is more than noise."""
        return self.high < other.low


def measure(run: Callable[[], object], budget_ms: float) -> Measured:
    """At least ten runs after a warm-up; more while the budget lasts."""
    for _ in range(WARM_UP):
        run()
    times, spent = list[float](), 0.0
    while len(times) < LEAST_RUNS or (spent < budget_ms and len(times) < MOST_RUNS):
        start = perf_counter()
        run()
        times.append((perf_counter() - start) * 1e3)
        spent += times[-1]
    low, middle, high = quantiles(times, n=4)
    return Measured(middle, low, high, len(times))
