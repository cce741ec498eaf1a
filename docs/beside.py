"""How Tessera does beside other libraries, in one line for each machine: counts, means and extremes of measured tables.

Enters: tables of `benchmarks/results`, whose ratios are the other library's time over ours. Leaves: Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log

from docs.results import day, newest

LEVEL = 0.05
"""Within this of 1 a time is called level: what two runs of one program differ by."""


@dataclass(frozen=True)
class Comparison:
    """A column of ratios in a table."""

    what: str
    peers: str
    file: str
    column: int

    def ratios(self) -> dict[str, float]:
        return {
            row[0]: float(found[1])
            for row in newest(self.file)[1:]
            if (found := re.match(r"\**(\d+\.\d+)\**(?: |$)", row[self.column])) and not row[0].startswith("geometric")
        }


ALL = (
    Comparison("H200", "PyTorch: cuBLAS, cuDNN, cuFFT", "gpu-table-h200", 5),
    Comparison("16 x86-64 cores, library", "PyTorch", "operators-x86_64-16", 3),
    Comparison("16 x86-64 cores, work", "the best of NumPy, PyTorch, Numba", "table-x86_64", 2),
    Comparison("one x86-64 core, library", "PyTorch", "operators-x86_64", 3),
    Comparison("one x86-64 core, work", "the best of NumPy, PyTorch, Numba", "table-x86_64", 1),
    Comparison("two x86-64 cores, NPBench", "NumPy", "npbench-two-cores-x86_64", 2),
    Comparison("two x86-64 cores, NPBench", "Numba", "npbench-two-cores-x86_64", 3),
    Comparison("two x86-64 cores, NPBench", "JAX", "npbench-two-cores-x86_64", 4),
    Comparison("one AArch64 core, work", "the best of NumPy, PyTorch, Numba", "table-aarch64", 1),
)


def overview() -> str:
    rows = ["| where | beside | ahead | level | behind | mean | day |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*rows, *map(_counts, ALL)])


def _counts(one: Comparison) -> str:
    found = one.ratios().values()
    ahead, behind = sum(ratio > 1 + LEVEL for ratio in found), sum(ratio < 1 - LEVEL for ratio in found)
    where = f"[{one.what}](../benchmarks/results/{one.file}.md)"
    level = len(found) - ahead - behind
    return f"| {where} | {one.peers} | {ahead} | {level} | {behind} | {_mean(found):.2f} | {day(one.file)} |"


def _mean(found: Iterable[float]) -> float:
    """The geometric one."""
    logs = [log(ratio) for ratio in found]
    return exp(sum(logs) / len(logs))


def extremes() -> str:
    """What is furthest ahead, and what is furthest behind, of each machine's table of work."""
    rows = ["| where | furthest ahead | furthest behind |", "|---|---|---|"]
    return "\n".join([*rows, *(_extremes(one) for one in ALL if one.what in EXTREMES)])


EXTREMES = ("H200", "16 x86-64 cores, work", "one x86-64 core, work", "one AArch64 core, work")


def _extremes(one: Comparison, count: int = 4) -> str:
    ordered = sorted(one.ratios().items(), key=lambda item: item[1])
    behind = [item for item in ordered[:count] if item[1] < 1]
    return f"| {one.what} | {_told(reversed(ordered[-count:]))} | {_told(behind)} |"


def _told(items: Iterable[tuple[str, float]]) -> str:
    return "; ".join(f"{name.removesuffix(' (usual)')} ({ratio:.2f})" for name, ratio in items)
