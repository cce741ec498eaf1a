"""Items parsed in two processes: trees, places and diagnostics are those of one."""

from __future__ import annotations

import pytest

from benchmarks.editor import program
from tesserac.base.source import SourceFile
from tesserac.syntax import ahead, parse
from tesserac.syntax.ahead import parse_ahead
from tesserac.syntax.parse import ParseResult, parse_module, unknown_items

TEXTS = {
    "sound": program(24),
    "twice the same": "def f(x):\n    return x\n\n" * 6,
    "mistakes": '"""Doc."""\nx = (1 +\n\ndef f(x:\n    return\n\n"""stray"""\ny = 1;; z = 2\n\n'
    + program(6)
    + "def g(:\n",
    "deep": f"a = 1\nb = {'(' * 500}1{' + 1)' * 500}\nc = 2\nd = {'-' * 500}1\n",
    "one item": "x = 1\n",
    "nothing": "",
}


@pytest.fixture(autouse=True)
def _always_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "WORTH_IT", 0)
    monkeypatch.setattr(ahead, "_has_two_cores", lambda: True)


def parsed(name: str, path: str) -> ParseResult:
    return parse_module(SourceFile(path, TEXTS[name]))


def in_two(name: str, path: str) -> ParseResult:
    parse_ahead(SourceFile(path, TEXTS[name]))
    return parsed(name, path)


def forget() -> None:
    parse._remembered.clear()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", TEXTS)
def test_two_processes_give_what_one_gives(name: str) -> None:
    forget()
    expected = parsed(name, "a.tess")
    forget()
    found = in_two(name, "a.tess")
    with parse.deep_recursion():
        assert repr(found.module) == repr(expected.module)
    assert found.diagnostics == expected.diagnostics


def test_all_items_are_known_then() -> None:
    forget()
    source = SourceFile("known.tess", TEXTS["sound"])
    parse_ahead(source)
    assert len(TEXTS["sound"]) > 0 and unknown_items(source) == []


def test_a_process_that_fails_costs_only_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    forget()
    monkeypatch.setattr(ahead._CODEC, "encode", fail)
    assert not in_two("sound", "failing.tess").diagnostics


def test_a_small_file_is_left_to_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    monkeypatch.setattr(ahead, "WORTH_IT", 60_000)
    source = SourceFile("small.tess", TEXTS["twice the same"])
    parse_ahead(source)
    assert unknown_items(source)
