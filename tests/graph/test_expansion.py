"""Programs that become far larger than their text: what doubles is called, and what cannot be is refused by its count
before anything of it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tesserac import cli
from tesserac.base.source import SourceFile
from tesserac.diag.pages import load_page
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.graph import expansion
from tesserac.graph.calling import LARGE
from tesserac.graph.expansion import MAX_OPERATORS
from tesserac.ir import core
from tesserac.schedule.machine import AARCH64

HEAD = "(x: Tensor[N, f32]) -> Tensor[N, f32]:"


def doubling(first: str, again: str, last: str, levels: int) -> str:
    """`again` says how a function is made of the one before it, `{f}`."""
    text = f"def f0{HEAD}\n    return {first}\n"
    for i in range(levels):
        text += f"\ndef f{i + 1}{HEAD}\n" + again.format(f=f"f{i}") + "\n"
    return text + f"\ndef f{HEAD}\n    return {last.format(f=f'f{levels}')}\n"


CALLED = {
    "nested": ("tanh(x)", "    return {f}({f}(x))", "{f}(x)", 24),
    "in branches": ("sin(x)", "    if sum(x) > 0.0:\n        return {f}(x)\n    return {f}(-x)", "{f}(x)", 14),
    "derived": ("sin(x)", "    return {f}({f}(x))", "grad(lambda v: sum({f}(v)))(x)", 14),
    "mapped": ("x * 2.0", "    return {f}({f}(x))", "vmap(lambda v: sum({f}(stack([v, v]))))(x)", 14),
}
FAST = "    with numerics(fast):\n        x = {f}({f}(x))\n    return x"
REFUSED = {
    "derived again and again": ("sin(x)", "    return grad(lambda v: sum({f}(v) * {f}(v)))(x)", "{f}(x)", 40),
    "in a mode": ("x * x", FAST, "{f}(x)", 40),
}


def refused(text: str) -> str:
    session, source = Session(), SourceFile("towers.tess", text)
    with pytest.raises(ProgramError) as problem:
        session.levels(source, session.function(source, "f"), AARCH64)
    (found,) = problem.value.diagnostics
    assert found.code == "E0317"
    return found.title


@pytest.mark.one_in(12)
@pytest.mark.parametrize("way", CALLED)
def test_what_doubles_is_called(way: str) -> None:
    session, source = Session(), SourceFile("towers.tess", doubling(*CALLED[way]))
    levels = session.levels(source, session.function(source, "f"), AARCH64)
    assert any(op.name == "schedule.call" for op in levels.tile.walk())
    assert sum(1 for _ in levels.tile.walk()) < 2 * LARGE


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way", REFUSED)
def test_what_cannot_be_called_is_refused_before_it_is_made(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, init = 0, core.Op.__init__

    def counting(self: core.Op, *args: object, **options: object) -> None:
        nonlocal made
        made += 1
        init(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(core.Op, "__init__", counting)
    count = int(refused(doubling(*REFUSED[way])).split()[2].replace(",", ""))
    assert count > 2**39
    assert made < 5000


def test_the_count_is_that_of_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    text = doubling(*CALLED["nested"][:3], 6)
    session, source = Session(), SourceFile("towers.tess", text)
    monkeypatch.setattr(expansion, "MAX_OPERATORS", 64)
    session.levels(source, session.function(source, "f"), AARCH64)
    monkeypatch.setattr(expansion, "MAX_OPERATORS", 63)
    assert refused(text).startswith("`f` becomes 64 operators")


@pytest.mark.one_in(4)
def test_derivatives_of_derivatives_are_counted_as_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "exp(sin(v) * tanh(v))"
    for _ in range(7):
        body = f"grad(lambda v: sum({body}))(v)"
    monkeypatch.setattr(expansion, "MAX_OPERATORS", 2000)
    refused(f"def f(v: Tensor[N, f32]): return {body}\n")


def test_the_page_and_the_documents_say_the_limit() -> None:
    page, root = load_page("E0317"), Path(__file__).parents[2]
    assert page is not None and f"{MAX_OPERATORS:,}" in page.why
    assert f"{MAX_OPERATORS:,}" in (root / "docs/security.md").read_text(encoding="utf-8")


COMMANDS = (("check", "--explain-memory"), ("build",), ("build", "--emit", "llvm"), ("inspect",))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_fails_of_it(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "towers.tess"
    file.write_text(doubling(*CALLED["derived"][:3], 6), encoding="utf-8")
    monkeypatch.setattr(expansion, "MAX_OPERATORS", 63)
    place = f"{file}:f" if command == ("inspect",) else str(file)
    cli.main(cli.compiler, "tesserac", [command[0], place, *command[1:]])
    said = capsys.readouterr()
    assert "E0999" not in said.out + said.err
    assert command[0] == "check" or "E0317" in said.out + said.err
