"""The terminal: lines with editing, history and completion where Python has `readline`; plain lines otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

PROMPT, CONTINUED = "tessera> ", "     ... "
MOST_HISTORY = 10_000

Completer = Callable[[str, str], Sequence[str]]
"""(the line up to the word, the word) -> what the word may become"""


def state_dir() -> Path | None:
    """`tessera` under `$XDG_STATE_HOME` or `~/.local/state`. It need not exist; None where there is no home either."""
    base, home = os.environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~")
    folders = filter(os.path.isabs, (base, os.path.join(home, ".local", "state")))
    return next((Path(folder) / "tessera" for folder in folders), None)


class Console:
    """Asks a person for lines."""

    def __init__(self, completer: Completer) -> None:
        self._completer = completer
        self._readline = _find_readline()
        self._indentation = ""
        self._candidates: list[str] = []

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Inside, history is there and is kept in the end."""
        line = self._readline
        if line is None:
            yield
            return
        folder = state_dir()
        history = folder / "history" if folder is not None else None
        if history is not None:
            with suppress(OSError):
                line.read_history_file(str(history))
        line.set_history_length(MOST_HISTORY)
        line.set_completer(self._complete)
        line.set_completer_delims(" \t\n()[]{},;+-*/%@=<>&|^~")
        line.parse_and_bind("bind ^I rl_complete" if _is_editline(line) else "tab: complete")
        line.set_pre_input_hook(self._indent)
        try:
            yield
        finally:
            if history is not None:
                _keep(line, history)

    def read(self, *, continued: bool, indentation: str) -> str:
        """One line. Raises EOFError and KeyboardInterrupt."""
        self._indentation = indentation
        return input(CONTINUED if continued else PROMPT)

    def _indent(self) -> None:
        if self._readline is not None and self._indentation:
            self._readline.insert_text(self._indentation)
            self._readline.redisplay()

    def _complete(self, word: str, number: int) -> str | None:
        """What readline asks for, one candidate at a time; it shows nothing of an exception."""
        assert self._readline is not None
        if number == 0:
            before = self._readline.get_line_buffer()[: self._readline.get_begidx()]
            try:
                self._candidates = list(self._completer(before, word))
            except Exception:  # completion is a convenience: without it the line can still be typed
                self._candidates = []
        return self._candidates[number] if number < len(self._candidates) else None


def _keep(line: ModuleType, history: Path) -> None:
    with suppress(OSError):
        history.parent.mkdir(parents=True, exist_ok=True)
        line.write_history_file(str(history))


def _find_readline() -> ModuleType | None:
    if not sys.stdin.isatty():
        return None
    try:
        import readline
    except ImportError:
        return None
    return readline


def _is_editline(readline: ModuleType) -> bool:
    return "libedit" in (readline.__doc__ or "")
