"""What runs where, as the compiler itself says it: each row is a program, compiled for one CPU and one GPU.

Enters: programs. Leaves: the tables of `docs/where.md`. A row that the compiler no longer bears out changes the page,
and the test that compares the page fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from textwrap import dedent

from tesserac.base.source import SourceFile, Span
from tesserac.check.model.typed import TypedFunction
from tesserac.commands.inspection import requests_not_taken
from tesserac.commands.levels import asked_places
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.graph.passes.place_kernels import placed_kernels
from tesserac.target.cpu.build import AARCH64
from tesserac.target.nvptx.build import PLATFORMS

FUNCTION = "f"
"""What every program calls the function that is compiled."""


@dataclass(frozen=True)
class Row:
    what: str
    program: str


COMPUTES = (
    Row("elementwise, broadcasting", "def f(x: Tensor[M, N, f32], y: Tensor[N, f32]): return exp(x) * y + 1.0"),
    Row("sums, means, maxima", "def f(x: Tensor[M, N, f32]): return sum(x, axis=1), max(x, axis=1)"),
    Row("softmax, layernorm", "def f(x: Tensor[M, N, f32]): return layernorm(softmax(x))"),
    Row("products, f32", "def f(a: Tensor[M, K, f32], b: Tensor[K, N, f32]): return a @ b"),
    Row(
        "products, bf16 with f32 sums",
        "def f(a: Tensor[M, K, bf16 @accum(f32)], b: Tensor[K, N, bf16 @accum(f32)]): return a @ b",
    ),
    Row("gathers", "def f(x: Tensor[N, D, f32], i: Tensor[K, i32]): return x[i]"),
    Row("concat, pad", "def f(x: Tensor[M, N, f32]): return concat([x, pad(x, 1, 1, axis=0)], axis=0)"),
    Row("cumulative sums", "def f(x: Tensor[N, f32]): return cumsum(x)"),
    Row("sort", "def f(x: Tensor[N, f32]): return sort(x)"),
    Row("fft", "def f(x: Tensor[64, c64]): return fft(x)"),
    Row("convolutions", "def f(x: Tensor[B, 3, H, W, f32], w: Tensor[8, 3, 3, 3, f32]): return conv2d(x, w)"),
    Row("cross entropy", "def f(x: Tensor[B, C, f32], y: Tensor[B, i32]): return mean(cross_entropy(x, y))"),
    Row("linear algebra", "def f(a: Tensor[8, 8, f64], b: Tensor[8, f64]): return solve(a, b)"),
    Row("random numbers", "def f(x: Tensor[N, f32]): return x + normal(N, seed=1)"),
    Row("loops", "def f(x: Tensor[N, f32]):\n    for i in range(10):\n        x = x * 0.5 + 1.0\n    return x"),
    Row("updates of elements", "def f(x: Tensor[N, f32], i: Tensor[K, i32]): return x.at[i].add(1.0)"),
    Row("`print`", "def f(x: Tensor[N, f32]):\n    print(x)\n    return x"),
    Row("gradients", "def g(x: Tensor[N, f32]): return sum(x * x)\ndef f(x: Tensor[N, f32]): return grad(g)(x)"),
    Row(
        "kernels",
        """
        @kernel
        def f(a: KTile[M, K, f32], b: KTile[K, N, f32]) -> Tile[M, N, f32]:
            T = tile.context()
            acc = tile.zeros((T.m, T.n), f32)
            for k in tile.range_k(a, T.k):
                acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
            return acc
        """,
    ),
)

MESH = 'mesh = dist.Mesh(axes=["dp"], devices=range(8))\n'
KERNEL = """
def f(x: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    return tile.load(x, rows=T.m, cols=T.n{hints}) * 2.0
"""
ASKS = (
    Row("`with device(cpu)`", "def f(x: Tensor[N, f32]):\n    with device(cpu): y = x + x\n    return y"),
    Row("`with device(gpu)`", "def f(x: Tensor[N, f32]):\n    with device(gpu): y = x + x\n    return y"),
    Row("`T @device(gpu)`", "def f(x: Tensor[N, f32] @device(gpu)): return x + x"),
    Row("`prefetch(x, ...)`", 'def f(x: Tensor[N, f32]):\n    with prefetch(x, into="smem"): y = x + x\n    return y'),
    Row("`numerics(fast)`", "def f(x: Tensor[N, f32]):\n    with numerics(fast): y = exp(x)\n    return y"),
    Row(
        "`tile_shape=`",
        "def f(a: Tensor[M, K, f32], b: Tensor[K, N, f32]): return op.matmul(a, b, tile_shape=(64, 64, 32))",
    ),
    Row("`@kernel.schedule(s)`", "@kernel.schedule(Schedule(block=(64, 64)))" + KERNEL.format(hints="")),
    Row(
        "`f.with_schedule(s)`",
        "@kernel" + KERNEL.format(hints="").replace(" f(", " k(")
        + "def f(x: Tensor[M, N, f32]): return k.with_schedule(Schedule(block=(64, 64)))(x)",
    ),
    Row("`@kernel.autotune(...)`", "@kernel.autotune(space=dict(BM=[64, 128]))" + KERNEL.format(hints="")),
    Row("`tile.load(vector=, prefetch=)`", "@kernel" + KERNEL.format(hints=", vector=4, prefetch=2")),
    Row(
        "`@kernel(implements=g)`",
        "def g(x: Tensor[M, N, f32]): return x * 2.0\n@kernel(implements=g)" + KERNEL.format(hints=""),
    ),
    Row(
        "`dist.tensor(layout=, mesh=)`",
        MESH + 'def f(): return dist.tensor((8, 8), layout=dist.ShardSpec(("row",), ("dp",)), mesh=mesh)',
    ),
    Row(
        "`with mesh(layout=)`",
        MESH + 'def f(x: Tensor[N, f32]):\n    with mesh(layout={"batch": "shard"}): y = x + x\n    return y',
    ),
    Row(
        "`pmap(mesh=)`",
        MESH + "def g(x: Tensor[N, f32]): return x + x\ndef f(x: Tensor[8, N, f32]): return pmap(g, mesh=mesh)(x)",
    ),
    Row(
        "collectives across several devices",
        MESH + 'def f(x: Tensor[N, f32]): return all_reduce(x, "dp", mesh=mesh)',
    ),
    Row("`KVCache[...] @rolling_window`", "def f(c: KVCache[1, 2, 8, 4, f32] @rolling_window): return c.K"),
    Row(
        "`OptimizerState[...] @paged @checkpointable`",
        "def g(w: Tensor[N, f32], s: OptimizerState[Tensor[N, f32]] @paged @checkpointable): return sgd(w, w, s)[0]\n"
        "def f(w: Tensor[N, f32]): return g(w, sgd_init(w))",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a program on each target."""

    what: str
    cpu: str
    gpu: str


@cache
def outcomes() -> list[Outcome]:
    session = Session()
    return [Outcome(row.what, _said(session, row, _cpu), _said(session, row, _gpu)) for row in COMPUTES]


@cache
def asks() -> dict[str, str]:
    """What becomes on a CPU of each thing that a program asks of where and how it runs."""
    session = Session()
    return {row.what: _said(session, row, _cpu) for row in ASKS}


def where_page() -> str:
    """The page."""
    computes = [f"| {row.what} | {row.cpu} | {row.gpu} |" for row in outcomes()]
    asked = [f"| {what} | {said} |" for what, said in asks().items()]
    return "\n".join([HEAD, *computes, ASKED, *asked, ""])


HEAD = """\
# What runs where

Generated by `make docs` from programs that the compiler was given, for a CPU (aarch64; x86-64 takes the same programs)
and for a GPU (sm_90a). "refused" is an error with the code shown, before anything runs, never another result.

| what | CPU | GPU |
|---|---|---|"""
ASKED = """
`device="cuda"` runs the programs of the right column on a GPU: see [GPUs](gpu.md).

## Placements, schedules, hints

What a program asks of where and how it runs is taken, or an error, or named by `tesserac inspect` as not taken, with
the reason. On a CPU:

| what | CPU |
|---|---|"""


def _said(session: Session, row: Row, compile_: Callable[[Session, SourceFile, TypedFunction], object]) -> str:
    """What becomes of a program on a target."""
    source = SourceFile("where.tess", dedent(row.program).strip() + "\n")
    function = session.function(source, FUNCTION)
    try:
        compile_(session, source, function)
    except ProgramError as problem:
        first = problem.diagnostics[0]
        reason = first.notes[0] if first.notes else ""
        return f"refused, {first.code}" + (f": {reason}" if first.code in ("E0906", "E0907") else "")
    tiled, asked = _taken(session, source, function) if compile_ is _cpu else (set(), [])
    left = requests_not_taken(session.check(source).result.reach(function).values(), tiled, asked)
    reasons = dict.fromkeys(request.why for request in left)
    return f"runs; not taken: {'; '.join(reasons)}" if reasons else "runs"


def _taken(session: Session, source: SourceFile, function: TypedFunction) -> tuple[set[str], list[Span]]:
    """The kernels that a CPU runs as tiles, and the places of products that have the blocks they ask for."""
    levels = session.levels(source, function, AARCH64.schedule)
    tiled = {symbol for made in levels.forms.ops for symbol, why in placed_kernels(made) if not why}
    return tiled, asked_places(levels)


def _cpu(session: Session, source: SourceFile, function: TypedFunction) -> object:
    return session.artifact(source, function, AARCH64)


def _gpu(session: Session, source: SourceFile, function: TypedFunction) -> object:
    return session.gpu_program(source, function, PLATFORMS["sm_90a"])
