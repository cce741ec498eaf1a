"""The order of what a program does besides computing is data at every level: passes keep it, and it is verified."""

from __future__ import annotations

import pytest

import tesserac.graph.dialect  # noqa: F401  (registers the operations in the texts)
from tesserac.base.source import SourceFile
from tesserac.commands.select import select_all
from tesserac.driver.session import Session
from tesserac.graph.passes.inline import inline
from tesserac.ir.core import Module, VerifyError
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import GRAPH, Pass, PassFault, run_passes
from tesserac.ir.printer import print_module
from tesserac.ir.verify import verify_module
from tesserac.pipeline import Levels
from tesserac.schedule.machine import AARCH64

PROGRAM = """
def quiet(x: Tensor[N, f32]) -> Tensor[N, f32]: return x + 1.0

def loud(x: Tensor[N, f32]) -> Tensor[N, f32]:
    print("loud", sum(x))
    assert sum(x) < 10.0, "too much"
    return quiet(x)

def main(x: Tensor[N, f32]) -> Tensor[f32]:
    print("first")
    for i in range(3):
        x = loud(x)
        if sum(x) > 0.0:
            print("in", i)
        else:
            loud(x)
    return sum(quiet(x))
"""


def levels_of(text: str, name: str = "main") -> Levels:
    session, source = Session(verify=True), SourceFile("order.tess", text)
    function = next(each.function for each in select_all(session, source).functions if each.function.name == name)
    return session.levels(source, function, AARCH64)


def places(module: Module, function: str) -> list[tuple[str, object]]:
    found = next(op for op in module.ops if op.symbol.endswith(function))
    return [(op.name.partition(".")[2], list(op.attrs["io"])) for op in found.walk() if "io" in op.attrs]


def test_places_are_those_of_the_program() -> None:
    levels = levels_of(PROGRAM)
    assert places(levels.graph, "main") == [("print", [0]), ("call", [1]), ("print", [2]), ("call", [3])]
    assert places(levels.graph, "loud") == [("print", [0]), ("assert", [1])]
    assert places(levels.graph, "quiet") == []
    said = {op.symbol.partition(".")[2]: op.attrs.get("effects") for op in levels.graph.ops}
    assert said == {"main": ("io",), "loud": ("io",), "quiet": None}


def test_inlining_puts_them_behind_the_place_of_the_call() -> None:
    whole = [
        ("print", [0]),
        ("print", [1, 0]),
        ("assert", [1, 1]),
        ("print", [2]),
        ("print", [3, 0]),
        ("assert", [3, 1]),
    ]
    levels = levels_of(PROGRAM)
    for level in (levels.forms, levels.schedule, levels.tile):
        assert places(level, "main") == whole


def test_they_print_and_parse_back() -> None:
    text = print_module(levels_of(PROGRAM).graph)
    assert 'form.print() {io = [0], pieces = ["first\\n"]' in text
    assert 'graph.func @main.loud {effects = ["io"], entry = false' in text
    assert print_module(parse_module(text)) == text


def test_derivatives_keep_it() -> None:
    program = """
def cost(x: Tensor[N, f32]) -> Tensor[f32]:
    y = x
    for i in range(3):
        assert sum(y) < 100.0, "in a loop"
        y = y * x
    assert sum(y) < 1000.0, "after it"
    return sum(y)

def main(x: Tensor[N, f32]):
    print("before")
    g = grad(cost)(x)
    print("after")
    return g
"""
    found = places(levels_of(program).forms, "main")
    assert [name for name, _ in found] == ["print", "assert", "assert", "print"]


def test_what_a_rule_asserts_has_its_place() -> None:
    program = """
def cube(x: Tensor[N, f32]) -> Tensor[N, f32]:
    assert sum(x) < 100.0, "of the function"
    return x * x * x

@vjp_of(cube)
def cube_vjp(x: Tensor[N, f32], y: Tensor[N, f32], ct: Tensor[N, f32]) -> Tensor[N, f32]:
    assert sum(ct) < 100.0, "of the rule"
    return 3.0 * x * x * ct

def cost(x: Tensor[N, f32]) -> Tensor[f32]: return sum(cube(x))

def main(x: Tensor[N, f32]):
    print("before")
    g = grad(cost)(x)
    print("after")
    return g
"""
    found = places(levels_of(program).forms, "main")
    assert found == [("print", [0]), ("assert", [1]), ("assert", [2]), ("print", [3])]


HEAD = 'graph.func @f {effects = ["io"], entry = true, guards = [], params = ["x"]} {\n^(%x: tensor<[], bool>):\n'
CALL = 'graph.call(%x) {{callee = "{callee}", dims = []{place}}} : tensor<[], bool>\n'
LOUD = """graph.func @g {effects = ["io"], entry = false, guards = [], params = ["x"]} {
  ^(%x: tensor<[], bool>):
    form.assert(%x) {io = [0], text = "x"}
    graph.return(%x)
}
"""


def two(first: int, second: int) -> str:
    """A function with two assertions at these places."""
    asserted = [f'form.assert(%x) {{io = [{place}], text = "{place}"}}\n' for place in (first, second)]
    return HEAD + "".join(asserted) + "graph.return(%x)\n}"


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ("no place", HEAD + 'form.assert(%x) {text = "a"}\ngraph.return(%x)\n}'),
        (
            r"has the place \[0\] of io, after \[1\]",
            two(1, 0),
        ),
        (
            r"has the place \[0\] of io, after \[0\]",
            two(0, 0),
        ),
        (
            "does not say that it has the effect io",
            HEAD.replace('effects = ["io"], ', "") + 'form.assert(%x) {io = [0], text = "a"}\ngraph.return(%x)\n}',
        ),
        ("no place", LOUD + HEAD + "%y = " + CALL.format(callee="g", place="") + "graph.return(%y)\n}"),
        ("no place", HEAD + "%y = " + CALL.format(callee="nobody", place="") + "graph.return(%y)\n}"),
    ],
    ids=["none", "exchanged", "twice", "not said", "call", "callee that nobody knows"],
)
def test_the_verifier_refuses(problem: str, text: str) -> None:
    with pytest.raises(VerifyError, match=problem):
        verify_module(parse_module(text))


def test_a_pass_that_exchanges_two_is_found() -> None:
    def exchange(module: Module) -> Module:
        block = module.ops[0].body
        first = next(op for op in block.ops if op.name == "form.assert")
        first.detach()
        block.insert(len(block.ops) - 1, first)
        return module

    with pytest.raises(PassFault, match="IR invalid after pass `exchange`"):
        run_passes(parse_module(two(0, 1)), [Pass("exchange", GRAPH, GRAPH, exchange)], verify=True)


def test_a_loop_that_moves_is_found() -> None:
    """What stands inside a loop has its place among what stands around it."""
    module = levels_of(PROGRAM).graph
    main = next(op for op in module.ops if op.symbol.endswith("main"))
    loop = next(op for op in main.body.ops if op.name == "form.loop")
    printed = next(op for op in main.body.ops if op.name == "form.print")
    printed.detach()
    main.body.insert(main.body.ops.index(loop) + 1, printed)
    with pytest.raises(VerifyError, match="after"):
        verify_module(module)


def test_inlining_alone() -> None:
    text = LOUD + HEAD + "%y = " + CALL.format(callee="g", place=", io = [4]") + "graph.return(%y)\n}"
    (function,) = run_passes(parse_module(text), [inline], verify=True).ops
    assert [op.attrs["io"] for op in function.walk() if op.name == "form.assert"] == [(4, 0)]
