"""Checks derivatives of random programs and writes a report: `python -m tests.tools.random_gradients --count 1000`.

Each program has 5 to 40 operators, loops and branches, in f64. Forward and reverse mode are held to each other, second
derivatives in three ways as well, and both to finite differences. Gradients of one in three are compiled too, second
derivatives of one in nine, and have the bits of the interpreter. `tests/graph/test_random_gradients.py` runs a sample.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.gradient_gen import gradient_program
from tests.support.gradient_runs import BOUND, MODES, Unclear, check_bits, check_gradients
from tests.tools.seeds import Outcome, main, outcome, session

REPORT = Path("benchmarks/results/random-gradients.md")
COMPILED_EVERY, SECOND_EVERY, UNFUSED_EVERY = 3, 9, 6


def run_one(seed: int) -> Outcome:
    program = gradient_program(seed)

    def run() -> frozenset[str]:
        notes = set[str]()
        try:
            notes |= {"moved"} if check_gradients(session(), program) > 1 else set()
        except Unclear:
            notes.add("unclear")
        if seed % COMPILED_EVERY == 0:
            check_bits(session(), program, second=seed % SECOND_EVERY == 0, unfused=seed % UNFUSED_EVERY == 0)
            notes.add("compiled")
        session().forget(f"gradient{seed}.tess")
        return frozenset(notes)

    return outcome(program, run)


def said(outcomes: Sequence[Outcome]) -> str:
    counts = {note: [o.seed for o in outcomes if note in o.notes] for note in ("moved", "unclear", "compiled")}
    unclear = f": seeds {', '.join(map(str, counts['unclear']))}" if counts["unclear"] else ""
    return (
        f"All in f64. Of each the slope by forward and by reverse mode, and the second derivative forward over "
        f"forward, forward over reverse and reverse over reverse, agree to {MODES:g} of what they could be; both agree "
        f"with differences to {BOUND:g} (where `stop_gradient` holds something, the first alone). Differences told "
        f"nothing near the first point of {len(counts['moved'])}, which were held to them at "
        f"another; of {len(counts['unclear'])} they told nothing at any{unclear}. Of "
        f"{len(counts['compiled'])} the gradient was compiled (of one in {SECOND_EVERY} the second derivatives too, of "
        f"one in {UNFUSED_EVERY} also unfused) and run on one thread and on two, with the bits of the interpreter."
    )


if __name__ == "__main__":
    session()
    sys.exit(main(__doc__ or "", REPORT, run_one, "Random programs: derivatives of first and second order", said))
