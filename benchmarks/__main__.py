"""`python -m benchmarks`: every measurement that the project states a goal for; writes `benchmarks/results/cpu.md`."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
from pathlib import Path

import numpy as np

from benchmarks import kernels, startup
from benchmarks.report import Row, table

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Tessera's benchmarks on this CPU")
    parser.add_argument("--output", type=Path, default=RESULTS / f"cpu-{platform.machine()}.md")
    options = parser.parse_args()
    rows: list[Row] = []
    for measure in (*startup.MEASUREMENTS, *kernels.MEASUREMENTS):
        row = measure()
        rows.append(row)
        print(row.line(), flush=True)
    today = datetime.date.today().isoformat()
    text = f"# CPU benchmarks\n\n`python -m benchmarks`, {today}, {machine()}.\n\n{table(rows)}"
    options.output.write_text(text, encoding="utf-8")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
