"""Linear algebra written naively, beside the form that an expert writes: `python -m benchmarks.algebra [PYTHON
[SECONDS [THREADS]]]`.

PYTHON is an interpreter that has PyTorch or JAX; each compiles the same naive programs in processes of its own, which
have so many seconds, and runs them when all have compiled, one after the other, held to as many cores as we are, one
unless said. Writes
`benchmarks/results/algebra-<machine>.md`, of several threads `algebra-<machine>-<threads>-cores.md`. Sizes are 1024, in
f32; the figure is the processor's time on one core, which other programs do not count in, else that of a clock, the
least of many turns. A program takes the tensors that it names, ours as theirs.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tessera
from benchmarks.apart import ROOT, run_apart

SIZE, SECONDS = 1024, 0.5
KINDS = ("naive", "hand")
TIME_LIMIT = int(sys.argv[2]) if len(sys.argv) > 2 else 100
THREADS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
clock = time.process_time if THREADS == 1 else time.perf_counter
SHAPES = {
    "a": (1024, 1024), "b": (1024, 1024), "c": (1024, 1024), "d": (1024,), "v": (1024,), "u": (1024, 8),
    "m": (32, 32), "p": (32, 32), "h": (1024,), "g": (65536,), "e": (1024, 1024), "x": (16, 256, 256), "y": (16, 256),
}  # fmt: skip
COMPLEX = ("h", "g")
PEERS = {"torch": 8, "jax": 3}
"""Libraries, and how many processes each has: a program takes seconds to compile."""
ROWS: dict[str, tuple[str, str, str]] = {
    # what: naive, by hand, naive in PyTorch
    "a @ b @ c @ v": ("a @ b @ c @ v", "a @ (b @ (c @ v))", "a @ b @ c @ v"),
    "trace(a @ b)": ("trace(a @ b)", "sum(a * b.T)", "torch.trace(a @ b)"),
    "diagonal(a @ b)": ("diagonal(a @ b)", "sum(a * b.T, axis=1)", "torch.diagonal(a @ b)"),
    "diag(d) @ a": ("diag(d) @ a", "d[:, None] * a", "torch.diag(d) @ a"),
    "a @ diag(d)": ("a @ diag(d)", "a * d[None, :]", "a @ torch.diag(d)"),
    "sum(a @ b)": ("sum(a @ b)", "sum(sum(a, axis=0) * sum(b, axis=1))", "torch.sum(a @ b)"),
    "sum(a @ b, axis=1)": ("sum(a @ b, axis=1)", "a @ sum(b, axis=1)", "torch.sum(a @ b, 1)"),
    "(a @ b)[0]": ("(a @ b)[0]", "a[0] @ b", "(a @ b)[0]"),
    "(a @ b @ c)[:, 0]": ("(a @ b @ c)[:, 0]", "a @ (b @ c[:, 0])", "(a @ b @ c)[:, 0]"),
    "outer(d, v) @ a": ("outer(d, v) @ a", "outer(d, v @ a)", "torch.outer(d, v) @ a"),
    "(eye(1024) - 2.0 * outer(v, v)) @ d": (
        "(eye(1024) - 2.0 * outer(v, v)) @ d",
        "d - 2.0 * v * sum(v * d)",
        "(torch.eye(1024) - 2.0 * torch.outer(v, v)) @ d",
    ),
    "einsum(x, x, y)": (
        'einsum("bij,bjk,bk->bi", x, x, y)',
        'einsum("bij,bj->bi", x, einsum("bjk,bk->bj", x, y))',
        'torch.einsum("bij,bjk,bk->bi", x, x, y)',
    ),
    "ifft(fft(h))": ("ifft(fft(h))", "h + 0.0", "torch.fft.ifft(torch.fft.fft(h))"),
    "irfft(rfft(v), 1024)": ("irfft(rfft(v), 1024)", "v + 0.0", "torch.fft.irfft(torch.fft.rfft(v), 1024)"),
    "ifft(fft(g))": ("ifft(fft(g))", "g + 0.0", "torch.fft.ifft(torch.fft.fft(g))"),
    "kron(m, p) @ v": ("kron(m, p) @ v", "reshape(m @ reshape(v, (32, 32)) @ p.T, (1024,))", "torch.kron(m, p) @ v"),
    "solve(diag(d), v)": ("solve(diag(d), v)", "v / d", "torch.linalg.solve(torch.diag(d), v)"),
    "inv(a) @ v": ("inv(a) @ v", "solve(a, v)", "torch.linalg.inv(a) @ v"),
    "inv(a) @ b @ v": ("inv(a) @ b @ v", "solve(a, b @ v)", "torch.linalg.inv(a) @ b @ v"),
    "inv(a).T @ v": ("inv(a).T @ v", "solve(a.T, v)", "torch.linalg.inv(a).T @ v"),
    "solve(a @ e, v)": ("solve(a @ e, v)", "solve(e, solve(a, v))", "torch.linalg.solve(a @ e, v)"),
    "solve(diag(d) + outer(v, v), d)": (
        "solve(diag(d) + outer(v, v), d)",
        "1.0 - v / d * (sum(v) / (1.0 + sum(v * v / d)))",
        "torch.linalg.solve(torch.diag(d) + torch.outer(v, v), d)",
    ),
    "solve(diag(d) + u @ u.T, v)": (
        "solve(diag(d) + u @ u.T, v)",
        "v / d - (u / d[:, None]) @ solve(eye(8) + u.T @ (u / d[:, None]), u.T @ (v / d))",
        "torch.linalg.solve(torch.diag(d) + u @ u.T, v)",
    ),
}
OPERATIONS = {
    # what: those of the program as it is written, and of the form by hand, in multiplications with an addition
    "a @ b @ c @ v": (2 * SIZE**3 + SIZE**2, 3 * SIZE**2),
    "trace(a @ b)": (SIZE**3, SIZE**2),
    "diagonal(a @ b)": (SIZE**3, SIZE**2),
    "diag(d) @ a": (SIZE**3, SIZE**2),
    "a @ diag(d)": (SIZE**3, SIZE**2),
    "sum(a @ b)": (SIZE**3, 2 * SIZE**2),
    "sum(a @ b, axis=1)": (SIZE**3, 2 * SIZE**2),
    "(a @ b)[0]": (SIZE**3, SIZE**2),
    "(a @ b @ c)[:, 0]": (2 * SIZE**3, 2 * SIZE**2),
    "outer(d, v) @ a": (SIZE**3, 2 * SIZE**2),
    "(eye(1024) - 2.0 * outer(v, v)) @ d": (3 * SIZE**2, 3 * SIZE),
    "einsum(x, x, y)": (16 * 256**3, 32 * 256**2),
    "inv(a) @ b @ v": (4 * SIZE**3 // 3, SIZE**3 // 3),
    "inv(a).T @ v": (4 * SIZE**3 // 3, SIZE**3 // 3),
    "solve(a @ e, v)": (4 * SIZE**3 // 3, 2 * SIZE**3 // 3),
    "solve(diag(d) + outer(v, v), d)": (SIZE**3 // 3, 6 * SIZE),
    "kron(m, p) @ v": (2 * SIZE**2, 2 * SIZE * 32),
    "solve(diag(d), v)": (SIZE**3 // 3, SIZE),
    "inv(a) @ v": (4 * SIZE**3 // 3, SIZE**3 // 3),
    "solve(diag(d) + u @ u.T, v)": (SIZE**3 // 3 + 8 * SIZE**2, SIZE * (8 * 8 + 4 * 8)),
}
PEER = """
import fcntl, json, os, sys, time
library, rows, arrays, cores = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
own, others, lock = sys.argv[5:]
os.sched_setaffinity(0, cores)
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(len(cores))
os.environ["JAX_PLATFORMS"], os.environ["CUDA_VISIBLE_DEVICES"] = "cpu", ""
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
import numpy as np
arrays = np.load(arrays)
clock = time.process_time if len(cores) == 1 else time.perf_counter
if library == "torch":
    import torch
    torch.set_num_threads(len(cores))
    compiled, ready, given = torch.compile, lambda y: y, {n: torch.from_numpy(arrays[n]) for n in arrays}
