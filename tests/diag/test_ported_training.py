"""Loops that train as PyTorch's users write them, and calls of JAX and PyTorch: what their fixes make of them."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.check.names.foreign_calls import call_here
from tesserac.porting.files import ported_file
from tesserac.porting.training import ported_training
from tests.diag.test_growing_lists import mended, offered

LOOP = """import torch
import torch.nn as nn

def train(w: Tensor[D, f32], x: Tensor[B, D, f32], y: Tensor[B, f32], steps: int):
    net = w
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.MSELoss()
    for step in range(steps):
        opt.zero_grad()
        # what the weights give
        out = x @ net
        loss = criterion(out, y)
        loss.backward()
        opt.step()
        print(step, loss.item())
    return net
"""


def trained(text: str) -> str | None:
    """A text with the changes for the optimizer that it makes, or None."""
    changes = ported_training(text, text.index("torch.optim"))
    if changes is None:
        return None
    for change in sorted(changes, key=lambda one: -one.start):
        text = text[: change.start] + change.text + text[change.end :]
    return text


@pytest.mark.one_in(4)
def test_a_loop_by_fixes_alone() -> None:
    """The weights are those of momentum by hand."""
    m = tessera.compile(mended(LOOP, steps=8))
    rng = np.random.default_rng(0)
    w, x, y = rng.standard_normal(3), rng.standard_normal((5, 3)), rng.standard_normal(5)
    own, velocity = w.copy(), np.zeros(3)
    for _ in range(4):
        velocity = 0.9 * velocity + 2.0 / 5.0 * x.T @ (x @ own - y)
        own -= 0.1 * velocity
    np.testing.assert_allclose(m.train(*(a.astype("f4") for a in (w, x, y)), 4), own, rtol=2e-5, atol=2e-6)


def test_the_lines_of_a_loop() -> None:
    """Words and comments stay; nothing else changes."""
    text = trained(LOOP)
    assert text is not None and text.startswith(LOOP[: LOOP.index("    opt")]) and text.endswith("    return net\n")
    step = text[text.index("        # what") : text.index("        print")]
    assert step == (
        "        # what the weights give\n"
        "        def loss_of(net):\n"
        "            out = x @ net\n"
        "            loss = criterion(out, y)\n"
        "            return loss\n"
        "        loss, grads = value_and_grad(loss_of)(net)\n"
        "        net, state = momentum(net, grads, state, lr=0.1, beta=0.9)\n"
    )


def test_what_is_read_besides_the_loss_is_given_too() -> None:
    text = trained(LOOP.replace("loss.item())", "loss, out.mean())"))
    assert text is not None
    assert "return loss, out\n" in text
    assert "(loss, out), grads = value_and_grad(loss_of, has_aux=True)(net)" in text


def test_gradients_that_are_cleared_late_and_clipped() -> None:
    late = LOOP.replace("        opt.zero_grad()\n", "").replace(
        "        loss.backward()\n",
        "        opt.zero_grad()\n        loss.backward()\n        nn.utils.clip_grad_norm_(net.parameters(), 0.5)\n",
    )
    text = trained(late)
    assert text is not None and "zero_grad" not in text and "clip_grad" not in text
    assert "        grads = clip_by_global_norm(grads, 0.5)\n" in text


def test_a_rate_that_a_scheduler_changes() -> None:
    made = "    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=30, gamma=0.5)\n    criterion"
    text = trained(LOOP.replace("    criterion", made, 1).replace("opt.step()\n", "opt.step()\n        sched.step()\n"))
    assert text is not None and "sched" not in text.replace("step_schedule", "")
    assert "lr=step_schedule(step, start=0.1, every=30, factor=0.5), beta=0.9)" in text


def test_a_loss_that_is_scaled_in_narrow_types() -> None:
    """What a type says here: the lines fall away."""
    text = LOOP.replace("    criterion", "    scaler = torch.amp.GradScaler()\n    criterion", 1)
    text = text.replace("        out = x", "        with torch.autocast('cuda'):\n            out = x")
    text = text.replace("        loss = c", "            loss = c")
    text = text.replace("loss.backward()", "scaler.scale(loss).backward()")
    text = text.replace("opt.step()", "scaler.unscale_(opt)\n        scaler.step(opt)\n        scaler.update()")
    here = trained(text)
    assert here is not None and "scale" not in here and "autocast" not in here
    assert "        def loss_of(net):\n            out = x @ net\n            loss = criterion(out, y)\n" in here


def test_two_optimizers_in_one_loop() -> None:
    second = "        opt_d.zero_grad()\n        l2 = mean(d * net)\n        l2.backward()\n"
    second += "        opt_d.step()\n        print"
    made = "    d = w\n    opt_d = torch.optim.Adam(d.parameters(), lr=0.2)\n    criterion"
    text = trained(LOOP.replace("    criterion", made, 1).replace("        print", second, 1))
    assert text is not None and "momentum(net, grads, state, lr=0.1, beta=0.9)" in text and "opt_d.step()" in text
    both = trained(text)
    assert both is not None and "d, state_ = adam(d, grads_, state_, lr=0.2)" in both
    assert "        def loss_of_(d):\n            l2 = mean(d * net)\n            return l2\n" in both


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lr=0.1, momentum=0.9", "momentum=0.9"),  # the rate would be another
        ("torch.optim.SGD", "torch.optim.LBFGS"),
        ("net.parameters()", "[net, w]"),
        ("        opt.step()\n", "        opt.step()\n        opt.step()\n"),
        ("        loss.backward()\n", "        loss.backward()\n        sched.step()\n"),
        ("momentum=0.9", "dampening=0.5"),
    ],
)
def test_what_is_another_form_is_left(old: str, new: str) -> None:
    assert old in LOOP and trained(LOOP.replace(old, new)) is None


@pytest.mark.parametrize(
    ("call", "here"),
    [
        ("jax.random.split(key)", "split(key, 2)"),
        ("jax.random.split(key, 3)", "split(key, 3)"),
        ("jax.random.normal(k, (3, n))", "normal((3, n), key=k)"),
        ("jax.random.normal(k)", "normal((), key=k)"),
        ("jax.random.uniform(k, (3,), minval=-1.0)", "uniform((3,), key=k, low=-1.0)"),
        ("random.randint(k, (4,), 0, 10)", "randint(0, 10, (4,), key=k)"),
        ("jax.random.PRNGKey(0)", "cast(0, u64)"),
        ("F.cross_entropy(a, b)", 'cross_entropy(a, b, reduction="mean")'),
        ("F.cross_entropy(a, b, reduction='sum')", "cross_entropy(a, b, reduction='sum')"),
        ("nn.CrossEntropyLoss()", 'lambda x, y: cross_entropy(x, y, reduction="mean")'),
        ("nn.MSELoss()", "lambda x, y: mse(x, y)"),
        ("np.dot(a, b + c)", "a @ (b + c)"),
        ("nn.TripletMarginLoss()", None),
        ("jax.random.normal(*k)", None),
        ("np.dot(a)", None),
    ],
)
def test_calls_that_are_written_otherwise(call: str, here: str | None) -> None:
    assert call_here(tuple(call[: call.index("(")].split(".")), call) == here


def test_a_product_within_an_expression_is_in_brackets() -> None:
    said = offered("def f(a: Tensor[N, N, f32], b: Tensor[N, f32]):\n    return 2.0 * np.dot(a, b)\n")
    assert said[0].fixes[0].edits[0].replacement == "(a @ b)"


@pytest.mark.parametrize(
    ("method", "left"),
    [(".item()", ""), (".cpu()", ""), (".to(device)", ""), (".to('cuda')", ""), (".to(torch.long)", ".astype(i64)")],
)
def test_methods_that_change_no_number(method: str, left: str) -> None:
    said = offered(f"def f(x: Tensor[f32], device: int = 0):\n    return x{method}\n")
    assert said[0].fixes[0].edits[0].replacement == left


TRAINED = """class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, d, bias=False)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.fc(x))

class Net(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.blocks = nn.ModuleList([Block(d) for _ in range(2)])
        self.norm = nn.BatchNorm1d(d)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return F.dropout(self.norm(x), training=self.training)
"""


def test_training_is_an_argument() -> None:
    """Of a method that drops, and of those that call one."""
    made = ported_file(TRAINED, 0)
    assert made is not None and len(made.remarks) == 2
    block, net = (change.text for change in made.changes)
    assert "fc: LinearNoBias[D, D]\n" in block
    assert "def apply(self, x, training: bool = True):\n" in block
    assert "        return dropout(self.fc(x), 0.1, training=training)" in block
    assert "x = block(x, training=training)" in net and "norm: BatchNorm[D]" in net
    assert "F.dropout(self.norm(x), training=training)" in net
