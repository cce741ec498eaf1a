"""Deals cases to processes: one that dies costs the case it was at, and every case has an outcome.

A tool with `add_options` runs itself once for each share: where `options.inside` is given it calls `run_share`, else
`deal`. A case that was not begun or not ended when the limit came has the outcome "no time".
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
Row = dict[str, Any]
Case = TypeVar("Case")
LOST = 75
"""How a process ends whose last row is told and that can run no other case."""


class Lost(Exception):
    """What a case raises after which its process can run no other; it has the case's row."""

    def __init__(self, row: Row) -> None:
        super().__init__(row)
        self.row = row


def add_options(parser: argparse.ArgumentParser, limit: float) -> None:
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--limit", type=float, default=limit, help="seconds")
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)


def deal(module: str, options: argparse.Namespace) -> list[Row]:
    """The rows of all cases, in the order of shares."""
    end = time.monotonic() + options.limit
    command = [sys.executable, "-m", module, *sys.argv[1:], "--inside"]
    with ThreadPoolExecutor(options.jobs) as pool:
        shares = pool.map(lambda number: _rows_of([*command, str(number)], end), range(options.jobs))
        return [row for share in shares for row in share]


def _rows_of(command: Sequence[str], end: float) -> list[Row]:
    """One share; after a process that ended early another goes on behind the case it was at."""
    names, rows = ["start"], list[Row]()
    while len(rows) < len(names) and time.monotonic() < end:
        told, code, said = _run([*command, "--skip", str(len(rows))], end)
        names = next((json.loads(line[6:]) for line in told if line.startswith("SHARE ")), names)
        rows += [json.loads(line[4:]) for line in told if line.startswith("ROW ")]
        if code == 0:
            break
        if code != LOST and time.monotonic() < end:
            rows.append({"case": names[len(rows)], "outcome": "died", "problem": said})
    return rows + [{"case": name, "outcome": "no time"} for name in names[len(rows) :]]


def _run(command: Sequence[str], end: float) -> tuple[list[str], int, str]:
    """What a process tells, its code, and the last that it says otherwise."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    killer = threading.Timer(max(end - time.monotonic(), 0), process.kill)
    killer.start()
    told, said = list[str](), list[str]()
    for line in process.stdout or ():
        (told if line.startswith(("SHARE ", "ROW ")) else said).append(line)
    killer.cancel()
    return told, process.wait(), "".join(said[-5:])


def run_share(
    cases: Sequence[Case], name: Callable[[Case], str], run: Callable[[Case], Row], options: argparse.Namespace
) -> None:
    """In a process of its own: the share and its rows, one a line."""
    share = cases[options.inside :: options.jobs]
    print("SHARE " + json.dumps([name(case) for case in share]), flush=True)
    for case in share[options.skip :]:
        try:
            row, is_lost = run(case), False
        except Lost as lost:
            row, is_lost = lost.row, True
        print("ROW " + json.dumps({"case": name(case), **row}), flush=True)
        if is_lost:
            sys.exit(LOST)


def report(rows: Sequence[Row], path: Path, good: Sequence[str]) -> None:
    """Writes the rows, and says how many have which outcome and what the ones are that are not good."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sorted(rows, key=lambda row: str(row["case"])), indent=1))
    print(f"{len(rows)} cases: {dict(Counter(row['outcome'] for row in rows))}")
    for row in rows:
        if row["outcome"] not in (*good, "no time"):
            print(f"{row['outcome']:8} {row['case']}: {row.get('problem', '')[-700:]}")
