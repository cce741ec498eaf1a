"""One row per measurement: what, how much, the goal, and whether it is met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    what: str
    value: str
    goal: str
    met: bool
    detail: str = ""

    def line(self) -> str:
        return f"{'ok  ' if self.met else 'MISS'} {self.what}: {self.value} (goal {self.goal}) {self.detail}"


def table(rows: Sequence[Row]) -> str:
    lines = ["| measurement | value | goal | met | detail |", "|---|---|---|---|---|"]
    lines += [f"| {r.what} | {r.value} | {r.goal} | {'yes' if r.met else '**no**'} | {r.detail} |" for r in rows]
    return "\n".join(lines) + "\n"
