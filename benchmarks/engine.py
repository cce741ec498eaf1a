"""How long the engine takes for expressions of about 100 nodes: `python -m benchmarks.engine`.

Chains of products with sizes of several kinds, and random expressions; the processor's time of the fastest of several
turns, each with all that is kept between expressions forgotten. Writes `benchmarks/results/engine-<machine>.md`.
"""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Callable, Sequence
from datetime import date
from itertools import pairwise

from benchmarks.apart import ROOT
from tesserac.graph.algebra import chains, costs, known, rules, terms
from tesserac.graph.algebra.costs import Facts
from tesserac.graph.algebra.engine import Engine
from tesserac.graph.algebra.terms import Term, make
from tesserac.ir.core import Block
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.ty import TensorType

NODES, TURNS, SEEDS = 100, 25, 12
N = Dim.sym("N")
SYMBOLS = [Dim.sym(name) for name in "ABCDE"]
NUMBERS = [Dim.const(size) for size in (8, 64, 100, 1024)]
GROWING = ("mm", "mm", "mm", "add", "sub", "t", "neg", "tril", "scale", "diag")


def given(*shape: Dim) -> Term:
    return terms.leaf(Block([TensorType(shape, F32)], ["x"]).args[0], shape)


def chain(sizes: Sequence[Dim], rng: random.Random, *, applied: bool) -> Term:
    """A product of 50 matrices, in the order that is written; `applied` to a vector the last one."""
    edges = [rng.choice(sizes) for _ in range(NODES // 2 + 1)]
    found = given(edges[0], edges[1])
    for left, right in pairwise(edges[1:]):
        found = make("mm", found, given(left, right))
    return make("mm", found, given(edges[-1])) if applied else found


def grown(rng: random.Random, size: Dim) -> Term:
    """A random expression over a few matrices and diagonals, parts of which stand in it more than once."""
    pool = [given(size, size) for _ in range(6)] + [make("diag", given(size)) for _ in range(3)]
    found = rng.choice(pool)
    while len(found.distinct) < NODES:
        head, other = rng.choice(GROWING), rng.choice(pool)
        if head in ("mm", "add", "sub"):
            found = make(head, *rng.sample([found, other], 2))
        elif head == "scale":
            found = make(head, given(), found)
        else:
            found = make("mm", make("diag", given(size)), found) if head == "diag" else make(head, found)
        if rng.random() < 0.3:
            pool.append(found)
    return make("mm", found, given(size))


def forget() -> None:
    for module in (chains, costs, known, rules, terms):
        for kept in vars(module).values():
            clear = getattr(kept, "cache_clear", None)
            if clear is not None:
                clear()


def milliseconds(expression: Callable[[], Term]) -> float:
    best = float("inf")
    for _ in range(TURNS):
        term = expression()
        forget()
        start = time.process_time()
        Engine(Facts()).simplify(term)
        best = min(best, time.process_time() - start)
    return best * 1e3


def main() -> None:
    rows = {
        f"50 matrices{', a vector' * applied}, {kind}": milliseconds(
            lambda sizes=sizes, applied=applied: chain(sizes, random.Random(0), applied=applied)  # type: ignore[misc]
        )
        for kind, sizes in (("all `N x N`", [N]), ("sizes of 5 names", SYMBOLS), ("numbers", NUMBERS))
        for applied in (False, True)
    }
    for kind, size in (("`N x N`", N), ("512 x 512", Dim.const(512))):
        times = [milliseconds(lambda s=s, size=size: grown(random.Random(s), size)) for s in range(SEEDS)]  # type: ignore[misc]
        rows[f"{SEEDS} random expressions of {kind}, the slowest"] = max(times)
    lines = [
        "# The engine of linear algebra", "",
        f"`python -m benchmarks.engine`, {date.today()}, {platform.machine()}.",
        f"Milliseconds of one core for an expression of {NODES} nodes, nothing kept from others; the goal is 50.", "",
        "| expression | ms |", "|---|---|", *(f"| {name} | {ms:.1f} |" for name, ms in rows.items()),
    ]  # fmt: skip
    text = "\n".join([*lines, ""])
    (ROOT / "benchmarks" / "results" / f"engine-{platform.machine()}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
