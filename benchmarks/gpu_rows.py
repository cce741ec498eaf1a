"""Rows on a GPU whose length only a run knows, beside rows of the same length that is known, and PyTorch.

    python -m benchmarks.gpu_rows [--out DIR] [--dtype bf16 f32] [--lengths 64 512 768]
                                  [--only softmax layernorm_scaled losses] [--spread 8]

For each length as many rows as make 32 M normal numbers of standard deviation `--spread`; all three take turns in one
process. `copy` is the share of the time in which a copy moves as much, of the same run. The report goes to
DIR/gpu_rows.md.
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

ELEMENTS = 32 << 20
LENGTHS = (64, 256, 500, 512, 768, 1000, 1024, 1536, 2048, 3072, 4096)
PROGRAM = """
def softmax_(x: Tensor[{rows}, {length}, {t}]): return softmax(x)
def layernorm_(x: Tensor[{rows}, {length}, {t}]): return layernorm(x)
def rmsnorm_(x: Tensor[{rows}, {length}, {t}]): return rmsnorm(x)
def sum_(x: Tensor[{rows}, {length}, {t}]): return sum(x, axis=-1)
def layernorm_scaled_(x: Tensor[{rows}, {length}, {t}], w: Tensor[{length}, {t}], b: Tensor[{length}, {t}]):
    return layernorm(x, w, b)
def rmsnorm_scaled_(x: Tensor[{rows}, {length}, {t}], w: Tensor[{length}, {t}]): return rmsnorm(x, w)
def losses_(x: Tensor[{rows}, {length}, {t}], y: Tensor[{rows}, i32]): return cross_entropy_rows(x, y)
"""
VECTORS = {"layernorm_scaled": 2, "rmsnorm_scaled": 1}
"""How many vectors a function reads that all rows share."""


def peers(name: str, length: int) -> Callable[..., Any]:
    import torch
    from torch.nn import functional

    def slopes(x: Any, y: Any) -> Any:
        given = x.detach().requires_grad_()
        functional.cross_entropy(given, y.long(), reduction="sum").backward()
        return given.grad

    return {
        "softmax": lambda x: torch.softmax(x, -1),
        "layernorm": lambda x: functional.layer_norm(x, (length,)),
        "rmsnorm": lambda x: functional.rms_norm(x, (length,), eps=1e-5),
        "sum": lambda x: torch.sum(x, -1),
        "layernorm_scaled": lambda x, w, b: functional.layer_norm(x, (length,), w, b),
        "rmsnorm_scaled": lambda x, w: functional.rms_norm(x, (length,), w, eps=1e-5),
        "losses": slopes,
    }[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dtype", nargs="+", choices=("bf16", "f32"), default=["bf16", "f32"])
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS))
    parser.add_argument("--only", nargs="+", default=["softmax", "layernorm", "rmsnorm", "sum"])
    parser.add_argument("--spread", type=float, default=1.0)
    options = parser.parse_args()
    lines = [
        "# Rows of run-time length on a GPU\n",
        f"`python -m benchmarks.gpu_rows {' '.join(sys.argv[1:])}`; microseconds.\n",
        "| rows of | dtype | length | ours | length known | PyTorch | ratio | copy | difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for dtype in options.dtype:
        at_run = tessera.compile(PROGRAM.format(rows="M", length="N", t=dtype), device="cuda")
        for length in options.lengths:
            for name in options.only:
                lines.append(line(at_run, name, dtype, length, options.spread))
                print(lines[-1], flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu_rows.md").write_text("\n".join(lines) + "\n")


def line(at_run: Any, name: str, dtype: str, length: int, spread: float) -> str:
    import torch

    rows = ELEMENTS // length
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    x = torch.randn(rows, length, device="cuda", dtype=kind) * spread
    more = [torch.randn(length, device="cuda", dtype=kind) for _ in range(VECTORS.get(name, 0))]
    if name == "losses":
        more = [torch.randint(0, length, (rows,), device="cuda", dtype=torch.int32)]
    fixed = tessera.compile(PROGRAM.format(rows="M", length=length, t=dtype), device="cuda")
    given, theirs = [tessera.to_device(array) for array in (x, *more)], peers(name, length)
    calls = {
        "ours": lambda: getattr(at_run, f"{name}_")(*given),
        "known": lambda: getattr(fixed, f"{name}_")(*given),
        "torch": lambda: theirs(x, *more),
        "copy": lambda: x.clone(),
    }
    error, times = difference(calls["ours"](), theirs(x, *more)), in_turns(calls)
    moved = times["copy"] / (2.0 if name == "sum" else 1.0)  # a sum writes next to nothing
    ours = times["ours"]
    shown = " | ".join(f"{1e3 * times[who]:.1f}" for who in ("ours", "known", "torch"))
    return f"| {name} | {dtype} | {length} | {shown} | {times['torch'] / ours:.2f} | {moved / ours:.2f} | {error:.1e} |"


if __name__ == "__main__":
    main()
