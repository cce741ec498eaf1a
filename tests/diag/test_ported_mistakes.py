"""Mistakes of people who come from PyTorch, NumPy and JAX: the fixes, made one by one, end in what was meant."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.check.names.foreign_calls import call_here
from tesserac.check.names.foreign_texts import from_format, from_percent
from tesserac.syntax.fmt import format_source
from tests.diag.test_growing_lists import mended, offered

SIGNATURES = {
    "a": "x: Tensor[B, D, f32], y: Tensor[B, i64], m: Tensor[B, bool]",
    "b": "x: Tensor[B, H, S, S, f32], m: Tensor[B, S, bool]",
    "c": "x: Tensor[B, D, f64], y: Tensor[B, 1, i64]",
    "e": "x: Tensor[B, D, f32], y: Tensor[B, K, i64], v: Tensor[B, K, f32]",
    "d": "x: Tensor[B, 3, f32], w: Tensor[3, 4, f32], device: int = 0",
}
MENDED = [
    ("a", "F.cross_entropy(y, x)", 'cross_entropy(x, y, reduction="mean")'),
    ("c", "cross_entropy(x, y)", "cross_entropy(x, y[:, 0])"),
    ("b", "x.masked_fill(m == 0, -1e9)", "x.masked_fill((m == False)[:, None, None, :], -1e9)"),
    ("a", "x.gather(1, y.unsqueeze(1)).squeeze(1)", "take_along_axis(x, y.unsqueeze(1), axis=1).squeeze(1)"),
    ("a", "x.gather(1, y)", "take_along_axis(x, y[:, None], axis=1)"),
    ("a", "torch.gather(x, 1, y[:, None])", "take_along_axis(x, y[:, None], axis=1)"),
    ("a", "x.index_select(0, y)", "gather(x, y, axis=0)"),
    ("a", "torch.index_add(zeros(9, D), 0, y, x)", "scatter_add(zeros(9, D), y, x, axis=0)"),
    ("a", "zeros(9, D).index_add(0, y, x)", "scatter_add(zeros(9, D), y, x, axis=0)"),
    ("a", "zeros(9).scatter_add(0, y, x[:, 0])", "zeros(9).at[y].add(x[:, 0])"),
    ("e", "x.scatter_add(1, y, v)", "x.at[arange(y.shape[0])[:, None], y].add(v)"),
    ("e", "x.scatter_add(0, y, v)", "x.at[y, arange(y.shape[1])[None, :]].add(v)"),
    ("a", "y + m", "y + cast(m, i64)"),
    ("d", "x.repeat(2, 1, 1)", "tile(x, (2, 1, 1))"),
    ("d", "svd(x, full_matrices=False)", "svd(x)"),
    ("a", "clip_grad_norm(x, 1.0)", "clip_by_global_norm(x, 1.0)"),
    ("a", "x * (8 / 3)", "x * (8.0 / 3)"),
    ("a", "(x * 2.0).to('cuda:0', non_blocking=True).cpu().numpy()", "(x * 2.0)"),
    ("a", "x.to(device='cuda', dtype=torch.float64)", "x.astype(float64)"),
    ("a", "y.type(torch.FloatTensor).mean()", "y.astype(f32).mean()"),
    ("a", "y.type_as(x)", "y.astype(x.dtype)"),
    ("c", "x.float()", "x.astype(f32)"),
    ("a", "y.float()", "y.astype(f32)"),
    ("a", "x.data", "x.detach()"),
    ("d", "2.0 * (x + 1.0).mm(w)", "2.0 * ((x + 1.0) @ w)"),
    ("d", "torch.mm(x, w)", "x @ w"),
    ("a", "y.eq(0)", "y.equal(0)"),
    ("a", "x.var(dim=1, unbiased=False)", "x.var(dim=1, correction=0)"),
    ("a", "torch.zeros(3, dtype=torch.float32, device='cuda')", "zeros(3, dtype=float32)"),
    ("a", "zeros(3, device=device)", "zeros(3)"),
    ("a", "torch.cat(x, x, dim=1)", "concat([x, x], dim=1)"),
    ("a", "x ^ 2.0", "x ** 2.0"),
    ("a", "x[:, [-1]]", "x[:, -1:]"),
    ("a", "x[[0, 2]]", "x[array([0, 2])]"),
    ("a", "(m and m).sum()", "((m) & (m)).sum()"),
    ("a", "(y == 0).sum() / B", "cast((y == 0).sum(), f32) / B"),
    ("a", "x.view(*x.shape[:1], 1, D)", "x.view(x.shape[:1] + (1, D))"),
    ("a", "np.random.randn(*x.shape) * 0.1", "normal(x.shape) * 0.1"),
    ("a", "x + torch.randn_like(x)", "x + normal(x.shape, dtype=x.dtype)"),
    ("a", "x * random.uniform(0.5, 1.5)", "x * uniform(low=0.5, high=1.5)"),
    ("a", "x.max(1)[0]", "x.max(1)"),
    ("a", "x.max(1, keepdim=True)[1]", "x.argmax(1, keepdim=True)"),
]


@pytest.mark.parametrize(("signature", "wrong", "right"), MENDED, ids=[wrong for _, wrong, _ in MENDED])
def test_a_value(signature: str, wrong: str, right: str) -> None:
    text = f"def f({SIGNATURES[signature]}):\n    return {{}}\n"
    assert mended(text.format(wrong)) == text.format(right)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("x.add_(1.0)", "x = x.add(1.0)"),
        ("x.zero_()", "x = zeros_like(x)"),
        ("x.index_add_(0, argsort(x), x)", "x = scatter_add(x, argsort(x), x, axis=0)"),
        ("x.fill_(2.0)", "x = full_like(x, 2.0)"),
        ("x.copy_(w[0])", "x = w[0]"),
        ("x.relu_()  # in place", "x = x.relu()  # in place"),
        ("print('%d: %.2f' % (3, x.sum()))", "print(f'{3}: {x.sum():.2f}')"),
        ('print("{:.2f}".format(x.sum()))', 'print(f"{x.sum():.2f}")'),
    ],
)
def test_a_statement(wrong: str, right: str) -> None:
    text = "def f(x: Tensor[N, f32], w: Tensor[2, N, f32]):\n    {}\n    return x, w\n"
    assert mended(text.format(wrong)) == text.format(right)


def test_nothing_is_recorded_within_no_grad() -> None:
    """What is computed there has no derivative: with `stop_gradient` here as there."""
    head = "def {}(w: Tensor[D, f32], x: Tensor[B, D, f32]):\n"
    inside = "    with torch.no_grad():\n        # the target\n        t = x @ w\n"
    given = "    return sum((t - x @ w) * x[:, 0])\n"
    text = mended(head.format("f") + inside + given + head.format("g") + "    return grad(f)(w, x)\n")
    assert "    # the target\n    t = stop_gradient(x @ w)\n    return" in text
    w, x = np.ones(2, "f4"), np.array([[1, 2], [3, 4]], "f4")
    np.testing.assert_allclose(tessera.compile(text).g(w, x), -(x[:, 0] @ x))


NET = """struct Net:
    conv: Conv2d[1, 4, 3]
    fc: Linear[{size}, 10]

    def apply(self, x):
        return {called}(flatten(relu(self.conv(x)), 1))

