"""`python -m benchmarks.growth`: bytes moved, and time, against the iterations of a loop, for every kind of update.

Bytes are those of the host program at these sizes (`tesserac/schedule/traffic.py`); an update that copied its tensor in
every iteration would show as 64 times the bytes at 8 times the T. Programs whose loops grow faster than T are counted
and run at smaller T. Writes `benchmarks/results/growth.md`.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

import tessera
from benchmarks.__main__ import RESULTS, machine
from benchmarks.growth_cases import CASES, Case
from tesserac.base.source import SourceFile
from tesserac.schedule.traffic import bytes_moved
from tesserac.session import Session
from tesserac.target.cpu.build import host_platform

LENGTHS = {1: (1000, 2000, 4000, 8000), 2: (50, 100, 200, 400), 3: (12, 25, 50, 100)}
"""T, by the power of T that the loops of a case have."""
ENTRIES = ("forward", "gradient")
REPEAT = 3


def arguments(turns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(turns)
    w = (rng.standard_normal((8, 8)) / 4 + np.eye(8)).astype("f4")
    return rng.standard_normal((turns, 8)).astype("f4"), rng.integers(0, 8, turns).astype("i4"), w


def counted(case: Case, entry: str) -> list[int]:
    """The bytes of one call at each T."""
    session, source = Session(), SourceFile("growth.tess", case.program)
    levels = session.levels(source, session.function(source, entry), host_platform().schedule)
    host = next(op for op in levels.schedule.ops if op.name == "schedule.func")
    return [bytes_moved(host, {"T": turns}, turns) for turns in LENGTHS[case.power]]


def timed(call: Callable[..., object], turns: int) -> float:
    """Milliseconds of the fastest call."""
    given = arguments(turns)
    call(*given)
    times: list[float] = []
    for _ in range(REPEAT):
        start = perf_counter()
        call(*given)
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def line(case: Case, entry: str, module: object) -> str:
    """A row: what it is, bytes at each T, their growth, milliseconds at each T."""
    moved = counted(case, entry)
    times = [timed(getattr(module, entry), turns) for turns in LENGTHS[case.power]]
    cells = [*(_bytes(n) for n in moved), f"{moved[-1] / moved[0]:.1f}", *(f"{t:.2f}" for t in times)]
    sizes = "/".join(str(turns) for turns in LENGTHS[case.power])
    return f"| {case.kind}: {case.name} | {entry} | {sizes} | {' | '.join(cells)} |"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.2f}" if count >= 1e5 else f"{count / 1e6:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Bytes and time against the iterations of a loop")
    parser.add_argument("--output", type=Path, default=RESULTS / "growth.md")
    options = parser.parse_args()
    rows: list[str] = []
    for case in CASES:
        module = tessera.compile(case.program)
        for entry in ENTRIES:
            rows.append(line(case, entry, module))
            print(rows[-1], flush=True)
    today = datetime.date.today().isoformat()
    text = f"""# Growth of loops

`python -m benchmarks.growth`, {today}, {machine()}.

Four lengths T per row: megabytes that a call moves, counted in its host program, how many times more the last T moves
than the first (8 for a loop over T, 64 and 512 for two and three loops, one inside the other), and milliseconds.

| case | | T | MB | | | | growth | ms | | | |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""
    options.output.write_text(text + "\n".join(rows) + "\n", encoding="utf-8")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
