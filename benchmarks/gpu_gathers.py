"""Kernels that read rows at computed places on a GPU, beside what they mean and PyTorch.

    python -m benchmarks.gpu_gathers [--out DIR] [--only attention decode product]

Pages of 16 keys in an order drawn at random; all take turns in one process. `meaning` is the same written without
tiles: rows are gathered by one launch, and the library's attention or product reads them. The report goes to
DIR/gpu_gathers.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import tessera  # noqa: E402
from benchmarks.gpu_table import difference, in_turns  # noqa: E402

PAGE = 16
ATTENTION = """
half = bf16 @accum(f32)

@kernel
def tiles(q: KTile[B, {queries}, 128, half], k: KTile[{heads}P, 128, half], v: KTile[{heads}P, 128, half],
          table: KTile[{tables}N, i32], slots: KTile[L, i32]) -> Tile[B, {queries}, 128, half]:
    T = tile.context()
    x = tile.load(q, rows=T.m, cols=T.d)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(slots, T.n):
        at = {table}[tile.col_index(j) // 16] * 16 + tile.col_index(j) % 16
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.transpose(tile.load(k, at))) * {scale})
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, at), mc, lc)
    return cast(acc / l[:, None], half)

def meaning(q: Tensor[B, {queries}, 128, half], k: Tensor[{heads}P, 128, half], v: Tensor[{heads}P, 128, half],
            table: Tensor[{tables}N, i32], slots: Tensor[L, i32]):
    at = {at}
    return attention(q, {k}, {v})
"""
PRODUCT = """
half = bf16 @accum(f32)

@kernel
def tiles(x: KTile[P, K, half], order: KTile[M, i32], w: KTile[K, N, half]) -> Tile[M, N, half]:
    T = tile.context()
    at, acc = tile.load(order, rows=T.m), tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, at, k), tile.load(w, k, None, cols=T.n))
    return cast(acc, half)

def meaning(x: Tensor[P, K, half], order: Tensor[M, i32], w: Tensor[K, N, half]): return x[order] @ w
"""


def attention() -> tuple[str, list[Any], Callable[..., Any]]:
    """16 heads of 2048 queries over 2048 keys."""
    import torch

    heads, length = 16, 2048
    q, k, v = (torch.randn(heads, length, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    table = torch.randperm(length // PAGE, device="cuda", dtype=torch.int32)
    places = "table[arange(L) // 16] * 16 + cast(arange(L) % 16, i32)"
    program = ATTENTION.format(
        queries="S", heads="B, ", tables="", table="table", scale=128**-0.5, at=places, k="k[:, at]", v="v[:, at]"
    )
    return program, [q, k, v, table, _slots(length)], _torch_attention


def decode() -> tuple[str, list[Any], Callable[..., Any]]:
    """8 queries of one group for each of 64 sequences, over 4096 keys in pages of one cache."""
    import torch

    batch, length = 64, 4096
    q = torch.randn(batch, 8, 128, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(batch * length, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    table = torch.randperm(batch * length // PAGE, device="cuda", dtype=torch.int32).reshape(batch, 1, -1)
    places = "table[:, 0, arange(L) // 16] * 16 + cast(arange(L) % 16, i32)[None, :]"
    program = ATTENTION.format(
        queries=8, heads="", tables="B, 1, ", table="table[0]", scale=128**-0.5, at=places, k="k[at]", v="v[at]"
    )
    return program, [q, k, v, table, _slots(length)], _torch_decode


def product() -> tuple[str, list[Any], Callable[..., Any]]:
    """4096 rows of 4096 by a matrix of 4096."""
    import torch

    x, w = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) * 0.1 for _ in range(2))
    order = torch.randint(0, 4096, (4096,), device="cuda", dtype=torch.int32)
    return PRODUCT, [x, order, w], lambda x, order, w: x[order] @ w


def _slots(length: int) -> Any:
    import torch

    return torch.zeros(length, device="cuda", dtype=torch.int32)


def _torch_places(table: Any, slots: Any) -> Any:
    import torch

    inside = torch.arange(PAGE, device="cuda", dtype=torch.int32)
    return (table[..., None] * PAGE + inside).flatten(-2)[..., : len(slots)]


def _torch_attention(q: Any, k: Any, v: Any, table: Any, slots: Any) -> Any:
    from torch.nn import functional

    at = _torch_places(table, slots)
    return functional.scaled_dot_product_attention(q[None], k[None, :, at], v[None, :, at])[0]


def _torch_decode(q: Any, k: Any, v: Any, table: Any, slots: Any) -> Any:
    from torch.nn import functional

    at = _torch_places(table, slots)
    return functional.scaled_dot_product_attention(q[:, None], k[at], v[at])[:, 0]


CASES = {"attention": attention, "decode": decode, "product": product}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    lines = [
        "# Rows at computed places on a GPU\n",
        f"`python -m benchmarks.gpu_gathers {' '.join(sys.argv[1:])}`; microseconds.\n",
        "| kernel | tiles | meaning | PyTorch | ratio | difference |",
        "|---|---|---|---|---|---|",
    ]
    for name in options.only:
        lines.append(line(name))
        print(lines[-1], flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu_gathers.md").write_text("\n".join(lines) + "\n")


def line(name: str) -> str:
    program, arrays, theirs = CASES[name]()
    ours, given = tessera.compile(program, device="cuda"), [tessera.to_device(array) for array in arrays]
    calls = {
        "tiles": lambda: ours.tiles(*given),
        "meaning": lambda: ours.meaning(*given),
        "torch": lambda: theirs(*arrays),
    }
    wrong = difference(calls["tiles"](), calls["torch"]())
    times = in_turns(calls)
    cells = (f"{1e3 * times[call]:.1f}" for call in calls)
    return f"| {name} | {' | '.join(cells)} | {times['torch'] / times['tiles']:.2f} | {wrong:.1e} |"


if __name__ == "__main__":
    main()
