"""Runs random loops with branches on counters: `python -m tests.tools.random_branches --count 1000`.

Each is run in the interpreter and compiled at seven pairs of sizes and held to Python, where it fails too; of one in
four the gradient is held to differences, and two are run at once. `tests/check/test_branch_facts.py` runs a sample.
"""

from __future__ import annotations

import argparse
import sys

from tests.support.branch_gen import branch_program
from tests.support.branch_runs import check_many, check_slopes, check_values, is_refused

GRADIENTS_EVERY = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    chosen = parser.parse_args()
    refused, failing, wrong = 0, 0, 0
    for seed in range(chosen.start, chosen.start + chosen.count):
        program = branch_program(seed)
        try:
            if is_refused(program):
                refused += 1
                continue
            failing += check_values(program)
            if seed % GRADIENTS_EVERY == 0:
                check_slopes(program)
                check_many(program)
        except Exception as fault:
            wrong += 1
            sys.stdout.write(f"seed {seed}: {type(fault).__name__}: {fault}\n")
    told = f"{refused} refused while checking, {failing} pairs of sizes out of bounds, {wrong} wrong"
    sys.stdout.write(f"{chosen.count} programs: {told}\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
