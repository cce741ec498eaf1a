"""`python -m benchmarks.bundles THREADS ROW,ROW BUNDLE...`: rows of the table in several bundles, in turn, one process.

    tesserac build benchmarks/table.tess -o before.tessb        in a checkout of each commit; `--target` for others
    python -m benchmarks.bundles 16 conv_256_14,gemm_2048 before.tessb after.tessb

For each row and bundle the least, tenth part and median of its times in microseconds, and a hash of what it gave. A
bundle is compiled before, so machines that are lent for minutes measure from the first second, and two commits meet the
same neighbours.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table_peers import CONVOLUTIONS, INPUTS, PRODUCTS

CALLS = 3
"""One after the other, behind one that nobody times."""


def name_of(row: str) -> str:
    """The function of the table that computes a row."""
    return "gemm" if row in PRODUCTS else "conv" if row in CONVOLUTIONS else row


def hash_of(result: Any) -> str:
    parts = result if isinstance(result, tuple) else (result,)
    return hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in parts)).hexdigest()[:8]


def times_in_turn(calls: list[Callable[[], Any]], clock: Callable[[], float], seconds: float) -> list[list[float]]:
    """Sorted times of each call, measured so long for each."""
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for call, found in zip(calls, times, strict=True):
            call()
            for _ in range(CALLS):
                start = clock()
                call()
                found.append(clock() - start)
    return [sorted(found) for found in times]


def main() -> None:
    import tessera

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threads", type=int)
    parser.add_argument("rows", type=lambda text: text.split(","))
    parser.add_argument("bundles", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=0.25, help="for each row of each bundle")
    options = parser.parse_args()
    tessera.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    modules = [tessera.load(bundle) for bundle in options.bundles]
    for row in options.rows:
        inputs = INPUTS[row]()
        functions = [getattr(module, name_of(row)) for module in modules]
        hashes = [hash_of(function(*inputs)) for function in functions]
        measured = times_in_turn([partial(function, *inputs) for function in functions], clock, options.seconds)
        for bundle, found, bits in zip(options.bundles, measured, hashes, strict=True):
            shown = (1e6 * found[len(found) * part // 100] for part in (0, 10, 50))
            print(row, options.threads, bundle.name, *(f"{value:.1f}" for value in shown), bits, flush=True)


if __name__ == "__main__":
    main()
