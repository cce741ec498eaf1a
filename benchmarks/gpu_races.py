"""Whether threads of a GPU meet in shared memory: what `compute-sanitizer --tool racecheck` says of programs whose
threads exchange values there, as they are and with their barriers taken out.

    python -m benchmarks.gpu_races --out DIR [--tool racecheck]

A program is clean only if the checker finds nothing in it as it is, and something with its barriers gone: one that
finds no planted race proves nothing. The report goes to DIR/gpu_races.md.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

PROGRAM = """
def totals(x: Tensor[M, N, f32]):
    return sum(x, axis=0)

def soft(x: Tensor[M, N, f32]):
    return softmax(x)

def norm(x: Tensor[M, N, f32]):
    return layernorm(x)

def running(x: Tensor[N, f32]):
    return cumsum(x)

def order(x: Tensor[N, f32]):
    return argsort(x)

def turned(x: Tensor[B, 1024, c64]):
    return fft(x)

def turned_long(x: Tensor[16384, c64]):
    return fft(x)

def product(a: Tensor[M, K, f32], b: Tensor[K, N, f32]):
    return a @ b
"""
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "totals": [(700, 300)],
    "soft": [(3, 3000)],
    "norm": [(5, 1500)],
    "running": [(40_000,)],
    "order": [(20_000,)],
    "turned": [(3, 1024)],
    "turned_long": [(16384,)],
    "product": [(130, 70), (70, 90)],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tool", default="racecheck")
    parser.add_argument("--only", choices=sorted(SHAPES))
    parser.add_argument("--inside", choices=sorted(SHAPES), help=argparse.SUPPRESS)
    parser.add_argument("--planted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        run(options.inside, options.planted)
        return
    lines = ["# Races in shared memory", "", f"`compute-sanitizer --tool {options.tool}`: errors found.", ""]
    lines += ["| program | as it is | without barriers | |", "|---|---|---|---|"]
    for name in [options.only] if options.only else SHAPES:
        plain, planted = (found(name, options.tool, way) for way in (False, True))
        proven = "clean" if plain == 0 and planted else "NOT PROVEN"
        lines.append(f"| {name} | {plain} | {planted} | {proven} |")
        print(lines[-1], flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu_races.md").write_text("\n".join(lines) + "\n")


def found(name: str, tool: str, planted: bool) -> int | None:
    """How many errors the checker tells of; none where it did not come to an end."""
    inside = [sys.executable, "-m", "benchmarks.gpu_races", "--inside", name, *(["--planted"] if planted else [])]
    command = ["compute-sanitizer", "--tool", tool, "--print-limit", "1", *inside]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    told = re.search(r"(?:RACECHECK|ERROR) SUMMARY: (\d+)", done.stdout + done.stderr)
    return int(told[1]) if told else None


def run(name: str, planted: bool) -> None:
    import numpy as np

    import tessera

    if planted:
        _take_barriers_out()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) for shape in SHAPES[name]]
    given = [a.astype(np.complex64) if name.startswith("turned") else a for a in arrays]
    mark = f"\n# {planted}\n"  # no code of the other way comes from the cache
    getattr(tessera.compile(PROGRAM + mark, device="cuda"), name)(*given)
    tessera.synchronize()


def _take_barriers_out() -> None:
    """Kernels are then made without the barriers for their threads."""
    from tesserac.target.nvptx.products import copies

    plain = copies.barrier
    for module in [m for key, m in sys.modules.items() if key.startswith("tesserac.target.nvptx")]:
        if getattr(module, "barrier", None) is plain:
            setattr(module, "barrier", lambda ctx: None)  # noqa: B010


if __name__ == "__main__":
    main()
