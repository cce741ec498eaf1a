"""`with numerics(fast):` is an attribute of the operators inside; `--release` leaves assertions out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac import cli
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.graph.build import build_module
from tesserac.graph.dialect import NUMERICS, is_operator
from tesserac.graph.passes.inline import inline
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module

MODES = """
def inner(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return exp(x)

def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
    y = sin(x)
    with numerics(fast):
        y = inner(y) + x
        if sum(x) > 0.0:
            return y * 3.0
    return y - x
"""


def modes(text: str, name: str) -> dict[str, object]:
    source, session = SourceFile("modes.tess", text), Session()
    function = session.function(source, name)
    module = build_module(list(session.check(source).result.reach(function).values()), {function.symbol})
    assert print_module(parse_module(print_module(module))) == print_module(module)
    inlined = run_passes(module, [inline], verify=True)
    operators = [op for f in inlined.ops for op in f.walk() if is_operator(op)]
    return {op.name.removeprefix("graph."): op.attrs.get(NUMERICS) for op in operators if op.name != "graph.full"}


def test_operators_inside_have_the_mode_and_so_have_those_of_functions_called_there() -> None:
    found = modes(MODES, "f")
    assert {name: found[name] for name in ("sin", "exp", "add", "sum", "mul", "sub")} == {
        "sin": None, "exp": "fast", "add": "fast", "sum": "fast", "mul": "fast", "sub": None,
    }  # fmt: skip


def test_it_runs() -> None:
    x = np.array([0.5, -2.0], "f4")
    assert np.allclose(tessera.compile(MODES).f(x), np.exp(np.sin(x)), atol=1e-6)
    assert np.allclose(tessera.compile(MODES).f(-x), (np.exp(np.sin(-x)) - x) * 3, atol=1e-6)


CHECKED = """
def f(x: Tensor[N, f32]) -> Tensor[f32]:
    assert N >= 2
    assert sum(x) > 10.0
    return sum(x)

def main():
    return f(ones(2))
"""


@pytest.mark.one_in(2)
def test_a_release_has_guards_but_no_assertions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(tessera.TesseraError, match="E0933"):
        tessera.compile(CHECKED).f(np.ones(2, "f4"))
    released = tessera.compile(CHECKED, release=True)
    assert released.f(np.ones(2, "f4")) == 2
    with pytest.raises(tessera.TesseraError, match="E0925"):
        released.f(np.ones(1, "f4"))
    path = tmp_path / "checked.tess"
    path.write_text(CHECKED)
    assert tessera.load(path, release=True).main() == 2
    assert cli.main(cli.compiler, "tesserac", ["build", "--release", str(path)]) == 0
    assert tessera.load(tmp_path / "checked.tessb").f(np.ones(2, "f4")) == 2
    assert cli.main(cli.runner, "tessera", ["run", str(path)]) == 1
    assert cli.main(cli.runner, "tessera", ["run", "--release", str(path)]) == 0
