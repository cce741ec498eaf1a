"""Linear algebra of many small matrices in one library, alone in its process:

    python benchmarks/small_matrices.py LIBRARY THREADS [DTYPE]

prints the microseconds of a call for each function and each count and size of matrices, the least of many: processor
time on one thread, the time that passes on several. It imports nothing of the project but `tessera` itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], Any]
SHAPES = ((64, 8), (64, 16), (64, 32), (1000, 8), (1000, 32))
SECONDS, LEAST = 0.1, 3
"""Measure for so long, and at least so often."""

FUNCTIONS = {
    "qr": "qr(a)",
    "eigh": "eigh(a)",
    "svd": "svd(a)",
    "pinv": "pinv(a)",
    "lstsq": "lstsq(a, a[..., 0])",
    "solve": "solve(a, a[..., 0])",
    "inv": "inv(a)",
    "det": "det(a)",
    "cholesky": "cholesky(a)",
    "triangular_solve": "triangular_solve(a, a[..., 0])",
}


def matrices(function: str, count: int, n: int, dtype: str) -> np.ndarray:
    a = np.random.default_rng(0).standard_normal((count, n, n))
    turned = a.transpose(0, 2, 1)
    if function == "eigh":
        a = a + turned
    elif function == "cholesky":
        a = a @ turned + np.eye(n)
    elif function in ("solve", "inv", "det", "triangular_solve"):
        a = a + n * np.eye(n)
    return np.ascontiguousarray(a.astype({"f32": "f4", "f64": "f8"}[dtype]))


def tessera_call(function: str, dtype: str, threads: int) -> Callable[[np.ndarray], Call]:
    import tessera

    tessera.set_num_threads(threads)
    module = tessera.compile(f"def f(a: Tensor[B, N, N, {dtype}]):\n    return {FUNCTIONS[function]}\n")
    return lambda a: lambda: module.f(a)


def numpy_call(function: str, dtype: str, threads: int) -> Callable[[np.ndarray], Call] | None:
    calls: dict[str, Callable[[np.ndarray], Any]] = {
        "svd": lambda a: np.linalg.svd(a, full_matrices=False),
        "solve": lambda a: np.linalg.solve(a, a[..., :1]),
    }
    if function in ("lstsq", "triangular_solve"):
        return None
    run = calls.get(function) or getattr(np.linalg, function)
    return lambda a: lambda: run(a)


def torch_call(function: str, dtype: str, threads: int) -> Callable[[np.ndarray], Call]:
    import torch  # type: ignore[import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    linalg = torch.linalg
    calls: dict[str, Callable[[Any], Any]] = {
        "svd": lambda a: linalg.svd(a, full_matrices=False),
        "lstsq": lambda a: linalg.lstsq(a, a[..., :1]),
        "solve": lambda a: linalg.solve(a, a[..., :1]),
        "triangular_solve": lambda a: linalg.solve_triangular(a, a[..., :1], upper=False),
    }
    run = calls.get(function) or getattr(linalg, function)

    def on(a: np.ndarray) -> Call:
        given = torch.from_numpy(a)
        return lambda: run(given)

    return on


def least(call: Call, threads: int) -> float:
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    call()
    best, end, times = float("inf"), time.perf_counter() + SECONDS, 0
    while times < LEAST or time.perf_counter() < end:
        start = clock()
        call()
        best, times = min(best, clock() - start), times + 1
    return best / 1000


def main() -> None:
    library, threads = sys.argv[1], int(sys.argv[2])
    makers = {"tessera": tessera_call, "numpy": numpy_call, "torch": torch_call}
    for dtype in sys.argv[3:] or ("f32", "f64"):
        for function in FUNCTIONS:
            made = makers[library](function, dtype, threads)
            if made is not None:
                found = [least(made(matrices(function, *shape, dtype)), threads) for shape in SHAPES]
                print(library, threads, dtype, function, *(f"{value:.0f}" for value in found), flush=True)


if __name__ == "__main__":
    main()
