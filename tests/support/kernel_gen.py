"""Random kernels: hypothesis writes a program text with one block-free kernel `f`, and what to call it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

WIDTH = 24
"""The size of a dim that a program takes whole."""
Draw = Callable[[st.SearchStrategy[str]], str]


@dataclass(frozen=True)
class RandomKernel:
    """A program text, and the names of the kernel's parameters, which say their shapes."""

    text: str
    names: tuple[str, ...]

    def scheduled(self, blocks: tuple[int, ...] | None) -> str:
        how = "@kernel" if blocks is None else f"@kernel.schedule(Schedule(block={blocks}))"
        return self.text.replace("@kernel", how)

    def arguments(self, s: int, n: int, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        shapes = {"x": (s, n), "y": (s, n), "w": (n, 8), "r": (s, WIDTH), "b": (2, s, n)}
        return [rng.standard_normal(shapes[name]).astype(np.float32) * 3 for name in self.names]


TYPES = {
    "x": "KTile[S, N, f32]", "y": "KTile[S, N, f32]", "w": "KTile[N, 8, f32]", "r": f"KTile[S, {WIDTH}, f32]",
    "b": "KTile[2, S, N, f32]",
}  # fmt: skip


def expression(draw: Draw, tiles: list[str], depth: int = 2) -> str:
    """Arithmetic of tiles of one shape, which stays finite."""
    if depth == 0:
        return draw(st.sampled_from([*tiles, "0.5", "2.0"]))
    left = expression(draw, tiles, depth - 1)
    right = expression(draw, tiles, depth - 1)
    tile = draw(st.sampled_from(tiles))
    return draw(
        st.sampled_from([
            f"({tile} + {left})", f"({tile} * {right} - {left})", f"maximum({tile}, {left})",
            f"where({tile} < {left}, {tile}, {right} * {tile})", f"tanh({tile}) * {right}",
            f"exp(-abs({tile})) + {left}",
        ])
    )  # fmt: skip


def _masked(draw: Draw, tile: str) -> str:
    mask = draw(st.sampled_from(["", "c <= r", "(c <= r) & (r - c < 7)", "r + c < 30"]))
    if not mask:
        return ""
    indices = "        r, c = tile.row_index()[:, None], tile.col_index(j)[None, :]\n"
    return f"{indices}        {tile} = where({mask}, {tile}, -INF)\n"


def _pointwise(draw: Draw) -> tuple[str, tuple[str, ...]]:
    loads = "    t = tile.load(x, rows=T.m, cols=T.n)\n    u = tile.load(y, rows=T.m, cols=T.n)\n"
    first, second = expression(draw, ["t", "u"]), expression(draw, ["u", "t"])
    ends = [f"{first}", f"{first}, {second}", f"tile.transpose({first})"]
    return f"{loads}    return {draw(st.sampled_from(ends))}\n", ("x", "y")


def _extremes(draw: Draw) -> tuple[str, tuple[str, ...]]:
    values = expression(draw, ["t", "u"])
    join, reduce, start = draw(
        st.sampled_from([("maximum", "max", "-INF"), ("minimum", "min", "INF")])  # type: ignore[arg-type]
    )
    return (
        f"    s = tile.full((T.m,), {start})\n    for j in tile.range_k(x, T.k):\n"
        f"        t = tile.load(x, None, j, rows=T.m)\n        u = tile.load(y, None, j, rows=T.m)\n"
        f"        s = {join}(s, tile.reduce_{reduce}({values}, axis=1))\n    return {expression(draw, ['s'])}\n"
    ), ("x", "y")


def _sums(draw: Draw) -> tuple[str, tuple[str, ...]]:
    return (
        "    s = tile.zeros((T.m,), f32)\n    for j in tile.range_k(x, T.k):\n"
        "        t = tile.load(x, None, j, rows=T.m)\n"
        f"        s += tile.reduce_sum({expression(draw, ['t'])}, axis=1)\n    return {expression(draw, ['s'])}\n"
    ), ("x",)


def _product(draw: Draw) -> tuple[str, tuple[str, ...]]:
    return (
        "    a = tile.zeros((T.m, T.d), f32)\n    for j in tile.range_k(x, T.k):\n"
        "        t = tile.load(x, None, j, rows=T.m)\n"
        f"        a += tile.dot({expression(draw, ['t'])}, tile.load(w, j, None, cols=T.d))\n"
        f"    return {expression(draw, ['a'])}\n"
    ), ("x", "w")


def _softmax(draw: Draw) -> tuple[str, tuple[str, ...]]:
    return (
        "    a = tile.zeros((T.m, T.d), f32)\n    m = tile.full((T.m,), -INF)\n    l = tile.zeros((T.m,), f32)\n"
        "    for j in tile.range_k(b, T.k):\n        t = tile.load(b, None, j, rows=T.m)\n"
        f"        q = {expression(draw, ['t'])}\n{_masked(draw, 'q')}"
        "        P, mc, lc = tile.softmax_online(q)\n"
        "        a, m, l = tile.softmax_accumulate(a, m, l, P, tile.load(w, j, None, cols=T.d), mc, lc)\n"
        "    return a / l[:, None]\n"
    ), ("b", "w")


def _rows(draw: Draw) -> tuple[str, tuple[str, ...]]:
    whole = draw(st.sampled_from(["mean(t * t, axis=-1, keep=True)", "sum(t, axis=-1, keep=True)", "softmax(t)"]))
    return f"    t = tile.load(r, rows=T.m)\n    u = {whole}\n    return {expression(draw, ['t'])} + u\n", ("r",)


@st.composite
def random_kernels(draw: Draw) -> RandomKernel:
    make = draw(st.sampled_from([_pointwise, _extremes, _sums, _product, _softmax, _rows]))  # type: ignore[arg-type]
    body, names = make(draw)  # type: ignore[operator]
    params = ", ".join(f"{name}: {TYPES[name]}" for name in names)
    return RandomKernel(f"@kernel\ndef f({params}):\n    T = tile.context()\n{body}", names)
