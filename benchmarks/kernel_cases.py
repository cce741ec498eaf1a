"""What `benchmarks.library_kernels` times: each kernel of the library, the meaning that it implements, and what other
libraries call the same.

A case has the tensors of a call, small and large; the first tensors are those that the way back is of.
"""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]
Sizes = dict[str, int]


@dataclass(frozen=True)
class Case:
    """`args` are tensors as a program declares them, without their dtype (`i32` after a colon is another one);
    `tiles` and `meaning` are expressions of them; `back` says how many tensors have cotangents, 0 where none are timed;
    `moved` is what has to be read and written, in elements, `work` what is multiplied and added."""

    args: dict[str, str]
    tiles: str
    meaning: str
    small: Sizes
    large: Sizes
    huge: Sizes
    """What a GPU gets for `large`."""
    back: int = 1
    moved: str = "0"
    work: str = "0"
    written: str = ""
    """A kernel that stands before the tiles; DTYPE is the dtype that is timed, ELEMENT the same without its policy."""


_ROWS: tuple[Sizes, Sizes, Sizes] = (
    {"M": 64, "N": 256},
    {"M": 4096, "N": 512},
    {"M": 65536, "N": 512},
)
_LONG: tuple[Sizes, Sizes, Sizes] = (
    {"M": 16, "N": 2048},
    {"M": 1024, "N": 4096},
    {"M": 16384, "N": 4096},
)
_PRODUCTS: tuple[Sizes, Sizes, Sizes] = (
    {"M": 64, "K": 256, "N": 256},
    {"M": 512, "K": 1024, "N": 1024},
    {"M": 4096, "K": 4096, "N": 4096},
)
SEEDS_ATTENTION = """
@kernel.autotune(space=dict(BM=[64,128], BN=[64,96,128], BD=[64,128],
                            warps=[4,8], stages=[2,3], vector=[4,8]),
                 metric="latency_ms", budget_ms=180, cache="~/.sched")
def seeds_attention(q: KTile["B*H","S","D_h", DTYPE], cache: KVCache, *, dropout: float, causal: bool):
    T  = tile.context()
    Qb = tile.load(q, rows=T.m, cols=T.d, vector=T.vector, prefetch=2)
    acc = tile.zeros((T.m,T.d), f32); m = tile.full((T.m,), -INF); l = tile.zeros((T.m,), f32)
    for nblk in tile.range_n(cache.K.shape, T.n, prefetch=2):
        Kb = tile.load(cache.K, nblk, cols=T.d, vector=T.vector)
        Vb = tile.load(cache.V, nblk, cols=T.d, vector=T.vector)
        S  = tile.dot(Qb, tile.transpose(Kb)) * tile.rsqrt(float(T.d))
        if causal: tile.mask_causal(S, tile.row_index(), tile.col_index(nblk))
        P, m_c, l_c = tile.softmax_online(S)
        if dropout: P = dropout_in_kernel(P, p=dropout)
        acc, m, l = tile.softmax_accumulate(acc, m, l, P, Vb, m_c, l_c)
    return tile.cast(acc / l[:,None], ELEMENT)

"""
"""As the seeds write it, in the dtype that is timed."""
CASES: dict[str, Case] = {
    "softmax": Case({"x": "M, N"}, "softmax_rows(x)", "softmax(x)", *_ROWS, moved="2 * M * N"),
    "softmax of long rows": Case({"x": "M, N"}, "softmax_rows(x)", "softmax(x)", *_LONG, moved="2 * M * N"),
    "layernorm": Case(
        {"x": "M, N", "w": "N", "b": "N"},
        "layernorm_rows(x, w, b)",
        "layernorm(x, w, b)",
        *_ROWS,
        back=3,
        moved="2 * M * N",
    ),
    "rmsnorm": Case(
        {"x": "M, N", "w": "N"}, "rmsnorm_rows(x, w)", "rmsnorm(x, w)", *_ROWS, back=2, moved="2 * M * N"
    ),
    "cross entropy with its gradient": Case(
        {"x": "M, N", "y": "M: i32"},
        "cross_entropy_rows(x, y)",
        "grad(lambda x: sum(cross_entropy(x, y)))(x), cross_entropy(x, y)[:, None]",
        *_ROWS,
        back=0,
        moved="2 * M * N",
    ),
    "rotary embedding": Case(
        {"x": "B, S, D", "c": "S, D/2", "s": "S, D/2"},
        "rotary_rows(x, c, s)",
        "rotary_embedding(x, cos=c, sin=s)",
        {"B": 2, "S": 128, "D": 64},
        {"B": 32, "S": 2048, "D": 64},
        {"B": 512, "S": 2048, "D": 128},
        moved="2 * B * S * D",
    ),
    "matmul, gelu": Case(
        {"x": "M, K", "w": "K, N", "b": "N"},
        "matmul_gelu(x, w, b)",
        "gelu(x @ w + b)",
        *_PRODUCTS,
        back=3,
        work="2 * M * N * K",
    ),
    "matmul, swiglu": Case(
        {"x": "M, K", "g": "K, N", "u": "K, N"},
        "matmul_swiglu(x, g, u)",
        "silu(x @ g) * (x @ u)",
        *_PRODUCTS,
        back=3,
        work="4 * M * N * K",
    ),
    "transpose": Case(
        {"x": "M, N"},
        "transpose_tiles(x)",
        "transpose(x) + 0.0",
        {"M": 128, "N": 256},
        {"M": 2048, "N": 2048},
        {"M": 8192, "N": 8192},
        back=0,
        moved="2 * M * N",
    ),
    "attention": Case(
        {"q": "B, 8, S, 64", "k": "B, 8, S, 64", "v": "B, 8, S, 64"},
        "attention(q, k, v, causal=True)",
        "cast(softmax_safe(attention_scores(q, k, causal=True)), v.dtype) @ v",
        {"B": 1, "S": 128},
        {"B": 1, "S": 1024},
        {"B": 8, "S": 2048},
        back=3,
        work="2 * B * 8 * S * S * 64",
    ),
    "decode": Case(
        {"q": "B, 32, 64", "k": "B, 8, T, 64", "v": "B, 8, T, 64", "n": ": i32"},
        "decode_attention(q, KVCache[B, 8, T, 64](K=k, V=v, len=n))",
        "flash_attention(q[:, :, None], KVCache[B, 8, T, 64](K=k, V=v, len=n))[:, 0]",
        {"B": 1, "T": 4096},
        {"B": 1, "T": 32768},
        {"B": 2, "T": 65536},
        back=0,
        moved="2 * B * 8 * T * 64",
    ),
    "attention of the seeds, beside the library's": Case(
        {"q": "B, 8, S, 64", "k": "B, 8, T, 64", "v": "B, 8, T, 64", "n": ": i32"},
        "seeds_attention(q, KVCache[B, 8, T, 64](K=k, V=v, len=n), dropout=0.0, causal=True)",
        "flash_attention(q, KVCache[B, 8, T, 64](K=k, V=v, len=n), causal=True)",
        {"B": 1, "S": 256, "T": 256},
        {"B": 1, "S": 1024, "T": 1024},
        {"B": 8, "S": 2048, "T": 2048},
        back=0,
        work="2 * B * 8 * S * T * 64",
        written=SEEDS_ATTENTION,
    ),
    "adam of two tensors, beside one by one": Case(
        {f"{what}{end}": dims for end, dims in (("", "M, N"), ("_b", "N")) for what in ("w", "g", "m", "square")},
        "tree_map(lambda w, g, m, v: fused_adam(w, g, m, v, 10), (w, w_b), (g, g_b), (m, m_b), (square, square_b))",
        "fused_adam(w, g, m, square, 10), fused_adam(w_b, g_b, m_b, square_b, 10)",
        {"M": 64, "N": 256},
        {"M": 2048, "N": 1024},
        {"M": 16384, "N": 2048},
        back=0,
        moved="7 * (M * N + N)",
    ),
}
"""Those of optimisers take structs: `benchmarks.gradients` and `benchmarks.training` time them whole."""

