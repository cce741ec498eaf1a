"""What tuning could win: the compiler's own schedules beside the best that measuring finds, over a set of programs.

    python -m benchmarks.tuned [--device cuda] [--only NAME] [--seconds 80] [--out DIR]

For every product, reduction and kernel of each program the tuner's candidates are measured in turn; then the best of
them and the compiler's choice alone, again in turn, which is what the table shows. A ratio of at most 1.10 is the goal.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

from tesserac.base.source import SourceFile  # noqa: E402
from tesserac.commands.tuning import arguments_for  # noqa: E402
from tesserac.commands.tuning_runs import Bench, compile_candidate, find_bench, run_candidates, workers  # noqa: E402
from tesserac.commands.tuning_tasks import Task, find_tasks  # noqa: E402
from tesserac.driver.session import Session  # noqa: E402
from tesserac.tune.measure import Measured, measure  # noqa: E402

GOAL = 1.10
PRODUCT = "def f(a: Tensor[M, K, {0}], b: Tensor[K, N, {0}]): return a @ b\n"
TURNED = "def f(a: Tensor[M, K, {0}], b: Tensor[N, K, {0}]): return a @ b.T\n"
BATCHED = "def f(a: Tensor[B, M, K, {0}], b: Tensor[B, K, N, {0}]): return a @ b\n"
ACROSS = "def f(x: Tensor[M, N, f32]): return {0}(x, axis=0)\n"
ALONG = "def f(x: Tensor[M, N, f32]): return {0}(x, axis=1)\n"
ATTENTION = """
def f(q: Tensor[B, S, {1}, {0}], k: Tensor[B, S, {1}, {0}], v: Tensor[B, S, {1}, {0}]): return attention(q, k, v)
"""
KERNEL = """
@kernel
def f(a: KTile[M, K, {0}], b: KTile[K, N, {0}]) -> Tile[M, N, {0}]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return tile.cast(acc, {1})
"""
ELEMENTS = """
@kernel
def f(x: KTile[M, N, f32], b: KTile[N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    return tile.cast(exp(tile.load(x, rows=T.m, cols=T.n)) + tile.load(b, cols=T.n), f32)
"""
NARROW = "bf16 @accum(f32)"
CPU_CASES = {
    "product 256": (PRODUCT.format("f32"), "M=256,N=256,K=256"),
    "product 1024": (PRODUCT.format("f32"), "M=1024,N=1024,K=1024"),
    "product 64 x 4096 x 1024": (PRODUCT.format("f32"), "M=64,N=4096,K=1024"),
    "product 1024 x 128 x 1024": (PRODUCT.format("f32"), "M=1024,N=128,K=1024"),
    "product 512 f64": (PRODUCT.format("f64"), "M=512,N=512,K=512"),
    "product 512 bf16": (PRODUCT.format(NARROW), "M=512,N=512,K=512"),
    "a @ b.T 512": (TURNED.format("f32"), "M=512,N=512,K=512"),
    "32 products 128": (BATCHED.format("f32"), "B=32,M=128,N=128,K=128"),
    "sum of columns": (ACROSS.format("sum"), "M=4096,N=1024"),
    "max of columns": (ACROSS.format("max"), "M=1024,N=8192"),
    "kernel product 512": (KERNEL.format("f32", "f32"), "M=512,N=512,K=512"),
    "kernel of elements": (ELEMENTS, "M=2048,N=2048"),
    "attention 8 x 1024 x 64": (ATTENTION.format("f32", 64), "B=8,S=1024"),
    "attention 8 x 512 x 128": (ATTENTION.format("f32", 128), "B=8,S=512"),
}
GPU_CASES = {
    "product 4096 bf16": (PRODUCT.format(NARROW), "M=4096,N=4096,K=4096"),
    "attention 32 x 2048 x 128 bf16": (ATTENTION.format(NARROW, 128), "B=32,S=2048"),
    "kernel product 2048 bf16": (KERNEL.format(NARROW, "bf16"), "M=2048,N=2048,K=2048"),
    "sum of columns": (ACROSS.format("sum"), "M=8192,N=4096"),
    "sum of rows": (ALONG.format("sum"), "M=8192,N=4096"),
    "product 1024 bf16": (PRODUCT.format(NARROW), "M=1024,N=1024,K=1024"),
    "product 1024 f32": (PRODUCT.format("f32"), "M=1024,N=1024,K=1024"),
    "max of rows": (ALONG.format("max"), "M=32768,N=512"),
    "attention 16 x 1024 x 64 f32": (ATTENTION.format("f32", 64), "B=16,S=1024"),
    "product 256 x 4096 x 4096 bf16": (PRODUCT.format(NARROW), "M=256,N=4096,K=4096"),
    "kernel product 2048 f32": (KERNEL.format("f32", "f32"), "M=2048,N=2048,K=2048"),
    "kernel of elements": (ELEMENTS, "M=8192,N=4096"),
    "attention 32 x 2048 x 64 bf16": (ATTENTION.format(NARROW, 64), "B=32,S=2048"),
    "product 4096 f32": (PRODUCT.format("f32"), "M=4096,N=4096,K=4096"),
}
HEAD = ["| program | work | untuned ms | best ms | best schedule | untuned / best |", "|---|---|---|---|---|---|"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=600.0, help="no program is begun later")
    parser.add_argument("--budget-ms", type=float, default=400.0)
    parser.add_argument("--most", type=int, default=12, help="candidates of each")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    bench, start, lines, ratios = find_bench(options.device), monotonic(), [*HEAD], list[float]()
    cases = CPU_CASES if options.device == "cpu" else GPU_CASES
    print("\n".join(HEAD), flush=True)
    with workers() as pool:
        for name, (text, sizes) in cases.items():
            if options.only in name and monotonic() - start < options.seconds:
                for row, ratio in measured(bench, pool, name, text, sizes, options):
                    ratios += [ratio] if ratio else []
                    lines.append(row)
                    print(row, flush=True)
                if options.out:
                    write(options.out, bench, lines, ratios)


def measured(
    bench: Bench, pool: Executor, name: str, text: str, sizes: str, options: argparse.Namespace
) -> list[tuple[str, float]]:
    """A row for each kind of work, with the time untuned over that of the best."""
    session, source = Session(), SourceFile("f.tess", text)
    numbers = {pair.partition("=")[0]: int(pair.partition("=")[2]) for pair in sizes.split(",")}
    try:
        function = session.function(source, "f")
        forms = session.levels(source, function, bench.machine).forms
        args = arguments_for(function, numbers)
        tasks = list(find_tasks(source, function, forms, bench.machine, numbers))
        fewer = [replace(task, tried=task.tried[: options.most]) for task in tasks]
        return [_row(bench, pool, name, task, args, options.budget_ms) for task in fewer]
    except Exception as problem:  # the others are still worth knowing
        return [(f"| {name} | | | | {type(problem).__name__}: {str(problem)[:120]} | |", 0.0)]


def _row(
    bench: Bench, pool: Executor, name: str, task: Task, args: Sequence[object], budget: float
) -> tuple[str, float]:
    run = run_candidates(bench, pool, task, [], args, budget, lambda done, count: None)  # type: ignore[arg-type]
    tried = run.tried
    good = [(found.ms, number) for number, (_, found) in enumerate(tried) if isinstance(found, Measured)]
    best = tried[min(good)[1]][0]
    default, fastest = tried[0][1], tried[min(good)[1]][1]
    assert isinstance(default, Measured) and isinstance(fastest, Measured)
    if best:
        entries = [(), (task.entry(best),)]
        codes = [compile_candidate(task.source, task.function.name, e, bench.target) for e in entries]
        calls = [bench.load(code, args) for code in codes if isinstance(code, bytes)]  # type: ignore[arg-type]
        default, fastest = measure([bench.timed(call) for call in calls], budget).measured
    ratio = default.ms / fastest.ms
    shown = " ".join(f"{key}={value}" for key, value in best.items()) or "the compiler's"
    left_out = sum(isinstance(found, str) for _, found in tried)
    work = f"{task.title}, {len(tried) - left_out} tried" + (f", {left_out} left out" if left_out else "")
    return f"| {name} | {work} | {default.ms:.4f} | {fastest.ms:.4f} | {shown} | {ratio:.2f} |", ratio


def write(folder: Path, bench: Bench, lines: Sequence[str], ratios: Sequence[float]) -> None:
    machine = bench.machine
    within = sum(ratio <= GOAL for ratio in ratios)
    head = f"`python -m benchmarks.tuned`, {date.today()}, {machine.target}, {machine.cores} cores"
    said = f"{within} of {len(ratios)} within {GOAL:.2f} of the best that measuring finds"
    text = f"# Schedules: the compiler's choice beside tuned ones\n\n{head}. {said}.\n\n" + "\n".join(lines) + "\n"
    name = "h200" if machine.warps else platform.machine()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"tuned-{name}.md").write_text(text)


if __name__ == "__main__":
    main()
