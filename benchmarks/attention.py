"""Attention on the CPU: the library's tile program against its meaning and PyTorch's, in time and in memory.

    python -m benchmarks.attention [--out benchmarks/results/attention-aarch64.md] [--threads 1 2] [--sizes 256 1024]
                                   [--who tiles torch] [--turns 3] [--together]

Each library runs alone in a process of its own, since spinning pools disturb each other, and the processes take turns;
the figure is the least of all turns. On one thread, where nothing spins, the tiles and PyTorch take turns `together` in
one process if asked: so both are on the same core, of which some are a third slower than others. `meaning` is the same
function written out, whose scores are in memory. Memory is what the process held at most, less what it held before the
first call. f32, one batch of 8 heads of 64.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

HEADS, WIDTH = 8, 64
TURNS, SECONDS, TOGETHER = 3, 1.0, 0.25
ARGS = ", ".join(f"{name}: Tensor[{HEADS}, {size}, {WIDTH}, f32]" for name, size in zip("qkv", "STT", strict=True))
PROGRAM = f"""
def tiles({ARGS}):
    return attention(q, k, v, causal=CAUSAL)

def meaning({ARGS}):
    s = einsum("nsd,ntd->nst", q, k) * rsqrt(float({WIDTH}))
    if CAUSAL:
        s = where(arange(T)[None, :] <= arange(S)[:, None] + (T - S), s, -INF)
    return softmax_safe(s) @ v  # what no law of the library computes in another way
"""
CONTESTANTS = ("tiles", "meaning", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 1024, 2048, 4096])
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--who", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--together", action="store_true", help="on one thread: in one process, without memory")
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        who, causal, size, threads = options.inside
        if who == "together":
            print(json.dumps(together(causal == "1", int(size), options.turns)))
            return
        print(json.dumps(measure(who, causal == "1", int(size), int(threads))))
        return
    text = report(options)
    print(text)
    if options.out:
        options.out.write_text(text)


def report(options: argparse.Namespace) -> str:
    lines = [
        f"# Attention forward, f32, {HEADS} heads of {WIDTH}, {platform.machine()}",
        "",
        f"Made by `python -m benchmarks.attention {' '.join(sys.argv[1:])}`. Milliseconds, least of all turns; memory",
        "in MiB beyond that before the first call; `x torch` is PyTorch's time over ours.",
        "",
        "| S | causal | threads | tiles | meaning | torch SDPA | x torch | tiles MiB | meaning MiB | torch MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for size in options.sizes:
        for causal in (False, True):
            for count in options.threads:
                found = (_turns_together if options.together else _turns)(causal, size, count, options)
                lines.append(_row(size, causal, count, found))
                print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"


def _turns(causal: bool, size: int, threads: int, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """The least time and memory of each contestant; one that is not installed has none."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(options.turns):
        for who in options.who:
            call = ["-m", "benchmarks.attention", "--inside", who, str(int(causal)), str(size), str(threads)]
            program = options.python if who == "torch" else sys.executable
            done = subprocess.run([program, *call], cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode:
                continue
            seconds, memory = json.loads(done.stdout.splitlines()[-1])
            old = best.get(who, (seconds, memory))
            best[who] = (min(old[0], seconds), min(old[1], memory))
    return best


def _turns_together(causal: bool, size: int, _: int, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    call = ["-m", "benchmarks.attention", "--turns", str(options.turns), "--inside", "together"]
    command = [options.python, *call, str(int(causal)), str(size), "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {who: (seconds, 0.0) for who, seconds in json.loads(done.stdout.splitlines()[-1]).items()}


def _row(size: int, causal: bool, threads: int, found: dict[str, tuple[float, float]]) -> str:
    times = [f"{found[who][0] * 1e3:.2f}" if who in found else "-" for who in CONTESTANTS]
    memory = [f"{found[who][1]:.0f}" if who in found else "-" for who in CONTESTANTS]
    ratio = f"{found['torch'][0] / found['tiles'][0]:.2f}" if {"torch", "tiles"} <= found.keys() else "-"
    cells = [str(size), "yes" if causal else "no", str(threads), *times, ratio, *memory]
    return f"| {' | '.join(cells)} |"


# --------------------------------------------------------------------------------------------------- one contestant


def measure(who: str, causal: bool, size: int, threads: int) -> tuple[float, float]:
    """Seconds a call, and MiB that the process held at most beyond what it began with."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((HEADS, size, WIDTH), dtype=np.float32) for _ in range(3)]
    call = _torch(arrays, causal, threads) if who == "torch" else _tessera(who, arrays, causal, threads)
    before = _peak()
    call()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end or best == float("inf"):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best, _peak() - before


def together(causal: bool, size: int, turns: int) -> dict[str, float]:
    """Seconds a call of the tiles and of PyTorch, in turn, on one thread."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((HEADS, size, WIDTH), dtype=np.float32) for _ in range(3)]
    calls = {"tiles": _tessera("tiles", arrays, causal, 1), "torch": _torch(arrays, causal, 1)}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for who, call in calls.items():
            end = time.perf_counter() + TOGETHER
            while time.perf_counter() < end:
                start = time.perf_counter()
                call()
                best[who] = min(best[who], time.perf_counter() - start)
    return best


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _tessera(name: str, arrays: list[np.ndarray], causal: bool, threads: int) -> Callable[[], object]:
    os.environ["TESSERA_NUM_THREADS"] = str(threads)
    import tessera

    function = getattr(tessera.compile(PROGRAM.replace("CAUSAL", str(causal))), name)
    small = [array[:, :2] for array in arrays]
    function(*(np.ascontiguousarray(array) for array in small))  # compiled, before memory is measured
    return lambda: function(*arrays)


def _torch(arrays: list[np.ndarray], causal: bool, threads: int) -> Callable[[], object]:
    import torch

    torch.set_num_threads(threads)
    q, k, v = (torch.from_numpy(array)[None] for array in arrays)
    attend = torch.nn.functional.scaled_dot_product_attention

    def call() -> object:
        with torch.no_grad():
            return attend(q, k, v, is_causal=causal)

    return call


if __name__ == "__main__":
    main()
