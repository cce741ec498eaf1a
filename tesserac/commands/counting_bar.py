"""How far tuning or building is: a bar on a terminal, on standard error, so that the report may be piped.

`rich` draws it, which is imported once there is something to show: a command that waits for nothing starts at once.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich import progress


class CountingBar:
    """`counted` is what there are so many of: schedules, kernels."""

    def __init__(self, counted: str) -> None:
        self._counted = counted
        self._bar: progress.Progress | None = None

    def __enter__(self) -> Self:
        return self

    def show(self, done: int, count: int) -> None:
        if not sys.stderr.isatty():
            return
        self._bar = self._bar or _begun(self._counted, done, count)
        self._bar.update(self._bar.task_ids[0], completed=done, total=count)
        if done == count:
            self._end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _begun(counted: str, done: int, count: int) -> progress.Progress:
    from rich import progress
    from rich.console import Console

    columns = (progress.TextColumn(f"{{task.completed}}/{{task.total}} {counted}"), progress.BarColumn())
    bar = progress.Progress(*columns, console=Console(file=sys.stderr), transient=True)
    bar.add_task("", completed=done, total=count)
    bar.start()
    return bar
