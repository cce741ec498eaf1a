"""More kernels as people write them who know other tile languages: experts, packed weights, drawn dropout, sequences of
several lengths, sparse attention, routing, gradients, convolutions, state spaces, rotations, clusters. They run as
tiles, with the bits of their meaning under every schedule.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tesserac.schedule.machine import AARCH64, SM_90A
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_programs import scheduled
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs_gpu import emulated
from tests.tile.test_user_kernels import why

Arguments = Callable[[np.random.Generator, int, int], list[np.ndarray]]
"""What a kernel is given where there are so many rows, and so many terms."""


def floats(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.standard_normal(shape, "f4") for shape in shapes]


EXPERTS = """
@kernel
def f(x: KTile[S, L, f32], w: KTile["4*L", 24, f32], order: KTile[S, i32], expert: KTile[1, i32]):
    T = tile.context()
    at, e, acc = tile.load(order, rows=T.m), tile.load(expert)[0], tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, at, k), tile.load(w, tile.col_index(k) + e * L, None, cols=T.n))
    return acc
"""
PACKED_WEIGHTS = """
@kernel
def f(x: KTile[S, 64, f32], w: KTile[32, 24, u8], scale: KTile[24, f32]):
    T = tile.context()
    p = tile.load(w, cols=T.n)
    low, high = cast(p & cast(15, u8), f32) - 8.0, cast(p >> cast(4, u8), f32) - 8.0
    t = tile.load(x, rows=T.m)
    return (tile.dot(t[:, 0::2], low) + tile.dot(t[:, 1::2], high)) * tile.load(scale, cols=T.n)[None, :]
"""
DROPOUT = """
@kernel
def f(x: KTile[S, 40, f32], seed: KTile[1, i32]):
    T = tile.context()
    p = softmax(tile.load(x, rows=T.m))
    s = tile.load(seed)[0]
    at = tile.row_index()[:, None] * 40 + cast(arange(40), i32)[None, :]
    h = (at + s) * 1103515245 + 12345
    h = (h ^ (h >> 13)) * 69069
    return where(h % 10 < 7, p / 0.7, 0.0)
"""
SEVERAL_LENGTHS = """
@kernel
def f(q: KTile[S, 16, f32], k: KTile[S, 16, f32], v: KTile[S, 16, f32], seg: KTile[S, i32]) -> Tile[S, 16, f32]:
    T = tile.context()
    x, mine = tile.load(q, rows=T.m, cols=T.d), tile.load(seg, rows=T.m)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n):
        s = tile.dot(x, tile.transpose(tile.load(k, j))) * 0.25
        s = where(mine[:, None] == tile.load(seg, j)[None, :], s, -INF)
        p, mc, lc = tile.softmax_online(s)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j), mc, lc)
    return acc / l[:, None]
"""
SPARSE_ATTENTION = """
@kernel
def f(q: KTile[S, 16, f32], k: KTile[64, 16, f32], v: KTile[64, 16, f32], blocks: KTile[3, i32],
      slots: KTile[24, i32]) -> Tile[S, 16, f32]:
    T = tile.context()
    x = tile.load(q, rows=T.m, cols=T.d)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(slots, T.n):
        at = blocks[tile.col_index(j) // 8] * 8 + tile.col_index(j) % 8
        s = tile.dot(x, tile.transpose(tile.load(k, at))) * 0.25
        s = where(at[None, :] <= tile.row_index()[:, None], s, -INF)
        p, mc, lc = tile.softmax_online(s)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, at), mc, lc)
    return acc / maximum(l, 1e-30)[:, None]
