"""What was measured, read back from the tables in `benchmarks/results`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
Rows = list[list[str]]


def read(name: str) -> str:
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def tables(name: str) -> Rows:
    """The rows of all tables of a file, without their heads."""
    lines = [line for line in read(name).splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def machine(name: str) -> str:
    """The line of a file that says how and where it was measured."""
    (found,) = [line for line in read(name).splitlines() if line.startswith("`python")]
    return found


def value(name: str, measurement: str) -> list[str]:
    """The cells behind the name of a measurement."""
    (found,) = [row[1:] for row in tables(name) if row[0] == measurement]
    return found


def gradient_times(model: str) -> dict[str, float]:
    """Milliseconds of a model's gradient, by library, on x86."""
    found = re.findall(r"(\w+) [\d.]+ and ([\d.]+) ms", value("gradients-x86_64", model)[3])
    return {name: float(ms) for name, ms in found}


@dataclass(frozen=True)
class Run:
    """A kernel timed on a GPU: operations per second, and per byte that it must move."""

    label: str
    rate: float
    intensity: float


def gpu_times() -> list[Run]:
    """The best run of each program, of all its variants and sizes."""
    best: dict[str, tuple[str, str, float]] = {}
    for program, case, result in (row for row in tables("gpu-h200") if len(row) == 3):
        timed = re.fullmatch(r"time (\S+) .*", case)
        rate = re.search(r"([\d.]+) (TB|TFLOP)/s", result)
        if timed and rate and float(rate[1]) > best.get(program, ("", "", 0.0))[2]:
            best[program] = program, timed[1], float(rate[1])
    return [_run(*found) for found in best.values() if found[0] in _COSTS]


_COSTS = {"add": (1, 12), "softmax": (5, 8), "matmul_f32": (0, 4), "matmul_bf16": (0, 2)}
"""Operations and bytes of an element; a product of n x n matrices has 2 n^3 and 3 n^2 elements. A softmax is counted as
maximum, difference, exponential, sum and quotient."""


def _run(program: str, size: str, rate: float) -> Run:
    operations, width = _COSTS[program]
    if operations:
        intensity = operations / width
        return Run(f"{program} {size}: {rate:g} TB/s", rate * 1e12 * intensity, intensity)
    side = int(size.removesuffix("^3"))
    return Run(f"{program} {size}: {rate:g}", rate * 1e12, 2 * side / (3 * width))
