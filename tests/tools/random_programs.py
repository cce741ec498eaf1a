"""Runs random programs and writes a report: `python -m tests.tools.random_programs REPORT.md --count 10000 --jobs 16`.

Each is interpreted, compiled, and, one in three, compiled without fusion as well, which takes the most time; all agree
to the bit, or the report says which seeds do not. `tests/programs/test_random_programs.py` runs a sample.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.edge_statements import random_program
from tests.support.random_runs import run_program
from tests.tools.seeds import Outcome, main, outcome, session

REPORT = Path("benchmarks/results/random-programs.md")
UNFUSED_EVERY = 3


def run_one(seed: int) -> Outcome:
    program = random_program(seed)

    def run() -> frozenset[str]:
        run_program(session(), program, unfused=seed % UNFUSED_EVERY == 0)
        return frozenset()

    return outcome(program, run)


def said(outcomes: Sequence[Outcome]) -> str:
    return f"Each was run with two sets of sizes, one in {UNFUSED_EVERY} unfused too."


if __name__ == "__main__":
    session()
    title = "Random programs: interpreted, compiled and unfused agree to the bit"
    sys.exit(main(__doc__ or "", REPORT, run_one, title, said))
