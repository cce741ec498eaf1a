"""Linear algebra written naively, beside the form that an expert writes: `python -m benchmarks.algebra [PYTHON
[SECONDS]]`.

PYTHON is an interpreter that has PyTorch or JAX; each compiles and runs the same naive programs in a process of its
own, for at most so many seconds, once held to one core of the machine and once on all of them. Writes
`benchmarks/results/algebra-<machine>.md`. Sizes are 1024, in f32; the figure is the best of several turns. A program
takes the tensors that it names, ours as theirs.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import numpy as np

import tessera
from benchmarks.apart import ROOT, run_apart
from benchmarks.measure import interleaved

SIZE, TURNS = 1024, 5
TIME_LIMIT = int(sys.argv[2]) if len(sys.argv) > 2 else 100
SHAPES = {
    "a": (1024, 1024), "b": (1024, 1024), "c": (1024, 1024), "d": (1024,), "v": (1024,), "u": (1024, 8),
    "m": (32, 32), "p": (32, 32), "h": (1024,), "g": (65536,),
}  # fmt: skip
COMPLEX = ("h", "g")
ROWS: dict[str, tuple[str, str, str]] = {
    # what: naive, by hand, naive in PyTorch
    "a @ b @ c @ v": ("a @ b @ c @ v", "a @ (b @ (c @ v))", "a @ b @ c @ v"),
    "trace(a @ b)": ("trace(a @ b)", "sum(a * b.T)", "torch.trace(a @ b)"),
    "diagonal(a @ b)": ("diagonal(a @ b)", "sum(a * b.T, axis=1)", "torch.diagonal(a @ b)"),
    "diag(d) @ a": ("diag(d) @ a", "d[:, None] * a", "torch.diag(d) @ a"),
    "a @ diag(d)": ("a @ diag(d)", "a * d[None, :]", "a @ torch.diag(d)"),
    "ifft(fft(h))": ("ifft(fft(h))", "h + 0.0", "torch.fft.ifft(torch.fft.fft(h))"),
    "ifft(fft(g))": ("ifft(fft(g))", "g + 0.0", "torch.fft.ifft(torch.fft.fft(g))"),
    "kron(m, p) @ v": ("kron(m, p) @ v", "reshape(m @ reshape(v, (32, 32)) @ p.T, (1024,))", "torch.kron(m, p) @ v"),
    "solve(diag(d), v)": ("solve(diag(d), v)", "v / d", "torch.linalg.solve(torch.diag(d), v)"),
    "inv(a) @ v": ("inv(a) @ v", "solve(a, v)", "torch.linalg.inv(a) @ v"),
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
    "kron(m, p) @ v": (2 * SIZE**2, 2 * SIZE * 32),
    "solve(diag(d), v)": (SIZE**3 // 3, SIZE),
    "inv(a) @ v": (4 * SIZE**3 // 3, SIZE**3 // 3),
    "solve(diag(d) + u @ u.T, v)": (SIZE**3 // 3 + 8 * SIZE**2, SIZE * (8 * 8 + 4 * 8)),
}
PEER = """
import json, os, sys, time
library, rows, arrays, cores = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
os.sched_setaffinity(0, cores)
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(len(cores))
os.environ["JAX_PLATFORMS"] = "cpu"
import numpy as np
arrays = np.load(arrays)
if library == "torch":
    import torch
    torch.set_num_threads(len(cores))
    compiled, ready, given = torch.compile, lambda y: y, {n: torch.from_numpy(arrays[n]) for n in arrays}
else:
    import jax
    import jax.numpy as torch
    compiled, ready, given = jax.jit, lambda y: y.block_until_ready(), {n: torch.asarray(arrays[n]) for n in arrays}
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
        times = []
        while len(times) < 5 or (sum(times) < 0.3 and len(times) < 2000):
            start = time.perf_counter(); ready(f(*args)); times.append(time.perf_counter() - start)
        print(json.dumps([what, min(times)]), flush=True)
    except Exception as problem:
        print(what, type(problem).__name__, flush=True)
