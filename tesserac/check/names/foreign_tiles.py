"""What Triton's words for tiles are here, and decorators of other compilers.

Enters: a name behind `tl.` or `tile.`, or a decorator. Leaves: what to say of it.
"""

from __future__ import annotations

_OWN_TILE = (
    "`tile.load(x, rows=T.m)`, what belongs of x to one tile of the result: a kernel is written for one, and "
    "`tile.row_index()` says where it lies"
)
_LOAD = "`tile.load(x, rows=T.m)`, of a parameter `x: KTile[M, N, f32]`; no pointer, and no mask for what lies outside"
_BLOCKS = "`for k in tile.range_k(x, T.k)`, with `tile.load(x, None, k, rows=T.m)` in it"
TILE_WORDS = {
    "advance": _BLOCKS,
    "arange": "`tile.row_index()` and `tile.col_index(j)`, the places of a block",
    "atomic_add": "no part of a kernel; outside of one `x.at[i].add(v)` adds in a fixed order",
    "cdiv": "`ceil_div(n, d)`",
    "constexpr": "`int`, which is known while compiling; blocks are `T.m`, `T.n`, `T.k` of `tile.context()`",
    "debug_barrier": "left to the compiler: no kernel names a barrier",
    "dot": "`tile.dot(a, b)`",
    "full": "`tile.full((T.m, T.n), value)`",
    "load": _LOAD,
    "make_block_ptr": _LOAD,
    "max": "`tile.reduce_max(t, axis=1)`",
    "min": "`tile.reduce_min(t, axis=1)`",
    "multiple_of": "read from the sizes",
    "num_programs": _OWN_TILE,
    "program_id": _OWN_TILE,
    "range": f"`range(n)`, or over blocks {_BLOCKS}",
    "static_range": "`range(n)` of an n that is known while compiling",
    "store": "`return tile`, of the tile of the result `-> Tile[M, N, f32]`",
    "sum": "`tile.reduce_sum(t, axis=1)`",
    "trans": "`tile.transpose(t)`",
    "zeros": "`tile.zeros((T.m, T.n), f32)`",
}
"""By the name in `triton.language`."""

DECORATORS = {
    "cuda.jit": "kernel",
    "jax.jit": "jit",
    "nb.njit": "jit",
    "njit": "jit",
    "numba.njit": "jit",
    "torch.compile": "jit",
    "torch.jit.script": "jit",
    "tf.function": "jit",
    "torch.no_grad": "",
    "torch.inference_mode": "",
    "torch.enable_grad": "",
    "nn.compact": "",
    "staticmethod": "",
    "property": "",
    "abstractmethod": "",
    "override": "",
    "functools.cache": "",
    "functools.lru_cache": "",
    "lru_cache": "",
    "triton.autotune": "kernel.autotune",
    "triton.jit": "kernel",
}
"""What compilers of functions are called elsewhere; nothing stands for what needs no saying here."""


def tile_word(name: str) -> str | None:
    """What to say of a name that Triton has for tiles."""
    return f"here it is {TILE_WORDS[name]}" if name in TILE_WORDS else None
