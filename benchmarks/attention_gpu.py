"""Attention on a GPU: the library's tile program beside PyTorch's best, in time; memory that a call needs.

    python -m benchmarks.attention_gpu --out benchmarks/results/attention-h200.md [--sizes 512 2048] [--dtypes f32 bf16]

Each library runs alone in a process of its own, and the processes take turns; the figure is the least of all turns.
Times are the device's own (events around many calls). PyTorch runs each backend that it has for the case (cuDNN, flash,
efficient, math); the best is the peer, and is named. Tokens per case are constant, so that all cases are about as long.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

TOKENS = 16384
HEADS = 16
TURNS = 2
Case = tuple[str, int, int, bool]
"""dtype, head dim, sequence length, causal"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 2048, 4096, 16384])
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--back", action="store_true", help="forward and back, together")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--inside", choices=("ours", "torch"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = [(t, d, s, c) for t in options.dtypes for d in options.widths for s in options.sizes for c in (False, True)]
    if options.inside:
        measure = ours if options.inside == "ours" else torch_times
        for number, case in enumerate(cases):
            print("ROW " + json.dumps([number, measure(case, options.arch, options.back)]), flush=True)
        return
    text = report(cases, options.back, [turn(who) for _ in range(options.turns) for who in ("ours", "torch")])
    print(text)
    if options.out:
        options.out.write_text(text)


def turn(who: str) -> tuple[str, dict[int, dict[str, float]]]:
    """One process of one library: for each case the milliseconds of each of its ways."""
    command = [sys.executable, "-m", "benchmarks.attention_gpu", *sys.argv[1:], "--inside", who]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    rows = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("ROW ")]
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-4000:], file=sys.stderr)
    return who, dict(rows)


def report(cases: list[Case], back: bool, turns: list[tuple[str, dict[int, dict[str, float]]]]) -> str:
    lines = [
        f"# Attention on a GPU{', forward and back' if back else ''}\n",
        f"`python -m benchmarks.attention_gpu{' --back' * back}`: {TOKENS} tokens of {HEADS} heads, "
        f"least of {len(turns) // 2} turns.\n",
        "| dtype | head | S | causal | ours, ms | TFLOP/s | peer, ms | peer is | ratio | workspace, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for number, (dtype, width, size, causal) in enumerate(cases):
        best: dict[str, float] = {}
        for who, rows in turns:
            for way, time in rows.get(number, {}).items():
                best[f"{who} {way}"] = min(time, best.get(f"{who} {way}", float("inf")))
        mine = best.get("ours tiles", float("nan"))
        peers = {way[6:]: time for way, time in best.items() if way.startswith("torch")}
        peer = min(peers, key=lambda way: peers[way], default="-")
        flops = (18.0 if back else 4.0) * TOKENS * HEADS * size * width / (2 if causal else 1)
        lines.append(
            f"| {dtype} | {width} | {size} | {causal} | {mine:.3f} | {flops / mine / 1e9:.0f} | "
            f"{peers.get(peer, float('nan')):.3f} | {peer} | {peers.get(peer, float('nan')) / mine:.2f} | "
            f"{best.get('ours workspace', float('nan')):.1f} |"
        )
    return "\n".join(lines) + "\n"


BACK = """
    y, back = vjp(lambda q, k, v: attention(q, k, v, causal={causal}), q, k, v)
    return y, back(w)
"""


def ours(case: Case, arch: str, back: bool) -> dict[str, float]:
    from benchmarks.gpu_runs import GpuCall
    from tessera.gpu_program import Launch
    from tesserac.base.source import SourceFile
    from tesserac.driver.session import Session
    from tesserac.target.nvptx.build import PLATFORMS

    dtype, width, size, causal = case
    shape = (TOKENS // size, HEADS, size, width)
    element = "bf16 @accum(f32)" if dtype == "bf16" else dtype
    names = "qkvw" if back else "qkv"
    tensors = ", ".join(f"{name}: Tensor[B, {HEADS}, S, {width}, {element}]" for name in names)
    body = BACK.format(causal=causal) if back else f"\n    return attention(q, k, v, causal={causal})\n"
    source = SourceFile("f.tess", f"def f({tensors}):{body}")
    session = Session()
    program = session.gpu_program(source, session.function(source, "f"), PLATFORMS[arch])
    rng = np.random.default_rng(0)
    element_type: Any = ml_dtypes.bfloat16 if dtype == "bf16" else np.float32
    inputs = tuple(rng.standard_normal(shape, np.float32).astype(element_type) for _ in names)
    call = GpuCall(program, inputs)
    symbols = call.symbols
    call.time(2)
    assert back or all(isinstance(step, Launch) for step in program.steps) or dtype != "f32", "more than one launch"
    workspace = sum(
        int(np.prod([n.evaluate(symbols) for n in b.sizes])) * np.dtype(getattr(ml_dtypes, b.dtype, b.dtype)).itemsize
        for b in program.buffers
        if b.role == "workspace"
    )
    return {"tiles": min(call.time(10) for _ in range(5)), "workspace": workspace / 2**20}


def torch_times(case: Case, _: str, back: bool) -> dict[str, float]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    dtype, width, size, causal = case
    torch.backends.cuda.matmul.allow_tf32 = False
    element = torch.bfloat16 if dtype == "bf16" else torch.float32
    shape = (TOKENS // size, HEADS, size, width)
    q, k, v, w = (torch.randn(shape, device="cuda", dtype=element) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_(back)
    backends = {
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "math": SDPBackend.MATH,
    }
    times: dict[str, float] = {}
    for name, backend in backends.items():
        if name == "math" and size > 4096:
            continue
        try:
            with sdpa_kernel(backend):

                def run() -> object:
                    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                    return torch.autograd.grad(y, (q, k, v), w) if back else y

                run()
                times[name] = min(_events(run) for _ in range(5))
        except RuntimeError:
            continue
    return times


def _events(run: Any, calls: int = 10) -> float:
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / calls


if __name__ == "__main__":
    main()
