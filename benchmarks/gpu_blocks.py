"""Products of bf16 on a GPU in every block that a program may have, beside the block that the cost model takes.

    python -m benchmarks.gpu_blocks [--out DIR] [--shapes 768x768x8192 ...] [--blocks 128x192x64 ...] [--across]

Shapes are rows x columns x terms. `--across`: the left operand has its terms as rows, as in a gradient by weights.
All blocks and PyTorch take turns in one process. What is slower than the best block by more than a tenth is what the
model has wrong. The report goes to DIR/gpu_blocks.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import tessera  # noqa: E402
from benchmarks.gpu_table import in_turns  # noqa: E402
from tesserac.schedule.costs.tiles import KNOWN_BLOCKS, Problem, best_block, best_split, programs, segments  # noqa: E402
from tesserac.schedule.costs.tiles import Block as Tile  # noqa: E402
from tesserac.schedule.machine import SM_90A  # noqa: E402
from tesserac.types.dtype import BF16, F32  # noqa: E402

SHAPES = (
    "768x768x8192", "768x2304x8192", "768x3072x8192", "3072x768x8192", "8192x768x768", "8192x3072x768",
    "8192x768x3072", "64x4096x4096", "256x4096x4096", "1024x1024x1024", "2048x2048x2048",
)  # fmt: skip
PROGRAM = """
half = bf16 @accum(f32)
def product(a: Tensor[{left}, half], b: Tensor[{terms}, {columns}, half]):
    return {value}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES))
    parser.add_argument("--across", action="store_true")
    parser.add_argument("--blocks", nargs="+", default=["x".join(map(str, block)) for block in KNOWN_BLOCKS])
    options = parser.parse_args()
    blocks = [tuple(map(int, block.split("x"))) for block in options.blocks]
    lines = [
        "# Products of bf16 by their blocks\n",
        f"`python -m benchmarks.gpu_blocks {' '.join(sys.argv[1:])}`; microseconds, and how many programs there are.\n",
        f"| product | {' | '.join(options.blocks)} | PyTorch | ours | the model takes | of the best | bits |",
        "|---" * (len(blocks) + 6) + "|",
    ]
    for shape in options.shapes:
        lines.append(line(tuple(map(int, shape.split("x"))), blocks, options.across))
        print(lines[-1], flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu_blocks.md").write_text("\n".join(lines) + "\n")


def line(shape: tuple[int, ...], blocks: list[tuple[int, ...]], across: bool) -> str:
    import torch

    rows, columns, terms = shape
    problem = Problem(1, rows, columns, terms, BF16, F32, False, known=True)
    left = (terms, rows) if across else (rows, terms)
    a, b = (torch.randn(*size, device="cuda").to(torch.bfloat16) for size in (left, (terms, columns)))
    given = tessera.to_device((a, b))
    calls: dict[str, Any] = {"torch": (lambda: a.T @ b) if across else (lambda: a @ b)}
    asked = [(str(Tile(*block)), f", tile_shape={block}") for block in blocks]
    for name, said in (("chosen", ""), *asked):
        value = f"op.matmul({'a.T' if across else 'a'}, b{said})"
        text = PROGRAM.format(left=f"{left[0]}, {left[1]}", terms=terms, columns=columns, value=value)
        function = tessera.compile(text, device="cuda").product
        calls[name] = lambda function=function: function(*given)
    results = {name: call() for name, call in calls.items() if name != "torch"}
    bits = {value.numpy().tobytes() for value in results.values()}
    times = in_turns(calls)
    ours = {name: times[name] for name in calls if name != "torch"}
    split = best_split(problem, SM_90A)
    taken = f"{split}, {segments(problem)} segments" if split is not None else str(best_block(problem, SM_90A))
    cells = [f"{1e3 * times[str(Tile(*b))]:.1f} ({programs(problem, Tile(*b))})" for b in blocks]
    cells += [f"{1e3 * times[name]:.1f}" for name in ("torch", "chosen")]
    share = min(ours.values()) / ours["chosen"]
    same = "same" if len(bits) == 1 else "DIFFER"
    return f"| {rows}x{columns}x{terms} | {' | '.join(cells)} | {taken} | {share:.2f} | {same} |"


if __name__ == "__main__":
    main()
