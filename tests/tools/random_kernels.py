"""Any number of random kernels, under five schedules each: as tiles, as machine code and on emulated threads of a GPU.

    python -m tests.tools.random_kernels [--first 0] [--count 200] [--seconds 60] [--workers N] [--only device]
        [--schedules 2] [--report FILE]

Prints the seeds of kernels whose bits depend on a schedule, or are not those of the interpreter, with their texts. The
report says which kernels ran, by what they are made of, and what was found.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import active_children, get_context
from pathlib import Path

from tesserac.base.dataclass import dataclass
from tests.support.kernel_gen import CACHE, KEY, Pick, RandomKernel, write
from tests.support.kernel_runs import RUNS, check, schedules_of

SIZES = ((1, 1), (3, 40), (20, 33), (9, 600), (2, 1100), (70, 130), (3, 4200))
"""Rows and columns; more of them than a block of a sum, a segment of keys and a chain of a contraction have."""


KINDS = {
    "products": "tile.dot(", "loops over blocks": "tile.range", "running softmax": "softmax_online",
    "rows taken": ", at", "running folds": "cum", "pairs": "stack(", "places": "_index(",
    "parts of a dim": "stop=", "random numbers": KEY, "caches": f"{CACHE}.",
    "groups of heads": "k5", "heads that share keys": "k4", "windows": "start=tile.row",
    "steps with loops": "in range(G)",
}  # fmt: skip
"""What kernels are made of, by what stands in their texts."""


@dataclass(frozen=True)
class Outcome:
    """A kernel that ran: its seed, how many rows and columns it had, what it is made of, and what is wrong with it."""

    seed: int
    size: tuple[int, int]
    kinds: tuple[str, ...]
    problem: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3600.0, help="what is not done by then is left out")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=sorted(RUNS))
    parser.add_argument("--schedules", type=int, default=2, help="of five, where code is compiled")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    ways = (options.only,) if options.only else ("tiles", "code", "gpu")
    outcomes = list[Outcome]()
    pool = ProcessPoolExecutor(options.workers, mp_context=get_context("spawn"))
    seeds = range(options.first, options.first + options.count)
    jobs = [pool.submit(_guarded, seed, ways, options.schedules) for seed in seeds]
    with suppress(TimeoutError):
        for future in as_completed(jobs, timeout=options.seconds):
            outcomes.append(future.result())
            if outcomes[-1].problem:
                print(f"--- seed {outcomes[-1].seed}\n{outcomes[-1].problem}", flush=True)
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in active_children():
        worker.kill()
    found = Counter(outcome.problem.splitlines()[0][:100] for outcome in outcomes if outcome.problem)
    print(f"{len(outcomes)} kernels, {sum(found.values())} wrong: {dict(found)}", flush=True)
    if options.report:
        options.report.write_text(_report(outcomes, ways, options.schedules))
    sys.exit(1 if found else 0)


def _report(outcomes: Sequence[Outcome], ways: Sequence[str], schedules: int) -> str:
    """What ran, as a page."""
    wrong = [outcome for outcome in outcomes if outcome.problem]
    sizes, kinds = Counter(o.size for o in outcomes), Counter(kind for o in outcomes for kind in o.kinds)
    lines = [
        "# Random kernels against the interpreter\n",
        f"`python -m tests.tools.random_kernels {' '.join(sys.argv[1:])}`: {len(outcomes)} kernels, each under",
        f"{schedules} of five schedules, by {', '.join(ways)}; {len(wrong)} wrong.\n",
        "| made of, or of rows x columns | kernels |",
        "|---|---|",
        *(f"| {kind} | {count} |" for kind, count in kinds.most_common()),
        *(f"| {rows} x {columns} | {count} |" for (rows, columns), count in sorted(sizes.items())),
        f"\nSeeds: {', '.join(map(str, sorted(outcome.seed for outcome in outcomes)))}.",
        *(f"\nSeed {outcome.seed}: {outcome.problem.splitlines()[0]}" for outcome in wrong),
    ]
    return "\n".join(lines) + "\n"


def _guarded(seed: int, ways: Sequence[str], schedules: int) -> Outcome:
    """Runs the kernel of a seed."""
    rng = random.Random(seed)
    kernel = write(Pick(rng.choice))
    size, made_of = rng.choice(SIZES), [kind for kind, text in KINDS.items() if text in kernel.text]
    marks = {"vmap": kernel.mapped, "pinned blocks": bool(kernel.pinned)}
    kinds = (*made_of, kernel.dtype, *(mark for mark, has in marks.items() if has))
    for way in ways:
        every = schedules_of(kernel)
        chosen = every if way == "tiles" else rng.sample(every, schedules)
        if problem := _problem(kernel, size, way, chosen):
            return Outcome(seed, size, kinds, f"{problem}\n{way}, {chosen}, sizes {size}\n{kernel.text}")
    return Outcome(seed, size, kinds, "")


def _problem(kernel: RandomKernel, size: tuple[int, int], way: str, schedules: Sequence[tuple[int, ...] | None]) -> str:
    try:
        check(kernel, kernel.arguments(*size, 1), way, schedules)
    except Exception as problem:
        where = "".join(traceback.format_tb(problem.__traceback__, limit=-4))
        return f"{type(problem).__name__}: {str(problem)[:600]}\n{where}"
    return ""


if __name__ == "__main__":
    main()
