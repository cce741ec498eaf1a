"""`and` and `or` ask their second side only where the first does not decide: compared with Python, which does too."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

GUARDED = (
    ("i < S", "w[i] > 1.5"),
    ("i >= 0 and i < S", "w[i] + w[S - 1 - i] > 4.0"),
    ("n != 0", "6 // n > 1"),
    ("n > 0", "7 % n == 1"),
    ("N % 2 == 0", "N // 2 < S"),
    ("S > 0 and N % S == 0", "N // S > 1"),
    ("S > 1", "w[1] < w[S - 1]"),
    ("n >= 0", "counted(n)"),
)
"""A condition, and what has a value only where it holds; `counted` of a negative number would not end."""
SHAPES = (
    "    if {g} and {x}:\n        return 1\n    return 0\n",
    "    if not ({g}) or not ({x}):\n        return 0\n    return 1\n",
    "    if not ({g}):\n        return 0\n    return 1 if {x} else 0\n",
    "    good = {g} and {x}\n    return 1 if good else 0\n",
    "    if N >= 0 and ({g} and ({x} and {x})):\n        return 1\n    else:\n        return 0\n",
    "    k = 0\n    while {g} and {x}:\n        k += 1\n        if k > 2:\n            break\n    return k\n",
)
COUNTED = """
def counted(n: i64) -> Tensor[bool]:
    while n != 0:
        n -= 1
    return n == 0
"""


def _body(number: int) -> str:
    guard, asked = GUARDED[number % len(GUARDED)]
    return SHAPES[number % len(SHAPES)].format(g=guard, x=asked)


NUMBERS = range(0, len(GUARDED) * len(SHAPES), 5)
"""Every condition and every shape of a function, not every pair."""


@pytest.fixture(scope="module")
def module() -> tessera.Module:
    head = "def f{}(x: Tensor[N, f32], w: Tensor[S, f32], i: i64, n: i64):\n"
    return tessera.compile(COUNTED + "".join(head.format(number) + _body(number) for number in NUMBERS))


def _in_python(number: int, x: list[float], w: list[float], i: int, n: int) -> object:
    names: dict[str, object] = {"counted": lambda n: n >= 0}
    exec("def f(x, w, i, n):\n    N, S = len(x), len(w)\n" + _body(number), names)
    function = names["f"]
    assert callable(function)
    return function(x, w, i, n)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("number", NUMBERS)
def test_the_second_side_waits_for_the_first(module: tessera.Module, number: int) -> None:
    for size, width, i, n in ((6, 2, 1, 3), (7, 2, 2, 0), (0, 0, 0, -1), (6, 3, 5, 2), (4, 1, 0, 7), (1, 4, 3, 1)):
        x, w = ([float(k + 1) for k in range(count)] for count in (size, width))
        given = module[f"f{number}"](np.array(x, "f4"), np.array(w, "f4"), i, n)
        assert given == _in_python(number, x, w, i, n), (size, width, i, n)


def test_a_loop_that_was_left_asks_no_more() -> None:
    text = "def f(w: Tensor[S, f32]):\n    i = 0\n    while w[i] < 9.0:\n        i += 1\n"
    f = tessera.compile(text + "        if i >= S:\n            break\n    return i\n").f
    assert f(np.ones(3, "f4")) == 3
