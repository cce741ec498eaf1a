"""A branch is a fact: what its condition says of sizes holds inside, and what no fact decides is checked there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.check.analysis.reach import requirements
from tesserac.check.sizes.bounds import Prover
from tests.support import checking
from tests.support.branch_gen import branch_program
from tests.support.branch_runs import check_many, check_slopes, check_values, is_refused
from tests.support.sampling import spread
from tests.support.source_support import check_text, library

pytestmark = pytest.mark.slow

HEAD = "def f(x: Tensor[N, f32], z: Tensor[K, f32], c: Tensor[bool]) -> Tensor[N, f32]:\n    y = zeros(N)\n"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", spread([4, 9, 14, 17, 22, 26], 3))
def test_values(seed: int) -> None:
    program = branch_program(seed)
    if not is_refused(program):
        check_values(program)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("seed", spread([100, 103, 108], 2))
def test_slopes_and_many_at_once(seed: int) -> None:
    program = branch_program(seed)
    if not is_refused(program):
        check_slopes(program)
        check_many(program)


def checks_of(body: str) -> list[str]:
    """What is left to a call of `f`, on entry and inside."""
    [function] = check_text(HEAD + body + "    return y\n", "m", library()).module.functions
    return [rule.text for rule in (*function.guards, *requirements(function.body))]


PROVED = (
    "    for i in range(N):\n        if i > 0:\n            y[i] = x[i - 1]\n",
    "    for i in range(N):\n        if not i == 0:\n            y[i] = x[i - 1]\n",
    "    for i in range(N):\n        if i == 0:\n            continue\n        y[i] = x[i - 1]\n",
    "    for i in range(N):\n        if i >= N - 1:\n            break\n        y[i] = x[i + 1]\n",
    "    for i in range(N):\n        if 0 < i < N - 1:\n            y[i] = x[i - 1] + x[i + 1]\n",
    "    for i in range(N):\n        if i == 0 or i == N - 1:\n            y[i] = 0.0\n"
    "        else:\n            y[i] = x[i - 1] + x[i + 1]\n",
    "    for i in range(N):\n        y[i] = x[i - 1] if i > 0 else x[i]\n",
    "    for i in range(N):\n        if i > 0 and x[i - 1] > 0.0:\n            y[i] = 1.0\n",
    "    for i in range(N):\n        if i == 0 or x[i - 1] > 0.0:\n            y[i] = 1.0\n",
    "    for i in range(N):\n        if i % 2 == 1:\n            y[i] = x[i - 1]\n",
    "    for i in range(N):\n        if i % 2 == 0:\n            y[i] = x[i / 2]\n",
    "    for i in range(N):\n        if i + K <= N:\n            y[i] = sum(x[i:i + K])\n",
    "    for i in range(N):\n        for j in range(N):\n            if j < i:\n                y[i] += x[i - j]\n",
    "    for i in range(N):\n        inner = i > 0\n        if inner:\n            y[i] = x[i - 1]\n",
    "    if N > 3:\n        y[0] = x[3] + sum(x[2:])\n",
    "    if N % 2 == 0:\n        y = y + sum(reshape(x, (N/2, 2)))\n",
    "    if K == N:\n        y = x * z\n",
    "    if c and N >= 2:\n        y[1] = 2.0\n",
    "    while c and N > 2:\n        y[2] = 1.0\n        c = not c\n",
    "    if c:\n        if K < N:\n            y[K] = 1.0\n",
)


@pytest.mark.parametrize("body", PROVED)
def test_what_a_condition_proves_is_not_checked(body: str) -> None:
    assert checks_of(body) == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("    if c:\n        y[3] = 1.0\n", "3 < N"),
        ("    for i in range(N):\n        if i > 0 or c:\n            y[i] = x[i - 1]\n", "0 <= i - 1 < N"),
        ("    for i in range(N):\n        if c:\n            break\n        y[i] = x[i + 1]\n", "0 <= i + 1 < N"),
        ("    for i in range(N):\n        y[i*i] = 1.0\n", "0 <= i*i < N"),
        ("    if c:\n        y = y + sum(x[3:])\n", "N >= 3"),
        ("    if c:\n        y = y + sum(reshape(x, (N/2, 2)))\n", "N % 2 == 0"),
        ("    while c:\n        y[1] = 1.0\n        c = not c\n", "1 < N"),
    ],
)
def test_what_no_fact_decides_is_checked_where_it_happens(body: str, rule: str) -> None:
    [function] = check_text(HEAD + body + "    return y\n", "m", library()).module.functions
    assert function.guards == ()
    assert [check.text for check in requirements(function.body)] == [rule]


def test_a_fact_ends_with_its_branch() -> None:
    after = "    if N > 3:\n        y[3] = 1.0\n    y[2] = 1.0\n"
    assert checks_of(after) == ["N >= 3"]
    other = "    if N > 3:\n        y[3] = 1.0\n    else:\n        y[2] = 1.0\n"
    assert checks_of(other) == ["2 < N"]
    carried = "    d = N > 3\n    while c:\n        if d:\n            y[3] = 1.0\n        d = c\n        c = not c\n"
    assert checks_of(carried) == ["3 < N"]


def test_a_failure_names_the_index_the_size_and_the_line() -> None:
    body = "    for i in range(N):\n        if x[i] > 1.0:\n            y[i] = x[i + 2]\n"
    module = tessera.compile(HEAD + body + "    return y\n", release=True)
    x, z = np.array([0, 0, 2, 0], "f4"), np.zeros(1, "f4")
    with pytest.raises(tessera.TesseraError) as caught:
        module.f(x, z, False)
    assert "`x[i + 2]` in `f`: index 4 is out of range for a dim of size 4" in caught.value.text
    assert caught.value.spans[0].line == 5
    assert module.f(x * 0, z, False).tolist() == [0, 0, 0, 0]


def test_guards_on_entry_name_their_line_and_expression() -> None:
    module = tessera.compile("def f(x: Tensor[N, f32]):\n    y = x * 2.0\n    return y[1:] + y[2]\n")
    with pytest.raises(tessera.TesseraError) as caught:
        module.f(np.zeros(2, "f4"))
    assert "`y[2]` in `f` needs N >= 3" in caught.value.text
    assert caught.value.spans[0].line == 3


def test_ints_rule_a_branch_out() -> None:
    """What the value of an int excludes need not have sizes that fit."""
    text = "def f(x: Tensor[N, f32], k: int):\n    if k > 0:\n        return sum(x[:N // k])\n    return x[0]\n"
    module = tessera.compile(text)
    assert module.f(np.arange(4, dtype="f4"), 2) == 1
    assert module.f(np.arange(4, dtype="f4"), 0) == 0


def test_sizes_of_a_branch_that_is_not_taken_may_be_none() -> None:
    text = """
