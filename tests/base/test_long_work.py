"""Who waits is told how far it is: by a bar on a terminal, and by nothing elsewhere."""

from __future__ import annotations

import io

import pytest

from tesserac.base.long_work import tell, telling
from tesserac.base.resources import stdlib_files
from tesserac.commands.counting_bar import CountingBar
from tesserac.modules.library import PRELUDE, check_library


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_listeners_hear_what_is_done_while_they_listen() -> None:
    heard: list[tuple[int, int]] = []
    with telling(lambda done, count: heard.append((done, count))):
        check_library({PRELUDE: stdlib_files()[PRELUDE]})
        tell(2, 2)
    tell(3, 3)
    assert heard == [(1, 2), (2, 2)]


def test_a_bar_is_drawn_on_a_terminal_and_goes_when_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    with CountingBar("files") as bar:
        bar.show(1, 3)
        assert "1/3 files" in shown.getvalue()
        bar.show(3, 3)
        assert shown.getvalue().endswith("\x1b[2K"), "the line is cleared"
        ended = shown.getvalue()
    assert shown.getvalue() == ended


def test_no_bar_is_drawn_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    with CountingBar("files") as bar:
        bar.show(1, 3)
    assert not shown.getvalue()
