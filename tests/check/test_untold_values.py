"""A bool or a string without a default is any value until a call says it: a definition is wrong if no value fits."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tests.support.checking import diagnose
from tests.support.source_support import check_text, library

KINDS = {"flag": "bool", "mode": "str", "other": "str"}
FIT: tuple[tuple[str, tuple[object, ...], tuple[object, ...]], ...] = (
    ("flag:    assert flag\n    return x", (True,), (False,)),
    ("flag:    assert not flag\n    return x", (False,), (True,)),
    ("flag:    return x * {True: 2.0}[flag]", (True,), (False,)),
    ("mode:    assert mode == 'a' or mode == 'b', 'a or b'\n    return x", ("b",), ("",)),
    ("mode:    assert mode in ('a', 'b')\n    return x", ("a",), ("c",)),
    ("mode:    return x * {'a': 1.0, 'b': 2.0}[mode]", ("b",), ("c",)),
    ("mode:    return x * TABLE[mode]", ("high",), ("higher",)),
    ("mode:    t = {'a': 1.0}\n    assert mode in t\n    return x * t[mode] if mode in t else x", ("a",), ("b",)),
    ("mode:    if mode == 'a':\n        return x\n    else:\n        assert False, 'a'\n    return x", ("a",), ("b",)),
    ("other, mode:    return x * {'a': 1.0}[mode] * {'b': 2.0}[other]", ("b", "a"), ("a", "b")),
)


def _module(case: str) -> str:
    names, _, body = case.partition(":")
    parameters = "".join(f", {name}: {KINDS[name]}" for name in names.split(", "))
    return f"TABLE = {{'low': 1.0, 'high': 3.0}}\ndef f(x: Tensor[N, f32]{parameters}):\n{body}\n"


def codes(text: str) -> list[str]:
    return [d.code for d in diagnose(SourceFile("m.tess", text))]


@pytest.mark.parametrize(("case", "good", "bad"), FIT, ids=lambda case: str(case)[:30])
def test_a_call_says_which_value_it_is(case: str, good: tuple[object, ...], bad: tuple[object, ...]) -> None:
    caller = "def g(x: Tensor[N, f32]):\n    return f(x, {})\n"
    right, wrong = (_module(case) + caller.format(", ".join(map(repr, values))) for values in (good, bad))
    assert codes(right) == []
    assert codes(wrong) == ["E0217"], "told at the call"


def test_what_no_value_mends_is_told_where_it_is_defined() -> None:
    text = "def f(x: Tensor[N, f32], mode: str):\n    assert mode in ('a', 'b')\n    return x + nothing\n"
    assert "E0201" in codes(text)


def test_from_python() -> None:
    f = tessera.compile("def f(x: Tensor[N, f32], mode: str):\n    return x * {'a': 1.0, 'b': 2.0}[mode]\n").f
    assert f(np.ones(1, "f4"), "b").tolist() == [2]
    with pytest.raises(tessera.TesseraError, match="this dict has no `'c'`"):
        f(np.ones(1, "f4"), "c")


def test_a_branch_that_is_wrong_is_told_though_the_other_is_right() -> None:
    wrong = "def f(x: Tensor[N, f32], flag: bool):\n    if flag:\n        return x\n    return x @ ones(3, 4)\n"
    assert codes(wrong) == ["E0301"]


EQUATIONS = """
def contract(e: str, a: Tensor[M, K, f32], b: Tensor[K, N, f32]):
    return einsum(e, a, b)

def turned(p: str, a: Tensor[M, K, f32]):
    return rearrange(a, p)

def further(e: str, a: Tensor[M, K, f32]):
    return contract(e, a, turned("a b -> b a", a)) + 1.0
"""


def test_equations_and_patterns_that_a_call_gives() -> None:
    a = "def f(a: Tensor[M, K, f32]) -> Tensor[{}, f32]:\n    return {}\n"
    assert codes(EQUATIONS) == []
    assert codes(EQUATIONS + a.format("M, M", 'further("ij,jk->ik", a)')) == []
    assert codes(EQUATIONS + a.format("K, M", 'turned("a b -> b a", a)')) == []
    empty = 'contract("", a, turned("a b -> b a", a))'
    for wrong in ('further("ij,jk->iq", a)', 'turned("a b c -> a", a)', empty, 'turned("", a)'):
        assert codes(EQUATIONS + a.format("M, K", wrong)) in (["E0217"], ["E0215"]), wrong
    mistake = EQUATIONS + "def g(e: str, a: Tensor[M, K, f32]):\n    y = einsum(e, a)\n    return a @ a\n"
    assert codes(mistake) == ["E0301"], "what does not depend on the equation is checked"


@pytest.mark.one_in(2)
def test_equations_from_python() -> None:
    m, a = tessera.compile(EQUATIONS), np.arange(6, dtype="f4").reshape(2, 3)
    assert m.contract("ij,jk->ki", a, a.T.copy()).tolist() == (a @ a.T).T.tolist()
    assert m.turned("a b -> b a", a).tolist() == a.T.tolist()
    with pytest.raises(tessera.TesseraError, match="the equation has 1 terms"):
        m.contract("ij", a, a)
    with pytest.raises(tessera.TesseraError, match="E0217"):
        m.contract("", a, a)


FLOATS = """
param w: f32

def g(x: Tensor[N, f32], *, p: float = 0.0, s: float = 1.0):
    if not p: return x * s
    if p > 1.0 and s == 1.0: return x * w
    return dropout(x, p) * s if s < 4.0 else x

def none(x: Tensor[N, f32]): return g(x)
def also(x: Tensor[N, f32]): return g(x, p=0, s=2.0)
def both(x: Tensor[N, f32]): return g(x, p=0.0) + g(x, p=0.5, s=5.0) + g(x, p=-0.0, s=5.0)
def reads(x: Tensor[N, f32]): return g(x, p=2.0)
def draws(x: Tensor[N, f32]): return g(x, p=0.5)
def run(x: Tensor[N, f32], p: float): return g(x, p=p)
"""


def test_a_float_that_a_test_asks_for_is_known_where_the_call_knows_it() -> None:
    """Then the branches that it excludes have no effects and read no params; 0.0 and -0.0 are two numbers."""
    functions = check_text(FLOATS, "m", library()).functions.values()
    read = {f.symbol: {param.name.split(".")[-1] for param in f.reads} for f in functions}
    assert not read["m.none"] and not read["m.also"] and read["m.reads"] == {"w"}
    assert read["m.draws"] == {"random$stream"} and read["m.run"] == {"w", "random$stream"} and read["m.both"] == {"w"}
