"""Programs with one mistake of somebody who knows PyTorch: the fix that is offered first ends in what was meant."""

from __future__ import annotations

import pytest

from tests.diag.test_growing_lists import mended, offered

MENDED = [
    (
        "a slice one too long",
        "def f(x: Tensor[N, f32]) -> Tensor[N - 1, f32]:\n    return x[1:] - x[:N]\n",
        "x[1:] - x[:N]",
        "x[1:] - x[:-1]",
    ),
    (
        "unsqueeze at the wrong place",
        "def f(x: Tensor[B, D, f32], s: Tensor[B, f32]) -> Tensor[B, D, f32]:\n    return x * s.unsqueeze(0)\n",
        "s.unsqueeze(0)",
        "s[:, None]",
    ),
    (
        "None at the wrong place",
        "def f(x: Tensor[B, D, f32], s: Tensor[B, f32]) -> Tensor[B, D, f32]:\n    return s[None, :] * x\n",
        "s[None, :]",
        "s[:, None]",
    ),
    (
        "rows with rows",
        "def f(x: Tensor[N, D, f32], y: Tensor[M, D, f32]) -> Tensor[N, M, f32]:\n"
        "    return sum((x - y) ** 2, axis=-1)\n",
        "(x - y)",
        "(x[:, None] - y[None])",
    ),
    (
        "a join without its dim",
        "def f(a: Tensor[B, N, D, f32], b: Tensor[B, D, f32]) -> Tensor[B, N + 1, D, f32]:\n"
        "    return concat([a, b], axis=1)\n",
        "[a, b]",
        "[a, b[:, None]]",
    ),
    (
        "sizes of a product",
        "def f(x: Tensor[B, S, H * D, f32]) -> Tensor[B, S, H, D, f32]:\n    return reshape(x, (B, S, H, D))\n",
        "f32]) -> T",
        "f32], H: int) -> T",
    ),
    (
        "a mask of integers",
        "def f(s: Tensor[S, f32], m: Tensor[S, i32]) -> Tensor[S, f32]:\n    return where(m, s, -INF)\n",
        "where(m,",
        "where(m != 0,",
    ),
    (
        "comparisons without brackets",
        "def f(x: Tensor[N, f32]) -> Tensor[N, bool]:\n    return x > 0.0 & x < 1.0\n",
        "x > 0.0 & x < 1.0",
        "(x > 0.0) & (x < 1.0)",
    ),
    (
        "no return",
        "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    y = x * 2.0\n",
        "y = x * 2.0\n",
        "y = x * 2.0\n    return y\n",
    ),
    (
        "a function's name hidden",
        "def f(x: Tensor[N, f32]) -> Tensor[f32]:\n    sum = x[0:1][0]\n    return sum + sum(x)\n",
        "+ sum(x)",
        "+ op.sum(x)",
    ),
    (
        "a gradient of a value",
        "def g(w: Tensor[D, f32], x: Tensor[D, f32]) -> Tensor[f32]:\n    return sum(x * w)\n\n"
        "def f(w: Tensor[D, f32], x: Tensor[D, f32]) -> Tensor[D, f32]:\n    return w - 0.1 * grad(g(w, x))\n",
        "grad(g(w, x))",
        "grad(g)(w, x)",
    ),
    (
        "the place behind the last",
        "def f(x: Tensor[N, D, f32]) -> Tensor[D, f32] where N >= 1:\n    return x[N]\n",
        "x[N]",
        "x[-1]",
    ),
    (
        "a fraction of counts",
        "def f(x: Tensor[N, f32]) -> float:\n    k = 0\n    for i in range(N):\n        if x[i] > 0.0:\n"
        "            k += 1\n    return k / N\n",
        "k / N",
        "float(k) / float(N)",
    ),
    (
        "transposed for nothing",
        "def f(x: Tensor[B, D, f32], w: Tensor[D, K, f32]) -> Tensor[B, K, f32]:\n    return x @ w.T\n",
        "w.T",
        "w",
    ),
    (
        "a unit dim of an expression",
        "def f(x: Tensor[B, D, f32], w: Tensor[D, 1, f32], y: Tensor[B, f32]) -> Tensor[f32]:\n"
        "    return mse_loss(x @ w, y)\n",
        "mse_loss(x @ w, y)",
        "mse_loss((x @ w)[:, 0], y)",
    ),
    (
        "a layer the wrong way round",
        "struct M[D, H, C]:\n    a: Linear[D, H]\n    b: Linear[C, H]\n\n"
        "    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, C, f32]:\n        return self.b(relu(self.a(x)))\n",
        "Linear[C, H]",
        "Linear[H, C]",
    ),
    (
        "a layer of the wrong size",
        "struct M[C]:\n    a: Linear[C, 2*C]\n    b: Linear[C, C]\n\n"
        "    def apply(self, x: Tensor[B, C, f32]) -> Tensor[B, C, f32]:\n        return self.b(relu(self.a(x)))\n",
        "b: Linear[C, C]",
        "b: Linear[2*C, C]",
    ),
    (
        "a border that is lost within",
        "struct M[C]:\n    c: Conv2d[C, C, 3]\n\n    def apply(self, x: Tensor[B, C, 8, 8, f32]):\n"
        "        return x + relu(self.c(x))\n",
        "self.c(x)",
        "self.c(x, padding=1)",
    ),
    (
        "a method without self",
        "struct M[D, H]:\n    w: Tensor[D, H, f32]\n\n    def apply(x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:\n"
        "        return x @ self.w\n",
        "apply(x:",
        "apply(self, x:",
    ),
    (
        "names for a tuple within",
        "def f(x: Tensor[B, T, I, f32], l: LSTM[I, H]):\n    y, h, c = l(x)\n    return y, h, c\n",
        "y, h, c = ",
        "y, (h, c) = ",
    ),
    (
        "a step that is not bound",
        "struct M[D]:\n    w: Tensor[D, f32]\n\n"
        "def f(m: M[D], s: OptimizerState[M[D]], g: Tensor[D, f32]):\n"
        "    adamw(m, M(w=g), s, lr=0.1)\n    return m, s\n",
        "    adamw(",
        "    m, s = adamw(",
    ),
]


@pytest.mark.parametrize(("wrong", "old", "new"), [row[1:] for row in MENDED], ids=[row[0] for row in MENDED])
def test_the_first_fix(wrong: str, old: str, new: str) -> None:
    assert wrong.count(old) == 1
    assert mended(wrong) == wrong.replace(old, new)


def test_an_argument_that_is_there_by_its_place() -> None:
    (said,) = offered("def f(k: Key):\n    return randint(5, low=0, high=3, key=k)\n")
    assert [label.text for label in said.secondary] == ["this is `low` already"]
    assert "`low`, `high`, `shape`" in said.notes[0]


def test_sizes_that_differ_by_a_number_never_agree() -> None:
    (said,) = offered("def f(x: Tensor[N, f32]):\n    return x[1:] * x\n")
    assert not any("whenever" in note for note in said.notes)


def test_a_function_that_gives_nothing_back_says_so() -> None:
    text = "def g(x: Tensor[N, f32]):\n    x *= 2.0\n\ndef f(x: Tensor[N, f32]):\n    g(x)\n    return x\n"
    (said,) = offered(text)
    assert said.code == "W0201" and "gives nothing back" in said.because[0].text
