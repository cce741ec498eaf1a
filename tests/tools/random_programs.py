"""Runs random programs and writes a report: `python -m tests.tools.random_programs --count 10000 --jobs 16 REPORT.md`.

Each is interpreted, compiled, and, one in three, compiled without fusion as well, which takes the most time; all agree
to the bit, or the report says which seeds do not. `tests/test_random_programs.py` runs a sample of the same programs.
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

from tesserac.session import ProgramError, Session
from tests.program_gen import random_program
from tests.random_runs import run_program, shown

UNFUSED_EVERY = 3


class Outcome(NamedTuple):
    seed: int
    operators: tuple[str, ...]
    lines: int
    problem: str


_session = Session()


def run_one(seed: int) -> Outcome:
    program = random_program(seed)
    problem = ""
    try:
        run_program(_session, program, unfused=seed % UNFUSED_EVERY == 0)
    except ProgramError as refused:
        problem = shown(refused, program)
    except Exception as fault:  # whatever it is, the report shall say it and the others shall run
        problem = f"{type(fault).__name__}: {fault}"
    return Outcome(seed, program.operators, program.text.count("\n"), problem)


def report(outcomes: list[Outcome], seconds: float, command: str) -> str:
    used = Counter(name for outcome in outcomes for name in outcome.operators)
    failed = [outcome for outcome in outcomes if outcome.problem]
    calls, lines = sum(used.values()), sum(outcome.lines for outcome in outcomes)
    rows = [f"| `{name}` | {count} |" for name, count in used.most_common()]
    failures = [f"- seed {outcome.seed}: {outcome.problem.splitlines()[0]}" for outcome in failed]
    return "\n".join(
        [
            "# Random programs: interpreted, compiled and unfused agree to the bit",
            "",
            f"Made by `{command}` on {platform.machine()}, in {seconds:.0f} s.",
            "",
            f"{len(outcomes)} programs, {lines} lines, {calls} operators and control statements of {len(used)} kinds; "
            f"each run with two sets of sizes, one in {UNFUSED_EVERY} unfused too. **{len(failed)} failed.**",
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
    parser.add_argument("report", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="report what was run when these are over")
    chosen = parser.parse_args()
    began = time.time()
    outcomes: list[Outcome] = []
    with multiprocessing.get_context("fork").Pool(chosen.jobs) as pool:
        seeds = range(chosen.start, chosen.start + chosen.count)
        for outcome in pool.imap_unordered(run_one, seeds, chunksize=4):
            outcomes.append(outcome)
            if time.time() - began > chosen.seconds:
                break
            failed = sum(bool(o.problem) for o in outcomes)
            if outcome.problem or len(outcomes) % 100 == 0:
                print(f"{len(outcomes)} of {chosen.count}, {failed} failed", outcome.problem[:300], flush=True)
    command = f"python -m tests.tools.random_programs {chosen.report} --count {chosen.count} --start {chosen.start}"
    chosen.report.write_text(report(outcomes, time.time() - began, command), encoding="utf-8")
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
