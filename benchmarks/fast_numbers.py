"""What `with numerics(fast):` costs in accuracy and gives in time, beside the same function without it.

    python -m benchmarks.fast_numbers [--device cuda] [--out DIR]

Errors are relative, the largest over a million normal numbers times 8 against NumPy in f64; times are
the best of runs that take turns, since a machine that others use is only ever slower. On a GPU they are the device's
own, of 16 times as many rows: of fewer a launch would be most of it.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

import tessera  # noqa: E402

ROWS, TURNS = 1024, 60
GPU_ROWS, ARCH = 16 * ROWS, "sm_90a"


def softmax(x: np.ndarray) -> np.ndarray:
    p = np.exp(x - x.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


CASES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "exp(x)": ("exp(x)", np.exp),
    "tanh(x)": ("tanh(x)", np.tanh),
    "silu(x)": ("silu(x)", lambda x: x / (1.0 + np.exp(-x))),
    "softmax(x)": ("softmax(x)", softmax),
    "x / sum(x * x) by rows": (
        "x / sum(x * x, axis=1, keep=True)",
        lambda x: x / (x * x).sum(1, keepdims=True),
    ),
    "x * x + x": ("x * x + x", lambda x: x * x + x),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    x = (np.random.default_rng(0).standard_normal((ROWS, ROWS)) * 8).astype(np.float32)
    lines = ["| function | default | fast | times as fast | error, default | error, fast |", "|---" * 6 + "|"]
    for name, (text, exact) in CASES.items():
        lines.append(_row(name, text, exact(x.astype(np.float64)), x, options.device))
        print(lines[-1], flush=True)
    if options.out:
        rows = GPU_ROWS if options.device else ROWS
        title = f"# `with numerics(fast):`\n\n`python -m benchmarks.fast_numbers`: {rows} x 1024 numbers of f32, "
        where = f"an H200 ({ARCH})" if options.device else f"a CPU ({platform.machine()}, {os.cpu_count()} cores)"
        (options.out / "fast.md").write_text(f"{title}{where}.\n\n" + "\n".join(lines) + "\n")


def _row(name: str, text: str, exact: np.ndarray, x: np.ndarray, device: str | None) -> str:
    source = f"def f(x: Tensor[M, N, f32]):\n    return {text}\n"
    fast = f"def f(x: Tensor[M, N, f32]):\n    with numerics(fast):\n        return {text}\n"
    how = {"device": device} if device else {}
    functions = [tessera.compile(program, **how).f for program in (source, fast)]
    times = _device_times((source, fast), np.tile(x, (GPU_ROWS // ROWS, 1))) if device else _times(functions, x)
    errors = [np.max(np.abs(np.asarray(f(x)) - exact) / np.maximum(np.abs(exact), 1e-30)) for f in functions]
    cells = [f"{t * 1e3:.3f} ms" for t in times] + [f"{times[0] / times[1]:.2f}", *(f"{e:.1e}" for e in errors)]
    return f"| `{name}` | {' | '.join(cells)} |"


def _times(functions: Sequence[Callable[[np.ndarray], object]], x: np.ndarray) -> list[float]:
    times = [float("inf")] * len(functions)
    for turn in range(TURNS):
        for which, function in enumerate(functions):
            start = perf_counter()
            function(x)
            times[which] = min(times[which], perf_counter() - start) if turn else times[which]
    return times


def _device_times(programs: Sequence[str], x: np.ndarray) -> list[float]:
    from benchmarks.gpu_runs import GpuCall
    from tesserac.base.source import SourceFile
    from tesserac.driver.session import Session
    from tesserac.target.nvptx.build import PLATFORMS

    session, calls = Session(), []
    for text in programs:
        source = SourceFile("f.tess", text)
        calls.append(GpuCall(session.gpu_program(source, session.function(source, "f"), PLATFORMS[ARCH]), (x,)))
    times = [float("inf")] * len(calls)
    for turn in range(TURNS):
        for which, call in enumerate(calls):
            found = call.time(5) * 1e-3
            times[which] = min(times[which], found) if turn else times[which]
    return times


if __name__ == "__main__":
    main()