"""


def values() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {name: rng.standard_normal(shape).astype("f4") for name, shape in SHAPES.items()}
    found["d"] = abs(found["d"]) + 1
    found["a"] += 60 * np.eye(SIZE, dtype="f4")
    return {**found, **{name: (found[name] + 1j).astype("c8") for name in COMPLEX}}


def named(what: str) -> list[str]:
    """The tensors that a program takes."""
    return [name for name in SHAPES if re.search(rf"\b{name}\b", what)]


def parameter(name: str) -> str:
    return f"{name}: Tensor[{', '.join(map(str, SHAPES[name]))}, {'c64' if name in COMPLEX else 'f32'}]"


def program() -> str:
    parts = [f"def {kind}{i}({', '.join(map(parameter, named(what)))}):\n    return {row[k]}\n"
             for i, (what, row) in enumerate(ROWS.items()) for k, kind in enumerate(("naive", "hand"))]  # fmt: skip
    return "\n".join(parts)


def peers(python: str, library: str, arrays: dict[str, Any], cores: list[int]) -> dict[str, float]:
    """Seconds of the naive programs as a library compiles them; of those that it has no time for, nothing."""
    path = ROOT / "build" / "algebra.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **arrays)
    rows = json.dumps({what: (row[2], named(what)) for what, row in ROWS.items()})
    output, _ = run_apart([python, "-c", PEER, library, rows, str(path), json.dumps(cores)], TIME_LIMIT)
    return dict(json.loads(line) for line in output.splitlines() if line.startswith('["'))


def cell(seconds: float | None, own: float) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}, {seconds / own:.0f}x"


def best(call: Callable[[], object]) -> float:
    return interleaved({"it": call}, turns=4 * TURNS, repeat=3)["it"].best


def floors(arrays: dict[str, Any]) -> tuple[float, float]:
    """Seconds to copy one matrix, and of a call of ours that computes next to nothing."""
    source, target = arrays["a"], np.empty_like(arrays["a"])
    nothing = tessera.compile("def f(x: Tensor[1, f32]): return x + 1.0\n").f
    one = np.ones(1, "f4")
    return best(lambda: np.copyto(target, source)), best(lambda: nothing(one))


def counts(what: str, arrays: dict[str, Any]) -> str:
    """Operations that the laws leave of those written, and the megabytes that a program must at least move."""
    result = 4 * (SIZE**2 if what in ("diag(d) @ a", "a @ diag(d)") else SIZE)
    moved = sum(arrays[name].nbytes for name in named(what)) + (arrays["g"].nbytes if "(g)" in what else result)
    written = f"{OPERATIONS[what][0] / OPERATIONS[what][1]:.0f}x" if what in OPERATIONS else ""
    return f"{written} | {moved / 1e6:.2f}"


def table(module: Any, arrays: dict[str, Any], cores: list[int]) -> list[str]:
    os.sched_setaffinity(0, cores)
    tessera.set_num_threads(len(cores))
    others = [peers(sys.argv[1], name, arrays, cores) if len(sys.argv) > 1 else {} for name in ("torch", "jax")]
    copy, call = floors(arrays)
    lines = [
        f"## {len(cores)} core{'s' * (len(cores) > 1)}", "",
        f"A copy of one matrix (8.4 MB moved) takes {copy * 1e3:.3f} ms, {8.4e-3 / copy:.0f} GB/s;",
        f"a call of ours of one number {call * 1e3:.4f} ms.", "",
        "| program | fewer operations | MB | as written | GB/s | by hand | PyTorch | `jax.jit` |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for i, what in enumerate(ROWS):
        args = [arrays[name] for name in named(what)]
        calls: dict[str, Callable[[], object]] = {
            kind: partial(getattr(module, f"{kind}{i}"), *args) for kind in ("naive", "hand")
        }
        times = interleaved(calls, turns=4 * TURNS, repeat=3)
        own, counted = times["naive"].best, counts(what, arrays)
        speed = float(counted.split("|")[1]) / 1e3 / own
        cells = " | ".join(cell(other.get(what), own) for other in others)
        figures = f"{own * 1e3:.4f} | {speed:.1f} | {times['hand'].best * 1e3:.4f}"
        lines.append(f"| `{what}` | {counted} | {figures} | {cells} |")
    return [*lines, ""]


def main() -> None:
    arrays, module = values(), tessera.compile(program())
    everywhere = sorted(os.sched_getaffinity(0))
    lines = [
        "# Linear algebra by its laws", "",
        f"`python -m benchmarks.algebra PYTHON`, {date.today()}, {platform.machine()}.",
        f"Size {SIZE}, f32; milliseconds, the best of several turns, while other work may have run on the machine;",
        "PyTorch and JAX run the program as written, compiled, and how many times longer than ours. Empty: it is not",
        "installed, or it has no time for that; PyTorch runs as it is where it finds no compiler for C++. `MB` is what",
        "arguments and result have, `GB/s` that over our time, `fewer operations` those as written over those by hand.",
        "",
    ]  # fmt: skip
    for cores in ([everywhere[-1]], everywhere):
        lines += table(module, arrays, cores)
    text = "\n".join(lines)
    (ROOT / "benchmarks" / "results" / f"algebra-{platform.machine()}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
