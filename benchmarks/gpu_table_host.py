"""The part of the table of goals of a GPU that is about the host: launches, calls from Python, compilations.

Enters: the module of `gpu_table.tess`, loaded for the GPU. Leaves: times of the host's clock and their goals, which are
upper bounds. Compilations run in processes of their own, with a cache that is empty, then full; what they take to
import and to find the GPU is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import tessera
from benchmarks.installed import as_installed

ROOT = Path(__file__).resolve().parent.parent
TURNS = 5
KERNELS = 100
"""Launches in a call of `turned`."""


class HostLine(NamedTuple):
    """`measure` gives our time and PyTorch's, if it has one, in `unit`."""

    name: str
    measure: Callable[[], tuple[float, float | None]]
    unit: str
    goal: float


def host_lines(programs: Callable[[], Any]) -> Iterator[HostLine]:
    yield HostLine("launch", lambda: _launch(programs()), "us", 5.0)
    yield HostLine(f"replay, each of {KERNELS} kernels", lambda: _replay(programs()), "us", 0.8)
    yield HostLine("call of x + x, 1024 f32 on the device", lambda: _call(programs()), "us", 8.0)
    for name, goal in (("gemm", 0.3), ("attention", 0.7)):
        yield HostLine(f"first compile of {name}", lambda name=name: (_compiled(name)[0], None), "s", goal)
        yield HostLine(f"cached {name}", lambda name=name: (1e3 * _compiled(name)[1], None), "ms", 30.0)


def host_report(lines: list[HostLine]) -> str:
    if not lines:
        return ""
    text = ["", "| host | ours | PyTorch | goal, at most | reached |", "|---|---|---|---|---|"]
    for line in lines:
        try:
            ours, theirs = line.measure()
        except Exception as error:
            text.append(f"| {line.name} | not measured: {str(error).splitlines()[:1]} | | | |")
            continue
        peer = "" if theirs is None else f"{theirs:.3g} {line.unit}"
        reached = "yes" if ours <= line.goal else "no"
        text.append(f"| {line.name} | {ours:.3g} {line.unit} | {peer} | {line.goal} {line.unit} | {reached} |")
        print(text[-1], flush=True)
    return "\n".join(text) + "\n"


def _microseconds(run: Callable[[], object], count: int, wait: Callable[[], object]) -> tuple[float, float]:
    """Of one call: until it returns, and until its work is done. The least of some turns."""
    for _ in range(20):
        run()
    found = []
    for _ in range(TURNS):
        wait()
        start = time.perf_counter()
        for _ in range(count):
            run()
        issued = time.perf_counter()
        wait()
        found.append(((issued - start) / count * 1e6, (time.perf_counter() - start) / count * 1e6))
    return min(f[0] for f in found), min(f[1] for f in found)


def _launch(_: Any) -> tuple[float, float | None]:
    """A launch by the host program of a function, without arrays of Python's around it."""
    import numpy as np

    from benchmarks.gpu_runs import GpuCall
    from tesserac.base.source import SourceFile
    from tesserac.driver.session import Session
    from tesserac.target.nvptx.build import PLATFORMS

    session, source = Session(), SourceFile("f.tess", "def f(x: Tensor[N, f32]):\n    return x + x\n")
    program = session.gpu_program(source, session.function(source, "f"), PLATFORMS["sm_90a"])
    call = GpuCall(program, (np.ones(1024, np.float32),))
    issued, _ = _microseconds(call.execute, 1000, tessera.synchronize)
    return issued, None


def _replay(programs: Any) -> tuple[float, float | None]:
    import torch

    x = tessera.to_device(torch.ones(32, device="cuda"))
    _, whole = _microseconds(lambda: programs.turned(x), 100, torch.cuda.synchronize)
    return whole / KERNELS, None


def _call(programs: Any) -> tuple[float, float | None]:
    import torch

    t = torch.ones(1024, device="cuda")
    x = tessera.to_device(t)
    ours, _ = _microseconds(lambda: programs.doubled(x), 1000, torch.cuda.synchronize)
    theirs, _ = _microseconds(lambda: t + t, 1000, torch.cuda.synchronize)
    return ours, theirs


COMPILED = {
    "gemm": ("a: Tensor[M, K, half], b: Tensor[K, N, half]", "a @ b", "[(512, 512)] * 2"),
    "attention": (
        "q: Tensor[B, 16, S, 128, half], k: Tensor[B, 16, S, 128, half], v: Tensor[B, 16, S, 128, half]",
        "attention(q, k, v)",
        "[(1, 16, 512, 128)] * 3",
    ),
}
FRESH = """
import time, ml_dtypes, numpy as np, tessera, tesserac.embed.compiler, tesserac.driver.gpu_functions
x = [tessera.to_device(np.ones(s, ml_dtypes.bfloat16)) for s in {shapes}]
tessera.compile("def f(x: Tensor[N, f32]): return x", device="cuda").f(np.ones(3, "f4"))
start = time.perf_counter()
m = tessera.compile('''half = bf16 @accum(f32)
def f({parameters}):
    return {body}
''', device="cuda")
m.f(*x)
tessera.synchronize()
print(time.perf_counter() - start)
"""


@cache
def _compiled(name: str) -> tuple[float, float]:
    """Seconds from the text to the end of the first call, with a cache that holds the library alone, then with all."""
    parameters, body, shapes = COMPILED[name]
    code = FRESH.format(parameters=parameters, body=body, shapes=shapes)
    library = FRESH.format(parameters="x: Tensor[N, f32]", body="x * 2.0", shapes="[]").replace("m.f(*x)", "")
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")]
        there = {"XDG_CACHE_HOME": folder, "CUDA_CACHE_PATH": folder, "PYTHONPATH": os.pathsep.join(paths)}
        _, first, again = (_run(text, as_installed(**there)) for text in (library, code, code))
    return first, again


def _run(code: str, environment: dict[str, str]) -> float:
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])
