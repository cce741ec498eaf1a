"""Linear algebra written naively, beside the form that an expert writes: `python -m benchmarks.algebra [PYTHON
[SECONDS]]`.

PYTHON is an interpreter that has PyTorch or JAX; each compiles and runs the same naive programs in a process of its
own, for at most so many seconds. Writes `benchmarks/results/algebra-<machine>.md`. Sizes are 1024, in f32, on one
thread; the figure is the best of several turns.
"""

from __future__ import annotations

import json
import platform
import sys
from datetime import date
from typing import Any

import numpy as np

import tessera
from benchmarks.apart import ROOT, run_apart
from benchmarks.measure import interleaved

SIZE, TURNS = 1024, 5
TIME_LIMIT = int(sys.argv[2]) if len(sys.argv) > 2 else 100
ARGS = (
    "a: Tensor[1024, 1024, f32], b: Tensor[1024, 1024, f32], c: Tensor[1024, 1024, f32], d: Tensor[1024, f32], "
    "v: Tensor[1024, f32], u: Tensor[1024, 8, f32], m: Tensor[32, 32, f32], p: Tensor[32, 32, f32], "
    "h: Tensor[1024, c64]"
)
ROWS: dict[str, tuple[str, str, str]] = {
    # what: naive, by hand, naive in PyTorch
    "a @ b @ c @ v": ("a @ b @ c @ v", "a @ (b @ (c @ v))", "a @ b @ c @ v"),
    "trace(a @ b)": ("trace(a @ b)", "sum(a * b.T)", "torch.trace(a @ b)"),
    "diag(d) @ a": ("diag(d) @ a", "d[:, None] * a", "torch.diag(d) @ a"),
    "a @ diag(d)": ("a @ diag(d)", "a * d[None, :]", "a @ torch.diag(d)"),
    "ifft(fft(h))": ("ifft(fft(h))", "h + 0.0", "torch.fft.ifft(torch.fft.fft(h))"),
    "kron(m, p) @ v": ("kron(m, p) @ v", "reshape(m @ reshape(v, (32, 32)) @ p.T, (1024,))", "torch.kron(m, p) @ v"),
    "solve(diag(d), v)": ("solve(diag(d), v)", "v / d", "torch.linalg.solve(torch.diag(d), v)"),
    "inv(a) @ v": ("inv(a) @ v", "solve(a, v)", "torch.linalg.inv(a) @ v"),
    "solve(diag(d) + u @ u.T, v)": (
        "solve(diag(d) + u @ u.T, v)",
        "v / d - (u / d[:, None]) @ solve(eye(8) + u.T @ (u / d[:, None]), u.T @ (v / d))",
        "torch.linalg.solve(torch.diag(d) + u @ u.T, v)",
    ),
}
PEER = """
import json, os, sys, time
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
import numpy as np
library, rows, arrays = sys.argv[1], json.loads(sys.argv[2]), np.load(sys.argv[3])
if library == "torch":
    import torch
    torch.set_num_threads(1)
    compiled, ready, given = torch.compile, lambda y: y, [torch.from_numpy(arrays[n]) for n in arrays]
else:
    import jax
    import jax.numpy as torch
    compiled, ready, given = jax.jit, lambda y: y.block_until_ready(), [torch.asarray(arrays[n]) for n in arrays]
for what, code in rows.items():
    try:
        f = compiled(eval("lambda " + ", ".join(arrays) + ": " + code, {"torch": torch}))
        ready(f(*given))
        times = []
        while len(times) < 5 or (sum(times) < 0.3 and len(times) < 2000):
            start = time.perf_counter(); ready(f(*given)); times.append(time.perf_counter() - start)
        print(json.dumps([what, min(times)]), flush=True)
    except Exception as problem:
        print(what, type(problem).__name__, flush=True)
"""


def values() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"a": (1024, 1024), "b": (1024, 1024), "c": (1024, 1024), "d": (1024,), "v": (1024,), "u": (1024, 8),
              "m": (32, 32), "p": (32, 32)}  # fmt: skip
    found: dict[str, Any] = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    found["d"] = abs(found["d"]) + 1
    found["a"] += 60 * np.eye(SIZE, dtype="f4")
    return {**found, "h": (rng.standard_normal(SIZE) + 1j).astype("c8")}


def program() -> str:
    parts = [f"def {kind}{i}({ARGS}):\n    return {row[k]}\n"
             for i, row in enumerate(ROWS.values()) for k, kind in enumerate(("naive", "hand"))]  # fmt: skip
    return "\n".join(parts)


def peers(python: str, library: str, arrays: dict[str, Any]) -> dict[str, float]:
    """Seconds of the naive programs as a library compiles them; of those that it has no time for, nothing."""
    path = ROOT / "build" / "algebra.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **arrays)
    rows = json.dumps({what: row[2] for what, row in ROWS.items()})
    output, _ = run_apart([python, "-c", PEER, library, rows, str(path)], TIME_LIMIT)
    return dict(json.loads(line) for line in output.splitlines() if line.startswith('["'))


def cell(seconds: float | None, own: float) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}, {seconds / own:.0f}x"


def main() -> None:
    tessera.set_num_threads(1)
    arrays = values()
    module, args = tessera.compile(program()), list(arrays.values())
    others = [peers(sys.argv[1], name, arrays) if len(sys.argv) > 1 else {} for name in ("torch", "jax")]
    lines = [
        "# Linear algebra by its laws", "",
        f"`python -m benchmarks.algebra PYTHON`, {date.today()}, {platform.machine()}, one thread each.",
        f"Size {SIZE}, f32; milliseconds, the best of several turns, while other work may have run on the machine;",
        "PyTorch and JAX run the program as written, compiled, and how many times longer than ours. Empty: it is not",
        "installed, or it has no time or no way to compile that.", "",
        "| program | as written | by hand | `torch.compile` | `jax.jit` |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for i, what in enumerate(ROWS):
        naive, hand = getattr(module, f"naive{i}"), getattr(module, f"hand{i}")
        times = interleaved({"naive": lambda f=naive: f(*args), "hand": lambda f=hand: f(*args)}, turns=TURNS, repeat=3)  # type: ignore[misc]
        own, best = times["naive"].best, times["hand"].best
        cells = " | ".join(cell(other.get(what), own) for other in others)
        lines.append(f"| `{what}` | {own * 1e3:.4f} | {best * 1e3:.4f} | {cells} |")
    text = "\n".join(lines) + "\n"
    (ROOT / "benchmarks" / "results" / f"algebra-{platform.machine()}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
