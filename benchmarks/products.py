"""`python -m benchmarks.products --threads 1 16`: matrix products of f32, bf16 and i8 beside torch's and NumPy's, with
right operands that are new in every call and with frozen ones. Prints a table.

Each library is alone in its process, which measures all rows; of several turns the least time counts. torch has oneDNN
and MKL, and for i8 `torch._int_mm`. Its matrices are given as they are: it packs them in every call.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from benchmarks.table_peers import best_time
else:
    from table_peers import best_time  # type: ignore[import-not-found,unused-ignore]

Shape = tuple[int, ...]
ROWS: dict[str, tuple[str, Shape]] = {
    **{f"{dtype} {m}x4096x4096": (dtype, (m, 4096, 4096)) for dtype in ("f32", "bf16", "i8") for m in (1, 8, 32)},
    **{f"{dtype} {n}": (dtype, (n, n, n)) for dtype in ("f32", "bf16", "i8") for n in (128, 512, 1024)},
    "f32 2048": ("f32", (2048, 2048, 2048)),
    "f32 37x1003x777": ("f32", (37, 777, 1003)),
    "f32 64 times 128": ("f32", (64, 128, 128, 128)),
}  # fmt: skip
"""By name the dtype and rows, columns, terms; behind how many products there are, if several."""
FROZEN = "frozen"


def operands(dtype: str, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    *leads, m, n, k = shape
    rng = np.random.default_rng(0)
    if dtype == "i8":
        return tuple(rng.integers(-128, 128, (*leads, *size), dtype=np.int8) for size in ((m, k), (k, n)))  # type: ignore[return-value]
    return tuple(rng.standard_normal((*leads, *size), dtype=np.float32) for size in ((m, k), (k, n)))  # type: ignore[return-value]


def tessera_calls(dtype: str, shape: Shape, threads: int) -> dict[str, Callable[[], Any]]:
    import tessera

    tessera.set_num_threads(threads)
    module = tessera.load(Path(__file__).with_name("products.tess"))
    function: Any = module["batched_f32" if len(shape) > 3 else f"gemm_{dtype}"]
    a, b = operands(dtype, shape)
    if dtype == "bf16":
        import ml_dtypes  # type: ignore[import-not-found,import-untyped,unused-ignore]

        a, b = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    frozen = tessera.freeze(b)
    return {"": lambda: function(a, b), FROZEN: lambda: function(a, frozen)}


def torch_calls(dtype: str, shape: Shape, threads: int) -> dict[str, Callable[[], Any]]:
    import torch  # type: ignore[import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    a, b = (torch.from_numpy(x) for x in operands(dtype, shape))
    if dtype == "bf16":
        a, b = a.to(torch.bfloat16), b.to(torch.bfloat16)
    return {"": lambda: torch._int_mm(a, b) if dtype == "i8" else torch.matmul(a, b)}


def numpy_calls(dtype: str, shape: Shape, threads: int) -> dict[str, Callable[[], Any]]:
    a, b = operands(dtype, shape)
    return {"": lambda: np.matmul(a, b)} if dtype == "f32" else {}


LIBRARIES = {"tessera": tessera_calls, "torch": torch_calls, "numpy": numpy_calls}


def measured(python: str, library: str, threads: int, rows: Sequence[str]) -> dict[str, float]:
    """Seconds by row; of a library that is not there none."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    settings = {**os.environ, **dict.fromkeys(names, str(threads))}
    command = [python, str(Path(__file__).resolve()), "--library", library, "--threads", str(threads), "--rows", *rows]
    found = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if found.returncode and library == "tessera":
        sys.exit(found.stderr)
    pairs = (line.rpartition("\t") for line in found.stdout.splitlines())
    return {name: float(seconds) for name, _, seconds in pairs}


def shown(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def cell(times: dict[str, dict[str, float]], row: str, ours: str) -> str:
    others = {library: found[row] for library, found in times.items() if library != "tessera" and row in found}
    mine = times["tessera"].get(ours)
    if mine is None or not others:
        return ""
    best = min(others, key=others.__getitem__)
    return f"**{others[best] / mine:.2f}** ({shown(mine)}, {best} {shown(others[best])})"


def table(python: str, threads: Sequence[int], rows: Sequence[str], turns: int) -> None:
    columns: list[dict[str, dict[str, float]]] = []
    for count in threads:
        times: dict[str, dict[str, float]] = {library: {} for library in LIBRARIES}
        for _ in range(turns):
            for library, best in times.items():
                own = measured(sys.executable if library == "tessera" else python, library, count, rows)
                best.update({row: min(seconds, best.get(row, seconds)) for row, seconds in own.items()})
        columns.append(times)
    print("| product | " + " | ".join(f"{n} thread{'s' * (n > 1)}" for n in threads) + " |")
    print("|---|" + "---|" * len(threads))
    for row in rows:
        for ours in (row, f"{row} {FROZEN}"):
            cells = [cell(times, row, ours) for times in columns]
            if any(cells):
                print(f"| {ours} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--peers", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--library", choices=list(LIBRARIES), help="only this one, in this process")
    given = parser.parse_args()
    if not given.library:
        table(given.peers, given.threads, given.rows, given.turns)
        return
    for row in given.rows:
        for kind, call in LIBRARIES[given.library](*ROWS[row], given.threads[0]).items():
            print(f"{row} {kind}".strip(), best_time(call, given.threads[0]), sep="\t", flush=True)


if __name__ == "__main__":
    main()
