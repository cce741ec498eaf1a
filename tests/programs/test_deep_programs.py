"""Programs as deep as the parser lets them be go through every room; deeper ones are told so, and nothing overflows."""

from __future__ import annotations

import pytest

from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.graph.build import build_module
from tesserac.syntax.dump import dump
from tesserac.syntax.fmt import format_source
from tesserac.syntax.parse import parse_module

DEEP = 500
HALF = 240
"""A call is two levels, the call and its argument."""


def _returns(expression: str, before: str = "") -> str:
    return f"{before}def f(x: Tensor[N, f32]):\n    return {expression}\n"


def _says(statement: str) -> str:
    return f"def f(x: Tensor[N, f32]):\n    {statement}\n    return x\n"


def _blocks(head: str, count: int) -> str:
    inner = "".join(" " * (i + 1) + f"{head}\n" for i in range(count))
    return f"def f(x: Tensor[N, f32]):\n{inner}{' ' * (count + 1)}x = x + 1.0\n return x\n"


IDENTITY = "def same(x):\n    return x\n\n"
PROGRAMS = {
    "sums to the left": _returns("(" * DEEP + "x" + " + x)" * DEEP),
    "sums to the right": _returns("(x + " * DEEP + "x" + ")" * DEEP),
    "signs": _returns("-" * DEEP + "x"),
    "a chain": _returns(" + ".join(["x"] * DEEP)),
    "operators in calls": _returns("abs(" * HALF + "x" + ")" * HALF),
    "functions in calls": _returns("same(" * HALF + "x" + ")" * HALF, IDENTITY),
    "lists": _says(f"y = {'[' * DEEP}x{']' * DEEP}"),
    "choices": _returns("(x if 1 == 1 else " * DEEP + "x" + ")" * DEEP),
    "slices": _returns("x" + "[0:]" * HALF),
    "functions": _says(f"y = {'(lambda a: ' * HALF}1{')' * HALF}"),
    "sizes": f"def f(x: Tensor[{'(' * DEEP}N{' + 1)' * DEEP}, f32]):\n    return x\n",
    "negations": _says(f"assert {'not ' * DEEP}(1 == 1)"),
    "a constant": f"A = {'(' * DEEP}1{' + 1)' * DEEP}\n",
    "blocks": _blocks("if N > 2:", 90),
    "loops": _blocks("for i in range(2):", 90),
    "a chain of elif": "def f(x: Tensor[N, f32], k: int):\n    if k == 0:\n        x = x + 0.0\n"
    + "".join(f"    elif k == {i}:\n        x = x + {i}.0\n" for i in range(1, DEEP - 20))
    + "    return x\n",
}
TOO_DEEP = {
    "brackets": _returns("(" * 600 + "x" + ")" * 600),
    "a chain": _returns(" + ".join(["x"] * 600)),
    "calls": _returns("abs(" * 500 + "x" + ")" * 500),
    "blocks": _blocks("if N > 2:", 101),
}


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_checked_moved_formatted_and_shown(session: Session, name: str) -> None:
    source = SourceFile(f"{name}.tess", PROGRAMS[name])
    expected = [d.code for d in session.check(source).diagnostics]
    assert not [code for code in expected if code.startswith("E")]
    assert [d.code for d in session.analyse(source).diagnostics] == expected
    moved = parse_module(SourceFile(source.path, f"# further down\n\n{source.text}"))
    assert not moved.diagnostics and len(moved.module.items) == len(parse_module(source).module.items)
    formatted = format_source(source)
    assert not formatted.diagnostics and format_source(SourceFile("again.tess", formatted.text)).text == formatted.text
    with deep_recursion():
        assert "Module" in dump(parse_module(source).module, source)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["sums to the left", "a chain", "operators in calls", "functions in calls", "slices"])
def test_it_is_lowered(session: Session, name: str) -> None:
    source = SourceFile(f"{name}.tess", PROGRAMS[name])
    with deep_recursion():
        function = session.function(source, "f")
        module = build_module(list(session.check(source).result.reach(function).values()), {function.symbol})
    assert module is not None


@pytest.mark.parametrize("name", TOO_DEEP)
def test_deeper_ones_are_told(session: Session, name: str) -> None:
    source = SourceFile(f"{name}.tess", TOO_DEEP[name])
    assert [d.code for d in session.check(source).diagnostics] == ["E0114"]
    assert format_source(source).text == source.text
