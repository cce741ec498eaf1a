"""Checks gradients of random programs and writes a report: `python -m tests.tools.random_gradients --count 1000`.

Each program has 5 to 40 operators, loops and branches, in f64. Its first derivative, by forward and by reverse mode,
and its second, forward over reverse, are held to finite differences. `tests/test_random_gradients.py` runs a sample.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.gradient_gen import gradient_program
from tests.gradient_runs import BOUND, Unclear, check_gradients

REPORT = Path("benchmarks/results/random-gradients.md")


class Outcome(NamedTuple):
    seed: int
    operators: tuple[str, ...]
    lines: int
    points: int
    """How many were tried; 0 where differences told nothing at any."""
    problem: str


def run_one(seed: int) -> Outcome:
    program = gradient_program(seed)
    points, problem = 0, ""
    try:
        points = check_gradients(program)
    except Unclear:
        pass
    except Exception as fault:  # whatever it is, the report shall say it and the others shall run
        problem = f"{type(fault).__name__}: {fault}"
    return Outcome(seed, program.operators, program.text.count("\n"), points, problem)


def report(outcomes: list[Outcome], seconds: float, command: str) -> str:
    used = Counter(name for outcome in outcomes for name in outcome.operators)
    failed = [outcome for outcome in outcomes if outcome.problem]
    unclear = [str(outcome.seed) for outcome in outcomes if not outcome.problem and not outcome.points]
    moved = sum(outcome.points > 1 for outcome in outcomes)
    rows = [f"| `{name}` | {count} |" for name, count in used.most_common()]
    failures = [f"- seed {outcome.seed}: {outcome.problem.splitlines()[0]}" for outcome in failed]
    return "\n".join(
        [
            "# Random programs: gradients and second derivatives against finite differences",
            "",
            f"Made by `{command}` on {platform.machine()}, in {seconds:.0f} s.",
            "",
            f"{len(outcomes)} programs in f64, {sum(o.lines for o in outcomes)} lines, {sum(used.values())} operators "
            f"and control statements of {len(used)} kinds. The slope along a direction, by forward and by reverse "
            f"mode, and the second derivative along two, forward over reverse, agree with differences to {BOUND:g}. "
            f"**{len(failed)} failed.** {moved} had a corner near the first point and were held to it at another; of "
            f"{len(unclear)} differences say nothing (not finite, too curved, or a branch that rounding decides)"
            f"{': seeds ' if unclear else ''}{', '.join(unclear)}.",
            "",
            *failures,
            "",
            "| what | how often |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, nargs="?", default=REPORT)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="report what was run when these are over")
    chosen = parser.parse_args()
    began = time.time()
    outcomes: list[Outcome] = []
    with multiprocessing.get_context("fork").Pool(chosen.jobs) as pool:
        for outcome in pool.imap_unordered(run_one, range(chosen.start, chosen.start + chosen.count)):
            outcomes.append(outcome)
            if outcome.problem or len(outcomes) % 50 == 0:
                print(f"{len(outcomes)} of {chosen.count}", outcome.seed, outcome.problem[:300], flush=True)
            if time.time() - began > chosen.seconds:
                break
    command = f"python -m tests.tools.random_gradients --count {chosen.count} --start {chosen.start}"
    chosen.report.write_text(report(outcomes, time.time() - began, command), encoding="utf-8")
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
