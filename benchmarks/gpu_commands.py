"""Whether every example prints and returns the same on a CPU and on a GPU, by `tessera run --device`; a check of
`benchmarks.gpu_host`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


def check_commands() -> None:
    names = sorted(path.name for path in (ROOT / "examples").glob("*.tess"))
    workers = max(2, (os.cpu_count() or 2) - 1)
    with TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        for line in pool.map(partial(_on_both, Path(folder)), names):
            print(line, flush=True)


def _on_both(folder: Path, name: str) -> str:
    """Whether an example prints the same on a CPU and on a GPU, and its `main` returns the same bits."""
    (status, text, _, took), (other, again, said, on_gpu) = (_ran(folder, name, device) for device in ("cpu", "cuda"))
    if status:
        return f"    --   {name}: no main"
    if other:
        return f"    FAIL {name}: {' | '.join(said.strip().splitlines()[:6])}"
    texts, bits = text == again, _saved(folder, name, "cpu") == _saved(folder, name, "cuda")
    told = "the same" if texts and bits else "other bits" if texts else "another text"
    return f"    {'ok  ' if texts and bits else 'FAIL'} {name}: {told} on both; {took:.1f} and {on_gpu:.1f} s"


def _ran(folder: Path, name: str, device: str) -> tuple[int, str, str, float]:
    command = [sys.executable, "-c", "from tesserac.cli import tessera; raise SystemExit(tessera())"]
    target = folder / f"{name}.{device}.npz"
    arguments = ["run", str(ROOT / "examples" / name), "--device", device, "--save", str(target)]
    start = time.perf_counter()
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        return 1, "", "no end after 90 s", time.perf_counter() - start
    printed = done.stdout.replace(str(target), "")
    return done.returncode, printed, done.stderr, time.perf_counter() - start


def _saved(folder: Path, name: str, device: str) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    """The arrays that `main` returned."""
    with np.load(folder / f"{name}.{device}.npz") as held:
        return [(key, held[key].dtype.name, held[key].shape, held[key].tobytes()) for key in sorted(held.files)]
