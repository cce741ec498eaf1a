"""Rows at computed places in bf16 by numbers: gathers that products and attention read, beside NumPy in f64.

    python -m benchmarks.gather_numbers [--device cuda] [--out DIR] [--only product attention ...] [--seconds N]

Sizes are ragged: lengths that are no multiples of blocks, rows that are no multiples of 16 bytes, dims of 1 and 0,
tables of i32 and of i64, rows that are named twice and from the end. An error is counted in roundings of the result:
of the sum of absolute terms for a product, of the weighted sum of absolute values for attention. Rows that no index
names hold NaN. The report goes to DIR/gather_numbers.md.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import tessera  # noqa: E402

BF16, PAGE, ROUNDING = ml_dtypes.bfloat16, 16, 2.0**-8
PRODUCT = """
half = bf16 @accum(f32)
{schedule}
def f(x: KTile[P, {K}, half], order: KTile[M, {int}], w: KTile[{K}, {N}, half]) -> Tile[M, {N}, half]:
    T = tile.context()
    at, acc = tile.load(order, rows=T.m), tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, at, k), tile.load(w, k, None, cols=T.n))
    return cast(acc, half)
"""
WEIGHTS = """
half = bf16 @accum(f32)
{schedule}
def f(x: KTile[M, K, half], order: KTile[K, {int}], w: KTile[P, {N}, half]) -> Tile[M, {N}, half]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, None, k, rows=T.m), tile.load(w, order[tile.col_index(k)], None, cols=T.n))
    return cast(acc, half)
"""
SCORES = """
half = bf16 @accum(f32)
{schedule}
def f(x: KTile[M, {K}, half], order: KTile[N, {int}], w: KTile[P, {K}, half]) -> Tile[M, N, half]:
    T = tile.context()
    at, acc = tile.load(order, rows=T.n), tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, None, k, rows=T.m), tile.transpose(tile.load(w, at, k)))
    return cast(acc, half)
"""
ATTENTION = """
half = bf16 @accum(f32)
{schedule}
def f(q: KTile[B, {S}, {D}, half], k: KTile[{heads}P, {D}, half], v: KTile[{heads}P, {D}, half],
      table: KTile[{tables}N, {int}], slots: KTile[L, i32]) -> Tile[B, {S}, {D}, half]:
    T = tile.context()
    x = tile.load(q, rows=T.m, cols=T.d)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(slots, T.n):
        slot = cast(tile.col_index(j), {int})
        at = {table}[slot // 16] * 16 + slot % 16
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.transpose(tile.load(k, at))) * 0.125)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, at), mc, lc)
    return cast(acc / l[:, None], half)
"""
SCHEDULES = ("@kernel", "@kernel.schedule(Schedule(block=(64, 64, 32), warps=4, stages=2))",
             "@kernel.schedule(Schedule(block=(128, 128, 64), warps=8, stages=3))")  # fmt: skip
INTEGERS = ("i32", "i64")
RAGGED = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 40, 63, 64, 65, 72, 100, 127, 128, 129, 136, 200, 257, 300)

Case = tuple[str, dict[str, Any], list[np.ndarray], Callable[..., tuple[np.ndarray, np.ndarray]]]


def half(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(BF16)


def rows(rng: np.random.Generator, count: int, of: int, integer: str) -> np.ndarray:
    """Rows by their numbers, a fifth of them from the end."""
    at = rng.integers(0, of, count)
    return np.where(rng.random(count) < 0.2, at - of, at).astype(integer.replace("i", "int"))


def named(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows with NaN in all that no index names."""
    x = x.copy()
    x[..., np.setdiff1d(np.arange(x.shape[-2]), at % x.shape[-2]), :] = np.nan
    return x


def product(rng: np.random.Generator, integer: str, known: int | None) -> Case:
    m, k, n, p = (int(rng.choice(RAGGED)) for _ in range(4))
    k, n = (known or k), (known or n)
    m, k, at = *_with_none(rng, m, k, known), rows(rng, m, p, integer)
    sizes = {"K": known or "K", "N": known or "N"}
    return PRODUCT, sizes, [named(half(rng, p, k), at[:m]), at[:m], half(rng, k, n)], lambda x, at, w: _sum(x[at], w)


def _with_none(rng: np.random.Generator, m: int, k: int, known: int | None) -> tuple[int, int]:
    """Sizes of which one in eight is 0."""
    return (m if rng.random() > 0.12 else 0), (k if known or rng.random() > 0.12 else 0)


def weights(rng: np.random.Generator, integer: str, known: int | None) -> Case:
    m, k, n, p = (int(rng.choice(RAGGED)) for _ in range(4))
    n = known or n
    m, k = _with_none(rng, m, k, None)
    at = rows(rng, k, p, integer)
    given = [half(rng, m, k), at, named(half(rng, p, n), at)]
    return WEIGHTS, {"N": known or "N"}, given, lambda x, at, w: _sum(x, w[at])


def scores(rng: np.random.Generator, integer: str, known: int | None) -> Case:
    m, k, n, p = (int(rng.choice(RAGGED)) for _ in range(4))
    k = known or k
    m, k = _with_none(rng, m, k, known)
    at = rows(rng, n, p, integer)
    given = [half(rng, m, k), at, named(half(rng, p, k), at)]
    return SCORES, {"K": known or "K"}, given, lambda x, at, w: _sum(x, w[at].T)


