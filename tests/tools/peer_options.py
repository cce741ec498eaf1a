"""Layers beside PyTorch over products of their options, values and gradients, in f64:

    python -m tests.tools.peer_options [REPORT [FIRST:] [FAMILY...]]

Prints, or writes to REPORT, the largest difference of each case of all families or of some (`attention`, `max_pool`),
from a part on, of 8 cases each, where one is said;
exits with 1 where one is above the bound. Cases are shared out among processes, one for each core, which begin with the
library that this one has loaded; what is done is in the report at once. Needs the extra `peers`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import tessera
from tests.tools import peer_windows
from tests.tools.peer_attention import attention_cases, log_sum_cases, rotary_cases
from tests.tools.peer_cases import Case, differences
from tests.tools.peer_losses import class_cases, ctc_cases, norm_cases
from tests.tools.peer_recurrent import recurrent_cases
from tests.tools.peer_signals import stft_cases

BOUND = 1e-11
TOGETHER = 8
"""Cases of one program."""
X = np.random.default_rng(0).uniform(-1.6, 1.6, (2, 4, 7, 5))


def activation_cases(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    for name in ("selu", "softsign", "softshrink", "hardshrink", "tanhshrink", "hardtanh", "logsigmoid", "mish"):
        yield Case(f"{name}(x)", {"x": X}, lambda x, n=name: getattr(f, n)(x))
    yield Case("celu(x, alpha=0.5)", {"x": X}, lambda x: f.celu(x, 0.5))
    yield Case("softplus(x, beta=2.0)", {"x": X}, lambda x: f.softplus(x, 2.0, 1e9))
    yield Case("smooth_l1(x, 0.5 * x, beta=0.3)", {"x": X}, lambda x: f.smooth_l1_loss(x, 0.5 * x, beta=0.3))


FAMILIES = (
    *peer_windows.ALL,
    activation_cases,
    attention_cases,
    log_sum_cases,
    rotary_cases,
    stft_cases,
    ctc_cases,
    norm_cases,
    class_cases,
    recurrent_cases,
)


def part(first: int, families: list[str]) -> list[tuple[str, float, float]]:
    """The differences of cases from all families: of every so many one, so that what is done is spread over all."""
    import torch

    torch.set_num_threads(1)
    cases = every_case(torch, families)
    return list(differences(cases[first :: ceil(len(cases) / TOGETHER)], torch))


def every_case(torch: Any, families: list[str]) -> list[Case]:
    known = {make.__name__.removesuffix("_cases"): make for make in FAMILIES}
    return [case for name in families or known for case in known[name](torch)]


def main() -> int:
    import torch

    given, found = sys.argv[2:], list[tuple[str, float, float]]()
    first = int(given.pop(0)[:-1]) if given and given[0].endswith(":") else 0
    families, count = given, len(every_case(torch, given))
    tessera.compile("def f(x: Tensor[N, f64]): return relu(x)").f(X[0, 0, 0])
    with ProcessPoolExecutor(os.cpu_count(), get_context("fork")) as pool:
        for some in as_completed([pool.submit(part, i, families) for i in range(first, ceil(count / TOGETHER))]):
            found += some.result()
            if len(sys.argv) > 1:
                Path(sys.argv[1]).write_text(report(found, count, torch))
    text = report(found, count, torch)
    print(text if len(sys.argv) == 1 else text.splitlines()[-1])
    return int(not all(max(values, slopes) <= BOUND for _, values, slopes in found))


def report(found: list[tuple[str, float, float]], count: int, torch: Any) -> str:
    worst = max(max(values, slopes) for _, values, slopes in found)
    lines = [f"Beside PyTorch {torch.__version__}, f64: difference of values, of gradients"]
    lines += [f"{values:8.1e} {slopes:8.1e}  {call}" for call, values, slopes in sorted(found)]
    lines.append(f"{len(found)} of {count} cases, the largest difference is {worst:.1e}; the bound is {BOUND:.0e}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
