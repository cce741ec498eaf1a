"""How long calls take, as well as a shared machine lets one tell.

Enters: functions that run once and say how many milliseconds that took. Leaves: of each the median of its runs, and
between which times half of them lie. All run in turn, so that what disturbs the machine disturbs all of them. Where
these times of two functions overlap, neither is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median, quantiles

from tesserac.base.dataclass import dataclass

LEAST_RUNS, MOST_RUNS, WARM_UP = 10, 1000, 3
HOPELESS = 3.0
"""Times as slow as the best one in the warm-up: such a candidate has its ten runs and no more."""

Timed = Callable[[], float]
"""Runs once; milliseconds."""


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


@dataclass(frozen=True)
class Times:
    """Of each function how long it takes, and whether the user had no patience for more runs."""

    measured: list[Measured]
    interrupted: bool = False


def measure(timed: Sequence[Timed], budget_ms: float) -> Times:
    """At least ten runs of each after a warm-up; more of those that may be best while the budget lasts. An interrupt
    ends the budget; before the tenth run of each there is nothing to keep, and it is raised."""
    warm = [median(run() for _ in range(WARM_UP)) for run in timed]
    times: list[list[float]] = [[] for _ in timed]
    hopeful = [ms <= HOPELESS * min(warm) for ms in warm]
    spent, interrupted = 0.0, False
    try:
        while len(times[0]) < LEAST_RUNS or (spent < budget_ms and len(times[0]) < MOST_RUNS):
            for number, run in enumerate(timed):
                if not number or hopeful[number] or len(times[number]) < LEAST_RUNS:
                    times[number].append(run())
                    spent += times[number][-1]
    except KeyboardInterrupt:
        if min(map(len, times)) < LEAST_RUNS:
            raise
        interrupted = True
    return Times([_measured(own) for own in times], interrupted)


def _measured(times: Sequence[float]) -> Measured:
    low, middle, high = quantiles(times, n=4)
    return Measured(middle, low, high, len(times))
