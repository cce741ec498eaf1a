"""What a gradient costs, counted in launches and memory: structure that timing would only show on a quiet machine."""

from __future__ import annotations

import numpy as np
import pytest

import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tesserac.ir.boxes import Box, never_meet, side_by_side
from tesserac.ir.core import Op
from tesserac.ir.forms import Slice
from tesserac.pipeline import lower
from tesserac.schedule.dialect import launch_kind, launch_outs, launch_space, memory
from tesserac.schedule.machine import AARCH64
from tesserac.target.cpu.host.runners import elements_touched
from tesserac.types.dims import Dim, parse_dim, product
from tests.support.native_runs import compiled_equals_oracle
from tests.support.sampling import spread
from tests.support.source_support import check_text, library

LSTM = """
def cell(w: Tensor[D, 4*H, f32], u: Tensor[H, 4*H, f32], xs: Tensor[T, B, D, f32]) -> Tensor[f32]:
    h, c = zeros(B, H), zeros(B, H)
    for t in range(T):
        i, f, g, o = split(xs[t] @ w + h @ u, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
    return sum(h * h)

def f(w: Tensor[D, 4*H, f32], u: Tensor[H, 4*H, f32], xs: Tensor[T, B, D, f32]):
    return grad(cell, wrt=("w", "u"))(w, u, xs)
"""


def scheduled(program: str) -> Op:
    """The host program of `f`."""
    functions = check_text(program, "m", library()).functions
    return lower(functions, "m.f", AARCH64, {}, verify=True).schedule.ops[0]


def launches(op: Op) -> list[str]:
    """The kinds of the launches inside, those of the last variant where sizes choose, or what is frozen."""
    return [kind for inner in op.body.ops for kind in launched(inner)]


def launched(op: Op) -> list[str]:
    if op.name in ("schedule.select", "schedule.kept"):
        return [kind for inner in op.regions[-1].block.ops for kind in launched(inner)]
    return [launch_kind(op)] if op.name == "schedule.launch" else []


@pytest.mark.one_in(2)
def test_a_turn_of_an_lstm_copies_nothing() -> None:
    host = scheduled(LSTM)
    forward, backward = [op for op in host.body.ops if op.name == "schedule.loop"]
    assert launches(forward) == ["contract", "contract", "map"], "two products and the gates; stacks on the way"
    assert launches(backward) == ["map", "contract"], "cotangents of the gates, then of h"
    assert launches(host).count("contract") == 2, "those of u and w, all turns at once"


@pytest.mark.one_in(12)
def test_the_gradient_of_an_lstm_keeps_its_bits() -> None:
    rng = np.random.default_rng(3)
    shapes = (2, 12), (3, 12), (3, 4, 2)
    compiled_equals_oracle(LSTM)("f", *(rng.standard_normal(s).astype(np.float32) for s in shapes))


RECURRENT = """
def plain(w: Tensor[H, H, f32], v: Tensor[D, H, f32], xs: Tensor[T, B, D, f32]) -> Tensor[f32]:
    h = zeros(B, H)
    for t in range(T):
        h = tanh(xs[t] @ v + h @ w)
    return sum(h * h)

def cut(w: Tensor[H, H, f32], v: Tensor[D, H, f32], xs: Tensor[T, B, D, f32]) -> Tensor[f32]:
    h = zeros(B, H)
    with checkpoint(every=3):
        for t in range(T):
            h = tanh(xs[t] @ v + h @ w)
    return sum(h * h)

def f(w: Tensor[H, H, f32], v: Tensor[D, H, f32], xs: Tensor[T, B, D, f32]):
    return grad(plain, wrt=("w", "v", "xs"))(w, v, xs)

def f_cut(w: Tensor[H, H, f32], v: Tensor[D, H, f32], xs: Tensor[T, B, D, f32]):
    return grad(cut, wrt=("w", "v", "xs"))(w, v, xs)
"""


@pytest.mark.one_in(48)
@pytest.mark.parametrize(
    ("turns", "batch", "inner", "hidden"), [(0, 2, 3, 2), (1, 3, 2, 5), (7, 1, 1, 1), (8, 5, 110, 101)]
)
def test_sums_behind_a_loop_keep_their_bits(turns: int, batch: int, inner: int, hidden: int) -> None:
    """With checkpoints, in which sums go on from segment to segment, compiled and interpreted."""
    rng, run = np.random.default_rng(turns), compiled_equals_oracle(RECURRENT)
    shapes = (hidden, hidden), (inner, hidden), (turns, batch, inner)
    args = [(rng.standard_normal(s) / 4).astype(np.float32) for s in shapes]
    whole, cut = run("f", *args), run("f_cut", *args)
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_launch_counts_what_it_walks() -> None:
    """A turn that reads a row of a stack touches that row: what is small stays on one thread."""
    functions = check_text(RECURRENT, "m", library()).functions
    tile = lower(functions, "m.f", AARCH64, {}, verify=True).tile
    loops = [op for op in tile.walk() if op.name == "schedule.loop"]
    rows = [elements_touched(op) for loop in loops for op in loop.walk() if op.name == "tile.launch"]
    assert rows and not any("T" in size.symbols() for size in rows)