"""
ROUTING = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 8, f32]):
    T = tile.context()
    acc = tile.zeros((T.m, 8), f32)
    for j in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, None, j, rows=T.m), tile.load(w, j))
    p = softmax(acc)
    return argmax(p, axis=1), max(p, axis=1)
"""
NORM_GRADIENT = """
@kernel
def f(x: KTile[S, 48, f32], dy: KTile[S, 48, f32], g: KTile[48, f32]):
    T = tile.context()
    t, d, w = tile.load(x, rows=T.m), tile.load(dy, rows=T.m), tile.load(g)
    mu = mean(t, axis=-1, keep=True)
    r = rsqrt(mean((t - mu) * (t - mu), axis=-1, keep=True) + 1e-5)
    h, wd = (t - mu) * r, d * w[None, :]
    a, b = mean(wd, axis=-1, keep=True), mean(wd * h, axis=-1, keep=True)
    return (wd - a - h * b) * r
"""
DEPTHWISE = """
@kernel
def f(x: KTile[2, S, 16, f32], w: KTile[4, 16, f32], b: KTile[16, f32]):
    T = tile.context()
    r = tile.row_index()
    y = tile.load(b)[None, :] + tile.load(x, rows=T.m) * w[3][None, :]
    for i in range(3):
        at = r - 3 + i
        y = y + where(at[:, None] >= 0, tile.load(x, maximum(at, 0)), 0.0) * w[i][None, :]
    return y * sigmoid(y)
"""
STATE_SPACE = """
@kernel
def f(x: KTile[S, 16, f32], a: KTile[S, 16, f32], b: KTile[S, 16, f32], c: KTile[S, 16, f32]):
    T = tile.context()
    u, d = tile.load(x, rows=T.m), tile.load(a, rows=T.m)
    p, q = tile.load(b, rows=T.m), tile.load(c, rows=T.m)
    h, y = tile.zeros((T.m,), f32), tile.zeros((T.m,), f32)
    for i in range(16):
        h = h * exp(-softplus(d[:, i])) + p[:, i] * u[:, i]
        y = y + q[:, i] * h
    return y
"""
ROTATED_ATTENTION = """
@kernel
def f(q: KTile[S, 16, f32], k: KTile[S, 16, f32], v: KTile[S, 16, f32], c: KTile[S, 8, f32],
      s: KTile[S, 8, f32]) -> Tile[S, 16, f32]:
    T = tile.context()
    x, co, si = tile.load(q, rows=T.m), tile.load(c, rows=T.m), tile.load(s, rows=T.m)
    x = concat([x[:, :8] * co - x[:, 8:] * si, x[:, 8:] * co + x[:, :8] * si], axis=1)
    acc, m, l = tile.zeros((T.m, 16), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n):
        y, cj, sj = tile.load(k, j), tile.load(c, j), tile.load(s, j)
        y = concat([y[:, :8] * cj - y[:, 8:] * sj, y[:, 8:] * cj + y[:, :8] * sj], axis=1)
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.transpose(y)) * 0.25)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j), mc, lc)
    return acc / l[:, None]
"""
HALVES_TURNED = """
@kernel
def f(q: KTile[S, 16, f32], k: KTile[S, 16, f32], c: KTile[S, 16, f32], s: KTile[S, 16, f32]):
    T = tile.context()
    x, y = tile.load(q, rows=T.m), tile.load(k, rows=T.m)
    y = y * rsqrt(mean(y * y, axis=1, keep=True) + 1e-6)
    co, si = tile.load(c, rows=T.m), tile.load(s, rows=T.m)
    return (x * co + concat([-x[:, 8:], x[:, :8]], axis=1) * si,
            y * co + concat([-y[:, 8:], y[:, :8]], axis=1) * si + roll(y, -5, axis=1))
"""
WINDOW_OF_IMAGE = """
@kernel
def f(x: KTile[2, S, L, f32], w: KTile[3, 3, f32]) -> Tile[2, S, L, f32] where S >= 1, L >= 1:
    T = tile.context()
    r, c, acc = tile.row_index(), tile.col_index(), tile.zeros((T.m, T.n), f32)
    for i in range(3):
        for j in range(3):
            a, b = r + i - 1, c + j - 1
            inside = ((a >= 0) & (a < S))[:, None] & ((b >= 0) & (b < L))[None, :]
            acc = acc + where(inside, x[clamp(a, 0, S - 1)[:, None], clamp(b, 0, L - 1)[None, :]], 0.0) * w[i, j]
    return acc
"""
TAPS = """
@kernel
def f(x: KTile[S, 48, f32], w: KTile[4, f32]):
    T = tile.context()
    t = pad(tile.load(x, rows=T.m), ((0, 0), (3, 0)))
    return t[:, 3:] * w[0] + t[:, 2:50] * w[1] + t[:, 1:49] * w[2] + t[:, :48] * w[3]
"""
PRODUCTS_IN_A_LOOP = """
@kernel
def f(a: KTile[S, L, f32], b: KTile[L, 40, f32], c: KTile[40, 24, f32]) -> Tile[S, 24, f32]:
    T = tile.context()
    acc = tile.zeros((T.m, 24), f32)
    for j in tile.range_k(b, T.n):
        s = tile.zeros((T.m, T.n), f32)
        for k in tile.range_k(a, T.k):
            s += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, j))
        acc += tile.dot(maximum(s, 0.0), tile.load(c, j))
    return acc
"""
CLUSTERS = """
@kernel
def f(x: KTile[S, 16, f32], c: KTile[10, 16, f32]):
    T = tile.context()
    t, y = tile.load(x, rows=T.m), tile.load(c)
    d = sum(t * t, axis=1, keep=True) - 2.0 * tile.dot(t, tile.transpose(y)) + sum(y * y, axis=1)[None, :]
    return argmin(d, axis=1), min(d, axis=1)
"""
GATED_GRADIENT = """
@kernel
def f(dc: KTile[S, L, f32], a: KTile[S, L, f32], b: KTile[S, L, f32]):
    T = tile.context()
    d, x, y = (tile.load(v, rows=T.m, cols=T.n) for v in (dc, a, b))
    t = tanh(0.7978845608 * (x + 0.044715 * x * x * x))
    slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (0.7978845608 * (1.0 + 0.134145 * x * x))
    return d * y * slope, d * 0.5 * x * (1.0 + t)
"""
WEIGHT_GRADIENTS = """
@kernel
def f(dy: KTile[L, S, f32], x: KTile[L, S, f32], mu: KTile[L, f32], rstd: KTile[L, f32]):
    T = tile.context()
    dw, db = tile.zeros((T.n,), f32), tile.zeros((T.n,), f32)
    for i in tile.range_n(x, T.m):
        d, t = tile.load(dy, i, None, cols=T.n), tile.load(x, i, None, cols=T.n)
        dw += sum(d * ((t - tile.load(mu, i)[:, None]) * tile.load(rstd, i)[:, None]), axis=0)
        db += sum(d, axis=0)
    return dw, db
"""
DIVERGENCE = """
@kernel
def f(guess: KTile[S, L, f32], truth: KTile[S, L, f32]) -> Tile[S, f32]:
    T = tile.context()
    acc = tile.zeros((T.m,), f32)
    for j in tile.range_k(guess, T.n):
        p, t = tile.load(guess, None, j, rows=T.m), abs(tile.load(truth, None, j, rows=T.m))
        acc += sum(t * (log(maximum(t, 1e-10)) - p), axis=1)
    return acc
"""
MATRIX_BY_INDEX = """
@kernel
def f(x: KTile[3, S, L, f32], e: KTile[3, 1, 1, i32], w: Tensor[X, L, 24, f32], b: KTile[X, 24, f32]):
    T = tile.context()
    i, acc = tile.load(e)[0, 0], tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, None, k, rows=T.m), tile.load(w[i], k, None, cols=T.n))
    return acc + tile.load(b[i], cols=T.n)[None, :]
"""
RECURRENT = """
@kernel
def f(x: Tensor[L, S, 16, f32], wz: KTile[16, 16, f32], wh: KTile[16, 16, f32]) -> Tile[L, S, 16, f32]:
    T = tile.context()
    h, y = tile.zeros((T.m, 16), f32), tile.zeros((L, T.m, 16), f32)
    for t in range(L):
        step = tile.load(x[t], rows=T.m)
        z = sigmoid(step + tile.dot(h, wz))
        h = z * h + (1.0 - z) * tanh(step + tile.dot(z * h, wh))
        y[t] = h
    return y
"""
ROWS_BY_GROUP = """
@kernel
def f(x: KTile[S, L, f32], w: Tensor[E, L, 24, f32], ends: KTile[E + 1, i32]) -> Tile[S, 24, f32]:
    T = tile.context()
    y, r = tile.zeros((T.m, T.n), f32), tile.row_index()
    for e in range(E):
        acc = tile.zeros((T.m, T.n), f32)
        for k in tile.range_k(x, T.k):
            acc += tile.dot(tile.load(x, None, k, rows=T.m), tile.load(w[e], k, None, cols=T.n))
        y = where(((ends[e] <= r) & (r < ends[e + 1]))[:, None], acc, y)
    return y
"""
GROUP_NORM = """
@kernel
def f(x: KTile[B, C, P, f32], w: KTile[B, C, 1, f32]) -> Tile[B, C, P, f32]:
    T = tile.context()
    s, v = tile.zeros((), f32), tile.zeros((), f32)
    for c in range(C):
        for p in tile.range_k(x, T.k):
            s += sum(tile.load(x[c], p))
    for c in range(C):
        for p in tile.range_k(x, T.k):
            d = tile.load(x[c], p) - s / (C * P)
            v += sum(d * d)
    return (tile.load(x, rows=T.m, cols=T.n) - s / (C * P)) * rsqrt(v / (C * P) + 1e-5) * tile.load(w, rows=T.m)
"""
KERNELS: dict[str, tuple[str, Arguments]] = {
    "matrix by index": (
        MATRIX_BY_INDEX,
        lambda rng, s, n: [
            *floats(rng, (3, s, n)),
            np.array([[[2]], [[-4]], [[2]]], "i4"),
            *floats(rng, (4, n, 24), (4, 24)),
        ],
    ),
    "recurrent batch": (RECURRENT, lambda rng, s, n: floats(rng, (n, s, 16), (16, 16), (16, 16))),
    "experts": (
        EXPERTS,
        lambda rng, s, n: [*floats(rng, (s, n), (4 * n, 24)), rng.permutation(s).astype("i4"), np.array([2], "i4")],
    ),
    "int4 weights": (
        PACKED_WEIGHTS,
        lambda rng, s, n: [*floats(rng, (s, 64)), rng.integers(0, 256, (32, 24)).astype("u1"), *floats(rng, (24,))],
    ),
    "softmax dropout": (DROPOUT, lambda rng, s, n: [*floats(rng, (s, 40)), np.array([7], "i4")]),
    "varlen attention": (
        SEVERAL_LENGTHS,
        lambda rng, s, n: [*floats(rng, *[(s, 16)] * 3), np.sort(rng.integers(0, 3, s)).astype("i4")],
    ),
    "block sparse attention": (
        SPARSE_ATTENTION,
        lambda rng, s, n: [*floats(rng, (s, 16), (64, 16), (64, 16)), np.array([0, 2, 5], "i4"), np.zeros(24, "i4")],
    ),
    "top-1 routing": (ROUTING, lambda rng, s, n: floats(rng, (s, n), (n, 8))),
    "layernorm backward": (NORM_GRADIENT, lambda rng, s, n: floats(rng, (s, 48), (s, 48), (48,))),
    "depthwise conv1d": (DEPTHWISE, lambda rng, s, n: floats(rng, (2, s, 16), (4, 16), (16,))),
    "selective scan": (STATE_SPACE, lambda rng, s, n: floats(rng, *[(s, 16)] * 4)),
    "rope and attention": (ROTATED_ATTENTION, lambda rng, s, n: floats(rng, *[(s, 16)] * 3, (s, 8), (s, 8))),
    "rope by halves": (HALVES_TURNED, lambda rng, s, n: floats(rng, *[(s, 16)] * 4)),
    "window of an image": (WINDOW_OF_IMAGE, lambda rng, s, n: floats(rng, (2, s, n), (3, 3))),
    "conv1d of taps": (TAPS, lambda rng, s, n: floats(rng, (s, 48), (4,))),
    "two layers": (PRODUCTS_IN_A_LOOP, lambda rng, s, n: floats(rng, (s, n), (n, 40), (40, 24))),
    "geglu backward": (GATED_GRADIENT, lambda rng, s, n: floats(rng, *[(s, n)] * 3)),
    "layernorm weights": (WEIGHT_GRADIENTS, lambda rng, s, n: floats(rng, (n, s), (n, s), (n,), (n,))),
    "kl divergence": (DIVERGENCE, lambda rng, s, n: floats(rng, (s, n), (s, n))),
    "k-means": (CLUSTERS, lambda rng, s, n: floats(rng, (s, 16), (10, 16))),
    "groups of rows": (
        ROWS_BY_GROUP,
        lambda rng, s, n: [*floats(rng, (s, n), (5, n, 24)), np.array([0, 3, 3, 20, 30, s], "i4")],
    ),
    "group norm": (GROUP_NORM, lambda rng, s, n: floats(rng, (2, s, n), (2, s, 1))),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", KERNELS)
def test_they_run_as_tiles(name: str) -> None:
    assert why(KERNELS[name][0], SM_90A) == why(KERNELS[name][0], AARCH64) == [""]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", KERNELS)
def test_they_have_the_bits_of_their_meaning(name: str) -> None:
    text, args = KERNELS[name][0], KERNELS[name][1](np.random.default_rng(0), 37, 70)
    wanted = run_function(compile_to_forms(text), "m.f", args)
    found = [tessera.compile(scheduled(text, blocks)).f(*args) for blocks in (None, (5, 3, 30))]
    ways = [*(one if isinstance(one, tuple) else (one,) for one in found), emulated(text)(*args)]
    for results in ways:
        for got, expected in zip(results, wanted, strict=True):
            same_bits(np.asarray(got), np.asarray(expected))
