"""A name of another module hides nothing: what is wrong behind it is told with it, as the fix would leave it."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.driver.mending import with_edits
from tests.diag.test_growing_lists import offered

X = "x: Tensor[B, 16, 8, 8, f32]"
HIDDEN = {
    "a product": ("a: Tensor[M, K, f32], b: Tensor[N, K, f32]", "torch.matmul(a, b)", "E0301"),
    "channels": (f"{X}, w: Tensor[32, 3, 3, 3, f32]", "F.conv2d(x, w, padding=1)", "E0307"),
    "a join": ("x: Tensor[B, D, f32], y: Tensor[B, E, f32]", "torch.cat([x, y], dim=0)", "E0321"),
    "keys": ("q: Tensor[B, T, D, f32], k: Tensor[B, S, D, f32]", "F.scaled_dot_product_attention(q, k, q)", "E0307"),
    "labels": ("x: Tensor[B, C, f32], y: Tensor[B, f32]", "F.cross_entropy(x, y)", "E0217"),
    "tokens": ("i: Tensor[B, f32], t: Tensor[V, D, f32]", "F.embedding(i, t)", "E0217"),
    "without a module": ("x: Tensor[B, D, f32], y: Tensor[B, E, f32]", "concatenate([x, y], axis=0)", "E0321"),
    "within another": (X, "F.relu(torch.reshape(x, (3, 5)))", "E0304"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_foreign_name_hides_is_told_with_it(name: str) -> None:
    parameters, call, code = HIDDEN[name]
    said = offered(f"def f({parameters}):\n    return {call}\n")
    assert code in [found.code for found in said]


@pytest.mark.parametrize("name", HIDDEN)
def test_it_is_what_the_fix_would_leave(name: str) -> None:
    parameters, call, _ = HIDDEN[name]
    text = f"def f({parameters}):\n    return {call}\n"
    first, *others = offered(text)
    assert first.code == "E0201"
    mended = with_edits(SourceFile("own.tess", text), first.fixes[0].edits).text
    assert [found.code for found in others] == [found.code for found in offered(mended)]


BACKWARD = """def step(w: Tensor[D, f32], b: Tensor[f32], x: Tensor[B, D, f32], y: Tensor[B, f32], lr: float):
    w.requires_grad_()
    for i in range(10):
        pred = x @ w + b
        loss = ((pred - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
        w.grad.zero_()
        b.grad = None
    return w, b
"""
FUNCTIONAL = """def step(w: Tensor[D, f32], b: Tensor[f32], x: Tensor[B, D, f32], y: Tensor[B, f32], lr: float):
    for i in range(10):
        def loss_of(w, b):
            pred = x @ w + b
            loss = ((pred - y) ** 2).mean()
            return loss
        loss, (w_grad, b_grad) = value_and_grad(loss_of, wrt=(0, 1))(w, b)
        w -= lr * w_grad
        b -= lr * b_grad
    return w, b
"""


def mended(text: str) -> str:
    """By the first fix of the first mistake, until there is none."""
    for _ in range(9):
        said = offered(text)
        if not said or not said[0].fixes:
            return text
        text = with_edits(SourceFile("own.tess", text), said[0].fixes[0].edits).text
    return text


def test_a_loss_that_goes_backward_is_a_function() -> None:
    assert mended(BACKWARD) == FUNCTIONAL and not offered(FUNCTIONAL)


@pytest.mark.parametrize("changed", [
    ("loss = ((pred - y) ** 2).mean()", "print(pred)"),
    ("loss.backward()", "loss.backward(retain_graph=True)"),
    ("pred = x @ w + b", "w = x @ w + b"),
])  # fmt: skip
def test_what_is_no_such_block_is_left_alone(changed: tuple[str, str]) -> None:
    assert "loss_of" not in mended(BACKWARD.replace(*changed))


BRANCHES = {
    "y = x if x > 0 else 0.1 * x\n    return y": "y = where(x > 0, x, 0.1 * x)\n    return y",
    "if x > 0:\n        return x\n    return 2 * x": "return where(x > 0, x, 2 * x)",
    "if x > 0:\n        y = x\n    else:\n        y = 2 * x\n    return y": "y = where(x > 0, x, 2 * x)\n    return y",
}


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_branch_on_every_element_is_a_selection(branch: str) -> None:
    begin = "def f(x: Tensor[N, f32]):\n    "
    assert mended(f"{begin}{branch}\n") == f"{begin}{BRANCHES[branch]}\n"


def test_a_smaller_result_keeps_its_border() -> None:
    text = "def f(x: Tensor[B, 3, H, W, f32], w: Tensor[3, 3, 5, 5, f32]):\n    return x + conv2d(x, w{})\n"
    assert mended(text.format("")) == text.format(", padding=2")


def test_a_size_that_a_run_tells_can_be_an_int() -> None:
    text = "def f(x: Tensor[B, D, f32], h: {}):\n    return reshape(x, (B, h, D // h))\n"
    assert mended(text.format("i64")) == text.format("int").replace("):\n", ") where D % h == 0:\n", 1)
