"""How far a training is: a bar on a terminal, and lines with the loss, fewer as the steps grow many.

Enters: steps and losses as they come. Leaves: text. The bar is on standard error, so that the lines may be piped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich import progress as rich_progress
from rich.console import Console


class Progress:
    def __init__(self, steps: int, done: int, say: Callable[[str], None]) -> None:
        self._steps, self._done, self._say = steps, done, say
        console = Console(file=sys.stderr)
        columns = (
            rich_progress.TextColumn("{task.completed}/{task.total}"),
            rich_progress.BarColumn(),
            rich_progress.TextColumn("loss {task.fields[loss]}"),
            rich_progress.TimeRemainingColumn(),
        )
        shown = console.is_terminal
        self._above_bar = shown and sys.stdout.isatty()  # elsewhere lines go to standard output as they are
        self._bar = rich_progress.Progress(
            *columns, console=console, disable=not shown, transient=True, redirect_stdout=False
        )

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task("", total=self._steps, completed=self._done, loss="-")
        return self

    def show(self, step: int, loss: float) -> None:
        self._bar.update(self._task, completed=step, loss=f"{loss:.6g}")
        if step in (self._done + 1, self._steps) or step % _apart(step) == 0:
            self._line(f"step {step:7} loss {loss:.6g}")

    def _line(self, text: str) -> None:
        """Through the bar where both are on one terminal: it would be written over otherwise."""
        if self._above_bar:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            self._say(f"{text}\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def _apart(step: int) -> int:
    """10 up to step 100, 100 up to 1000, and so on."""
    apart = 10
    while step > 10 * apart:
        apart *= 10
    return apart
