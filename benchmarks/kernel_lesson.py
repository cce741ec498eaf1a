"""The six steps of the lesson in docs/kernels.md, each timed as it stands there: causal attention of one head.

    python -m benchmarks.kernel_lesson [--rounds 5] [--size 1024]

One thread; the steps take turns, and the figure is the least processor time of all calls, in milliseconds: other
programs of the machine count little.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]
os.environ["TESSERA_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

import tessera  # noqa: E402

LIBRARY = """
def f(q: Tensor[S, 64, f32], k: Tensor[S, 64, f32], v: Tensor[S, 64, f32]) -> Tensor[S, 64, f32]:
    return attention(q, k, v, causal=True)
"""
CALLS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024)
    options = parser.parse_args()
    programs = steps()
    programs["4, blocks of 64 x 256"] = programs["4"].replace("block=(8, 8)", "block=(64, 256)")
    programs["the library's"] = LIBRARY
    runs = {name: tessera.compile(text, release=True).f for name, text in programs.items()}
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(options.rounds):
        for name, run in runs.items():
            args = arguments(programs[name], options.size)
            run(*args)
            least[name] = min(least[name], *(timed(run, args) for _ in range(CALLS)))
    for name, seconds in least.items():
        print(f"step {name}: {seconds * 1e3:.1f} ms")


def steps() -> dict[str, str]:
    """The programs of the lesson, by the number of their step."""
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    lesson = page.partition("## From the naive form")[2].partition("\n## ")[0]
    return {str(n): code for n, code in enumerate(re.findall(r"^```tess\n(.*?)^```$", lesson, re.M | re.S), 1)}


def arguments(program: str, size: int) -> list[np.ndarray]:
    """q, k and v; of several heads where the program takes them."""
    heads = (8,) if "Tensor[H," in program else ()
    rng = np.random.default_rng(0)
    return [rng.standard_normal((*heads, size, 64)).astype(np.float32) for _ in range(3)]


def timed(run: object, args: list[np.ndarray]) -> float:
    start = time.process_time()
    run(*args)  # type: ignore[operator]
    return time.process_time() - start


if __name__ == "__main__":
    main()
