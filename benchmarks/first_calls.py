"""`python -m benchmarks.first_calls`: what the first call of a transform costs, of lengths that are not there yet.

Every figure is of a process of its own that has called another function before, so that the compiler and the library
are loaded: milliseconds from the call to its result, compiling and running, that pass and that processors work. First
with a cache that has the library alone, then with one that has the steps of the transform too, but not the transform.
Writes `benchmarks/results/first-calls-MACHINE.md`.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.installed import as_installed

RESULTS = Path(__file__).parent / "results"
LENGTHS = (8, 60, 256, 1000, 1009, 4096, 10000, 1 << 16, 100003, 1 << 18, 1 << 20)
KINDS = {"fft": "c64", "rfft": "f32"}


Times = tuple[float, float]
"""Milliseconds that pass, and of the processors."""


def first_call(kind: str, length: int, name: str) -> Times:
    """The name makes both functions ones that are not in the cache: the other one brings the compiler and LLVM."""
    import numpy as np

    import tessera

    other = tessera.compile(f"def before_{name}(x: Tensor[N, f32]):\n    return x * 2.0 + 1.0\n")
    getattr(other, f"before_{name}")(np.ones(3, np.float32))
    module = tessera.compile(f"def {name}(x: Tensor[B, {length}, {KINDS[kind]}]):\n    return {kind}(x)\n")
    x = np.ones((1, length), np.complex64 if KINDS[kind] == "c64" else np.float32)
    start, used = perf_counter(), process_time()
    getattr(module, name)(x)
    return (perf_counter() - start) * 1e3, (process_time() - used) * 1e3


def measured(kind: str, length: int, name: str, cache: str) -> Times:
    command = [sys.executable, "-m", "benchmarks.first_calls", "--one", kind, str(length), name]
    environment = as_installed(TESSERA_CACHE_DIR=cache)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    passed, used = json.loads(done.stdout)
    return passed, used


def row(kind: str, length: int, library: str) -> str:
    """The least of three with the steps there: what else runs on the machine shows."""
    with tempfile.TemporaryDirectory() as folder:
        cache = shutil.copytree(library, Path(folder, "cache"))
        empty = measured(kind, length, "first", str(cache))
        others = [measured(kind, length, name, str(cache)) for name in ("second", "third", "fourth")]
    there = [min(times) for times in zip(*others, strict=True)]
    return f"| {kind} {length} | {' | '.join(f'{time:.0f}' for time in (*empty, *there))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "LENGTH", "NAME"), help="measures one call, and prints it")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the table is written")
    chosen = parser.parse_args()
    if chosen.one:
        kind, length, name = chosen.one
        print(json.dumps(first_call(kind, int(length), name)))
        return
    lines = ["# The first call of a transform", "", "`python -m benchmarks.first_calls`: milliseconds that pass, and"]
    lines += ["of the processors, compiling and running, with no code in the cache, and with that of the steps.", ""]
    lines += ["| transform | nothing there | processors | steps there | processors |", "|---" * 5 + "|"]
    with tempfile.TemporaryDirectory() as library:
        measured("fft", 1, "any", library)
        for kind, length in product(KINDS, chosen.lengths):
            lines.append(row(kind, length, library))
            print(lines[-1], flush=True)
    (chosen.out / f"first-calls-{platform.machine()}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