def attention(rng: np.random.Generator, integer: str, known: int | None) -> Case:
    """Heads with keys of their own and one table of pages."""
    b, s, length = int(rng.choice((1, 2, 3))), int(rng.choice(RAGGED)), int(rng.choice((*RAGGED, 1025)))
    d, pages = known or int(rng.choice(RAGGED[:20])), -(-length // PAGE) + int(rng.integers(0, 4))
    table = rng.permutation(pages).astype(integer.replace("i", "int"))
    k, v = (named(half(rng, b, pages * PAGE, d), _places(table, length)) for _ in range(2))
    sizes = {"S": "S", "D": known or "D", "heads": "B, ", "tables": "", "table": "table"}
    return ATTENTION, sizes, [half(rng, b, s, d), k, v, table, np.zeros(length, "i4")], _attention


def decode(rng: np.random.Generator, integer: str, known: int | None) -> Case:
    """Sequences with tables of their own over pages of one cache."""
    b, length = int(rng.choice((1, 2, 5))), int(rng.choice((*RAGGED, 1025)))
    d, pages = known or int(rng.choice(RAGGED[:20])), -(-length // PAGE)
    table = rng.permutation(b * pages).astype(integer.replace("i", "int")).reshape(b, 1, pages)
    k, v = (named(half(rng, b * pages * PAGE, d), _places(table, length)) for _ in range(2))
    sizes = {"S": 8, "D": known or "D", "heads": "", "tables": "B, 1, ", "table": "table[0]"}
    return ATTENTION, sizes, [half(rng, b, 8, d), k, v, table, np.zeros(length, "i4")], _attention


CASES = {"product": product, "weights": weights, "scores": scores, "attention": attention, "decode": decode}
KNOWN = {"product": (None, 40, 100, 128), "weights": (None, 72, 128), "scores": (None, 40, 128)}
LIMITS = {"product": 1.05, "weights": 1.05, "scores": 1.05}
"""The result is rounded; of attention also each weight, in the sum of values and in the sum of weights."""
HEADS = (None, 64, 128, 40, 100, 24, 256, 16)


def _sum(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, w = x.astype("f8"), w.astype("f8")
    return x @ w, abs(x) @ abs(w)


def _places(table: np.ndarray, length: int) -> np.ndarray:
    return (table[..., None] * PAGE + np.arange(PAGE)).reshape(*table.shape[:-1], -1)[..., :length]


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, table: np.ndarray, slots: np.ndarray) -> tuple[Any, Any]:
    at = _places(table, len(slots))
    k, v = (np.asarray(a.astype("f8")[..., at, :] if table.ndim == 1 else a.astype("f8")[at[:, 0]]) for a in (k, v))
    s = q.astype("f8") @ k.swapaxes(-1, -2) * 0.125
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return p @ v, p @ abs(v)


def programs(only: list[str]) -> Iterator[tuple[str, str, int | None, str]]:
    """What is compiled, the plain ones first."""
    for schedule, integer in itertools.product(SCHEDULES, INTEGERS):
        for name in only:
            yield from ((name, integer, known, schedule) for known in KNOWN.get(name, HEADS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seconds", type=float, default=600.0, help="no program is begun after that")
    parser.add_argument("--calls", type=int, default=24, help="of each program, with other sizes")
    parser.add_argument("--part", default="0/1", help="every n-th program, from the i-th on")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    lines = ["| kernel | table | known dim | schedule | calls | wrong | most roundings |", "|---" * 7 + "|"]
    end, bad = time.monotonic() + options.seconds, 0
    for job in itertools.islice(programs(options.only), part, None, parts):
        if time.monotonic() > end:
            lines.append("\nThe time was spent; programs behind these did not run.")
            break
        line, wrong = compare(*job, options.calls, options.device)
        bad += wrong
        lines.append(line)
        print(line, flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        command = f"`python -m benchmarks.gather_numbers {' '.join(sys.argv[1:])}`"
        head = f"# Rows at computed places by numbers\n\n{command}\n\n"
        (options.out / "gather_numbers.md").write_text(head + "\n".join(lines) + "\n")
    sys.exit(1 if bad else 0)


def compare(name: str, integer: str, known: int | None, schedule: str, calls: int, device: str) -> tuple[str, int]:
    rng, module, most, wrong = np.random.default_rng(7), None, 0.0, []
    for _ in range(calls):
        program, sizes, given, meant = CASES[name](rng, integer, known)
        text = program.format(**sizes, int=integer, schedule=schedule)
        shapes = [a.shape for a in given]
        try:
            module = module or tessera.compile(text, device=device)
            got = np.asarray(module.f(*given)).astype("f8")
        except Exception as problem:
            told = [f"{shapes}: {type(problem).__name__}: {problem}"]
            return _line(name, known, integer, schedule, calls, told, most), 1
        wanted, scale = meant(*given)
        error = abs(got - wanted) / (ROUNDING * np.maximum(scale, 1e-30))
        worst = float(np.max(error, initial=0.0)) if not np.isnan(got).any() else float("inf")
        most = max(most, worst)
        if worst > LIMITS.get(name, 3.0) or got.shape != wanted.shape:
            wrong.append(f"{shapes}: {worst:.3g}")
    return _line(name, known, integer, schedule, calls, wrong, most), len(wrong)


def _line(name: str, known: int | None, integer: str, schedule: str, calls: int, wrong: list[str], most: float) -> str:
    blocks = schedule.removeprefix("@kernel").removeprefix(".schedule(Schedule(").removesuffix("))")
    told = "; ".join(wrong[:3]).replace("\n", " ") or "none"
    return f"| {name} | {integer} | {known or 'run-time'} | {blocks or 'chosen'} | {calls} | {told} | {most:.2f} |"


if __name__ == "__main__":
    main()