WAYS = ("forward", "back")


def where(case: Case) -> str:
    """What the sizes of a case promise."""
    dims = " ".join(case.args.values())
    facts = (["D % 2 == 0"] if "D/2" in dims else []) + (["T % 256 == 0"] if " T," in dims else [])
    return f" where {', '.join(facts)}" if facts else ""


def declared(case: Case, dtype: str, shown: str = "") -> str:
    """The parameters of a program of the case."""
    parts = []
    for name, dims in case.args.items():
        sizes, _, other = dims.partition(":")
        element = other.strip() or dtype
        parts.append(f"{name}: Tensor[{sizes}, {element}]" if sizes.strip() else f"{name}: {element}")
    return ", ".join([*parts, *([shown] if shown else [])])


def program(case: Case, which: str, way: str, dtype: str) -> str:
    """One function `f`: the tiles or the meaning of a case, forward or back with the value of the forward one."""
    body, element = getattr(case, which), dtype.partition(" ")[0]
    written = case.written.replace("DTYPE", dtype).replace("ELEMENT", element) if which == "tiles" else ""
    if way == "forward":
        return f"{written}def f({declared(case, dtype)}){where(case)}:\n    return {body}\n"
    names = ", ".join(list(case.args)[: case.back])
    return (
        f"def f({declared(case, dtype)}){where(case)}:\n"
        f"    y, back = vjp(lambda {names}: {body}, {names})\n"
        f"    return y, back(ones_like(y))\n"
    )


def shapes(case: Case, sizes: Sizes) -> list[tuple[Shape, str]]:
    """The shape of each tensor, and its dtype where that is another one."""
    found = []
    for dims in case.args.values():
        text, _, other = dims.partition(":")
        size = tuple(int(eval(dim.replace("/", "//"), {}, dict(sizes))) for dim in text.split(",") if dim.strip())
        found.append((size, other.strip()))
    return found


def amount(text: str, sizes: Sizes) -> float:
    return float(eval(text, {}, dict(sizes)))
