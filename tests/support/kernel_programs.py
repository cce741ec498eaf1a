"""Kernels for tests of tile programs: each a program text with one kernel `f`, whose bits no schedule changes."""

from __future__ import annotations

import numpy as np

HEAD = """
    T = tile.context()
    acc = tile.zeros((T.m, T.d), f32)
    m = tile.full((T.m,), -INF)
    l = tile.zeros((T.m,), f32)
    Q = tile.load(q, rows=T.m, cols=T.d)
    for j in tile.range_n(k, T.n):
        s = tile.dot(Q, tile.transpose(tile.load(k, j, None, cols=T.d))) * 0.5
"""
TAIL = """
        P, mc, lc = tile.softmax_online(s)
        acc, m, l = tile.softmax_accumulate(acc, m, l, P, tile.load(v, j, None, cols=T.d), mc, lc)
    return acc / l[:, None]
"""
ARGS = 'q: KTile["B*H", S, 8, f32], k: KTile["B*H", L, 8, f32], v: KTile["B*H", L, 8, f32]'

PROGRAMS = {
    "product": """
@kernel
def f(a: KTile[S, K, f32], b: KTile[K, L, f32]) -> Tile[S, L, f32]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return acc
""",
    "attention": f"@kernel\ndef f({ARGS}):{HEAD}{TAIL}",
    "causal": f"""@kernel
def f({ARGS}):{HEAD}
        tile.mask_causal(s, tile.row_index(), tile.col_index(j)){TAIL}""",
    "window": f"""@kernel
def f({ARGS}):{HEAD}
        r, c = tile.row_index()[:, None], tile.col_index(j)[None, :]
        s = where((c <= r) & (r - c < 5), s, -INF){TAIL}""",
    "bias": f"""@kernel
def f(b: KTile[S, L, f32], {ARGS}):{HEAD}
        s = s + tile.load(b, None, j, rows=T.m){TAIL}""",
    "norm": """
@kernel
def f(x: KTile[S, 24, f32], w: KTile[24, f32]) -> Tile[S, 24, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m)
    return t * rsqrt(mean(t * t, axis=-1, keep=True) + 1e-5) * w[None, :]
""",
    "largest": """
@kernel
def f(x: KTile[S, L, f32]):
    T = tile.context()
    high = tile.full((T.m,), -INF)
    low = tile.full((T.m,), INF)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        high = maximum(high, tile.reduce_max(t, axis=1))
        low = minimum(low, tile.reduce_min(t, axis=1))
    return high, low
""",
    "any width": f"@kernel\ndef f({ARGS.replace(', 8, f32', ', D, f32')}):{HEAD}{TAIL}",
    "crossed": """
@kernel
def f(x: KTile[S, L, f32]) -> Tile[L, S, f32]:
    T = tile.context()
    return tile.transpose(tile.load(x, rows=T.m, cols=T.n)) * 2.0
""",
}
BLOCKS = [None, (1, 1, 1), (8, 16, 7), (5, 3, 300), (64, 128, 64)]


def scheduled(program: str, blocks: tuple[int, ...] | None) -> str:
    return program if blocks is None else program.replace("@kernel", f"@kernel.schedule(Schedule(block={blocks}))")


def arguments(name: str, s: int, other: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {
        "product": [(s, other), (other, s + 3)],
        "bias": [(s, other), (2, s, 8), (2, other, 8), (2, other, 8)],
        "norm": [(s, 24), (24,)],
        "largest": [(s, other)],
        "crossed": [(s, other)],
    }.get(name, [(2, s, 8), (2, other, 8), (2, other, 8)])
    return [(rng.standard_normal(shape) * 4).astype(np.float32) for shape in shapes]
