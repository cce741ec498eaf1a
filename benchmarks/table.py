"""`python -m benchmarks.table --peers PYTHON`: rows of work against the best of other libraries, on one thread and on
all; writes `benchmarks/results/table-MACHINE.md`.

Each library is alone in its process, which measures all rows; ours and the others take turns, and of several turns the
least time counts. PYTHON is one that has torch, numpy and numba (`pip install numpy numba torch`); without it, the one
that runs this.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table_peers import INPUTS, LIBRARIES, peers_of

WORKER = Path(__file__).with_name("table_peers.py")
RESULTS = Path(__file__).parent / "results"
TURNS = 2
ROWS = {
    "crc16": "crc16 of 100,000 bytes", "nussinov": "nussinov 200", "seidel": "seidel 200x200, 5 steps",
    "sum_all": "sum of 4M", "sum_rows": "sum over rows 4096x1024", "sum_columns": "sum over columns 4096x1024",
    "running": "cumsum of 4M", "added": "scatter_add of 1M to 1000", "counts": "histogram of 1M, 256 bins",
    "sorted_f32": "sort 256k f32", "order_f32": "argsort 256k f32", "sorted_i64": "sort 256k i64",
    "gemm_32": "gemm 32", "gemm_128": "gemm 128", "gemm_1_4096": "gemm 1x4096x4096",
    "gemm_8_4096": "gemm 8x4096x4096", "gemm_32_4096": "gemm 32x4096x4096", "gemm_odd": "gemm 37x1003x777",
    "gemm_512": "gemm 512", "gemm_1024": "gemm 1024", "gemm_2048": "gemm 2048", "batched": "batched gemm 64x128^3",
    "conv_64_56": "conv 3x3, 64 to 64 channels, 56x56", "conv_256_14": "conv 3x3, 256 to 256 channels, 14x14",
    "conv_16_32": "conv 3x3, 16 to 16 channels, 32x32", "conv_batch": "conv 3x3, 8 images, 64 to 64 channels, 28x28",
    "conv_strided": "conv 3x3, stride 2, 64 to 128 channels, 56x56", "conv_1x1": "conv 1x1, 64 to 64 channels, 56x56",
    "depthwise": "conv 3x3, depthwise, 64 channels, 56x56",
    "conv_grad_image": "gradient by the image, 64 to 64 channels, 56x56",
    "conv_grad_weights": "gradient by the weights, 64 to 64 channels, 56x56", "add_4x4": "call of a 4x4 add",
    "solve_512": "solve 512 f64", "cholesky_512": "cholesky 512 f64", "qr_512": "qr 512 f64",
    "eigh_128": "eigh 128 f64", "svd_128": "svd 128 f64", "solves_64x8": "64 solves of 8x8 f64",
}  # fmt: skip


Times = dict[str, dict[str, float]]
"""Of each library the seconds of its rows."""


def measure(python: str, library: str, rows: Sequence[str], threads: int) -> dict[str, float]:
    """Seconds by row; of a library that is not there none."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    settings = {**os.environ, **dict.fromkeys(names, str(threads))}
    command = [python, str(WORKER), library, str(threads), *rows]
    found = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if found.returncode and library == "tessera":
        sys.exit(found.stderr)
    return {row: float(seconds) for row, seconds in (line.split() for line in found.stdout.splitlines())}


def turns(python: str, rows: Sequence[str], threads: int, count: int) -> Times:
    """The least times of so many turns of every library."""
    least: Times = {library: {} for library in LIBRARIES}
    for _ in range(count):
        for library, best in least.items():
            asked = [row for row in rows if library == "tessera" or library in peers_of(row)]
            own = measure(sys.executable if library == "tessera" else python, library, asked, threads) if asked else {}
            best.update({row: min(seconds, best.get(row, seconds)) for row, seconds in own.items()})
    return least


def compare(times: Times, row: str) -> str:
    """One cell: the ratio, and the times it is of."""
    ours = times["tessera"][row]
    others = {library: found[row] for library, found in times.items() if library != "tessera" and row in found}
    if not others:
        return f"- ({_shown(ours)})"
    best = min(others, key=lambda name: others[name])
    return f"**{others[best] / ours:.2f}** ({_shown(ours)}, {best} {_shown(others[best])})"


def versions(python: str) -> str:
    """Of the other libraries that there are."""
    ask = "import importlib.metadata as m; print(*(f'{d.name} {d.version}' for d in m.distributions()), sep='\\n')"
    found = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.splitlines()
    return ", ".join(sorted(line for line in found if line.split()[0] in ("numpy", "torch", "numba")))


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.2f} us"


def main() -> None:
    parser = argparse.ArgumentParser(description="Tessera beside other libraries on this CPU")
    parser.add_argument("--peers", default=sys.executable, help="the Python of the other libraries")
    parser.add_argument("--rows", nargs="*", default=list(INPUTS), choices=list(INPUTS), metavar="ROW")
    parser.add_argument("--output", type=Path, default=RESULTS / f"table-{platform.machine()}.md")
    every = sorted({1, os.cpu_count() or 1})
    parser.add_argument("--threads", nargs="*", type=int, default=every, metavar="N", help="one and all, if not told")
    parser.add_argument("--turns", type=int, default=TURNS, help="of which the least time counts")
    options = parser.parse_args()
    counts = options.threads
    columns = [turns(options.peers, options.rows, count, options.turns) for count in counts]
    heads = ["1 thread" if count == 1 else f"{count} threads" for count in counts]
    lines = [f"| work | {' | '.join(heads)} |", "|---" * (1 + len(counts)) + "|"]
    lines += [f"| {ROWS[row]} | {' | '.join(compare(times, row) for times in columns)} |" for row in options.rows]
    print("\n".join(lines))
    today, machine = datetime.date.today().isoformat(), f"{platform.machine()}, {os.cpu_count()} cores"
    head = f"# Work beside other libraries\n\n`python -m benchmarks.table`, {today}, {machine}.\n\n"
    said = "The best peer's time over ours (above 1 is ours), with the times; each library alone in its process.\n\n"
    said += "On one thread it is processor time, on several the time that passes. "
    said += f"Libraries: {versions(options.peers)}.\n\n"
    options.output.write_text(head + said + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
