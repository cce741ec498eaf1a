"""Recurrent layers, images in other sizes, pools and convolutions with their options, against NumPy in f64: each
written once more in the plainest way. `tests/tools/peer_options.py` compares them with PyTorch, gradients as well."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.checking import check_text
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
RNG = np.random.default_rng(5)
T, B, D, H = 4, 3, 3, 2


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def step(kind: str, z: Array, h: Array, c: Array, u: Array, bias: Array) -> tuple[Array, Array]:
    """One step of each kind, with PyTorch's gates."""
    r = h @ u.T + bias
    if kind == "rnn":
        return np.tanh(z + r), c
    if kind == "gru":
        (a, s, n), (ra, rs, rn) = np.split(z, 3), np.split(r, 3)
        new, update = np.tanh(n + sigmoid(a + ra) * rn), sigmoid(s + rs)
        return (1 - update) * new + update * h, c
    i, f, g, o = np.split(z + r, 4)
    cell = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def direction(kind: str, x: Array, w: Any, lengths: Array, back: bool) -> tuple[Array, Array]:
    """Outputs and last states, sequence by sequence."""
    out, last = np.zeros((T, B, H)), np.zeros((B, H))
    for b in range(B):
        h, c = np.zeros(H), np.zeros(H)
        times = range(lengths[b])
        for t in reversed(times) if back else times:
            h, c = step(kind, w[0] @ x[t, b] + w[2], h, c, w[1], w[3])
            out[t, b] = h
        last[b] = h
    return out, last


def network(kind: str, x: Array, weights: list[Any], sides: int, lengths: Array) -> tuple[Array, Array]:
    last = []
    for layer in range(0, len(weights), sides):
        runs = [direction(kind, x, weights[layer + i], lengths, i == 1) for i in range(sides)]
        x, last = np.concatenate([run[0] for run in runs], -1), last + [run[1] for run in runs]
    return x, np.stack(last)


GATES = {"lstm": 4, "gru": 3, "rnn": 1}


@folded("kind, sides", list(product(GATES, (1, 2))), one_in=12)
def test_recurrent_layers(kind: str, sides: int) -> None:
    rows = GATES[kind] * H
    shapes = [((rows, D if i < sides else H * sides), (rows, H), (rows,), (rows,)) for i in range(2 * sides)]
    weights = [tuple(RNG.normal(size=shape) * 0.5 for shape in layer) for layer in shapes]
    names = [[f"w{i}_{j}" for j in range(4)] for i in range(2 * sides)]
    typed = [
        f"{name}: Tensor[{', '.join(map(str, shape))}, f64]"
        for layer, sizes in zip(names, shapes, strict=True)
        for name, shape in zip(layer, sizes, strict=True)
    ]
    listed = ", ".join(f"({', '.join(layer)})" for layer in names)
    last = "s[0]" if kind == "lstm" else "s"
    text = f"""def f(x: Tensor[{B}, {T}, {D}, f64], n: Tensor[{B}, i64], {', '.join(typed)}):
    y, s = {kind}(x, [{listed}], batch_first=True, bidirectional={sides == 2}, lengths=n)
    return y, {last}
"""
    x, lengths = RNG.normal(size=(B, T, D)), np.array([4, 1, 3])
    flat = [array for layer in weights for array in layer]
    got, state = run_function(compile_to_forms(text), "m.f", [x, lengths, *flat])
    wanted, final = network(kind, x.swapaxes(0, 1), weights, sides, lengths)
    np.testing.assert_allclose(got, wanted.swapaxes(0, 1), atol=1e-14)
    np.testing.assert_allclose(state, final, atol=1e-14)


# ------------------------------------------------------------------------------------------------- windows of images

X = RNG.normal(size=(2, 2, 7, 5))
POOLS = list(product(((3, 2, 1, 1), (2, 3, 1, 1), (2, 2, 0, 2), (3, 1, 1, 2)), (False, True), (False, True)))


