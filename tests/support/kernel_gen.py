"""Random kernels: a program text with a block-free kernel that `f` is or calls, and what to call `f` with.

Whoever writes one has `pick`, a choice among some: of hypothesis in tests, of a seed in `tests.tools.random_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

T = TypeVar("T")
WIDTH = 24
"""The size of a dim that a program takes whole."""
HEADS = 8
FLOATS = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "bf16 @accum(f32)": np.dtype(ml_dtypes.bfloat16)}


class Pick:
    """Choices, one after the other."""

    def __init__(self, choose: Callable[[Sequence[object]], object]) -> None:
        self._choose = choose

    def __call__(self, *options: T) -> T:
        return self._choose(options)  # type: ignore[return-value]


@dataclass(frozen=True)
class RandomKernel:
    """A program text, and the names of the parameters of `f`, which say their shapes. The bits of one that `is_narrow`
    are those of its machine, and any schedule's."""

    text: str
    names: tuple[str, ...]
    dtype: str = "f32"

    @property
    def is_narrow(self) -> bool:
        return self.dtype not in ("f32", "f64")

    def scheduled(self, blocks: tuple[int, ...] | None) -> str:
        how = "@kernel" if blocks is None else f"@kernel.schedule(Schedule(block={blocks}))"
        return self.text.replace("@kernel", how)

    def arguments(self, s: int, n: int, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        shapes = {
            "x": (s, n), "y": (s, n), "w": (n, HEADS), "z": (n, s + 2), "r": (s, WIDTH), "v": (WIDTH,), "c": (n,),
            "b": (2, s, n), "q": (2, s, HEADS), "k": (2, n, HEADS), "q4": (2, 3, s, HEADS), "k4": (2, 1, n, HEADS),
        }  # fmt: skip
        made = []
        for name in self.names:
            if name == "end":
                made.append(np.array([rng.integers(0, n + 2)], np.int32))
            elif name == "ends":
                made.append(rng.integers(0, n + 2, s).astype(np.int32))
            else:
                made.append((rng.standard_normal(shapes[name]) * 3).astype(FLOATS[self.dtype]))
        return made


TYPES = {
    "x": "S, N", "y": "S, N", "w": f"N, {HEADS}", "z": "N, L", "r": f"S, {WIDTH}", "v": f"{WIDTH}", "c": "N",
    "b": "2, S, N", "q": f"2, S, {HEADS}", "k": f"2, N, {HEADS}", "q4": f"2, 3, S, {HEADS}", "k4": f"2, 1, N, {HEADS}",
    "end": "1", "ends": "S",
}  # fmt: skip
BOUNDS = ("end", "ends")


def expression(pick: Pick, tiles: list[str], depth: int = 2) -> str:
    """Arithmetic of tiles of one shape, which stays finite."""
    if depth == 0:
        return pick(*tiles, "0.5", "2.0")
    left = expression(pick, tiles, depth - 1)
    right = expression(pick, tiles, depth - 1)
    tile = pick(*tiles)
    return pick(
        f"({tile} + {left})", f"({tile} * {right} - {left})", f"maximum({tile}, {left})",
        f"where({tile} < {left}, {tile}, {right} * {tile})", f"tanh({tile}) * {right}",
        f"exp(-abs({tile})) + {left}", f"{tile} / (1.5 + abs({left}))",
    )  # fmt: skip


@dataclass
class _Writer:
    """Lines of a kernel, and the parameters that they read."""

    pick: Pick
    dtype: str
    names: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def read(self, name: str) -> str:
        if name not in self.names:
            self.names.append(name)
        return name

    def add(self, *lines: str, inside: bool = False) -> None:
        self.lines += [("        " if inside else "    ") + line for line in lines]

    @property
    def wide(self) -> str:
        return "f64" if self.dtype == "f64" else "f32"

    def bounds(self) -> str:
        """Of a loop over part of a dim."""
        pick = self.pick
        kind = pick("", "", "window", "causal", "from", "length", "lengths")
        if kind in ("length", "lengths"):
            name = "end" if kind == "length" else "ends"
            return f", stop=tile.load({self.read(name)}" + (")[0]" if kind == "length" else ", rows=T.m)")
        row = "tile.row_index()"
        ways = {"window": f", start={row} - 7, stop={row} + 2", "causal": f", stop={row} + 1", "from": ", start=3"}
        return ways.get(kind, "")

    def mask(self, counter: str) -> str:
        """A condition on rows and columns, or none."""
        kind = self.pick("", "", "c <= r", "(c <= r) & (r - c < 7)", "r + c < 30", "c % 3 != 1", "c < n")
        if kind == "c < n":
            kind = f"c < tile.load({self.read('end')})[0]"
        if kind:
            self.add(f"r, c = tile.row_index()[:, None], tile.col_index({counter})[None, :]", inside=True)
        return kind

    def returned(self, values: list[str]) -> None:
        """The values, or what is computed of them."""
        pick = self.pick
        shown = [expression(pick, [value], 1) if pick(True, False) else value for value in values]
        self.add(f"return {', '.join(shown)}")


def _pointwise(w: _Writer) -> None:
    pick = w.pick
    w.read("x")
    tiles = ["t"]
    w.add("t = tile.load(x, rows=T.m, cols=T.n)")
    if pick(True, False):
        w.add(f"u = tile.load({w.read('y')}, rows=T.m, cols=T.n)")
        tiles.append("u")
    if pick(True, False):
        w.add(f"e = tile.load({w.read('c')}, cols=T.n)[None, :] + t * 0.0")
        tiles.append("e")
    if pick(True, False):
        w.add("i = where(tile.row_index()[:, None] < tile.col_index()[None, :], t, -t)")
        tiles.append("i")
    first, second = expression(pick, tiles), expression(pick, tiles)
    w.add(f"return {pick(first, f'{first}, {second}', f'tile.transpose({first})')}")


CARRIED = {"dot": "a", "cut": "a", "sum": "s", "max": "h", "min": "g"}


def _folds(w: _Writer) -> None:
    """A loop over columns that carries sums, extremes and products, some of each."""
    pick = w.pick
    w.read("x")
    others = [kind for kind in ("sum", "max", "min") if pick(True, False, False)]
    kinds = [*others, *pick(["dot"], ["cut"], [])] or ["dot"]
    starts = {
        "dot": f"a = tile.zeros((T.m, T.d), {w.wide})", "cut": f"a = tile.zeros((T.m, T.n), {w.wide})",
        "sum": f"s = tile.zeros((T.m,), {w.wide})", "max": f"h = tile.full((T.m,), -INF, {w.wide})",
        "min": f"g = tile.full((T.m,), INF, {w.wide})",
    }  # fmt: skip
    w.add(*(starts[kind] for kind in kinds), f"for j in tile.range_k(x, T.k{w.bounds()}):")
    w.add("t = tile.load(x, None, j, rows=T.m)", inside=True)
    tiles = ["t"]
    if pick(True, False):
        w.add(f"u = tile.load({w.read('y')}, None, j, rows=T.m)", inside=True)
        tiles.append("u")
    mask = w.mask("j")
    for kind in kinds:
        values = expression(pick, tiles)
        absent = {"max": "-INF", "min": "INF"}.get(kind, "0.0")
        values = f"where({mask}, {values}, {absent})" if mask else values
        right = f"tile.load({w.read('w')}, j, None, cols=T.d)" if kind == "dot" else ""
        right = f"tile.load({w.read('z')}, j, None, cols=T.n)" if kind == "cut" else right
        update = {
            "dot": f"a += tile.dot({values}, {right})", "cut": f"a = tile.dot({values}, {right}, a)",
            "sum": f"s += tile.reduce_sum({values}, axis=1)",
            "max": f"h = maximum(h, tile.reduce_max({values}, axis=1))",
            "min": f"g = minimum(tile.reduce_min({values}, axis=1), g)",
        }[kind]  # fmt: skip
        w.add(update, inside=True)
    w.returned([CARRIED[kind] for kind in kinds])


def _softmax(w: _Writer) -> None:
    """Of scores that are read, or computed of queries and keys, for one head or many that share keys."""
    pick = w.pick
    given, keys = pick(("b", "w"), ("q", "k"), ("q4", "k4"))
    w.read(given)
    values = w.read(keys)
    w.add(f"a, l = tile.zeros((T.m, {HEADS}), {w.wide}), tile.zeros((T.m,), {w.wide})")
    w.add(f"m = tile.full((T.m,), -INF, {w.wide})")
    if given == "b":
        w.add(f"for j in tile.range_k(b, T.k{w.bounds()}):")
        w.add("s = tile.load(b, None, j, rows=T.m)", inside=True)
    else:
        w.add(f"x = tile.load({given}, rows=T.m)", f"for j in tile.range_n({keys}, T.n{w.bounds()}):")
        w.add(f"s = tile.dot(x, tile.transpose(tile.load({keys}, j)))", inside=True)
    w.add(f"s = {expression(pick, ['s'], 1)}", inside=True)
    mask = w.mask("j")
    if mask:
        w.add(f"s = where({mask}, s, -INF)", inside=True)
    elif pick(True, False):
        w.add("tile.mask_causal(s, tile.row_index(), tile.col_index(j))", inside=True)
    w.add("P, mc, lc = tile.softmax_online(s)", inside=True)
    w.add(f"a, m, l = tile.softmax_accumulate(a, m, l, P, tile.load({values}, j), mc, lc)", inside=True)
    w.add(f"return {pick('a / l[:, None]', 'a / l[:, None], m, l', 'a / l[:, None] * 2.0, m')}")


def _rows(w: _Writer) -> None:
    pick = w.pick
    w.read("r")
    w.add("t = tile.load(r, rows=T.m)")
    tiles = ["t"]
    if pick(True, False):
        w.add(f"e = tile.load({w.read('v')})[None, :] + t * 0.0")
        tiles.append("e")
    whole = pick(
        "mean(t * t, axis=-1, keep=True)", "sum(t, axis=-1, keep=True)", "softmax(t)", "layernorm(t)",
        "max(t, axis=-1, keep=True)", "logsumexp(t, axis=-1, keep=True)",
    )  # fmt: skip
    w.add(f"u = {whole}")
    w.add(f"return {expression(pick, tiles)} + u" + pick("", ", sum(t * u, axis=-1)"))


def write(pick: Pick) -> RandomKernel:
    make = pick(_pointwise, _folds, _folds, _softmax, _softmax, _rows)
    w = _Writer(pick, pick("f32", "f32", "f32", "f64", "bf16 @accum(f32)"))
    make(w)
    types = [f"{TYPES[name]}, {'i32' if name in BOUNDS else w.dtype}" for name in w.names]
    lines = "\n".join(["    T = tile.context()", *w.lines]) + "\n"
    called = pick(True, False, False)
    tiles = ", ".join(f"{name}: KTile[{type_}]" for name, type_ in zip(w.names, types, strict=True))
    text = f"@kernel\ndef {'g' if called else 'f'}({tiles}):\n{lines}"
    if called:  # with something to compute before it
        tensors = ", ".join(f"{name}: Tensor[{type_}]" for name, type_ in zip(w.names, types, strict=True))
        text += f"\ndef f({tensors}):\n    return g({w.names[0]} * 0.5{''.join(', ' + name for name in w.names[1:])})\n"
    return RandomKernel(text, tuple(w.names), w.dtype)


@st.composite
def random_kernels(draw: Callable[[st.SearchStrategy[object]], object]) -> RandomKernel:
    return write(Pick(lambda options: draw(st.sampled_from(options))))