@pytest.mark.parametrize(
    ("body", "maps"),
    [
        ("a, b = split(x, 2)\n    return sum(a * b)", 1),
        ("return sum(x[0:N] * x[N:2*N])", 1),
        ("return sum(x[0:N] * x[1:N+1])", 3),
    ],
)
def test_cotangents_of_parts_that_never_meet_are_one_launch(body: str, maps: int) -> None:
    """Parts that fill x need no zeros first; those that overlap are added one after the other."""
    head = "def g(x: Tensor[2*N, f32]) -> Tensor[f32] where N >= 1:\n    "
    host = scheduled(f"{head}{body}\n\ndef f(x: Tensor[2*N, f32]) where N >= 1:\n    return grad(g)(x)\n")
    assert launches(host).count("map") == maps


def test_the_result_of_a_product_is_written_as_it_lies() -> None:
    """The gradient of w in x @ w is x^T y, not the transpose of y^T x."""
    program = "def f(x: Tensor[B, K, f32], y: Tensor[B, N, f32]):\n    return transpose(transpose(y) @ x)\n"
    found = [op for op in scheduled(program).walk() if op.name == "schedule.launch"]
    assert {launch_space(op)[:2] for op in found if launch_kind(op) == "contract"} == {(Dim.sym("K"), Dim.sym("N"))}


CONV = """
def loss(x: Tensor[N, 2*C, H, W, f64], w: Tensor[2*O, C, 3, 5, f64]) -> Tensor[f64] where H >= 9, W >= 9:
    y = conv2d(x, w{arguments}, groups=2)
    return sum(y * y)

def f(x: Tensor[N, 2*C, H, W, f64], w: Tensor[2*O, C, 3, 5, f64]) where H >= 9, W >= 9:
    return grad(loss, wrt=("x", "w"))(x, w)
"""
CONVS = ["", ", stride=2, padding=1", ", dilation=(2, 1)", ", stride=(1, 3), dilation=2, padding=(0, 2)"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("arguments", spread(CONVS, 2))
def test_a_convolution_goes_back_as_a_convolution(arguments: str) -> None:
    """Three products over windows, packed from the images: no launch writes all windows, or their cotangent."""
    found = [op for op in scheduled(CONV.format(arguments=arguments)).walk() if op.name == "schedule.launch"]
    assert [launch_kind(op) for op in found].count("contract") == 3
    shapes = [memory(out).dims for op in found for out in launch_outs(op)]
    inside = {Dim.const(3), Dim.const(5)}
    assert not [dims for dims in shapes if inside <= set(dims) and "N" in product(dims).symbols()]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("arguments", spread(CONVS, 2))
def test_gradients_of_convolutions(arguments: str) -> None:
    """With the bits of the interpreter, and those of the definition: the change along a direction."""
    program, rng = CONV.format(arguments=arguments), np.random.default_rng(5)
    x, w, dx, dw = (rng.standard_normal(s) for s in [(2, 4, 9, 10), (6, 2, 3, 5)] * 2)
    run, step = compiled_equals_oracle(program), 1e-6
    by_x, by_w = run("f", x, w)
    ahead, behind = (run("loss", x + s * dx, w + s * dw) for s in (step, -step))
    np.testing.assert_allclose(np.sum(by_x * dx) + np.sum(by_w * dw), (ahead - behind) / (2 * step), rtol=1e-6)


def box(starts: str, sizes: str, step: int = 1) -> Box:
    at, many = (tuple(map(parse_dim, text.split(","))) for text in (starts, sizes))
    return Box(Slice(at, (step,) * len(at)), many)


WHOLE = (Dim.sym("B"), Dim.sym("H") * 4)


@pytest.mark.parametrize(
    ("first", "second", "never"),
    [
        (box("0, 0", "B, H"), box("0, H", "B, H"), True),
        (box("0, 3*H", "B, H"), box("0, H", "B, H"), True),
        (box("0, 0", "B, H + 1"), box("0, H", "B, H"), False),
        (box("0, 0", "B, H"), box("0, t", "B, H"), False),
        (box("0, 0", "B, H", 2), box("0, H", "B, H"), False),
        (box("0, 0", "B, H", -1), box("0, H", "B, H"), False),
    ],
)
def test_boxes_that_never_meet(first: Box, second: Box, never: bool) -> None:
    assert never_meet(first, second, WHOLE) is never
    assert never_meet(second, first, WHOLE) is never


def test_boxes_side_by_side() -> None:
    quarters = [box(f"0, {start}", "B, H") for start in ("2*H", "0", "3*H", "H")]
    assert side_by_side(quarters, WHOLE) == (1, [1, 3, 0, 2])
    assert side_by_side(quarters[1:], WHOLE) is None
    assert side_by_side([*quarters, quarters[0]], WHOLE) is None
