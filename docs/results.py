"""What was measured, read back from the tables in `benchmarks/results`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
Rows = list[list[str]]


def read(name: str) -> str:
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def tables(name: str) -> Rows:
    """The rows of all tables of a file, without their heads."""
    lines = [line for line in read(name).splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [_cells(line) for line in lines]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def newest(name: str) -> Rows:
    """The first table of a file, which is its newest, with its head."""
    lines = iter(read(name).splitlines())
    first = next(line for line in lines if line.startswith("|"))
    rows = takewhile(lambda line: line.startswith("|"), lines)
    return [_cells(first), *(_cells(line) for line in rows if not line.startswith("|---"))]


def head(name: str) -> str:
    """What stands between the title of a file and its first table or listing: the command, the day, the machine."""
    return re.split(r"^(?:\||```)", read(name).partition("\n\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def made(name: str) -> str:
    """The first sentence of a file: how, when and where it was measured."""
    return re.split(r"\.(?=\s)", " ".join(head(name).split()), maxsplit=1)[0] + "."


def day(name: str) -> str:
    """The day of the newest figures."""
    return max(re.findall(r"2026-\d\d-\d\d", head(name)))


def value(name: str, measurement: str) -> list[str]:
    """The cells behind the name of a measurement, in the newest table of a file."""
    (found,) = [row[1:] for row in newest(name) if row[0] == measurement]
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
    """The programs of the newest table whose operations and bytes are plain."""
    rows = {row[0]: row for row in newest("gpu-table-h200")}
    return [_run(label, rows[label][3]) for label in (*_PRODUCTS, *_MAPS)]


_PRODUCTS = {"bf16 gemm 4096": (4096, 2), "f32 gemm 4096": (4096, 4)}
"""The side of the matrices and the bytes of an element: 2 n^3 operations, 3 n^2 elements."""
_MAPS = {"f32 x + 1": (1, 8), "f32 softmax": (5, 8)}
"""Operations and bytes of an element. A softmax is counted as maximum, difference, exponential, sum and quotient."""


def _run(label: str, measured: str) -> Run:
    rate, unit = measured.split()
    if label in _PRODUCTS:
        side, width = _PRODUCTS[label]
        return Run(f"{label}: {rate} {unit}", float(rate) * 1e12, 2 * side / (3 * width))
    operations, width = _MAPS[label]
    return Run(f"{label}: {rate} {unit}", float(rate) * 1e12 * operations / width, operations / width)