else:
    import jax
    import jax.numpy as torch
    compiled, ready, given = jax.jit, lambda y: y.block_until_ready(), {n: torch.asarray(arrays[n]) for n in arrays}
programs = {}
for what, (code, names) in rows.items():
    try:
        f, args = eval("lambda " + ", ".join(names) + ": " + code, {"torch": torch}), [given[n] for n in names]
        try:
            f = compiled(f)
            ready(f(*args))
        except Exception:
            if library != "torch":
                raise
            f = eval("lambda " + ", ".join(names) + ": " + code, {"torch": torch})  # no compiler for C++ here
            ready(f(*args))
        programs[what] = f, args
    except Exception as problem:
        print(what, type(problem).__name__, flush=True)
open(own, "w").close()
while len(os.listdir(os.path.dirname(own))) < int(others):  # until all have compiled
    time.sleep(0.05)
with open(lock, "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    for what, (f, args) in programs.items():
        def turn(count):
            start = clock()
            for _ in range(count):
                ready(f(*args))
            return (clock() - start) / count
        count, times = max(1, int(1e-4 / max(turn(2), 1e-9))), []
        while len(times) < 5 or (sum(times) * count < 0.3 and len(times) < 2000):
            times.append(turn(count))
        print(json.dumps([what, min(times)]), flush=True)
"""


def values() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {name: rng.standard_normal(shape).astype("f4") for name, shape in SHAPES.items()}
    found["d"] = abs(found["d"]) + 1
    for name in "ae":
        found[name] += 60 * np.eye(SIZE, dtype="f4")
    return {**found, **{name: (found[name] + 1j).astype("c8") for name in COMPLEX}}


def named(what: str) -> list[str]:
    """The tensors that a program takes."""
    return [name for name in SHAPES if re.search(rf"\b{name}\b", what)]


def parameter(name: str) -> str:
    return f"{name}: Tensor[{', '.join(map(str, SHAPES[name]))}, {'c64' if name in COMPLEX else 'f32'}]"


def program() -> str:
    parts = [f"def {kind}{i}({', '.join(map(parameter, named(what)))}):\n    return {row[k]}\n"
             for i, (what, row) in enumerate(ROWS.items()) for k, kind in enumerate(KINDS)]  # fmt: skip
    return "\n".join(parts)


def peers(
    python: str, arrays: dict[str, Any], cores: list[int], compile_ours: Callable[[], None]
) -> list[dict[str, float]]:
    """Seconds of the naive programs as PyTorch and JAX compile them; of those that they have no time for, nothing. The
    programs of each are dealt to processes, which compile beside each other and us, and measure one after the other
    once all have."""
    every_core = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        path, ready = Path(folder) / "arrays.npz", Path(folder) / "ready"
        ready.mkdir()
        np.savez(path, **arrays)
        every = [(library, part) for library, count in PEERS.items() for part in range(count)]

        def run(number: int) -> dict[str, float]:
            library, part = every[number]
            dealt = list(ROWS.items())[part :: PEERS[library]]
            rows = json.dumps({what: (row[2], named(what)) for what, row in dealt})
            held = cores if THREADS > 1 else [every_core[number % len(every_core)]]
            waits = [str(ready / str(number)), str(len(every) + 1), str(path.with_name("lock"))]
            command = [python, "-c", PEER, library, rows, str(path), json.dumps(held), *waits]
            output, _ = run_apart(command, TIME_LIMIT)
            return dict(json.loads(line) for line in output.splitlines() if line.startswith('["'))

        with ThreadPoolExecutor(len(every)) as pool:
            runs = pool.map(run, range(len(every)))
            compile_ours()
            (ready / "ours").touch()
            found = list(runs)
    dealt_to = {name: [number for number, (library, _) in enumerate(every) if library == name] for name in PEERS}
    return [{what: t for n in numbers for what, t in found[n].items()} for numbers in dealt_to.values()]


def cell(seconds: float | None, own: float) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}, {seconds / own:.0f}x"


def best(*calls: Callable[[], object]) -> list[float]:
    """Seconds of a call of each, the least of many turns."""
    counts = [max(1, int(1e-4 / max(_turn(call, 2), 1e-9))) for call in calls]
    found, until = [float("inf")] * len(calls), clock() + SECONDS
    while clock() < until:
        for place, (call, count) in enumerate(zip(calls, counts, strict=True)):
            found[place] = min(found[place], _turn(call, count))
    return found


def _turn(call: Callable[[], object], count: int) -> float:
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


@dataclass(frozen=True)
class Floors:
    """Bytes per second of reading two matrices and of copying one, and seconds of a call that computes nothing."""

    read: float
    copy: float
    call: float


def floors(arrays: dict[str, Any]) -> Floors:
    a, b, target = arrays["a"], arrays["b"], np.empty_like(arrays["a"])
    nothing = tessera.compile("def f(x: Tensor[1, f32]): return x + 1.0\n").f
    one = np.ones(1, "f4")
    read, copy = best(lambda: np.dot(a.ravel(), b.ravel()), lambda: np.copyto(target, a))
    return Floors(2 * a.nbytes / read, 2 * a.nbytes / copy, best(lambda: nothing(one))[0])


def counts(what: str, arrays: dict[str, Any], floor: Floors) -> tuple[str, float]:
    """Operations that the laws leave of those written, the megabytes that a program must at least move, and the least
    time that this takes: one call, and all bytes once, at the speed of reading or of copying."""
    writes = what in ("diag(d) @ a", "a @ diag(d)", "outer(d, v) @ a") or "fft" in what
    given = [arrays[name] for name in named(what)]
    size = sum(array.nbytes for array in given)
    moved = 2 * size if writes else size + 4 * SIZE
    written = f"{OPERATIONS[what][0] / OPERATIONS[what][1]:.0f}x" if what in OPERATIONS else ""
    seconds = copied(max(given, key=lambda array: array.nbytes)) if writes else moved / floor.read
    return f"{written} | {moved / 1e6:.2f}", floor.call + seconds


def copied(array: Any) -> float:
    """Seconds of copying an array as large as it is, in whatever cache it lies."""
    target = np.empty_like(array)
    return best(lambda: np.copyto(target, array))[0]


def table(module: Any, arrays: dict[str, Any], cores: list[int]) -> list[str]:
    """On several cores the matrices stay in caches: nothing is said of the least time there."""
    tessera.set_num_threads(len(cores))
    calls = {
        what: [partial(getattr(module, f"{kind}{i}"), *(arrays[name] for name in named(what))) for kind in KINDS]
        for i, what in enumerate(ROWS)
    }

    def compile_ours() -> None:
        for both in calls.values():
            for call in both:
                call()

    others = peers(sys.argv[1], arrays, cores, compile_ours) if len(sys.argv) > 1 else [{} for _ in PEERS]
    os.sched_setaffinity(0, cores)
    floor = floors(arrays)
    lines = [
        f"NumPy reads two matrices at {floor.read / 1e9:.1f} GB/s, and copies one at {floor.copy / 1e9:.1f};",
        f"a call of ours of one number takes {floor.call * 1e3:.4f} ms.", "",
    ] if len(cores) == 1 else []  # fmt: skip
    columns = ["program", "fewer operations", "MB", "as written", "by hand", "PyTorch", "`jax.jit`"]
    lines += [f"| {' | '.join([*columns, *['least', 'most'][: 2 * (len(cores) == 1)]])} |"]
    lines += ["|---" * (lines[-1].count("|") - 1) + "|"]
    for what in ROWS:
        own, hand = best(*calls[what])
        counted, least = counts(what, arrays, floor)
        slowest = max((other[what] for other in others if what in other), default=None)
        cells = [counted, f"{own * 1e3:.4f}", f"{hand * 1e3:.4f}", *(cell(other.get(what), own) for other in others)]
        if len(cores) == 1:
            cells += [f"{least * 1e3:.4f}", "" if slowest is None else f"{slowest / least:.0f}x"]
        lines.append(f"| `{what}` | {' | '.join(cells)} |")
    return [*lines, ""]


def main() -> None:
    arrays, module = values(), tessera.compile(program())
    where, times = ("one core", "the processor") if THREADS == 1 else (f"{THREADS} threads", "a clock")
    lines = [
        "# Linear algebra by its laws" + (f", on {THREADS} cores" if THREADS > 1 else ""), "",
        f"`python -m benchmarks.algebra PYTHON {TIME_LIMIT} {THREADS}`, {date.today()}, {platform.machine()}, {where}.",
        f"Size {SIZE}, f32; milliseconds of {times}, the least of many turns; PyTorch and JAX run the program as",
        "written, compiled, and how many times longer than ours. Empty: it is not installed, or it has no time for",
        "that. `MB` is what arguments and result have, `fewer operations` those as written over those by hand, `least`",
        "the time of a call that only moves those bytes, and `most` how many times faster than the slower of the two a",
        "program can be that takes no more than that.", "",
    ]  # fmt: skip
    text = "\n".join([*lines, *table(module, arrays, sorted(os.sched_getaffinity(0))[-THREADS:])])
    name = f"algebra-{platform.machine()}" + (f"-{THREADS}-cores" if THREADS > 1 else "")
    (ROOT / "benchmarks" / "results" / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
