"""Operators of known structure beside other libraries: `python -m benchmarks.structured [PYTHON [SECONDS]]`.

PYTHON is an interpreter that has NumPy and as many of SciPy, PyTorch, JAX, CoLA, linear_operator and PyLops as are
wanted; each library runs alone in its process, on one thread, for at most so many seconds, 240 unless said. Those that
are not installed are left out; the extra `operator-peers` has all. Writes `benchmarks/results/structured-<machine>.md`.
"""

from __future__ import annotations

import math
import platform
import sys
from datetime import date

from benchmarks.apart import ROOT, run_apart
from benchmarks.structured_cases import CASES, LIBRARIES

Figures = dict[str, tuple[float, str]]
TIME_LIMIT = int(sys.argv[2]) if len(sys.argv) > 2 else 240
MEMORY, BY_HAND = "gradient memory", "by hand"
_MARK = BY_HAND + ": "
SAME_PROGRAMS = """\
Kronecker products, their systems and determinants, circulant operators and `expm(A)` are the programs by
hand, operation by operation (`tests/graph/test_hand_forms.py`): what differs there is noise. A diagonal and
a low rank looks at what is left of its system, which the form by hand does not. Orders of chains have the
fewest operations that any order has (`tests/graph/test_chain_orders.py`)."""


def figures(python: str, library: str) -> Figures:
    """Seconds by case, with the error or what went wrong."""
    output, _ = run_apart([python, str(ROOT / "benchmarks" / "structured_peers.py"), library], TIME_LIMIT)
    rows = [line.split("\t") for line in output.splitlines() if line.count("\t") == 2]
    return {name: (float(seconds), note) for name, seconds, note in rows}


def cell(found: Figures, name: str, ours: float) -> str:
    if name not in found:
        return ""
    seconds, note = found[name]
    if math.isnan(seconds):
        return note.partition(":")[0]
    error = f" ({note})" if note != "nan" else ""
    return f"{seconds * 1e6:.1f}{error}" + (f", {seconds / ours:.1f}x" if ours and seconds != ours else "")


def main() -> None:
    """The file is written anew after each library, so that what is stopped leaves what it has."""
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    run_apart([python, str(ROOT / "benchmarks" / "structured_peers.py"), "references"], TIME_LIMIT)
    found: dict[str, Figures] = {}
    path = ROOT / "benchmarks" / "results" / f"structured-{platform.machine()}.md"
    for library in LIBRARIES:
        if library == BY_HAND:  # in turns with ours
            rows = found["tessera"].items()
            found[BY_HAND] = {name.removeprefix(_MARK): row for name, row in rows if name.startswith(_MARK)}
        else:
            found[library] = figures(sys.executable if library == "tessera" else python, library)
        path.write_text(report(found), encoding="utf-8")
    print(report(found))


def report(found: dict[str, Figures]) -> str:
    there = [name for name in found if any(not math.isnan(seconds) for seconds, _ in found[name].values())]
    lines = [
        "# Operators of known structure", "",
        f"`python -m benchmarks.structured PYTHON {TIME_LIMIT}`, {date.today()}, {platform.machine()}, one core, f32;",
        "microseconds of the processor for a call, the least of many turns, since other work runs on the machine; in",
        "brackets the largest error relative to the largest number of the result in f64; then how many times longer.",
        "`by hand` is what an expert writes in the same language, in turns with ours; PyTorch and JAX are compiled and",
        "written naively, NumPy is with SciPy and by hand. An operator is made in each call, as ours is.", "",
        "| program | " + " | ".join(there) + " |", "|---" * (len(there) + 1) + "|",
    ]  # fmt: skip
    for case in CASES:
        ours = found["tessera"].get(case.name, (math.nan, ""))[0]
        cells = [cell(found[library], case.name, 0.0 if library == "tessera" else ours) for library in there]
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
    memory = {name: rows[MEMORY][0] for name, rows in found.items() if MEMORY in rows}
    told = ", ".join(f"{name} {mib:.1f}" for name, mib in memory.items() if not math.isnan(mib))
    lines += ["", f"Peak memory of the gradient of |kron(a, b) x|^2 with sides of 128, in MiB: {told}.",
              "That is beyond what was taken before, compiling included; the matrix of the operator has 1024 MiB.",
              SAME_PROGRAMS,
              f"What is empty a library has not, or had no time for: each had {TIME_LIMIT} s in all."]  # fmt: skip
    if len(there) < len(LIBRARIES):
        lines.append(f"Not on this machine: {', '.join(name for name in LIBRARIES if name not in there)}.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
