"""`python -m benchmarks.gradients`: what a gradient costs, as a multiple of its function, beside JAX and PyTorch.

The classic set: a perceptron, a block of attention, an LSTM over 200 steps, the log-likelihood of a mixture of
Gaussians; beside it a small LSTM and convolutions. All take turns in one process on the same inputs, and must agree on
the value. `pip install '.[peers]'` brings the others; without them Tessera's own figures are shown. Writes
`benchmarks/results/gradients-MACHINE.md`.
"""

from __future__ import annotations

import argparse
import datetime
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tessera
from benchmarks.__main__ import RESULTS, machine
from benchmarks.gradients_peers import Pair, jax_pair, torch_pair
from benchmarks.measure import Timing, interleaved
from benchmarks.report import Row, table

GOAL = 4.0
PROGRAM = Path(__file__).parent / "gradients.tess"


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    struct: str
    params: dict[str, np.ndarray]
    data: tuple[np.ndarray, ...]


def cases() -> list[Case]:
    rng = np.random.default_rng(0)

    def single(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    def double(*shape: int, scale: float = 1.0) -> np.ndarray:
        return rng.standard_normal(shape) * scale

    weights = {"w1": single(256, 512, scale=1 / 16), "b1": single(512), "w2": single(512, 512, scale=1 / 22)}
    weights |= {"b2": single(512), "w3": single(512, 10, scale=1 / 22), "b3": single(10)}
    labels = rng.integers(0, 10, 256).astype(np.int32)
    attention = {"qkv": single(256, 768, scale=1 / 16), "out": single(256, 256, scale=1 / 16)}
    attention |= {"scale": single(256), "shift": single(256)}
    lstm = {"w": single(64, 512, scale=1 / 16), "u": single(128, 512, scale=1 / 16), "b": single(512)}
    small = {"w": single(32, 128, scale=1 / 8), "u": single(32, 128, scale=1 / 8), "b": single(128)}
    layers = {"first": single(32, 16, 3, 3, scale=1 / 12), "second": single(32, 32, 3, 3, scale=1 / 17)}
    mixture = {"alphas": double(25), "means": double(25, 10)}
    mixture |= {"logs": double(25, 10, scale=0.3), "lower": double(25, 10, 10, scale=0.3)}
    return [
        Case("mlp", "MLP 256-512-512-10, batch 256, f32", "MLP", weights, (single(256, 256), labels)),
        Case("attend", "attention block 4x128x256, 4 heads, f32", "Attention", attention, (single(4, 128, 256),)),
        Case("lstm", "LSTM 64-128, batch 16, 200 steps, f32", "LSTM", lstm, (single(200, 16, 64),)),
        Case("mixture", "Gaussian mixture N=1000 D=10 K=25, f64", "Mixture", mixture, (double(1000, 10),)),
        Case("lstm", "LSTM 32-32, batch 8, 100 steps, f32", "LSTM", small, (single(100, 8, 32),)),
        Case("convolve", "two convolutions 3x3, 8x16x32x32, f32", "Convolutions", layers, (single(8, 16, 32, 32),)),
    ]


def our_pair(case: Case) -> Pair:
    module = tessera.load(PROGRAM)
    model = getattr(module, case.struct)(**case.params)
    primal, gradient = module[case.name], module[f"{case.name}_gradient"]
    return lambda: float(primal(model, *case.data)), lambda: float(gradient(model, *case.data)[0])


def contestants(case: Case) -> dict[str, Pair]:
    found = {
        "tessera": our_pair(case),
        "jax": jax_pair(case.name, case.params, case.data),
        "torch": torch_pair(case.name, case.params, case.data),
    }
    return {name: pair for name, pair in found.items() if pair is not None}


def measure(case: Case, turns: int) -> Row:
    pairs = contestants(case)
    expected = pairs["tessera"][0]()
    calls: dict[str, Callable[[], object]] = {}
    for name, (primal, gradient) in pairs.items():
        for value in (primal(), gradient()):
            np.testing.assert_allclose(value, expected, rtol=1e-4, err_msg=f"{case.name} by {name}")
        calls |= {name: primal, f"{name} gradient": gradient}
    timing = interleaved(calls, turns=turns, repeat=2)
    ratio = timing["tessera gradient"].best / timing["tessera"].best
    detail = "; ".join(_figures(name, timing) for name in pairs)
    return Row(case.title, f"{ratio:.2f}x its function", f"<= {GOAL:g}x", ratio <= GOAL, detail)


def _figures(name: str, timing: dict[str, Timing]) -> str:
    primal, gradient = timing[name].best, timing[f"{name} gradient"].best
    return f"{name} {primal * 1e3:.2f} and {gradient * 1e3:.2f} ms ({gradient / primal:.2f}x)"


def main() -> None:
    parser = argparse.ArgumentParser(description="gradient time over primal time")
    parser.add_argument("--output", type=Path, default=RESULTS / f"gradients-{platform.machine()}.md")
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    rows = []
    for case in cases():
        rows.append(measure(case, options.turns))
        print(rows[-1].line(), flush=True)
    today = datetime.date.today().isoformat()
    head = f"# Gradients\n\n`python -m benchmarks.gradients`, {today}, {machine()}.\n"
    told = "Function and gradient, the best of each, in milliseconds.\n"
    options.output.write_text(f"{head}{told}\n{table(rows)}", encoding="utf-8")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
