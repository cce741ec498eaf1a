"""One library on rows of the table, alone in its process: `python table_peers.py LIBRARY THREADS ROW...` prints each
row with the seconds of a call, the least of many. It imports nothing of the project but for `tessera` itself, so that
any Python that has the library can run it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], Any]
SECONDS, LEAST = 0.4, 5
"""Measure for so long, and at least so often."""


def normal(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def integers(below: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, below, shape)


INPUTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "crc16": lambda: (integers(256, 100_000),),
    "nussinov": lambda: (integers(4, 200),),
    "seidel": lambda: (normal(200, 200, dtype="f8"), 5),
    "sum_all": lambda: (normal(4_000_000),),
    "sum_rows": lambda: (normal(4096, 1024),),
    "sum_columns": lambda: (normal(4096, 1024),),
    "running": lambda: (normal(4_000_000),),
    "added": lambda: (np.zeros(1000, "f4"), integers(1000, 1_000_000), normal(1_000_000)),
    "counts": lambda: (integers(256, 1_000_000),),
    "sorted_f32": lambda: (normal(262_144),),
    "order_f32": lambda: (normal(262_144),),
    "sorted_i64": lambda: (integers(1 << 40, 262_144),),
    "gemm_32": lambda: (normal(32, 32), normal(32, 32)),
    "gemm_128": lambda: (normal(128, 128), normal(128, 128)),
    "gemm_1_4096": lambda: (normal(1, 4096), normal(4096, 4096)),
    "gemm_8_4096": lambda: (normal(8, 4096), normal(4096, 4096)),
    "gemm_32_4096": lambda: (normal(32, 4096), normal(4096, 4096)),
    "gemm_odd": lambda: (normal(37, 1003), normal(1003, 777)),
    "batched": lambda: (normal(64, 128, 128), normal(64, 128, 128)),
    "gemm_512": lambda: (normal(512, 512), normal(512, 512)),
    "gemm_1024": lambda: (normal(1024, 1024), normal(1024, 1024)),
    "gemm_2048": lambda: (normal(2048, 2048), normal(2048, 2048)),
    "conv_64_56": lambda: (normal(1, 64, 56, 56), normal(64, 64, 3, 3)),
    "conv_256_14": lambda: (normal(1, 256, 14, 14), normal(256, 256, 3, 3)),
    "conv_16_32": lambda: (normal(1, 16, 32, 32), normal(16, 16, 3, 3)),
    "conv_batch": lambda: (normal(8, 64, 28, 28), normal(64, 64, 3, 3)),
    "conv_strided": lambda: (normal(1, 64, 56, 56), normal(128, 64, 3, 3)),
    "conv_1x1": lambda: (normal(1, 64, 56, 56), normal(64, 64, 1, 1)),
    "depthwise": lambda: (normal(1, 64, 56, 56), normal(64, 1, 3, 3)),
    "conv_grad_image": lambda: (normal(1, 64, 56, 56), normal(64, 64, 3, 3), normal(1, 64, 56, 56)),
    "conv_grad_weights": lambda: (normal(1, 64, 56, 56), normal(64, 64, 3, 3), normal(1, 64, 56, 56)),
    "add_4x4": lambda: (normal(4, 4), normal(4, 4)),
    "solve_512": lambda: (normal(512, 512, dtype="f8"), normal(512, 1, dtype="f8")),
    "cholesky_512": lambda: (normal(512, 512, dtype="f8") @ normal(512, 512, dtype="f8").T + np.eye(512),),
    "qr_512": lambda: (normal(512, 512, dtype="f8"),),
    "eigh_128": lambda: (normal(128, 128, dtype="f8") + normal(128, 128, dtype="f8").T,),
    "svd_128": lambda: (normal(128, 128, dtype="f8"),),
    "solves_64x8": lambda: (normal(64, 8, 8, dtype="f8"), normal(64, 8, 1, dtype="f8")),
}
PRODUCTS = tuple(name for name in INPUTS if name.startswith("gemm"))
CONVOLUTIONS = ("conv_64_56", "conv_256_14", "conv_16_32", "conv_batch")
WINDOWED = tuple(name for name in INPUTS if name.startswith(("conv", "depthwise")))
"""Rows that only torch has."""


def tessera_call(row: str, inputs: tuple[Any, ...], threads: int) -> Call:
    import tessera

    tessera.set_num_threads(threads)
    name = "gemm" if row in PRODUCTS else "conv" if row in CONVOLUTIONS else row
    function = getattr(tessera.load(Path(__file__).with_name("table.tess")), name)
    return lambda: function(*inputs)


def numpy_call(row: str, inputs: tuple[Any, ...], threads: int) -> Call:
    def added(x: np.ndarray, at: np.ndarray, v: np.ndarray) -> np.ndarray:
        y = x.copy()
        np.add.at(y, at, v)
        return y

    calls: dict[str, Callable[..., Any]] = {
        "sum_all": np.sum,
        "sum_rows": lambda x: x.sum(1),
        "sum_columns": lambda x: x.sum(0),
        "running": np.cumsum,
        "added": added,
        "counts": lambda x: np.bincount(x, minlength=256),
        "sorted_f32": lambda x: np.sort(x, kind="stable"),
        "sorted_i64": lambda x: np.sort(x, kind="stable"),
        "order_f32": lambda x: np.argsort(x, kind="stable"),
        "batched": np.matmul,
        "add_4x4": np.add,
        "solve_512": np.linalg.solve,
        "cholesky_512": np.linalg.cholesky,
        "qr_512": np.linalg.qr,
        "eigh_128": np.linalg.eigh,
        "svd_128": lambda a: np.linalg.svd(a, full_matrices=False),
        "solves_64x8": np.linalg.solve,
        **dict.fromkeys(PRODUCTS, np.matmul),
    }
    return lambda: calls[row](*inputs)


def torch_call(row: str, inputs: tuple[Any, ...], threads: int) -> Call:
    import torch  # type: ignore[import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    conv, back = torch.nn.functional.conv2d, torch.nn.grad
    calls: dict[str, Callable[..., Any]] = {
        "sum_all": torch.sum,
        "sum_rows": lambda x: x.sum(1),
        "sum_columns": lambda x: x.sum(0),
        "running": lambda x: torch.cumsum(x, 0),
        "added": lambda x, at, v: torch.scatter_add(x, 0, at, v),
        "counts": lambda x: torch.bincount(x, minlength=256),
        "sorted_f32": lambda x: torch.sort(x, stable=True)[0],
        "sorted_i64": lambda x: torch.sort(x, stable=True)[0],
        "order_f32": lambda x: torch.argsort(x, stable=True),
        "batched": torch.matmul,
        "add_4x4": torch.add,
        "solve_512": torch.linalg.solve,
        "cholesky_512": torch.linalg.cholesky,
        "qr_512": torch.linalg.qr,
        "eigh_128": torch.linalg.eigh,
        "svd_128": lambda a: torch.linalg.svd(a, full_matrices=False),
        "solves_64x8": torch.linalg.solve,
        "conv_strided": lambda x, w: conv(x, w, padding=1, stride=2),
        "conv_1x1": conv,
        "depthwise": lambda x, w: conv(x, w, padding=1, groups=64),
        "conv_grad_image": lambda x, w, g: back.conv2d_input(x.shape, w, g, padding=1),
        "conv_grad_weights": lambda x, w, g: back.conv2d_weight(x, w.shape, g, padding=1),
        **dict.fromkeys(PRODUCTS, torch.matmul),
        **dict.fromkeys(CONVOLUTIONS, lambda x, w: conv(x, w, padding=1)),
    }
    given = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in inputs]
    return lambda: calls[row](*given)


def numba_call(row: str, inputs: tuple[Any, ...], threads: int) -> Call:
    import numba  # type: ignore[import-not-found,unused-ignore]

    compiled = numba.njit(NUMBA[row])
    return lambda: compiled(*inputs)


def _crc16(data: Any) -> Any:
    crc = 65535
    for byte in data:
        for _ in range(8):
            crc = (crc >> 1) ^ 33800 if ((crc & 1) ^ (byte & 1)) != 0 else crc >> 1
            byte = byte >> 1
    return crc


def _nussinov(seq: Any) -> Any:
    n = seq.shape[0]
    table = np.zeros((n, n), np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            best = max(table[i, j - 1], table[i + 1, j])
            if i < j - 1:
                best = max(best, table[i + 1, j - 1] + (1 if seq[i] + seq[j] == 3 else 0))
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table


def _seidel(x: Any, steps: Any) -> Any:
    a = x.copy()
    n = a.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                above = a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1]
                here = above + a[i, j - 1] + a[i, j] + a[i, j + 1]
                a[i, j] = (here + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]) / 9.0
    return a


NUMBA: dict[str, Callable[..., Any]] = {"crc16": _crc16, "nussinov": _nussinov, "seidel": _seidel}
LIBRARIES = {"tessera": tessera_call, "numpy": numpy_call, "torch": torch_call, "numba": numba_call}


def peers_of(row: str) -> tuple[str, ...]:
    return ("numba",) if row in NUMBA else ("torch",) if row in WINDOWED else ("numpy", "torch")


def best_time(call: Call, threads: int) -> float:
    """Seconds of one call. Calls that are too short for the clock are timed by the hundred. On one thread it is the
    time of the processor, which others that use the machine do not change."""
    clock = time.process_time if threads == 1 else time.perf_counter
    call()
    start = time.perf_counter()
    call()
    repeat = max(1, min(1000, int(1e-4 / max(time.perf_counter() - start, 1e-9))))
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < LEAST or time.perf_counter() - begun < SECONDS:
        start = clock()
        for _ in range(repeat):
            call()
        times.append((clock() - start) / repeat)
    return min(times)


if __name__ == "__main__":
    library, count, *chosen = sys.argv[1:]
    for line in chosen:
        print(line, best_time(LIBRARIES[library](line, INPUTS[line](), int(count)), int(count)), flush=True)