def spans(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> list[range]:
    """The places of each window of an axis, those beyond the image among them."""
    room = n + 2 * p - d * (k - 1) - 1
    many = (-(-room // s) if ceil else room // s) + 1
    if ceil and (many - 1) * s >= n + p:
        many -= 1
    return [range(i * s - p, i * s - p + d * k, d) for i in range(many)]


def pooled(options: tuple[int, int, int, int], ceil: bool, include: bool) -> tuple[Array, Array, Array]:
    k, s, p, d = options
    rows, columns = (spans(n, k, s, p, d, ceil) for n in X.shape[2:])
    flat = spans(X.shape[2], k, s, p, 1, ceil), spans(X.shape[3], k, s, p, 1, ceil)
    high = np.zeros((*X.shape[:2], len(rows), len(columns)))
    place, means = np.zeros(high.shape, int), np.zeros((*X.shape[:2], len(flat[0]), len(flat[1])))
    for (i, r), (j, c) in product(enumerate(rows), enumerate(columns)):
        inside = [(a, b) for a, b in product(r, c) if 0 <= a < 7 and 0 <= b < 5]
        values = np.stack([X[:, :, a, b] for a, b in inside], -1)
        high[:, :, i, j] = values.max(-1)
        place[:, :, i, j] = np.array([a * 5 + b for a, b in inside])[values.argmax(-1)]
    for (i, r), (j, c) in product(enumerate(flat[0]), enumerate(flat[1])):
        inside = [(a, b) for a, b in product(r, c) if 0 <= a < 7 and 0 <= b < 5]
        count = len([1 for a, b in product(r, c) if a < 7 + p and b < 5 + p]) if include else len(inside)
        means[:, :, i, j] = sum(X[:, :, a, b] for a, b in inside) / count
    return high, place, means


@cache
def pool_program() -> Any:
    lines = []
    for i, ((k, s, p, d), ceil, include) in enumerate(POOLS):
        options = f"{k}, {s}, {p}"
        lines += [
            f"def f{i}(x: Tensor[2, 2, 7, 5, f64]):",
            f"    y, places = max_pool2d(x, {options}, {d}, ceil_mode={ceil}, return_indices=True)",
            f"    z = avg_pool2d(x, {options}, ceil_mode={ceil}, count_include_pad={include})",
            f"    return y, places, z, max_pool2d(x, {options}, {d}, ceil_mode={ceil})",
        ]
    return compile_to_forms("\n".join(lines) + "\n")


@pytest.mark.one_in(3)
@folded("i", range(len(POOLS)), one_in=24)
def test_pools(i: int) -> None:
    high, place, means = pooled(*POOLS[i])
    got = run_function(pool_program(), f"m.f{i}", [X])
    for one, other in zip(got, (high, place, means, high), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-15)


# ------------------------------------------------------------------------------------------------ images in other sizes


def cubic(s: float, a: float) -> float:
    s = abs(s)
    if s <= 1:
        return ((a + 2) * s - (a + 3)) * s * s + 1
    return a * (((s - 5) * s + 8) * s - 4) if s < 2 else 0.0


def resizing(n: int, m: int, mode: str, corners: bool, antialias: bool, step: float | None = None) -> Array:
    """The matrix of one axis, from n points to m."""
    w, step = np.zeros((m, n)), n / m if step is None else step
    for o in range(m):
        if mode == "area":
            first, last = int(np.floor(o * step)), int(np.ceil((o + 1) * step))
            w[o, first:last] = 1 / (last - first)
        elif mode.startswith("nearest"):
            w[o, int((o + (0.5 if mode == "nearest-exact" else 0)) * step)] = 1
        elif antialias:
            apart = (n - 1) / (m - 1) if corners else step
            width, centre = max(apart, 1), (o + 0.5) * apart
            reach = width * (2 if mode == "cubic" else 1)
            for j in range(max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), n)):
                d = (j + 0.5 - centre) / width
                w[o, j] = cubic(d, -0.5) if mode == "cubic" else max(1 - abs(d), 0)
            w[o] /= w[o].sum()
        else:
            place = o * (n - 1) / max(m - 1, 1) if corners else (o + 0.5) * step - 0.5
            place = max(place, 0) if mode == "linear" else place
            low = int(np.floor(place))
            for k in range(-1, 3):
                t = place - low - k
                weight = cubic(t, -0.75) if mode == "cubic" else max(1 - abs(t), 0)
                w[o, min(max(low + k, 0), n - 1)] += weight
    return w


RESIZED = [
    (size, mode, corners, antialias)
    for size in ((12, 7), (3, 4))
    for mode, corners, antialias in [
        *((mode, False, False) for mode in ("nearest", "nearest-exact", "area")),
        *((mode, corners, False) for mode in ("linear", "cubic") for corners in (False, True)),
        *((mode, corners, True) for mode in ("linear", "cubic") for corners in (False, True)),
    ]
]


@cache
def resize_program() -> Any:
    return compile_to_forms("".join(
        f"def f{i}(x: Tensor[2, 2, 7, 5, f64]):\n    return interpolate(x, {size}, mode=\"{mode}\", "
        f"align_corners={corners}, antialias={antialias})\n"
        for i, (size, mode, corners, antialias) in enumerate(RESIZED)
    ))  # fmt: skip


@pytest.mark.one_in(4)
@folded("i", range(len(RESIZED)), one_in=48)
def test_images_in_other_sizes(i: int) -> None:
    size, *how = RESIZED[i]
    (got,) = run_function(resize_program(), f"m.f{i}", [X])
    rows, columns = (resizing(n, m, *how) for n, m in zip((7, 5), size, strict=True))
    np.testing.assert_allclose(got, np.einsum("ah,bw,nchw->ncab", rows, columns, X), atol=1e-14)


FACTORS = [(factor, mode) for factor in (1.5, 2.0, 0.6) for mode in ("nearest", "linear", "cubic")]


@pytest.mark.one_in(2)
@folded("factor, mode", FACTORS, one_in=12)
def test_images_by_a_factor(factor: float, mode: str) -> None:
    """Points are as far apart as the factor says, whole or not, and as many as fit."""
    text = f"""def f(x: Tensor[2, 2, 7, 5, f64]):
    return interpolate(x, scale_factor={factor}, mode="{mode}")
def g(x: Tensor[2, 2, 7, 5, f64]):
    return resize(x, scale={factor}, axes=(2, 3), mode="{mode}", coordinates="asymmetric", nearest_mode="floor")
"""
    forms = compile_to_forms(text)
    (got,), (other,) = (run_function(forms, name, [X]) for name in ("m.f", "m.g"))
    rows, columns = (resizing(n, int(n * factor), mode, False, False, 1 / factor) for n in (7, 5))
    np.testing.assert_allclose(got, np.einsum("ah,bw,nchw->ncab", rows, columns, X), atol=1e-14)
    assert other.shape == got.shape
    if mode == "nearest":
        np.testing.assert_array_equal(other, got)


def test_a_factor_of_sizes_that_only_a_run_knows() -> None:
    text = """def f(x: Tensor[B, 2, H, W, f64]) -> Tensor[B, 2, 3 * H // 2, W // 2, f64]:
    return interpolate(x, scale_factor=(1.5, 0.5))
"""
    (got,) = run_function(compile_to_forms(text), "m.f", [X])
    assert got.shape == (2, 2, 10, 2)
    open_size = "def f(x: Tensor[B, 2, H, f64], s: f64):\n    return interpolate(x, scale_factor={})\n"
    for factor in ("1.3", "s"):
        with pytest.raises(AssertionError, match="E0217"):
            compile_to_forms(open_size.format(factor))


@pytest.mark.one_in(2)
def test_frames_may_be_uneven() -> None:
    """A padding is one number for an axis, or what is before and behind: `pad`, or a slice of what is transposed."""
    text = """def f(x: Tensor[2, 2, 7, 5, f64], w: Tensor[3, 2, 3, 2, f64], u: Tensor[2, 2, 2, f64]):
    wide = pad(x, ((0, 0), (0, 0), (1, 0), (2, 1)))
    a, b = conv2d(x, w, padding=((1, 0), (2, 1)), stride=2), conv2d(wide, w, stride=2)
    c, d = conv1d(x[:, :, 0], u, padding=(2, 0)), conv1d(pad(x[:, :, 0], 2, 0, axis=2), u)
    k = permute(w, (1, 0, 2, 3))
    e = conv_transpose2d(x, k, stride=2, padding=((1, 0), (2, 1)))
    g = conv_transpose2d(x, k, stride=2)[:, :, 1:, 2:9]
    return a, b, c, d, e, g, conv_transpose1d(x[:, :, 0], u, padding=(0, 2)), conv_transpose1d(x[:, :, 0], u)[:, :, :4]
"""
    got = run_function(compile_to_forms(text), "m.f", [X, RNG.normal(size=(3, 2, 3, 2)), RNG.normal(size=(2, 2, 2))])
    for one, other in zip(got[::2], got[1::2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_windows_in_space_and_on_a_line() -> None:
    """<unfold(x), y> is <x, fold(y)>, in one and three spatial dims."""
    text = """
def f(x: Tensor[2, 2, 3, 4, 5, f64], y: Tensor[2, 24, 18, f64], u: Tensor[2, 3, 7, f64], v: Tensor[2, 6, 5, f64]):
    a, b = unfold(x, (2, 3, 2), padding=((1, 0), 0, 1), stride=(1, 1, 2)), unfold(u, 2, dilation=2)
    c = fold(y, (3, 4, 5), (2, 3, 2), padding=((1, 0), 0, 1), stride=(1, 1, 2))
    return a, c, b, fold(v, (7,), 2, dilation=2)
"""
    shapes = (2, 2, 3, 4, 5), (2, 24, 18), (2, 3, 7), (2, 6, 5)
    x, y, u, v = (RNG.normal(size=shape) for shape in shapes)
    a, c, b, d = run_function(compile_to_forms(text), "m.f", [x, y, u, v])
    np.testing.assert_allclose([(a * y).sum(), (b * v).sum()], [(x * c).sum(), (u * d).sum()], rtol=1e-12)
    np.testing.assert_array_equal(b.reshape(2, 3, 2, 5), np.stack([u[..., :5], u[..., 2:]], 2))


def test_gates_that_see_the_cell() -> None:
    text = f"""def f(x: Tensor[{T}, {B}, {D}, f64], w: Tensor[8, {D}, f64], u: Tensor[8, 2, f64], p: Tensor[3, 2, f64]):
    y, (h, c) = lstm(x, [(w, u)], peepholes=[(p[0], p[1], p[2])])
    return y, c[0]
"""
    x, w, u, p = (RNG.normal(size=shape) for shape in ((T, B, D), (8, D), (8, 2), (3, 2)))
    got, cell = run_function(compile_to_forms(text), "m.f", [x, w, u, p])
    h = c = np.zeros((B, 2))
    for t in range(T):
        i, f, g, o = np.split(x[t] @ w.T + h @ u.T, 4, axis=-1)
        c = sigmoid(f + p[1] * c) * c + sigmoid(i + p[0] * c) * np.tanh(g)
        h = sigmoid(o + p[2] * c) * np.tanh(c)
        np.testing.assert_allclose(got[t], h, atol=1e-14)
    np.testing.assert_allclose(cell, c, atol=1e-14)


def test_an_infinity_stays_in_its_windows() -> None:
    text = """def f(x: Tensor[1, 1, 6, f64]):
    return interpolate(x, 3, mode="area"), interpolate(x, 3, mode="linear", antialias=True), adaptive_avg_pool1d(x, 3)
"""
    x = np.zeros((1, 1, 6))
    x[0, 0, 0] = np.inf
    for got in run_function(compile_to_forms(text), "m.f", [x]):
        assert np.isinf(got[0, 0, 0]) and got[0, 0, 2] == 0


def test_transposed_convolutions_are_transposes() -> None:
    """<conv(x), y> is <x, conv_transpose(y)>."""
    text = """def f(x: Tensor[1, 4, 5, 6, 4, f64], y: Tensor[1, 2, 3, 3, 2, f64], w: Tensor[2, 2, 2, 3, 2, f64]):
    a = conv3d(x, w, stride=2, padding=1, dilation=(1, 1, 2), groups=2)
    b = conv_transpose3d(y, w, stride=2, padding=1, dilation=(1, 1, 2), groups=2, output_padding=1)
    return a, b
"""
    shapes = (1, 4, 5, 6, 4), (1, 2, 3, 3, 2), (2, 2, 2, 3, 2)
    x, y, w = (RNG.normal(size=shape) for shape in shapes)
    a, b = run_function(compile_to_forms(text), "m.f", [x, y, w])
    np.testing.assert_allclose((a * y).sum(), (x * b).sum(), rtol=1e-12)


ADAPTIVE = {1: ((11,), 4), 2: ((7, 9), (3, None)), 3: ((3, 5, 4), (2, 5, 3))}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", ADAPTIVE)
def test_adaptive_maxima_with_their_places(count: int) -> None:
    image, size = ADAPTIVE[count]
    shape = ", ".join(map(str, image))
    source = f"def f(x: Tensor[2, 1, {shape}, f32]): return adaptive_max_pool{count}d(x, {size}, return_indices=True)"
    x = RNG.integers(0, 4, (2, 1, *image)).astype(np.float32)
    values, places = run_function(compile_to_forms(source), "m.f", [x])
    given = size if isinstance(size, tuple) else (size,)
    grid = [n if k is None else k for n, k in zip(image, given, strict=True)]
    assert values.shape == places.shape == (2, 1, *grid)
    for at in np.ndindex(2, *grid):
        cut = [slice(i * n // k, -((-(i + 1) * n) // k)) for i, n, k in zip(at[1:], image, grid, strict=True)]
        part = x[at[0], 0][tuple(cut)]
        first = np.unravel_index(part.argmax(), part.shape)
        wanted = np.ravel_multi_index([c.start + i for c, i in zip(cut, first, strict=True)], image)
        assert values[at[0], 0][at[1:]] == part.max()
        assert places[at[0], 0][at[1:]] == wanted


def test_sizes_of_images_are_one_for_each_spatial_dim() -> None:
    """More or fewer were left out in silence."""
    wrong = {
        "x: Tensor[7, f32]": "interpolate(x, (3, 4))",
        "x: Tensor[1, 2, 4, 4, f32]": "interpolate(x, (3, 4, 5))",
        "x: Tensor[1, 2, 3, 4, f32]": "interpolate(x, scale_factor=(2.0,))",
        "x: Tensor[6, f32]": "resize(x, (3, 4))",
    }
    for operand, call in wrong.items():
        found = check_text(f"def f({operand}):\n    return {call}\n").diagnostics
        assert [d.code for d in found] == ["E0217"], call


def test_attention_of_several_heads_with_the_same_keys() -> None:
    """`enable_gqa` of PyTorch: each of two heads of keys serves two of queries, in a batch and without one."""
    program = (
        "def f(q: Tensor[2, 4, 3, 8, f64], k: Tensor[2, 2, 5, 8, f64]):\n"
        "    y = scaled_dot_product_attention(q, k, k, enable_gqa=True)\n"
        "    return y, scaled_dot_product_attention(q[0], k[0], k[0], enable_gqa=True)\n"
    )
    q, k = RNG.normal(size=(2, 4, 3, 8)), RNG.normal(size=(2, 2, 5, 8))
    both, one = run_function(compile_to_forms(program), "m.f", [q, k])
    keys = np.repeat(k, 2, axis=1)
    scores = np.exp(q @ np.swapaxes(keys, -1, -2) / np.sqrt(8))
    wanted = scores / scores.sum(-1, keepdims=True) @ keys
    np.testing.assert_allclose(both, wanted, rtol=1e-12)
    np.testing.assert_allclose(one, wanted[0], rtol=1e-12)


def test_huber_loss_has_its_options_in_the_order_of_pytorch() -> None:
    program = 'def f(x: Tensor[3, f64], y: Tensor[3, f64]):\n    return huber_loss(x, y, "sum", 0.5)\n'
    x, y = np.array([0.1, 2.0, -3.0]), np.array([0.4, 0.0, 1.0])
    [found] = run_function(compile_to_forms(program), "m.f", [x, y])
    np.testing.assert_allclose(found, 0.5 * 0.3**2 + 0.5 * (2 - 0.25) + 0.5 * (4 - 0.25), rtol=1e-12)
