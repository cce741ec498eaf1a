"""Any number of random kernels, under five schedules each: as tiles, as machine code and on emulated threads of a GPU.

    python -m tests.tools.random_kernels [--first 0] [--count 200] [--seconds 60] [--workers N] [--only device]

Prints the seeds of kernels whose bits depend on a schedule, or are not those of the interpreter, with their texts.
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

from tests.support.kernel_gen import Pick, RandomKernel, write
from tests.support.kernel_runs import RUNS, check, schedules_of

SIZES = ((1, 1), (3, 40), (20, 33), (9, 600), (2, 1100), (70, 130), (3, 4200))
"""Rows and columns; more of them than a block of a sum, a segment of keys and a chain of a contraction have."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3600.0, help="what is not done by then is left out")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=sorted(RUNS))
    options = parser.parse_args()
    ways = (options.only,) if options.only else ("tiles", "code", "gpu")
    found, ran = Counter[str](), 0
    pool = ProcessPoolExecutor(options.workers, mp_context=get_context("spawn"))
    seeds = range(options.first, options.first + options.count)
    jobs = [pool.submit(_guarded, seed, ways) for seed in seeds]
    with suppress(TimeoutError):
        for future in as_completed(jobs, timeout=options.seconds):
            seed, text, problem = future.result()
            ran += 1
            if problem:
                found[problem.splitlines()[0][:100]] += 1
                print(f"--- seed {seed}\n{text}\n{problem}", flush=True)
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in active_children():
        worker.kill()
    print(f"{ran} kernels, {sum(found.values())} wrong: {dict(found)}", flush=True)
    sys.exit(1 if found else 0)


def _guarded(seed: int, ways: Sequence[str]) -> tuple[int, str, str]:
    """The seed, the text and what is wrong with it."""
    rng = random.Random(seed)
    kernel = write(Pick(rng.choice))
    size = rng.choice(SIZES)
    for way in ways:
        every = schedules_of(kernel)
        schedules = every if way == "tiles" else rng.sample(every, 2)
        if problem := _problem(kernel, size, way, schedules):
            return seed, kernel.text, f"{problem}\n{way}, {schedules}, sizes {size}"
    return seed, kernel.text, ""


def _problem(kernel: RandomKernel, size: tuple[int, int], way: str, schedules: Sequence[tuple[int, ...] | None]) -> str:
    try:
        check(kernel, kernel.arguments(*size, 1), way, schedules)
    except Exception as problem:
        where = "".join(traceback.format_tb(problem.__traceback__, limit=-4))
        return f"{type(problem).__name__}: {str(problem)[:600]}\n{where}"
    return ""


if __name__ == "__main__":
    main()
