"""A step of training GPT-2 124M on a GPU, batch 8 x 1024: forward, backward and AdamW, beside PyTorch compiled.

    python -m benchmarks.gpt2_step --out DIR [--steps 10] [--turns 3] [--without-torch] [--eager]

Weights and AdamW are f32 on both sides, products and what lies between them bf16 (PyTorch: autocast, `torch.compile`,
fused AdamW, cuDNN or flash attention, whichever it takes). Both start from the same weights and see the same tokens, so
that the losses can be compared. The sides take turns; the time of a side is the median of its turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

import tessera  # noqa: E402

PROGRAM = Path(__file__).with_suffix(".tess")
BATCH, LENGTH, VOCABULARY, HEADS = 8, 1024, 50304, 12
FLOPS = 6.0 * 124e6 * BATCH * LENGTH + 12.0 * 12 * 768 * LENGTH * BATCH * LENGTH / 2

Step = Callable[[], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--eager", action="store_true", help="PyTorch without compiling it")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 50257, (BATCH, LENGTH + 1)).astype(np.int32)
    say("ours: loading")
    ours, weights = our_step(tokens)
    sides: dict[str, Step] = {"ours": ours}
    say(f"ours: first loss {float(ours()):.6f}")
    if not options.without_torch:
        sides["PyTorch"] = torch_step(tokens, weights, options.eager)
        say(f"PyTorch: first loss {float(sides['PyTorch']()):.6f}")
    text = report(sides, options)
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpt2_step.md").write_text(text)


def say(text: str) -> None:
    print(f"{time.perf_counter() - STARTED:6.1f} s  {text}", flush=True)


STARTED = time.perf_counter()


def our_step(tokens: Any) -> tuple[Step, Any]:
    module = tessera.load(str(PROGRAM), device="cuda")
    weights = module.fresh()
    say("ours: weights are there")
    held = [tessera.to_device(weights)]
    held += [module.start(held[0]) for _ in range(2)]
    ids, following = (tessera.to_device(np.ascontiguousarray(t)) for t in (tokens[:, :-1], tokens[:, 1:]))
    count = 0

    def step() -> Any:
        nonlocal count
        *held[:], loss = module.step(*held, count, ids, following)
        count += 1
        return loss

    return step, weights


# --- PyTorch ----------------------------------------------------------------------------------------------------------


def torch_step(tokens: Any, weights: Any, eager: bool) -> Step:
    import torch

    torch.set_float32_matmul_precision("highest")
    parameters = torch_parameters(weights)
    optimizer = torch.optim.AdamW(list(parameters.values()), lr=3e-4, weight_decay=0.01, fused=True)
    ids, following = (torch.from_numpy(t.astype(np.int64)).cuda() for t in (tokens[:, :-1], tokens[:, 1:]))
    loss_of = torch_loss if eager else torch.compile(torch_loss)

    def step() -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(parameters, ids, following)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def torch_parameters(weights: Any) -> dict[str, Any]:
    import torch

    def parameter(value: Any) -> Any:
        return torch.nn.Parameter(torch.from_numpy(np.array(value)).cuda())

    found = {name: parameter(getattr(weights, name)) for name in OUTSIDE}
    for number, block in enumerate(weights.blocks):
        found |= {f"blocks{number}.{name}": parameter(getattr(block, name)) for name in BLOCK}
    return found


def torch_loss(p: dict[str, Any], ids: Any, following: Any) -> Any:
    import torch
    from torch.nn import functional as nn

    x = p["tokens"][ids] + p["positions"][: ids.shape[1]]
    width = x.shape[-1]
    for number in range(12):
        b = {name: p[f"blocks{number}.{name}"] for name in BLOCK}
        h = nn.layer_norm(x, (width,), b["norm1"], b["shift1"])
        q, k, v = (h @ b["qkv"] + b["qkv_bias"]).split(width, dim=-1)
        q, k, v = (t.view(*t.shape[:2], HEADS, width // HEADS).transpose(1, 2) for t in (q, k, v))
        y = nn.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + y @ b["out"] + b["out_bias"]
        h = nn.layer_norm(x, (width,), b["norm2"], b["shift2"])
        x = x + nn.gelu(h @ b["up"] + b["up_bias"], approximate="tanh") @ b["down"] + b["down_bias"]
    logits = nn.layer_norm(x, (width,), p["norm"], p["shift"]) @ p["tokens"].T
    return nn.cross_entropy(logits.float().view(-1, VOCABULARY), following.reshape(-1)).to(torch.float32)


OUTSIDE = ("tokens", "positions", "norm", "shift")
BLOCK = (
    "norm1", "shift1", "qkv", "qkv_bias", "out", "out_bias", "norm2", "shift2", "up", "up_bias", "down", "down_bias",
)  # fmt: skip


# --- turns ------------------------------------------------------------------------------------------------------------


def report(sides: dict[str, Step], options: argparse.Namespace) -> str:
    times: dict[str, list[float]] = {name: [] for name in sides}
    losses: dict[str, float] = {}
    for _ in range(options.turns):
        for name, step in sides.items():
            losses[name] = float(step())  # it waits
            started = time.perf_counter()
            for _ in range(options.steps):
                loss = step()
            losses[name] = float(loss)
            times[name].append((time.perf_counter() - started) / options.steps * 1e3)
            say(f"{name}: {times[name][-1]:.2f} ms a step, loss {losses[name]:.6f}")
    found = {name: statistics.median(each) for name, each in times.items()}
    lines = ["# A step of training GPT-2 124M", "", "`python -m benchmarks.gpt2_step`, batch 8 x 1024, bf16.", ""]
    lines += ["| side | ms a step | TFLOP/s | loss at the end |", "|---|---|---|---|"]
    lines += [f"| {name} | {ms:.2f} | {FLOPS / ms / 1e9:.0f} | {losses[name]:.4f} |" for name, ms in found.items()]
    if "PyTorch" in found:
        lines += ["", f"PyTorch's time over ours: {found['PyTorch'] / found['ours']:.2f}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
