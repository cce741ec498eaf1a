"""`python -m benchmarks.growth [--time]`: bytes moved, and time, against the iterations of a loop, by kind of update.

Bytes are those of the host program at these sizes (`tesserac/schedule/traffic.py`); an update that copied its tensor in
every iteration would show as 64 times the bytes at 8 times the T. Programs whose loops grow faster than T are counted
and run at smaller T. Writes `benchmarks/results/growth.md`.
"""

from __future__ import annotations

import argparse
import datetime
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

import tessera
from benchmarks.growth_cases import CASES, Case
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.schedule.traffic import bytes_moved
from tesserac.target.cpu.build import host_platform

LENGTHS = {1: (1000, 2000, 4000, 8000), 2: (50, 100, 200, 400), 3: (12, 25, 50, 100)}
"""T, by the power of T that the loops of a case have."""
ENTRIES = ("forward", "gradient")
REPEAT = 3
RESULTS = Path(__file__).parent / "results"


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


def line(case: Case, entry: str, times: Sequence[float]) -> str:
    """A row: what it is, bytes at each T, their growth, milliseconds at each T where they were measured."""
    moved = counted(case, entry)
    cells = [*(_bytes(n) for n in moved), f"{moved[-1] / moved[0]:.1f}", *(f"{t:.2f}" for t in times)]
    sizes = "/".join(str(turns) for turns in LENGTHS[case.power])
    return f"| {case.kind}: {case.name} | {entry} | {sizes} | {' | '.join(cells)} |"


def _times(case: Case, entry: str) -> list[float]:
    call = getattr(tessera.compile(case.program), entry)
    return [timed(call, turns) for turns in LENGTHS[case.power]]


def _bytes(count: int) -> str:
    return f"{count / 1e6:.2f}" if count >= 1e5 else f"{count / 1e6:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Bytes and time against the iterations of a loop")
    parser.add_argument("--output", type=Path, default=RESULTS / "growth.md")
    parser.add_argument("--time", action="store_true", help="also run every program, and give milliseconds")
    options = parser.parse_args()
    rows: list[str] = []
    for case in CASES:
        for entry in ENTRIES:
            rows.append(line(case, entry, _times(case, entry) if options.time else ()))
            print(rows[-1], flush=True)
    command = "python -m benchmarks.growth" + " --time" * options.time
    timed_too = " | ms | | | |" if options.time else " |"
    text = f"""# Growth of loops

`{command}`, {datetime.date.today().isoformat()}, {platform.machine()}.

Four lengths T per row: megabytes that a call moves, counted in its host program, and how many times more the last T
moves than the first (8 for a loop over T, 64 and about 512 for two and three loops, one inside the other).

| case | | T | MB | | | | growth{timed_too}
{"|---" * (12 if options.time else 8)}|
"""
    options.output.write_text(text + "\n".join(rows) + "\n", encoding="utf-8")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
