"""A line at the prompt costs what the line costs: what was defined before is not checked again, unless it can mean
something else now."""

from __future__ import annotations

from collections import Counter

import pytest

from tesserac.check.module.checker import ModuleChecker
from tesserac.check.state.body import Body
from tesserac.driver.refusals import ProgramError
from tesserac.repl.engine import Engine
from tesserac.syntax import ast


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many expressions each body has been checked for."""
    counts: Counter[str] = Counter()
    check = ModuleChecker.expression

    def counted(self: ModuleChecker, body: Body, node: ast.Expr) -> object:
        counts[body.name] += 1
        return check(self, body, node)

    monkeypatch.setattr(ModuleChecker, "expression", counted)
    return counts


def definition(name: str, inner: str = "x") -> str:
    return f"def {name}(x: Tensor[N, f32]):\n    return exp({inner}) * 2.0\n"


def test_definitions_are_checked_once(asked: Counter[str]) -> None:
    engine = Engine()
    for number in range(20):
        engine.submit(definition(f"f{number}", f"f{number - 1}(x)" if number else "x"))
    costs = {asked[f"f{number}"] for number in range(1, 20)}
    assert costs == {asked["f1"]}
    asked.clear()
    engine.submit("k = 3")
    engine.submit("struct P[N]:\n    a: Tensor[N, f32]\n")
    engine.submit("sum(f19(ones(k)))")
    assert not any(name.startswith("f") for name in asked)


@pytest.mark.one_in(2)
def test_what_a_new_meaning_reaches_is_checked_again() -> None:
    engine = Engine()
    engine.submit(definition("f"))
    engine.submit(definition("g", "f(x)"))
    engine.submit("def f(x: Tensor[N, f32]):\n    return zeros(N)\n")
    assert engine.submit("g(ones(2))")[0].leaves[0].tolist() == [2, 2]
    engine.submit("def exp(x):\n    return x * 0.0\n")  # the name of a library function that `g` uses
    assert engine.submit("g(ones(2))")[0].leaves[0].tolist() == [0, 0]
    engine.submit("K = 2")
    engine.submit("def h(x: Tensor[K, f32]):\n    return x\n")
    engine.submit("K = 3")
    with pytest.raises(ProgramError):
        engine.submit("h(ones(2))")
    assert engine.submit("h(ones(3))")[0].leaves[0].tolist() == [1, 1, 1]


def test_a_line_with_a_mistake_leaves_what_was_known() -> None:
    engine = Engine()
    engine.submit(definition("f"))
    with pytest.raises(ProgramError):
        engine.submit("def f(x: Tensor[N, f32]):\n    return nosuch(x)\n")
    with pytest.raises(ProgramError):
        engine.submit("def g(x: Tensor[N, f32]):\n    return nosuch(x)\n")
    assert len(engine.submit("f(ones(2))")[0].leaves[0]) == 2
    with pytest.raises(ProgramError):
        engine.submit("g(ones(2))")


def test_structs_reach_the_library_after_more_was_defined() -> None:
    engine = Engine()
    engine.submit("struct P[N]:\n    a: Tensor[N, f32] = ones(N)\n")
    engine.submit("first = tree_map(lambda v: v * 2.0, P[2]())")
    engine.submit("struct Q[N]:\n    b: Tensor[N, f32] = ones(N)\n")
    assert engine.submit("tree_map(lambda v: v * 3.0, Q[2]()).b")[0].leaves[0].tolist() == [3, 3]
    assert engine.submit("first.a")[0].leaves[0].tolist() == [2, 2]
