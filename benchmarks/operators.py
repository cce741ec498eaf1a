"""Functions of the library beside PyTorch's on a CPU: `python -m benchmarks.operators --torch PYTHON --out FOLDER`.

Each library runs alone in its process, in turns; a figure is the least of all turns. PYTHON is one that has PyTorch.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
from pathlib import Path

from benchmarks.apart import run_apart
from benchmarks.operator_cases import CASES, SLOW

SCRIPT = Path(__file__).with_name("operator_peers.py")


def measured(python: str, library: str, threads: int, seconds: int) -> dict[str, float]:
    output, problem = run_apart([python, str(SCRIPT), library, str(threads)], seconds)
    if problem:
        print(f"{library}: {problem}")
    rows = [line.split("\t") for line in output.splitlines() if "\t" in line]
    for name, figure, *why in rows:
        if figure == "nan":
            print(f"{library}: {name}: {why}")
    return {name: float(figure) for name, figure, *_ in rows}


def least(turns: list[dict[str, float]], name: str) -> float:
    return min((turn[name] for turn in turns if not math.isnan(turn.get(name, math.nan))), default=math.nan)


def table(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> str:
    lines = ["| | Tessera, ms | PyTorch, ms | PyTorch / Tessera | |", "|---|---|---|---|---|"]
    for case in CASES:
        own, peer = least(ours, case.name), least(theirs, case.name)
        note = SLOW.get(case.name, "") if peer / own < 0.5 else ""
        usual = " (usual)" if case.is_common else ""
        lines.append(f"| {case.name}{usual} | {own * 1e3:.3f} | {peer * 1e3:.3f} | {peer / own:.2f} | {note} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--out", default="benchmarks/results")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=300)
    asked = parser.parse_args()
    ours, theirs = list[dict[str, float]](), list[dict[str, float]]()
    for _ in range(asked.turns):
        ours.append(measured(sys.executable, "tessera", asked.threads, asked.seconds))
        theirs.append(measured(asked.torch, "torch", asked.threads, asked.seconds))
    count = "one thread" if asked.threads == 1 else f"{asked.threads} threads"
    where = f"{platform.machine()}, {count}"
    head = f"# Functions of the library beside PyTorch\n\n`python -m benchmarks.operators`: {where}.\n"
    threads = "" if asked.threads == 1 else f"-{asked.threads}"
    file = Path(asked.out) / f"operators-{platform.machine()}{threads}.md"
    file.write_text(f"{head}\n{table(ours, theirs)}\n", encoding="utf-8")
    print(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
