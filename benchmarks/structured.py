"""Operators of known structure beside other libraries: `python -m benchmarks.structured [PYTHON [SECONDS]]`.

PYTHON is an interpreter that has NumPy and as many of SciPy, PyTorch, JAX, CoLA, linear_operator and PyLops as are
wanted; each library runs alone in its processes, every one on a core of its own, those beside it that there are cores
for, for at most so many seconds, 240 unless said. NumPy and the forms by hand run in turns with ours. Those that are
not installed have dashes; the extra `operator-peers` has all.
Writes `benchmarks/results/structured-<machine>.md`.
"""

from __future__ import annotations

import math
import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from queue import SimpleQueue

from benchmarks.apart import ROOT, run_apart
from benchmarks.structured_cases import CASES, LIBRARIES

Figures = dict[str, tuple[float, str]]
TIME_LIMIT = int(sys.argv[2]) if len(sys.argv) > 2 else 240
MEMORY, BY_HAND = "gradient memory", "by hand"
IN_TURNS = (BY_HAND, "numpy")
"""What runs in the processes of ours, in turns with it; marked by its name in front of that of a case."""
PROCESSES = {"tessera": 4, "torch": 6, "jax": 2, "cola": 2}
"""That the cases of a library are dealt to: compiling takes some of them most of the time. Others have one."""
SAME_PROGRAMS = """\
Kronecker products, their systems and determinants, circulant operators and `expm(A)` are the programs by
hand, operation by operation (`tests/graph/test_hand_forms.py`): what differs there is noise. A diagonal and
a low rank looks at what is left of its system, which the form by hand does not. Orders of chains have the
fewest operations that any order has (`tests/graph/test_chain_orders.py`)."""


def figures(python: str, library: str, share: str) -> Figures:
    """Seconds by case, with the error or what went wrong."""
    output, _ = run_apart([python, str(ROOT / "benchmarks" / "structured_peers.py"), library, share], TIME_LIMIT)
    rows = [line.split("\t") for line in output.splitlines() if line.count("\t") == 2]
    return {name: (float(seconds), note) for name, seconds, note in rows}


def figures_by_core(python: str, library: str, share: str, cores: SimpleQueue[int]) -> Figures:
    """Those on a core that no other library has: a process is held to the cores of the thread that starts it."""
    core = cores.get()
    os.sched_setaffinity(0, [core])
    try:
        return figures(sys.executable if library == "tessera" else python, library, share)
    finally:
        cores.put(core)


def cell(found: Figures, name: str, ours: float) -> str:
    seconds, note = found.get(name, (math.nan, "-"))
    if math.isnan(seconds):
        return note.partition(":")[0]
    error = f" ({note})" if note != "nan" else ""
    return f"{seconds * 1e6:.1f}{error}" + (f", {seconds / ours:.1f}x" if ours > 0 and seconds != ours else "")


def main() -> None:
    """The file is written anew after each library, so that what is stopped leaves what it has."""
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    run_apart([python, str(ROOT / "benchmarks" / "structured_peers.py"), "references"], TIME_LIMIT)
    path = ROOT / "benchmarks" / "results" / f"structured-{platform.machine()}.md"
    cores, found = SimpleQueue[int](), dict[str, Figures]()
    for core in os.sched_getaffinity(0):
        cores.put(core)
    with ThreadPoolExecutor(cores.qsize()) as pool:
        shares = [(name, PROCESSES.get(name, 1)) for name in LIBRARIES if name != BY_HAND]
        every = [(name, f"{part}/{count}") for name, count in shares for part in range(count)]
        runs = {pool.submit(figures_by_core, python, *one, cores): one[0] for one in every}
        for run in as_completed(runs):
            found[runs[run]] = found.get(runs[run], {}) | run.result()
            path.write_text(report(found), encoding="utf-8")
    print(report(found))


def with_hand(found: dict[str, Figures]) -> dict[str, Figures]:
    """In the order of the table, what runs in turns with ours on its own."""
    ours = found.get("tessera", {})
    told = {
        library: {name.removeprefix(mark): row for name, row in ours.items() if name.startswith(mark)}
        for library, mark in ((name, f"{name}: ") for name in IN_TURNS)
    }
    return {name: found.get(name, {}) | told.get(name, {}) for name in LIBRARIES}


def report(found: dict[str, Figures]) -> str:
    found = with_hand(found)
    missing = [name for name, rows in found.items() if all(math.isnan(seconds) for seconds, _ in rows.values())]
    lines = [
        "# Operators of known structure", "",
        f"`python -m benchmarks.structured PYTHON {TIME_LIMIT}`, {date.today()}, {platform.machine()}, one core, f32;",
        "microseconds of the processor for a call, the least of many turns, since other work runs on the machine; in",
        "brackets the largest error relative to the largest number of the result in f64; then how many times longer.",
        "`by hand` is what an expert writes in the same language; NumPy is with SciPy and by hand; both run in turns",
        "with ours. PyTorch and JAX are compiled and naive. An operator is made in each call, as ours is.", "",
        "| program | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|",
    ]  # fmt: skip
    for case in CASES:
        ours = found["tessera"].get(case.name, (math.nan, ""))[0]
        cells = [cell(found[library], case.name, 0.0 if library == "tessera" else ours) for library in found]
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
    memory = {name: rows[MEMORY][0] for name, rows in found.items() if MEMORY in rows}
    told = ", ".join(f"{name} {mib:.1f}" for name, mib in memory.items() if not math.isnan(mib))
    lines += ["", f"Peak memory of the gradient of |kron(a, b) x|^2 with sides of 128, in MiB: {told}.",
              "That is beyond what was taken before, compiling included; the matrix of the operator has 1024 MiB.",
              SAME_PROGRAMS,
              f"What has a dash a library has not, or had no time for: each process had {TIME_LIMIT} s."]  # fmt: skip
    if missing:
        lines.append(f"Not on this machine, or without any figure: {', '.join(missing)}.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