def f(x: Tensor[N, f32], z: Tensor[K, f32]) -> Tensor[f32]:
    s = sum(x)
    if K > 0:
        s += sum(x[:N // K])
        if N % K == 0:
            s += sum(max(reshape(x, (N / K, K)), axis=1) * 2.0)
    if N > 4:
        s += sum(x[4:] * 3.0)
    return s
"""
    f = tessera.compile(text).f
    for n in range(7):
        x = np.arange(n, dtype="f4")
        for k in range(4):
            expected = x.sum() + (x[: n // k].sum() if k else 0) + (x[4:] * 3).sum()
            expected += (x.reshape(n // k, k).max(1) * 2).sum() if k and n % k == 0 and n else 0
            assert f(x, np.zeros(k, "f4")) == expected


def _questions(branches: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the prover is asked while a chain of `elif` is checked."""
    asked = 0
    prove = Prover.never_negative

    def count(self: Prover, *args: Any) -> bool:
        nonlocal asked
        asked += 1
        return prove(self, *args)

    links = "".join(f"    elif k == {i}:\n        x = x + {i}.0\n" for i in range(1, branches))
    text = f"def f(x: Tensor[N, f32], k: int):\n    if k == 0:\n        x = x + 0.0\n{links}    return x\n"
    modules = library()
    with monkeypatch.context() as patch:
        patch.setattr(Prover, "never_negative", count)
        check_text(text, "m", modules)
    return asked


def test_each_link_of_a_chain_asks_about_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not about all links before it: a chain of 480 took a minute and a half."""
    few, many = _questions(20, monkeypatch), _questions(40, monkeypatch)
    assert 0 < many < 2.5 * few


def test_a_loop_goes_on_only_where_sizes_say_so() -> None:
    text = """
def f(x: Tensor[N, f32], z: Tensor[K, f32]) -> Tensor[N, f32]:
    y = x * 0.5
    for i in range(N):
        if N > 2:
            y[i + K] = x[i // (K + 2)]
    return y

def g(x: Tensor[N, f32], z: Tensor[K, f32]) -> Tensor[N, f32]:
    y = x * 0.5
    for i in range(N):
        if K > 0:
            for j in range(N // K):
                y[i] = y[i] + x[j]
    return y
"""
    module = tessera.compile(text)
    for n in (0, 1, 2, 3, 6):
        x = np.arange(n, dtype="f4")
        assert np.array_equal(module.f(x, np.zeros(0, "f4")), x[np.arange(n) // 2] if n > 2 else x / 2)
        for k in range(3):
            added = x[: n // k].sum() if k else 0
            assert np.array_equal(module.g(x, np.zeros(k, "f4")), x / 2 + added)


SHAPES = """
def fits(x: Tensor[N, f32], y: Tensor[M, K, f32]) -> Tensor[f32]:
    if (2, N) == y.shape:
        return sum(x + y)
    return sum(x)

def differ(a: i32, b: i32):
    return (a, b) != (b, a)

def held(x: Tensor[N, 2, f32], y: Tensor[M, K, f32]) -> Tensor[N, 2, f32]:
    assert x.shape == y.shape, "one shape"
    return x + y
"""


def test_tuples_are_compared_part_by_part_in_the_run() -> None:
    """What compiling cannot tell apart was taken to differ: `x.shape == y.shape` was false of equal shapes."""
    module = tessera.compile(SHAPES)
    x = np.ones(3, np.float32)
    assert module.fits(x, np.ones((2, 3), np.float32)) == 12.0
    assert [float(module.fits(x, np.ones(shape, np.float32))) for shape in ((3, 2), (2, 2))] == [3.0, 3.0]
    assert [bool(module.differ(np.int32(1), np.int32(b))) for b in (1, 2)] == [False, True]


@pytest.mark.parametrize(("shape", "rule"), [((3, 2), ""), ((4, 2), "N == M"), ((3, 5), "2 == K")])
def test_shapes_that_are_asserted_to_be_equal_are_guards(shape: tuple[int, ...], rule: str) -> None:
    held, x, y = tessera.compile(SHAPES).held, np.ones((3, 2), np.float32), np.ones(shape, np.float32)
    if not rule:
        assert held(x, y).sum() == 12.0
        return
    with pytest.raises(tessera.TesseraError, match=f"needs {rule} \\(one shape\\)"):
        held(x, y)


@pytest.mark.parametrize(("test", "code"), [('"a" < "b"', "E0405"), ("(1, 2) < (2, 3)", "E0405"),
                                            ("(x, 2) == (x, 2)", "E0214"), ("(1, 2) == (1, 2, 3)", "")])  # fmt: skip
def test_what_has_no_order_is_not_compared_by_it(test: str, code: str) -> None:
    text = f"def f(x: Tensor[N, f32]):\n    return x * 2.0 if {test} else x\n"
    found = checking.check_text(text).diagnostics
    assert [d.code for d in found] == ([code] if code else [])
