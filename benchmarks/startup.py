"""Time to the first result: importing, compiling cold, loading from the disk cache, and a repeated small call."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tessera
from benchmarks.installed import as_installed
from benchmarks.measure import interleaved
from benchmarks.report import Row

EXAMPLES = Path(__file__).parent.parent / "examples"
RUNS = 5

FIRST_CALL = """
import json, time
import numpy as np, tessera
imported = time.perf_counter()
if {cold}:
    import llvmlite.binding
    imported = time.perf_counter()
    from tesserac.base.collecting import collection_paused
    with collection_paused():  # as it is where the runtime imports it
        import tesserac.embed.compiler, tesserac.target.cpu.build
x = np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)
args = [x] * {arity}
start = time.perf_counter()
module = tessera.load({path!r})
module.{function}(*args)
print(json.dumps([time.perf_counter() - start, start - imported]))
"""

PREPARE = """
import tesserac.embed.compiler, tesserac.target.cpu.build
from tesserac.modules.library import load_library
load_library()
print(0)
"""
"""A wheel ships the parser's tables and the checked library; a checkout makes them once. No program waits for them. The
file of bytecode is what any earlier process has left."""

IMPORT = """
import json, time
start = time.perf_counter()
import tessera
print(json.dumps(time.perf_counter() - start))
"""

PROGRAMS = {"softmax_rows": ("softmax.tess", 1), "matmul_f32": ("matmul.tess", 2)}


def _run(program: str, cache: str) -> object:
    env = as_installed(TESSERA_CACHE_DIR=cache)
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _first_call(function: str, *, cold: bool) -> tuple[float, float]:
    """Medians over new processes: the first call, and importing the compiler. Cold: the cache has only what
    a wheel ships, and the compiler and LLVM are imported before the clock starts. Warm: the cache has the artifact."""
    file, arity = PROGRAMS[function]
    program = FIRST_CALL.format(cold=cold, arity=arity, path=str(EXAMPLES / file), function=function)
    samples: list[object] = []
    with tempfile.TemporaryDirectory() as shared:
        _run(program, shared)
        for _ in range(RUNS):
            with tempfile.TemporaryDirectory() as empty:
                _run(PREPARE, empty)
                samples.append(_run(program, empty if cold else shared))
    calls, imports = zip(*samples, strict=True)
    return statistics.median(calls), statistics.median(imports)


def cold(function: str) -> Callable[[], Row]:
    def measure() -> Row:
        ms, imports = (seconds * 1e3 for seconds in _first_call(function, cold=True))
        detail = f"importing the compiler took {imports:.0f} ms before"
        return Row(f"first call, cold: {function}", f"{ms:.0f} ms", "< 300 ms", ms < 300, detail)

    return measure


def warm(function: str) -> Callable[[], Row]:
    def measure() -> Row:
        ms = _first_call(function, cold=False)[0] * 1e3
        return Row(f"first call, disk cache: {function}", f"{ms:.1f} ms", "< 50 ms", ms < 50)

    return measure


def importing() -> Row:
    ms = statistics.median(float(str(_run(IMPORT, ""))) for _ in range(RUNS)) * 1e3
    return Row("import tessera", f"{ms:.0f} ms", "< 150 ms", ms < 150)


def small_call() -> Row:
    text = "def add(x: Tensor[M, N, f32], y: Tensor[M, N, f32]) -> Tensor[M, N, f32]:\n    return x + y\n"
    add = tessera.compile(text).add
    x = np.ones((4, 4), np.float32)
    timing = interleaved({"tessera": lambda: add(x, x), "numpy": lambda: x + x}, turns=20, repeat=5000)
    ns = timing["tessera"].best * 1e9
    detail = f"NumPy {timing['numpy'].best * 1e9:.0f} ns"
    return Row("4x4 add, repeated call", f"{ns:.0f} ns", "< 10000 ns", ns < 10_000, detail)


MEASUREMENTS = (
    importing,
    cold("softmax_rows"),
    cold("matmul_f32"),
    warm("softmax_rows"),
    warm("matmul_f32"),
    small_call,
)
