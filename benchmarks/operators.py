"""Functions of the library beside PyTorch's on a CPU: `python -m benchmarks.operators --torch PYTHON --out FOLDER`.

Each library has a process of its own, which is asked for one function at a time while the other waits: ours, theirs,
ours, theirs; a figure is the least of all turns. PYTHON is one that has PyTorch. Names behind it are those of the
functions that are wanted.
"""

from __future__ import annotations

import argparse
import math
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.operator_cases import CASES, SLOW
from benchmarks.operator_inputs import Case

SCRIPT = Path(__file__).with_name("operator_peers.py")


class Library:
    """A process that answers names with seconds."""

    def __init__(self, python: str, library: str, threads: int) -> None:
        command = [python, str(SCRIPT), library, str(threads), "-"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, name: str) -> float:
        """NaN where the function failed, or the process ended."""
        assert self._process.stdin and self._process.stdout
        try:
            print(name, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return math.nan
        _, figure, *why = f"{self._process.stdout.readline().rstrip()}\tnan".split("\t")[:3]
        if figure == "nan":
            print(f"{name}: {why}")
        return float(figure)

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def measured(case: Case, ours: Library, theirs: Library, turns: int) -> tuple[float, float]:
    pairs = [(ours.seconds(case.name), theirs.seconds(case.name)) for _ in range(turns)]
    return least([own for own, _ in pairs]), least([peer for _, peer in pairs])


def least(figures: list[float]) -> float:
    return min((figure for figure in figures if not math.isnan(figure)), default=math.nan)


def row(case: Case, own: float, peer: float) -> str:
    note = SLOW.get(case.name, "") if peer / own < 0.5 else ""
    usual = " (usual)" if case.is_common else ""
    return f"| {case.name}{usual} | {own * 1e3:.3f} | {peer * 1e3:.3f} | {peer / own:.2f} | {note} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--out", type=Path, help="a folder for the table; without it the rows are only printed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    ours = Library(sys.executable, "tessera", asked.threads)
    theirs = Library(asked.torch, "torch", asked.threads)
    count = "one thread" if asked.threads == 1 else f"{asked.threads} threads"
    lines = [
        "# Functions of the library beside PyTorch",
        "",
        f"`python -m benchmarks.operators --threads {asked.threads}`: {platform.machine()}, {count}, in turn.",
        "",
        "| | Tessera, ms | PyTorch, ms | PyTorch / Tessera | |",
        "|---|---|---|---|---|",
    ]
    for case in CASES:
        if not asked.names or case.name in asked.names:
            lines.append(row(case, *measured(case, ours, theirs, asked.turns)))
            print(lines[-1], flush=True)
    for library in (ours, theirs):
        library.end()
    threads = "" if asked.threads == 1 else f"-{asked.threads}"
    if asked.out is not None:
        file = asked.out / f"operators-{platform.machine()}{threads}.md"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
