"""How far tuning or building is: a bar on a terminal, on standard error, so that the report may be piped."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich import progress
from rich.console import Console


class CountingBar:
    """`counted` is what there are so many of: schedules, kernels."""

    def __init__(self, counted: str) -> None:
        console = Console(file=sys.stderr)
        columns = (progress.TextColumn(f"{{task.completed}}/{{task.total}} {counted}"), progress.BarColumn())
        self._bar = progress.Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task: progress.TaskID | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def show(self, done: int, count: int) -> None:
        if self._task is None:
            self._task = self._bar.add_task("", total=count)
        self._bar.update(self._task, completed=done, total=count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
