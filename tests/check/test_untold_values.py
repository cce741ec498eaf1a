"""A bool or a string without a default is any value until a call says it: a definition is wrong if no value fits."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tests.support.checking import diagnose

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
