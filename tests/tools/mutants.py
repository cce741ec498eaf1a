"""Runs the mutation test and writes a report: `python -m tests.tools.mutants --count 1000 REPORT.md`.

One-token mutants of correct programs, with a fixed seed; `tests/check/test_mutants.py` runs a sample. Without a
report it prints the figures and the mutants that fall short of each.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.mutation.mutate import KINDS, mutants
from tests.mutation.programs import programs
from tests.mutation.score import REJECTED, SOUND, UNJUDGED, Figure, Outcome, examine, figures

SEED = 1


def report(outcomes: list[Outcome], command: str) -> str:
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    lines = [
        "# One-token mutants of correct programs",
        "",
        f"Made by `{command}`: {len(outcomes)} mutants of {len(programs())} programs.",
        "",
        "An oracle that shares no code with the checker runs each on shapes, with a prime for every symbol and strict",
        f"dtypes. It rejects {verdicts[REJECTED]}, runs {verdicts[SOUND]} to the end (they mean something else:",
        f"counted, not scored), and cannot judge {verdicts[UNJUDGED]} (a guard on entry, or no rule for an operator).",
        "",
        "| of those it rejects | | share | without misspellings | wanted |",
        "|---|---|---|---|---|",
        *(_figure(all_, six) for all_, six in zip(figures(outcomes), figures(_six(outcomes)), strict=True)),
        "",
        "| kind | mutants | rejected | diagnosed | primary | one error |",
        "|---|---|---|---|---|---|",
        *(_row(kind, [o for o in outcomes if o.mutant.kind == kind]) for kind in KINDS),
        "",
    ]
    return "\n".join(lines)


def _six(outcomes: list[Outcome]) -> list[Outcome]:
    """Those that changed what a program says; a misspelt name only fails to say it."""
    return [outcome for outcome in outcomes if outcome.mutant.kind != "name"]


def _figure(all_: Figure, six: Figure) -> str:
    counted = f"{all_.count} of {all_.total} | {all_.share:.1%}"
    return f"| {all_.title} | {counted} | {six.count} of {six.total}, {six.share:.1%} | {all_.wanted:.0%} |"


def _row(kind: str, outcomes: list[Outcome]) -> str:
    wrong = [outcome for outcome in outcomes if outcome.verdict == REJECTED]
    found = [outcome for outcome in wrong if outcome.found]
    counts = len(found), sum(o.primary for o in found), sum(len(o.codes) == 1 for o in found)
    return f"| {kind} | {len(outcomes)} | {len(wrong)} | " + " | ".join(map(str, counts)) + " |"


def shortcomings(outcomes: list[Outcome]) -> str:
    """One line for each mutant that misses a figure."""
    lines: list[str] = []
    for outcome in outcomes:
        if outcome.verdict == REJECTED and (missing := _missing(outcome)):
            mutant = outcome.mutant
            where = f"{mutant.program}:{mutant.line}: {mutant.kind} {mutant.change}"
            lines.append(f"{missing}: {where} [{' '.join(outcome.codes)}] {outcome.reason}")
    return "\n".join(sorted(lines))


def _missing(outcome: Outcome) -> str:
    if not outcome.found:
        return "not found"
    checks = {"not shown": not outcome.shown, "cascade": len(outcome.codes) > 1}
    checks["bad fix"] = outcome.fix is not None and not outcome.mended
    return ", ".join(name for name, wrong in checks.items() if wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("report", nargs="?", type=Path)
    options = parser.parse_args()
    outcomes = [examine(mutant) for mutant in mutants(options.seed, options.count)]
    command = f"python -m tests.tools.mutants --count {options.count} --seed {options.seed}"
    text = report(outcomes, command)
    print(text)
    if options.report is None:
        print(shortcomings(outcomes))
    else:
        options.report.write_text(text, encoding="utf-8")
    return 0 if all(figure.reached for figure in (*figures(outcomes), *figures(_six(outcomes)))) else 1


if __name__ == "__main__":
    sys.exit(main())
