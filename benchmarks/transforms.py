"""Times Fourier transforms beside NumPy's (pocketfft) and PyTorch's (MKL on x86), each library alone in its process.

    python -m benchmarks.transforms --out benchmarks/results [--threads 1] [--threads 16]

Lengths are written in the program, arrays are there, results are new. The best of `TURNS` turns counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SIZES = ((1, 256), (1, 1000), (1, 1009), (1, 1024), (1, 65536), (1, 1 << 20), (256, 1024))
LIBRARIES = ("tessera", "numpy", "torch")
TURNS, SECONDS = 3, 0.05
Row = tuple[str, int, int]
"""The function, how many rows, and their length."""


def measured(library: str, threads: int) -> dict[Row, float]:
    """Seconds of every case, in a process that knows no other library."""
    limits = {name: str(threads) for name in ("TESSERA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", "benchmarks.transforms", "--library", library]
    done = subprocess.run(command, env={**os.environ, **limits}, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{library}: {(done.stderr.strip().splitlines() or [done.returncode])[-1]}", file=sys.stderr)
        return {}
    return {(name, rows, length): seconds for name, rows, length, seconds in json.loads(done.stdout)}


def functions(library: str) -> Callable[[str, int], Callable[..., object]]:
    """The transform of a name and length, as the library offers it."""
    if library == "numpy":
        return lambda name, length: getattr(np.fft, name)
    if library == "torch":
        import torch

        return lambda name, length: getattr(torch.fft, name)
    import tessera

    lengths = sorted({length for _, length in SIZES})
    dtypes = {"fft": "c64", "rfft": "f32"}
    lines = [f"def {f}_{n}(x: Tensor[B, {n}, {t}]):\n    return {f}(x)\n" for f, t in dtypes.items() for n in lengths]
    module = tessera.compile("\n".join(lines))
    return lambda name, length: getattr(module, f"{name}_{length}")


def run(library: str) -> list[tuple[str, int, int, float]]:
    rng, find, found = np.random.default_rng(0), functions(library), []
    for name in ("fft", "rfft"):
        for rows, length in SIZES:
            x = rng.normal(size=(rows, length)).astype(np.float32)
            z = x if name == "rfft" else (x + 1j * x[:, ::-1]).astype(np.complex64)
            found.append((name, rows, length, best(find(name, length), given(library, z))))
    return found


def given(library: str, x: np.ndarray) -> object:
    if library != "torch":
        return x
    import torch

    return torch.from_numpy(x)


def best(function: Callable[..., object], x: object) -> float:
    function(x)
    start = time.perf_counter()
    function(x)
    count = max(1, int(SECONDS / max(time.perf_counter() - start, 1e-7)))
    times = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(count):
            function(x)
        times.append((time.perf_counter() - start) / count)
    return min(times)


def table(threads: int) -> str:
    least: dict[str, dict[Row, float]] = {library: {} for library in LIBRARIES}
    for _ in range(TURNS):
        for library in LIBRARIES:
            for row, seconds in measured(library, threads).items():
                least[library][row] = min(seconds, least[library].get(row, seconds))
    return written(least, threads)


def written(least: dict[str, dict[Row, float]], threads: int) -> str:
    """Microseconds, and how many times longer the others take."""
    lines = [f"## {threads} thread{'s' * (threads > 1)}", ""]
    lines += ["| transform | us | NumPy over ours | PyTorch over ours |", "|---|---|---|---|"]
    for (name, rows, length), ours in least["tessera"].items():
        ratios = [least[peer].get((name, rows, length)) for peer in ("numpy", "torch")]
        shown = ["" if other is None else f"{other / ours:.2f}" for other in ratios]
        lines.append(f"| {name} {rows} x {length} | {ours * 1e6:.2f} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where the table is written")
    parser.add_argument("--threads", type=int, action="append", help="how many; may be given several times")
    parser.add_argument("--library", choices=LIBRARIES, help="times one library, and prints JSON")
    chosen = parser.parse_args()
    if chosen.library:
        print(json.dumps(run(chosen.library)))
        return
    counts = chosen.threads or [1]
    options = " ".join(f"--threads {count}" for count in counts)
    command = f"python -m benchmarks.transforms {options}"
    head = f"# Fourier transforms, c64 and f32, {platform.machine()}\n\nMade by `{command}`."
    text = "\n\n".join([head, *map(table, counts)]) + "\n"
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / f"transforms-{platform.machine()}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
