"""What the tools that run random programs share: the arguments, the pool of processes, the report.

Enters: what runs one seed, and the sentences of a report. Leaves: the report as a file, and a status.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tesserac.base.source import SourceFile
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tests.support.program_gen import Program
from tests.support.random_runs import shown


class Outcome(NamedTuple):
    seed: int
    operators: tuple[str, ...]
    lines: int
    problem: str
    notes: frozenset[str]
    """What was done beside the usual, for the report to count."""


class Chosen(argparse.Namespace):
    report: Path
    count: int
    start: int
    jobs: int
    seconds: float


@cache
def session() -> Session:
    """One for all processes, with the library in it before they part."""
    made = Session()
    made.check(SourceFile("empty.tess", ""))
    return made


def outcome(program: Program, run: Callable[[], frozenset[str]]) -> Outcome:
    """Whatever happens, the report shall say it and the others shall run."""
    problem, notes = "", frozenset[str]()
    try:
        notes = run()
    except ProgramError as refused:
        problem = shown(refused, program)
    except Exception as fault:
        problem = f"{type(fault).__name__}: {fault}"
    return Outcome(program.seed, program.operators, program.text.count("\n"), problem, notes)


def main(doc: str, report: Path, run_one: Callable[[int], Outcome], title: str, said: Callable[..., str]) -> int:
    """`said` makes the paragraph under the title of the outcomes."""
    chosen = _arguments(doc, report)
    began = time.time()
    outcomes = _run(chosen, run_one, began)
    where = f"on {platform.machine()}, in {time.time() - began:.0f} s with {chosen.jobs} processes"
    tool = Path(sys.argv[0]).stem
    made = f"Made by `python -m tests.tools.{tool} --count {chosen.count} --start {chosen.start}` {where}."
    chosen.report.write_text(_report(title, made, said(outcomes), outcomes), encoding="utf-8")
    return int(any(outcome.problem for outcome in outcomes))


def _arguments(doc: str, report: Path) -> Chosen:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, nargs="?", default=report)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="report what was run when these are over")
    return parser.parse_args(namespace=Chosen())


def _run(chosen: Chosen, run_one: Callable[[int], Outcome], began: float) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with multiprocessing.get_context("fork").Pool(chosen.jobs) as pool:
        results = pool.imap_unordered(run_one, range(chosen.start, chosen.start + chosen.count))
        while len(outcomes) < chosen.count:
            left = began + chosen.seconds - time.time()
            try:
                outcomes.append(results.next(timeout=None if left == float("inf") else max(left, 0.0)))
            except multiprocessing.TimeoutError:
                break
            found = outcomes[-1]
            if found.problem or len(outcomes) % 50 == 0:
                print(f"{len(outcomes)} of {chosen.count}", found.seed, found.problem[:300], flush=True)
        pool.terminate()
    return outcomes


def _report(title: str, made: str, said: str, outcomes: Sequence[Outcome]) -> str:
    used = Counter(name for outcome in outcomes for name in outcome.operators)
    failures = [f"- seed {o.seed}: {o.problem.splitlines()[0]}" for o in outcomes if o.problem]
    total = (
        f"{len(outcomes)} programs, {sum(o.lines for o in outcomes)} lines, {sum(used.values())} operators and control "
        f"statements of {len(used)} kinds. **{len(failures)} failed.** {said}"
    )
    rows = [f"| `{name}` | {count} |" for name, count in used.most_common()]
    return "\n".join(
        [f"# {title}", "", made, "", total, "", *failures, "", "| what | how often |", "|---|---|", *rows, ""]
    )
