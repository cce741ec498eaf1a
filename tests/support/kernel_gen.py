"""Random kernels: a program text with a kernel that `f` is, calls or maps, and what to call `f` with. Most are
block-free; others depend on blocks, which they pin.

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
MAPPED = 2
"""How many calls of a kernel `vmap` makes one."""
FLOATS = {
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "bf16 @accum(f32)": np.dtype(ml_dtypes.bfloat16),
    "f16 @accum(f32)": np.dtype(np.float16),
}  # fmt: skip


class Pick:
    """Choices, one after the other."""

    def __init__(self, choose: Callable[[Sequence[object]], object]) -> None:
        self._choose = choose

    def __call__(self, *options: T) -> T:
        return self._choose(options)  # type: ignore[return-value]


@dataclass(frozen=True)
class RandomKernel:
    """A program text, and the names of the parameters of `f`, which say their shapes; of one that is `mapped` arrays
    have a dim before these. Sizes of blocks that are `pinned` are the same under every schedule. The bits of one that
    `is_narrow` are those of its machine, and any schedule's."""

    text: str
    names: tuple[str, ...]
    dtype: str = "f32"
    mapped: bool = False
    pinned: tuple[tuple[str, int], ...] = ()

    @property
    def is_narrow(self) -> bool:
        return self.dtype not in ("f32", "f64")

    def scheduled(self, blocks: tuple[int, ...] | None) -> str:
        sizes = {**dict(zip(("BM", "BN", "k"), blocks or (), strict=False)), **dict(self.pinned)}
        said = ", ".join(f"{name}={size}" for name, size in sizes.items())
        return self.text.replace("@kernel", f"@kernel.schedule(Schedule({said}))" if said else "@kernel")

    def arguments(self, s: int, n: int, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        shapes = {
            "x": (s, n), "y": (s, n), "w": (n, HEADS), "z": (n, s + 2), "r": (s, WIDTH), "v": (WIDTH,), "c": (n,),
            "b": (2, s, n), "q": (2, s, HEADS), "k": (2, n, HEADS), "q4": (2, 3, s, HEADS), "k4": (2, 1, n, HEADS),
            "K": (2, 3, n, HEADS), "V": (2, 3, n, HEADS), "q5": (1, 2, 3, s, HEADS), "k5": (1, 2, 1, n, HEADS),
            GROUPS: (4, n, HEADS),
        }  # fmt: skip
        lead = (MAPPED,) * self.mapped
        made: list[np.ndarray] = []
        for name in self.names:
            if name == KEY:
                made.append(np.uint64(seed))  # type: ignore[arg-type]
            elif name == LENGTH:
                made.append(np.int32(rng.choice([0, 1, n, rng.integers(0, n + 1)])))  # type: ignore[arg-type]
            elif name in PLACES:
                most = s if name == "taken" else n
                made.append(rng.integers(-most, most, (*lead, most)).astype(np.int32))
            elif name in BOUNDS:
                made.append(rng.integers(0, n + 2, (*lead, *((s,) if name == "ends" else (1,)))).astype(np.int32))
            else:
                made.append((rng.standard_normal((*lead, *shapes[name])) * 3).astype(FLOATS[self.dtype]))
        return made


GROUPS = "wg"
"""Matrices of which a loop that goes step by step takes one after the other."""
TYPES = {
    "x": "S, N", "y": "S, N", "w": f"N, {HEADS}", "z": "N, L", "r": f"S, {WIDTH}", "v": f"{WIDTH}", "c": "N",
    "b": "2, S, N", "q": f"2, S, {HEADS}", "k": f"2, N, {HEADS}", "q4": f"2, 3, S, {HEADS}", "k4": f"2, 1, N, {HEADS}",
    "end": "1", "ends": "S", "taken": "S", "slots": "N", "K": f"2, 3, N, {HEADS}", "V": f"2, 3, N, {HEADS}",
    "q5": f"1, 2, 3, S, {HEADS}", "k5": f"1, 2, 1, N, {HEADS}",
    GROUPS: f"G, N, {HEADS}",
}  # fmt: skip
BOUNDS = ("end", "ends")
PLACES = ("taken", "slots")
"""Rows in the order in which they are taken, by rows of the result and by columns; negative ones count from the end."""
KEY, CACHE, LENGTH = "key", "cache", "len"
CACHED = ("K", "V", LENGTH)
"""What a program makes a cache of."""


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
    pinned: dict[str, int] = field(default_factory=dict)

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
        kind = pick("", "", "window", "wide window", "given window", "causal", "from", "length", "lengths")
        if kind in ("length", "lengths"):
            name = "end" if kind == "length" else "ends"
            return f", stop=tile.load({self.read(name)}" + (")[0]" if kind == "length" else ", rows=T.m)")
        row = "tile.row_index()"
        wide = f", start={row} + 3000, stop={row} + 4100"  # over an end of a segment, and of what most sizes have
        near = f", start={row} - 7, stop={row} + 2"
        if kind == "given window":
            return f", start={row} - tile.load({self.read('end')})[0] + 1, stop={row} + 2"
        ways = {"window": near, "wide window": wide, "causal": f", stop={row} + 1", "from": ", start=3"}
        return ways.get(kind, "")

    def block_of_rows(self, name: str, counter: str = "") -> str:
        """What loads this program's rows, or those of a place each, with a block of columns."""
        columns = f", {counter}" if counter else ""
        if self.pick(True, False, False):
            self.add(f"at = tile.load({self.read('taken')}, rows=T.m)", inside=bool(counter))
            return f"tile.load({name}, at{columns})"
        return f"tile.load({name}, None{columns}, rows=T.m)" if counter else f"tile.load({name}, rows=T.m)"

    def mask(self, counter: str) -> str:
        """A condition on rows and columns, or none."""
        window = "(c <= r) & (r - c < n)"
        kind = self.pick("", "", "c <= r", "(c <= r) & (r - c < 7)", "r + c < 30", "c % 3 != 1", "c < n", window)
        if kind in ("c < n", window):
            kind = kind.replace("n", f"tile.load({self.read('end')})[0]")
        if kind:
            self.add(f"r, c = tile.row_index()[:, None], tile.col_index({counter})[None, :]", inside=True)
        return kind

    def drawn(self, tile: str, inside: bool = False) -> None:
        """Drops some of a tile's elements, of random numbers that belong to these, or none."""
        if self.pick(True, False, False, False):
            self.add(f"{tile} = dropout_in_kernel({tile}, p=0.25, key={self.read(KEY)})", inside=inside)

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
    if pick(True, False, False):
        w.add(f"g = cast(uniform((T.m, T.n), key={w.read(KEY)}), {w.wide}) + t * 0.0")
        tiles.append("g")
    w.drawn("t")
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
    w.add(f"t = {w.block_of_rows('x', 'j')}", inside=True)
    tiles = ["t"]
    if pick(True, False):
        w.add(f"u = {w.block_of_rows(w.read('y'), 'j')}", inside=True)
        tiles.append("u")
    w.drawn("t", inside=True)
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
    given, keys, values = pick(
        ("b", "w", "w"), ("q", "k", "k"), ("q4", "k4", "k4"), ("q5", "k5", "k5"), ("q4", "cache.K", "cache.V")
    )
    w.read(given)
    w.read(values.partition(".")[0])
    block = "j"
    w.add(f"a, l = tile.zeros((T.m, {HEADS}), {w.wide}), tile.zeros((T.m,), {w.wide})")
    w.add(f"m = tile.full((T.m,), -INF, {w.wide})")
    if given == "b":
        w.add(f"for j in tile.range_k(b, T.k{w.bounds()}):")
        w.add("s = tile.load(b, None, j, rows=T.m)", inside=True)
    else:
        w.add(f"x = tile.load({given}, rows=T.m)", f"for j in tile.range_n({keys}, T.n{w.bounds()}):")
        if values in ("k", "k4", "k5") and pick(True, False):
            w.add(f"at = tile.load({w.read('slots')}, j)", inside=True)
            block = "at"
        w.add(f"s = tile.dot(x, tile.transpose(tile.load({keys}, {block})))", inside=True)
    w.add(f"s = {expression(pick, ['s'], 1)}", inside=True)
    mask = w.mask("j")
    if mask:
        w.add(f"s = where({mask}, s, -INF)", inside=True)
    elif pick(True, False):
        w.add("tile.mask_causal(s, tile.row_index(), tile.col_index(j))", inside=True)
    w.add("P, mc, lc = tile.softmax_online(s)", inside=True)
    w.drawn("P", inside=True)
    w.add(f"a, m, l = tile.softmax_accumulate(a, m, l, P, tile.load({values}, {block}), mc, lc)", inside=True)
    w.add(f"return {pick('a / l[:, None]', 'a / l[:, None], m, l', 'a / l[:, None] * 2.0, m')}")


def _columns(w: _Writer) -> None:
    """Sums and extremes of columns, over blocks of rows."""
    pick = w.pick
    w.read("x")
    kinds = [kind for kind in ("max", "min") if pick(True, False)] or ["max"]
    kinds += pick(["sum"], [])
    starts = {"sum": "0.0", "max": "-INF", "min": "INF"}
    w.add(*(f"{CARRIED[kind]} = tile.full((T.n,), {starts[kind]}, {w.wide})" for kind in kinds))
    w.add("for i in tile.range_n(x, T.m):")
    w.add("t = tile.load(x, i, None, cols=T.n)", inside=True)
    tiles = ["t"]
    if pick(True, False):
        w.add(f"u = tile.load({w.read('y')}, i, None, cols=T.n)", inside=True)
        tiles.append("u")
    if pick(True, False):
        w.add(f"e = t * tile.load({w.read('c')}, cols=T.n)[None, :]", inside=True)
        tiles.append("e")
    for kind in kinds:
        one, found = CARRIED[kind], f"tile.reduce_{kind}({expression(pick, tiles)}, axis=0)"
        w.add(f"{one} += {found}" if kind == "sum" else f"{one} = {kind}imum({one}, {found})", inside=True)
    w.returned([CARRIED[kind] for kind in kinds])


def _rows(w: _Writer) -> None:
    """Of rows that a program takes whole, few or as many columns as there are."""
    pick = w.pick
    rows, others = pick(("r", "v"), ("x", "c"))
    w.read(rows)
    w.add(f"t = {w.block_of_rows(rows)}")
    tiles = ["t"]
    if pick(True, False):
        w.add(f"e = tile.load({w.read(others)})[None, :] + t * 0.0")
        tiles.append("e")
    whole = pick(
        "mean(t * t, axis=-1, keep=True)", "sum(t, axis=-1, keep=True)", "softmax(t)", "layernorm(t)",
        "max(t, axis=-1, keep=True)", "logsumexp(t, axis=-1, keep=True)",
        "cumsum(t, axis=1)", "cummax(t, axis=1)",
    )  # fmt: skip
    w.add(f"u = {whole}")
    if rows == "r" and pick(True, False, False):
        w.add(f"a, b = {pick('t[:, 0::2], t[:, 1::2]', f't[:, :{WIDTH // 2}], t[:, {WIDTH // 2}:]')}")
        joined = pick("flatten(stack([a - b, a * b], axis=2), 1, 2)", "concat([a - b, a * b], axis=1)")
        w.add(f"return {joined}, u * 1.0")
        return
    w.add(f"return {expression(pick, tiles)} + u" + pick("", ", sum(t * u, axis=-1)"))


def _pinned(w: _Writer) -> None:
    """What depends on blocks: a number of each block, or a loop that keeps some of what blocks before gave."""
    pick = w.pick
    w.read("x")
    way = pick("columns", "blocks", "fading", "online")
    if way in ("columns", "blocks"):
        w.pinned = {"BN": pick(8, 16, 24)} | ({"BM": pick(4, 8)} if way == "blocks" else {})
        of = pick("max(abs(t){})", "sum(t{})", "mean(t * t{})", "var(t{})")
        w.add("t = tile.load(x, rows=T.m, cols=T.n)")
        w.add(pick("t = t + 1.0", "t = layernorm(t)", "t = sort(t, axis=1)", "t = softmax(t)", "t = flip(t, axis=1)"))
        w.add(f"e = {of.format('' if way == 'blocks' else ', axis=1, keep=True')} * float(T.n) + t * 0.0")
        w.add(f"return {expression(pick, ['t', 'e'])}")
        return
    w.pinned = {"k": pick(16, 24, 64)}
    w.add(f"s = tile.zeros((T.m,), {w.wide})", f"h = tile.full((T.m,), -1e30, {w.wide})")
    w.add("for j in tile.range_k(x, T.k):")
    w.add("t = tile.load(x, None, j, rows=T.m)", inside=True)
    w.add(f"t = {expression(pick, ['t'], 1)}", inside=True)
    if way == "fading":
        w.add("s = s * 0.5 + tile.reduce_sum(t, axis=1) + float(j * T.k)", inside=True)
    else:
        w.add("n = maximum(h, tile.reduce_max(t, axis=1))", inside=True)
        w.add("s, h = s * exp(h - n) + tile.reduce_sum(exp(t - n[:, None]), axis=1), n", inside=True)
    w.returned(["s", "h"])


def _groups(w: _Writer) -> None:
    """A product with one matrix after the other, of rows that are each one's or of all."""
    pick = w.pick
    w.read("x")
    kinds = pick(("dot",), ("dot", "sum"))
    starts = {"dot": f"a = tile.zeros((T.m, {HEADS}), {w.wide})", "sum": f"s = tile.zeros((T.m,), {w.wide})"}
    carried = {"dot": "y", "sum": "u"}
    w.add(*(starts[kind].replace(CARRIED[kind], carried[kind], 1) for kind in kinds))
    w.add("r = tile.row_index()", "for e in range(G):")
    w.add(*(starts[kind] for kind in kinds), f"for j in tile.range_k(x, T.k{w.bounds()}):", inside=True)
    rows = f"tile.load({w.read('x')}, None, j, rows=T.m)"
    product = f"a += tile.dot(t, tile.load({w.read(GROUPS)}[e], j, None, cols=T.d))"
    folds = {"dot": product, "sum": "s += tile.reduce_sum(t * float(e), axis=1)"}
    w.add(*(f"    {line}" for line in (f"t = {rows}", *(folds[kind] for kind in kinds))), inside=True)
    mine = pick("(r >= e * 5) & (r < e * 5 + 5)", "r % 3 == e", f"tile.load({w.read('ends')}, rows=T.m) % 5 == e")
    w.add(f"mine = {mine}", inside=True)
    change = {"dot": pick("where(mine[:, None], a, y)", "y * 0.5 + a", "maximum(y, a)"), "sum": "where(mine, s, u)"}
    w.add(*(f"{carried[kind]} = {change[kind]}" for kind in kinds), inside=True)
    w.returned([carried[kind] for kind in kinds])


def _type(name: str, dtype: str, tensor: str) -> str:
    tensor = "Tensor" if name == GROUPS else tensor
    if name in (KEY, LENGTH, CACHE):
        return {KEY: "Key", LENGTH: "i32", CACHE: f"KVCache[{TYPES['K']}, {dtype}]"}[name]
    return f"{tensor}[{TYPES[name]}, {'i32' if name in (*BOUNDS, *PLACES) else dtype}]"


def _params(names: Sequence[str], dtype: str, tensor: str) -> str:
    return ", ".join(f"{name}: {_type(name, dtype, tensor)}" for name in names)


def write(pick: Pick) -> RandomKernel:
    make = pick(_pointwise, _folds, _folds, _softmax, _softmax, _rows, _columns, _pinned, _groups)
    w = _Writer(pick, pick("f32", "f32", "f32", "f64", "bf16 @accum(f32)", "f16 @accum(f32)"))
    make(w)
    lines = "\n".join(["    T = tile.context()", *w.lines]) + "\n"
    is_plain = KEY not in w.names and CACHE not in w.names
    way = pick("itself", "itself", "called", *(("mapped",) if is_plain else ()))
    way = "called" if CACHE in w.names else way
    text = f"@kernel\ndef {'f' if way == 'itself' else 'g'}({_params(w.names, w.dtype, 'KTile')}):\n{lines}"
    names = tuple(one for name in w.names for one in (CACHED if name == CACHE else (name,)))
    if way == "called":  # with something to compute before it
        made = f"{_type(CACHE, w.dtype, '')}(K=K, V=V, len=len)"
        given = [f"{w.names[0]} * 0.5", *(made if name == CACHE else name for name in w.names[1:])]
        text += f"\ndef f({_params(names, w.dtype, 'Tensor')}):\n    return g({', '.join(given)})\n"
    if way == "mapped":
        text += f"\ndef f({_params(names, w.dtype, 'Tensor').replace('Tensor[', f'Tensor[{MAPPED}, ')}):\n"
        text += f"    return vmap(g)({', '.join(names)})\n"
    return RandomKernel(text, names, w.dtype, way == "mapped", tuple(w.pinned.items()))


@st.composite
def random_kernels(draw: Callable[[st.SearchStrategy[object]], object]) -> RandomKernel:
    return write(Pick(lambda options: draw(st.sampled_from(options))))
