"""The kernels against NumPy: a matrix product and row softmax, with all threads and with one on both sides; sorting;
and what a round of a loop costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import tessera
from benchmarks.measure import interleaved
from benchmarks.report import Row

EXAMPLES = Path(__file__).parent.parent / "examples"


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def matmul(n: int = 1024) -> Row:
    product = tessera.load(EXAMPLES / "matmul.tess").matmul_f32
    a, b = _random(n, n), _random(n, n)
    timing = interleaved({"tessera": lambda: product(a, b), "numpy": lambda: a @ b}, turns=15, repeat=2)
    ours, numpys = timing["tessera"].best, timing["numpy"].best
    ratio, gflops = numpys / ours, 2e-9 * n**3 / ours
    detail = f"{gflops:.1f} GFLOP/s, NumPy {2e-9 * n**3 / numpys:.1f}"
    return Row(f"f32 matmul {n}", f"{ratio:.2f}x NumPy", ">= 0.7x", ratio >= 0.7, detail)


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    e /= e.sum(axis=-1, keepdims=True)
    return e


def softmax(rows: int = 1024, columns: int = 1024) -> Row:
    ours = tessera.load(EXAMPLES / "softmax.tess").softmax_rows
    x = _random(rows, columns)
    timing = interleaved({"tessera": lambda: ours(x), "numpy": lambda: numpy_softmax(x)}, turns=15, repeat=5)
    mine, numpys = (timing[name].best / x.size * 1e9 for name in ("tessera", "numpy"))
    ratio, detail = numpys / mine, f"{mine:.2f} ns an element, NumPy {numpys:.2f}"
    return Row(f"row softmax {rows}x{columns}", f"{ratio:.2f}x NumPy", "> 1x", ratio > 1, detail)


def argsort(n: int = 1_000_000) -> Row:
    ours = tessera.compile("def order(x: Tensor[N, f32]) -> Tensor[N, i64]:\n    return argsort(x)\n").order
    x = _random(n)
    timing = interleaved({"tessera": lambda: ours(x), "numpy": lambda: np.argsort(x, kind="stable")}, turns=5, repeat=1)
    ratio = timing["numpy"].best / timing["tessera"].best
    detail = f"{timing['tessera'].best * 1e3:.1f} ms, NumPy {timing['numpy'].best * 1e3:.1f}"
    return Row(f"stable argsort of {n}", f"{ratio:.2f}x NumPy", ">= 0.5x", ratio >= 0.5, detail)


FILL = """
def fill(x: Tensor[N, f32]) -> Tensor[N, f32]:
    for i in range(N):
        x[i] = x[N - 1 - i] * 0.5
    return x
"""


def loop_of_updates(few: int = 1000, many: int = 100_000) -> Row:
    """A round changes one element, in place: it costs the same however long the tensor is."""
    ours = tessera.compile(FILL).fill
    short, long = _random(few), _random(many)
    timing = interleaved({"short": lambda: ours(short), "long": lambda: ours(long)}, turns=7, repeat=1)
    costs = [timing[name].best / count * 1e9 for name, count in (("short", few), ("long", many))]
    detail = f"{costs[0]:.0f} ns a round of {few}, {costs[1]:.0f} of {many}"
    return Row("x[i] = v in a loop", f"{costs[1] / costs[0]:.2f}x as long", "<= 2x", costs[1] <= 2 * costs[0], detail)


def on_one_thread(measure: Callable[[], Row]) -> Callable[[], Row]:
    def run() -> Row:
        before = tessera.get_num_threads()
        tessera.set_num_threads(1)
        try:
            with threadpool_limits(1):
                row = measure()
        finally:
            tessera.set_num_threads(before)
        return replace(row, what=f"{row.what}, one thread")

    return run


MEASUREMENTS = (matmul, on_one_thread(matmul), softmax, on_one_thread(softmax), argsort, loop_of_updates)
