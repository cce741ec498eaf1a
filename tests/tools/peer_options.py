"""Layers beside PyTorch over products of their options, values and gradients, in f64:

    python -m tests.tools.peer_options [REPORT]

Prints, and writes to REPORT, the largest difference of each case; exits with 1 where one is above the bound. Needs the
extra `peers`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import tessera
from tests.tools import peer_cases
from tests.tools.peer_attention import attention_cases, rotary_cases
from tests.tools.peer_losses import class_cases, ctc_cases, norm_cases
from tests.tools.peer_recurrent import recurrent_cases
from tests.tools.peer_signals import stft_cases

BOUND = 1e-11
MORE = (attention_cases, rotary_cases, stft_cases, ctc_cases, norm_cases, class_cases, recurrent_cases)
Peer = Callable[..., Any]
Case = tuple[str, Peer]
IMAGE, GRID, SPACE = (2, 4, 7, 5), (2, 3, 7, 2), (2, 2, 3, 4, 5)
SHAPES = {"x": IMAGE, "g": GRID, "v": SPACE}


def resizes(f: Any) -> Iterator[Case]:
    for size in ((12, 7), (3, 4)):
        for mode in ("nearest", "nearest-exact", "area"):
            yield f'interpolate(x, {size}, mode="{mode}")', lambda x, g, v, s=size, m=mode: f.interpolate(x, s, mode=m)
        for mode, corners, anti in product(("bilinear", "bicubic"), (False, True), (False, True)):
            if not (corners and anti):
                text = f'interpolate(x, {size}, mode="{mode}", align_corners={corners}, antialias={anti})'
                options = {"mode": mode, "align_corners": corners, "antialias": anti}
                yield text, lambda x, g, v, s=size, o=options: f.interpolate(x, s, **o)


def scaled(f: Any) -> Iterator[Case]:
    """By factors that are no whole numbers."""
    modes = ("nearest", "nearest-exact", "area", "bilinear", "bicubic"), (1.5, 2.0, 0.6, (0.7, 2.3)), (False, True)
    for mode, factor, again in product(*modes):
        for anti in (False, True) if mode in ("bilinear", "bicubic") else (False,):
            size = f"scale_factor={factor}, recompute_scale_factor={again}"
            text = f'interpolate(x, {size}, mode="{mode}", antialias={anti})'
            options = {"mode": mode, "antialias": anti, "recompute_scale_factor": again or None}
            yield text, lambda x, g, v, s=factor, o=options: f.interpolate(x, None, s, **o)


def samples(f: Any) -> Iterator[Case]:
    modes = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    for mode, padding, corners in product(*modes):
        text = f'grid_sample(x, g, mode="{mode}", padding_mode="{padding}", align_corners={corners})'
        yield text, lambda x, g, v, o=(mode, padding, corners): f.grid_sample(x, g, *o)


def pools(f: Any) -> Iterator[Case]:
    for (k, s, p), ceil in product(((3, 2, 1), (2, 3, 1), ((2, 3), (2, 1), (1, 0)), (2, None, 0)), (False, True)):
        for d in (1, 2):
            text = f"max_pool2d(x, {k}, {s}, {p}, {d}, ceil_mode={ceil})"
            yield text, lambda x, g, v, o=(k, s, p, d, ceil): f.max_pool2d(x, *o)
        for include in (False, True):
            text = f"avg_pool2d(x, {k}, {s}, {p}, ceil_mode={ceil}, count_include_pad={include})"
            yield text, lambda x, g, v, o=(k, s, p, ceil, include): f.avg_pool2d(x, *o)
    yield "adaptive_avg_pool2d(x, (4, 3))", lambda x, g, v: f.adaptive_avg_pool2d(x, (4, 3))
    yield "adaptive_max_pool2d(x, (4, 3))", lambda x, g, v: f.adaptive_max_pool2d(x, (4, 3))
    yield "max_pool3d(v, 2, 1, 1, ceil_mode=True)", lambda x, g, v: f.max_pool3d(v, 2, 1, 1, ceil_mode=True)
    yield "avg_pool3d(v, 2, 2, 1, ceil_mode=True)", lambda x, g, v: f.avg_pool3d(v, 2, 2, 1, ceil_mode=True)
    yield "unfold(x, (2, 3), padding=1, stride=2)", lambda x, g, v: f.unfold(x, (2, 3), padding=1, stride=2)


def activations(f: Any) -> Iterator[Case]:
    for name in ("selu", "softsign", "softshrink", "hardshrink", "tanhshrink", "hardtanh", "logsigmoid", "mish"):
        yield f"{name}(x)", lambda x, g, v, n=name: getattr(f, n)(x)
    yield "celu(x, alpha=0.5)", lambda x, g, v: f.celu(x, 0.5)
    yield "softplus(x, beta=2.0)", lambda x, g, v: f.softplus(x, 2.0, 1e9)
    yield "smooth_l1(x, 0.5 * x, beta=0.3)", lambda x, g, v: f.smooth_l1_loss(x, 0.5 * x, beta=0.3)


def differences(cases: list[Case], torch: Any) -> Iterator[tuple[str, float, float]]:
    """Of each case the largest difference of values and of gradients by all operands."""
    typed = ", ".join(f"{name}: Tensor[{', '.join(map(str, shape))}, f64]" for name, shape in SHAPES.items())
    text = "".join(
        f"def f{i}({typed}):\n    return {case}\n"
        f"def d{i}({typed}):\n    return grad(lambda x, g, v: sum(square({case})), wrt=(0, 1, 2))(x, g, v)\n"
        for i, (case, _) in enumerate(cases)
    )
    module, rng = tessera.compile(text), np.random.default_rng(0)
    args = [rng.uniform(-1.6, 1.6, shape) for shape in SHAPES.values()]
    for i, (case, peer) in enumerate(cases):
        operands = [torch.tensor(a, requires_grad=True) for a in args]
        wanted = peer(*operands)
        wanted.square().sum().backward()
        found, slopes = getattr(module, f"f{i}")(*args), getattr(module, f"d{i}")(*args)
        rises = [0.0 if o.grad is None else o.grad.numpy() for o in operands]
        values = float(np.abs(found - wanted.detach().numpy()).max())
        yield case, values, max(float(np.abs(a - b).max()) for a, b in zip(slopes, rises, strict=True))


def main() -> int:
    import torch
    from torch.nn import functional

    cases = [case for make in (resizes, scaled, samples, pools, activations) for case in make(functional)]
    lines, worst = [f"Beside PyTorch {torch.__version__}, f64: difference of values, of gradients"], 0.0
    more = [case for make in MORE for case in make(torch)]
    for case, values, slopes in (*differences(cases, torch), *peer_cases.differences(more, torch)):
        lines.append(f"{values:8.1e} {slopes:8.1e}  {case}")
        worst = max(worst, values, slopes)
    lines.append(f"{len(cases) + len(more)} cases, the largest difference is {worst:.1e}; the bound is {BOUND:.0e}")
    print("\n".join(lines))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join(lines) + "\n")
    return int(worst > BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
