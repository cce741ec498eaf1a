"""Convolutions and pooling against NumPy in f64: within stated bounds, with the interpreter's bits as machine code, one
compilation for all sizes, and the same bits for an image alone and in a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tesserac.graph.interp import run_function
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms

Array = np.ndarray
Pair = tuple[int, int]
SIZES = st.integers(5, 14)


def windows(x: Array, size: Pair, stride: Pair, dilation: Pair = (1, 1)) -> Array:
    """[N, C, OH, OW, KH, KW]."""
    reach = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    return view[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def framed(x: Array, rows: Pair, columns: Pair, value: float = 0.0) -> Array:
    return np.pad(x, ((0, 0), (0, 0), rows, columns), constant_values=value)


@dataclass(frozen=True)
class Conv:
    """A convolution: its arguments in the language, and what they are in numbers."""

    arguments: str
    stride: Pair = (1, 1)
    rows: Pair = (0, 0)
    columns: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    kernel: Pair = (3, 3)

    @property
    def program(self) -> str:
        kh, kw = self.kernel
        return (
            f"def f(x: Tensor[N, {self.groups}*I, H, W, f32], w: Tensor[{self.groups}*O, I, {kh}, {kw}, f32],"
            f" b: Tensor[{self.groups}*O, f32]):\n    return conv2d(x, w, b{self.arguments})\n"
        )

    def exact(self, x: Array, w: Array, b: Array) -> Array:
        n, outputs = len(x), len(w) // self.groups
        seen = windows(framed(x, self.rows, self.columns), self.kernel, self.stride, self.dilation)
        seen = seen.reshape(n, self.groups, -1, *seen.shape[2:])
        weights = w.reshape(self.groups, outputs, *w.shape[1:])
        y = np.einsum("ngchwij,gocij->ngohw", seen, weights)
        return y.reshape(n, -1, *y.shape[3:]) + b[:, None, None]


CONVS = [
    Conv(""),
    Conv(", padding=1", rows=(1, 1), columns=(1, 1)),
    Conv(", stride=2, padding=1", stride=(2, 2), rows=(1, 1), columns=(1, 1)),
    Conv(', padding="same", dilation=2', rows=(2, 2), columns=(2, 2), dilation=(2, 2)),
    Conv(', padding="same"', rows=(0, 1), columns=(1, 2), kernel=(2, 4)),
    Conv(", stride=(1, 3), padding=(2, 0), dilation=(2, 1)", (1, 3), (2, 2), (0, 0), (2, 1)),
    Conv(", groups=3", groups=3),
    Conv(', padding="valid", stride=3', stride=(3, 3), kernel=(1, 1)),
]


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("conv", CONVS, ids=lambda conv: conv.arguments or "plain")
def test_conv2d(conv: Conv) -> None:
    f, forms = tessera.compile(conv.program).f, compile_to_forms(conv.program)

    @given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), SIZES, SIZES, st.integers(0, 999))
    @settings(max_examples=6)
    def check(n: int, i: int, o: int, h: int, w: int, seed: int) -> None:
        x = normal(seed, n, conv.groups * i, h, w)
        k, b = normal(seed + 1, conv.groups * o, i, *conv.kernel), normal(seed + 2, conv.groups * o)
        y = np.asarray(f(x, k, b))
        same_bits(y, np.asarray(run_function(forms, "m.f", [x, k, b])[0]))
        wide = [a.astype(np.float64) for a in (x, k, b)]
        size = conv.exact(*(np.abs(a) for a in wide))
        terms = k[0].size + 1
        assert np.all(np.abs(y - conv.exact(*wide)) <= terms * 2.0**-24 * size)
        same_bits(np.asarray(f(x[-1:], k, b)), y[-1:])

    check()


@pytest.mark.one_in(2)
def test_the_order_is_rows_of_the_kernel_columns_channels() -> None:
    """With one output element, a convolution is the chain over (kh, kw, c)."""
    x, w = normal(0, 1, 5, 3, 2), normal(1, 1, 5, 3, 2)
    y = tessera.compile(Conv("", kernel=(3, 2)).program).f(x, w, np.zeros(1, "f4"))
    dot = tessera.compile("def f(a: Tensor[1, K, f32], b: Tensor[K, 1, f32]): return a @ b").f
    chain = dot(w.transpose(0, 2, 3, 1).reshape(1, -1), x.transpose(0, 2, 3, 1).reshape(-1, 1))
    assert float(y.item()) == float(chain.item())


@pytest.mark.one_in(3)
def test_padding_never_shows() -> None:
    """Zeros around the image give the bits of an image without them, where the window lies inside."""
    x, w = normal(0, 2, 3, 9, 9), normal(1, 4, 3, 3, 3)
    b = np.zeros(4, "f4")
    plain, padded = (tessera.compile(Conv(a).program).f(x, w, b) for a in ("", ", padding=1"))
    same_bits(np.ascontiguousarray(padded[:, :, 1:-1, 1:-1]), plain)
    w[:] = 0
    assert not np.signbit(tessera.compile(Conv(", padding=1").program).f(-x, w, b)).any()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("arguments", ["", ", stride=2, padding=1, groups=2"])
def test_conv1d_is_conv2d_of_one_row(arguments: str) -> None:
    inputs = 2 if "groups" in arguments else 4
    x, w, b = normal(0, 2, 4, 17), normal(1, 6, inputs, 3), normal(2, 6)
    text = f"def f(x: Tensor[N, 4, L, f32], w: Tensor[6, {inputs}, 3, f32], b: Tensor[6, f32]):\n"
    along = tessera.compile(f"{text}    return conv1d(x, w, b{arguments})\n").f(x, w, b)
    flat = arguments.replace("padding=1", "padding=(0, 1)").replace("stride=2", "stride=(1, 2)")
    plane = f"{text}    return conv2d(x[:, :, None, :], w[:, :, None, :], b{flat})[:, :, 0]\n"
    same_bits(along, tessera.compile(plane).f(x, w, b))


@pytest.mark.one_in(6)
def test_narrow_types_are_rounded_once() -> None:
    x, w, b = (a.astype(ml_dtypes.bfloat16) for a in (normal(0, 2, 4, 7, 6), normal(1, 3, 4, 3, 3), normal(2, 3)))
    program = Conv(", padding=1").program
    narrow = tessera.compile(program.replace("f32", "bf16 @accum(f32)")).f(x, w, b)
    wide = tessera.compile(program).f(*(a.astype(np.float32) for a in (x, w, b)))
    same_bits(narrow, wide.astype(ml_dtypes.bfloat16))


@pytest.mark.one_in(2)
@given(st.integers(1, 2), st.integers(2, 6), st.integers(2, 6), st.integers(0, 999))
@settings(max_examples=8)
def test_conv_transpose2d(n: int, h: int, w: int, seed: int) -> None:
    x, k = normal(seed, n, 4, h, w), normal(seed + 1, 4, 3, 3, 2)
    program = (
        "def f(x: Tensor[N, 4, H, W, f32], w: Tensor[4, 3, 3, 2, f32]):\n"
        "    return conv_transpose2d(x, w, stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2)\n"
    )
    exact = np.zeros((n, 6, 2 * h + 2, 3 * w + 1))
    weights = k.astype(np.float64).reshape(2, 2, 3, 3, 2)
    for i, j in np.ndindex(h, w):
        part = np.einsum("ngc,gcokl->ngokl", x[:, :, i, j].reshape(n, 2, 2).astype(np.float64), weights)
        exact[:, :, 2 * i : 2 * i + 3, 3 * j : 3 * j + 2] += part.reshape(n, 6, 3, 2)
    y = tessera.compile(program).f(x, k)
    np.testing.assert_allclose(y, exact[:, :, 1 : 2 * h + 1], rtol=0, atol=2e-5)
    assert y.shape == (n, 6, 2 * h, 3 * w + 1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("settings", ["stride=2", "stride=(3, 1), padding=1", "stride=2, dilation=2, output_padding=1"])
def test_an_infinite_weight_reaches_only_its_own_places(settings: str) -> None:
    """Places between and around those that a weight writes to are not multiplied by it."""
    program = "def f(x: Tensor[N, 2, H, W, f32], w: Tensor[2, 3, 3, 2, f32]):\n    return conv_transpose2d(x, w, {})\n"
    run = tessera.compile(program.format(settings)).f
    x, w = np.ones((1, 2, 4, 5), "f4"), np.zeros((2, 3, 3, 2), "f4")
    w[1, 2, 1, 0] = 1.0
    reached = run(x, w) != 0
    w[1, 2, 1, 0] = np.inf
    found = run(x, w)
    assert reached.any() and not reached.all() and not np.isnan(found).any()
    assert np.array_equal(np.isinf(found), reached)


@pytest.mark.one_in(4)
def test_conv_transpose2d_transposes_conv2d() -> None:
    """<conv(x), y> = <x, conv_transpose(y)>, in whole numbers exactly."""
    rng = np.random.default_rng(0)
    x, k = rng.integers(-4, 5, (2, 3, 9, 9)).astype("f4"), rng.integers(-4, 5, (5, 3, 3, 3)).astype("f4")
    options = ", stride=2, padding=1"
    forward = tessera.compile(Conv(options).program).f(x, k, np.zeros(5, "f4"))
    y = rng.integers(-4, 5, forward.shape).astype("f4")
    program = "def f(x: Tensor[N, I, H, W, f32], w: Tensor[I, O, 3, 3, f32]):\n    return conv_transpose2d(x, w{})\n"
    back = tessera.compile(program.format(options)).f(y, k)
    assert float((forward * y).sum()) == float((x * back).sum())


@dataclass(frozen=True)
class Pool:
    call: str
    exact: Callable[[Array], Array]
    bound: float
    least: int = 3
    multiples: Pair = field(default=(1, 1))


POOLS = [
    Pool("max_pool2d(x, 2)", lambda x: windows(x, (2, 2), (2, 2)).max((-1, -2)), 0),
    Pool("max_pool2d(x, (3, 2), stride=1)", lambda x: windows(x, (3, 2), (1, 1)).max((-1, -2)), 0),
    Pool("max_pool2d(x, 3, stride=(2, 1), padding=1)",
         lambda x: windows(framed(x, (1, 1), (1, 1), -np.inf), (3, 3), (2, 1)).max((-1, -2)), 0),
    Pool("avg_pool2d(x, (2, 3))", lambda x: windows(x, (2, 3), (2, 3)).mean((-1, -2)), 4),
    Pool("avg_pool2d(x, 3, stride=2, padding=(1, 0))",
         lambda x: windows(framed(x, (1, 1), (0, 0)), (3, 3), (2, 2)).mean((-1, -2)), 5),
    Pool("global_avg_pool2d(x)", lambda x: x.mean((2, 3)), 12),
    Pool("adaptive_avg_pool2d(x, (2, 3))",
         lambda x: x.reshape(*x.shape[:2], 2, x.shape[2] // 2, 3, -1).mean((3, 5)), 12, 1, (2, 3)),
]  # fmt: skip


@pytest.mark.one_in(16)
@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.call)
def test_pooling(pool: Pool) -> None:
    program = f"def f(x: Tensor[N, C, H, W, f32]):\n    return {pool.call}\n"
    f, forms = tessera.compile(program).f, compile_to_forms(program)

    @given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 6), st.integers(0, 6), st.integers(0, 999))
    @settings(max_examples=6)
    def check(n: int, c: int, h: int, w: int, seed: int) -> None:
        high, wide = ((least + pool.least) * times for least, times in zip((h, w), pool.multiples, strict=True))
        x = normal(seed, n, c, high, wide)
        y = np.asarray(f(x))
        same_bits(y, np.asarray(run_function(forms, "m.f", [x])[0]))
        exact, size = pool.exact(x.astype(np.float64)), np.abs(x).max()
        assert np.all(np.abs(y - exact) <= pool.bound * 2.0**-24 * size)
        same_bits(np.asarray(f(x[-1:])), y[-1:])

    check()


@pytest.mark.parametrize(
    ("call", "plane"), [("max_pool1d(x, 3, stride=2, padding=1)", np.max), ("avg_pool1d(x, 2)", np.mean)]
)
def test_pooling_of_sequences(call: str, plane: Callable[..., Array]) -> None:
    x = normal(0, 2, 3, 11)
    y = tessera.compile(f"def f(x: Tensor[N, C, L, f32]):\n    return {call}\n").f(x)
    if plane is np.max:
        x = np.pad(x, ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    size = 3 if plane is np.max else 2
    view = np.lib.stride_tricks.sliding_window_view(x, size, 2)[:, :, ::2]
    np.testing.assert_allclose(y, plane(view, axis=-1), rtol=1e-6)


def fails(program: str, *shapes: tuple[int, ...]) -> str:
    with pytest.raises(tessera.TesseraError) as caught:
        tessera.compile(program).f(*(np.zeros(shape, "f4") for shape in shapes))
    return str(caught.value)


CONV = "def f(x: Tensor[N, C, H, W, f32], w: Tensor[O, C, 3, 3, f32]):\n    return conv2d(x, w{})\n"


@pytest.mark.one_in(3)
def test_what_does_not_fit_says_so() -> None:
    assert "H >= 3" in fails(CONV.format(""), (1, 2, 2, 5), (4, 2, 3, 3))
    assert "needs stride 1" in fails(CONV.format(', padding="same", stride=2'), (1, 2, 5, 5), (4, 2, 3, 3))
    assert '"same" or "valid"' in fails(CONV.format(', padding="full"'), (1, 2, 5, 5), (4, 2, 3, 3))
    assert "0 apart" in fails("def f(x: Tensor[N, f32]):\n    return windows(x, 2, 0, stride=0)\n", (5,))
    assert "does not fit" in fails("def f(x: Tensor[4, f32]):\n    return windows(x, 5, 0)\n", (4,))
    assert "one for each axis" in fails(CONV.format(", stride=(1, 2, 3)"), (1, 2, 5, 5), (4, 2, 3, 3))
    triple = "def f(x: Tensor[N, 3, 8, 8, f32]):\n    return avg_pool2d(x, (2, 2, 2))\n"
    assert "one item for each axis" in fails(triple, (1, 3, 8, 8))


@pytest.mark.one_in(4)
def test_what_is_put_around_or_between_never_multiplies_in_pools() -> None:
    """Infinite elements and cotangents reach what their windows have, and make no NaN elsewhere."""
    program = (
        "def f(x: Tensor[1, 1, 6, 6, f32], c: Tensor[1, 1, 3, 3, f32]):\n"
        "    pools = lambda z: (max_pool2d(z, 3, stride=2, padding=1), avg_pool2d(z, 3, stride=2, padding=1))\n"
        "    first, second = (lambda z: sum(c * pools(z)[0])), (lambda z: sum(c * pools(z)[1]))\n"
        "    return pools(x), grad(first)(x), grad(second)(x)\n"
    )
    x, c = np.arange(36, dtype="f4").reshape(1, 1, 6, 6), np.ones((1, 1, 3, 3), "f4")
    x[0, 0, 2, 2], c[0, 0, 0, 0] = np.inf, np.inf
    (largest, mean), *slopes = tessera.compile(program).f(x, c)
    assert np.isinf(largest).sum() == np.isinf(mean).sum() == 1
    assert [int(np.isinf(s).sum()) for s in slopes] == [1, 4]
    assert not any(np.isnan(v).any() for v in (largest, mean, *slopes))
