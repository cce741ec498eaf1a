"""Eigenvalues of one matrix that is not symmetric in one library, alone in its process:

    python benchmarks/eigenvalues.py LIBRARY THREADS [DTYPE]

prints the milliseconds of `eig` and of `eigvals` for each size, the least of many calls: processor time on one thread,
the time that passes on several. It imports nothing of the project but `tessera` itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[np.ndarray], Any]
SIZES = (4, 16, 64, 96, 128, 256, 512)
SECONDS, LEAST = 0.3, 3
"""Measure for so long, and at least so often."""


def tessera_call(function: str, dtype: str, threads: int) -> Call:
    import tessera

    tessera.set_num_threads(threads)
    call: Call = tessera.compile(f"def f(a: Tensor[N, N, {dtype}]):\n    return {function}(a)\n").f
    return call


def numpy_call(function: str, dtype: str, threads: int) -> Call:
    call: Call = getattr(np.linalg, function)
    return call


def torch_call(function: str, dtype: str, threads: int) -> Call:
    import torch  # type: ignore[import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    run = getattr(torch.linalg, function)
    return lambda a: run(torch.from_numpy(a))


LIBRARIES = {"tessera": tessera_call, "numpy": numpy_call, "torch": torch_call}


def milliseconds(call: Call, a: np.ndarray, clock: Callable[[], float]) -> float:
    call(a)
    least, calls, until = float("inf"), 0, time.perf_counter() + SECONDS
    while calls < LEAST or time.perf_counter() < until:
        start = clock()
        call(a)
        least, calls = min(least, clock() - start), calls + 1
    return least * 1e3


def main() -> None:
    library, threads = sys.argv[1], int(sys.argv[2])
    dtype = sys.argv[3] if len(sys.argv) > 3 else "f32"
    clock = time.process_time if threads == 1 else time.perf_counter
    for function in ("eig", "eigvals"):
        call = LIBRARIES[library](function, dtype, threads)
        for n in SIZES:
            a = np.random.default_rng(0).standard_normal((n, n)).astype({"f32": "f4", "f64": "f8"}[dtype])
            print(f"{library} {threads} {dtype} {function} {n} {milliseconds(call, a, clock):.3f}", flush=True)


if __name__ == "__main__":
    main()