def run(net: Net, x: Tensor[B, 1, 8, 8, f32]):
    return net(x)
"""


def test_a_size_of_a_layer_is_told_where_it_is_declared() -> None:
    (said,) = offered(NET.format(size="4 * 5 * 5", called="self.fc"))
    assert said.primary.text == '"I" is 100 and 144 in one call'
    assert '"I" of this layer is 100' in [label.text for label in said.secondary]
    assert mended(NET.format(size="4 * 5 * 5", called="self.fc")) == NET.format(size="144", called="self.fc")


def test_a_field_stands_behind_self() -> None:
    assert mended(NET.format(size="144", called="fc")) == NET.format(size="144", called="self.fc")


def test_what_a_module_does_in_pytorch_can_be_left_out() -> None:
    text = NET.format(size="144", called="self.fc")
    there = "    net = net.to('cuda')\n    net.eval()\n    return net(x)\n"
    here = "    net = net\n    return net(x)\n"
    assert mended(text.replace("    return net(x)\n", there)) == text.replace("    return net(x)\n", here)


def test_a_list_outside_is_not_grown() -> None:
    (said,) = offered("seen = []\n\ndef f(x: Tensor[N, f32]):\n    seen.append(sum(x))\n    return x\n")
    assert said.code == "E0208" and "return what is to be kept" in said.notes[0]


@pytest.mark.parametrize(
    ("call", "here"),
    [
        ("np.random.normal(0.0, 0.1, size=(3, n))", "0.1 * normal((3, n))"),
        ("np.random.normal(m, s)", "m + s * normal(())"),
        ("np.random.uniform(-1.0, 1.0, (3,))", "uniform((3,), low=-1.0, high=1.0)"),
        ("np.random.rand(3, 4)", "uniform(3, 4)"),
        ("np.random.randint(0, 10, size=5)", "randint(0, 10, 5)"),
        ("random.random()", "uniform(())"),
        ("random.gauss(0.0, 1.0)", "normal(())"),
        ("random.choice(a)", None),
        ("torch.rand_like(x)", "uniform(x.shape, dtype=x.dtype)"),
        ("torch.bmm(a, b.T)", "a @ b.T"),
    ],
)
def test_calls_of_functions_that_draw(call: str, here: str | None) -> None:
    assert call_here(tuple(call[: call.index("(")].split(".")), call) == here


def test_texts_that_are_filled_in() -> None:
    assert from_percent("'%5.2f%% of %s'", ["a", "b"]) == "f'{a:5.2f}% of {b}'"
    assert from_format('"{1} {0:>3}"', ["a", "b"]) == 'f"{b} {a:>3}"'
    assert from_percent("'%d'", ["a", "b"]) is None and from_format("'{} {}'", ["a"]) is None
    assert from_format('"{}"', ['d["k"]']) is None


def test_the_formatter_keeps_the_word_that_warns() -> None:
    text = "def f(x: Tensor[B, D, f32]):\n    return x.max(dim=1)[0], x.max(dim=1), x.sum(dim=1)[0]\n"
    renamed = text.replace("x.max(dim=1),", "x.max(axis=1),").replace("sum(dim", "sum(axis")
    assert format_source(SourceFile("own.tess", text)).text == renamed


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("where(x > 0.0)", "`nonzero(c, size=K)`"),
        ("nonzero(x > 0.0)", "there is room for `size` places"),
        ("adamw(x, x, lr=1e-3)", "`adam_init(params)`"),
        ("sgd(lr=0.1)", "`sgd_init(params)`"),
        ("cond(sum(x) > 0.0, lambda t: t, lambda t: -t, x)", "`f(x) if p else g(x)`"),
        ("lax.fori_loop(0, 9, lambda i, c: c, x)", "`for i in range(low, high): c = ...`"),
        ("jax.lax.while_loop(lambda c: sum(c) < 1.0, lambda c: c, x)", "`while c < 10.0: c = ...`"),
        ("nn.Sequential(nn.Linear(4, 8), nn.ReLU())(x)", "`struct` of its layers"),
    ],
)
def test_a_call_as_others_have_it_names_what_to_write(wrong: str, said: str) -> None:
    (mistake, *_) = offered(f"def f({SIGNATURES['a']}):\n    return {wrong}\n")
    assert said in " ".join(mistake.notes)


def test_a_function_of_the_user_is_nobody_elses() -> None:
    text = "def adamw(params, state):\n    return params\n\ndef f(x: Tensor[N, f32]):\n    return adamw(x)\n"
    assert not any("adam_init" in note for said in offered(text) for note in said.notes)
