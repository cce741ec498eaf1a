"""Linear algebra written naively, beside the form that an expert writes: `python -m benchmarks.algebra [PYTHON]`.

PYTHON is an interpreter that has PyTorch; it runs the same naive programs, in a process of its own. Writes
`benchmarks/results/algebra-<machine>.md`. Sizes are 512, in f32; the figure is the best of several turns.
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

SIZE, TURNS = 512, 5
ARGS = (
    "a: Tensor[512, 512, f32], b: Tensor[512, 512, f32], c: Tensor[512, 512, f32], d: Tensor[512, f32], "
    "v: Tensor[512, f32], u: Tensor[512, 8, f32], m: Tensor[32, 32, f32], p: Tensor[16, 16, f32], h: Tensor[512, c64]"
)
ROWS: dict[str, tuple[str, str, str]] = {
    # what: naive, by hand, naive in PyTorch
    "a @ b @ c @ v": ("a @ b @ c @ v", "a @ (b @ (c @ v))", "a @ b @ c @ v"),
    "trace(a @ b)": ("trace(a @ b)", "sum(a * b.T)", "torch.trace(a @ b)"),
    "diag(d) @ a": ("diag(d) @ a", "d[:, None] * a", "torch.diag(d) @ a"),
    "a @ diag(d)": ("a @ diag(d)", "a * d[None, :]", "a @ torch.diag(d)"),
    "ifft(fft(h))": ("ifft(fft(h))", "h + 0.0", "torch.fft.ifft(torch.fft.fft(h))"),
    "kron(m, p) @ v": ("kron(m, p) @ v", "reshape(m @ reshape(v, (32, 16)) @ p.T, (512,))", "torch.kron(m, p) @ v"),
    "solve(diag(d), v)": ("solve(diag(d), v)", "v / d", "torch.linalg.solve(torch.diag(d), v)"),
    "inv(a) @ v": ("inv(a) @ v", "solve(a, v)", "torch.linalg.inv(a) @ v"),
    "solve(diag(d) + u @ u.T, v)": (
        "solve(diag(d) + u @ u.T, v)",
        "v / d - (u / d[:, None]) @ solve(eye(8) + u.T @ (u / d[:, None]), u.T @ (v / d))",
        "torch.linalg.solve(torch.diag(d) + u @ u.T, v)",
    ),
}
PEER = """
import json, sys, time
import numpy as np, torch
rows, arrays = json.loads(sys.argv[1]), np.load(sys.argv[2])
names = list(arrays)
found = {}
for what, code in rows.items():
    f = eval("lambda " + ", ".join(names) + ": " + code)
    args = [torch.from_numpy(arrays[n]) for n in names]
    f(*args)
    times = []
    for _ in range(7):
        start = time.perf_counter(); f(*args); times.append(time.perf_counter() - start)
    found[what] = min(times)
print(json.dumps(found))
"""


def values() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"a": (512, 512), "b": (512, 512), "c": (512, 512), "d": (512,), "v": (512,), "u": (512, 8),
              "m": (32, 32), "p": (16, 16)}  # fmt: skip
    found: dict[str, Any] = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    found["d"] = abs(found["d"]) + 1
    found["a"] += 60 * np.eye(SIZE, dtype="f4")
    return {**found, "h": (rng.standard_normal(SIZE) + 1j).astype("c8")}


def program() -> str:
    parts = [f"def {kind}{i}({ARGS}):\n    return {row[k]}\n"
             for i, row in enumerate(ROWS.values()) for k, kind in enumerate(("naive", "hand"))]  # fmt: skip
    return "\n".join(parts)


def peers(python: str, arrays: dict[str, Any]) -> dict[str, float]:
    """Seconds of the naive programs in PyTorch."""
    path = ROOT / "build" / "algebra.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **arrays)
    rows = json.dumps({what: row[2] for what, row in ROWS.items()})
    output, fault = run_apart([python, "-c", PEER, rows, str(path)], 240)
    assert not fault, f"{fault}\n{output}"
    found: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return found


def main() -> None:
    arrays = values()
    module, args = tessera.compile(program()), list(arrays.values())
    others = peers(sys.argv[1], arrays) if len(sys.argv) > 1 else {}
    lines = [
        "# Linear algebra by its laws", "",
        f"`python -m benchmarks.algebra`, {date.today()}, {platform.machine()}, NumPy {np.__version__}.",
        f"Size {SIZE}, f32; milliseconds, the best of several turns, while other work ran on the machine.", "",
        "| program | as written | by hand | naive in PyTorch | PyTorch / as written |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for i, what in enumerate(ROWS):
        naive, hand = getattr(module, f"naive{i}"), getattr(module, f"hand{i}")
        times = interleaved({"naive": lambda f=naive: f(*args), "hand": lambda f=hand: f(*args)}, turns=TURNS, repeat=3)  # type: ignore[misc]
        own, best, other = times["naive"].best * 1e3, times["hand"].best * 1e3, others.get(what)
        peer = f"{other * 1e3:.3f} | {other * 1e3 / own:.1f}x" if other is not None else "- | -"
        lines.append(f"| `{what}` | {own:.3f} | {best:.3f} | {peer} |")
    text = "\n".join(lines) + "\n"
    (ROOT / "benchmarks" / "results" / f"algebra-{platform.machine()}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
