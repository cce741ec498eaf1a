"""Where a step of training GPT-2 spends its time: each kernel by the counters of CUPTI, which PyTorch's profiler reads.

    python -m benchmarks.gpt2_profile --out DIR [--steps 4]

Tells milliseconds of a step by kernel, gaps between kernels, copies, and what the host does meanwhile. DIR gets the
table, and each launch of one step in order. Needs PyTorch and a CUDA device.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import pstats
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpt2_step import BATCH, LENGTH, our_step, say

WARM = 6
"""Steps until addresses repeat and the call is replayed."""
SHOWN = 60


class Launch(NamedTuple):
    """Microseconds of the device's clock."""

    name: str
    start: float
    took: float
    grid: int
    threads: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tokens = np.random.default_rng(0).integers(0, 50257, (BATCH, LENGTH + 1)).astype(np.int32)
    step, _ = our_step(tokens)
    losses = [float(step()) for _ in range(WARM)]
    say(f"losses {losses}")
    text = host_times(step) + "\n" + table(traced(step, options.steps, options.out), options)
    print(text)
    (options.out / "gpt2_profile.md").write_text(text)


def host_times(step: Any, steps: int = 10) -> str:
    """Of a loop: a step, until its call returns, and what the host's time goes to."""
    returned, started = 0.0, time.perf_counter()
    for _ in range(steps):
        before = time.perf_counter()
        loss = step()
        returned += time.perf_counter() - before
    float(loss)
    whole = time.perf_counter() - started
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(steps):
        step()
    profile.disable()
    shown = io.StringIO()
    pstats.Stats(profile, stream=shown).sort_stats("tottime").print_stats(12)
    line = f"{whole / steps * 1e3:.2f} ms a step in a loop, {returned / steps * 1e3:.2f} ms until a call returns"
    return f"{line}\n\n```text\n{shown.getvalue().strip()}\n```\n"


def traced(step: Any, steps: int, out: Path) -> list[list[Launch]]:
    """The launches of each step, in order."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(steps):
            float(step())
    path = out / "trace.json"
    found.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    path.unlink()
    kinds = {"kernel", "gpu_memcpy", "gpu_memset"}
    launches = sorted((launch(event) for event in events if event.get("cat") in kinds), key=lambda one: one.start)
    count = len(launches) // steps
    return [launches[i * count : (i + 1) * count] for i in range(steps)]


def launch(event: dict[str, Any]) -> Launch:
    about = event.get("args", {})
    grid, block = (about.get(key) or [0, 0, 0] for key in ("grid", "block"))
    name = event["name"].partition("$")
    return Launch(f"${name[2]}" if name[2] else name[0], event["ts"], event["dur"], grid[0], block[0])


def table(steps: list[list[Launch]], options: argparse.Namespace) -> str:
    one = steps[-1]
    (options.out / "launches.txt").write_text(
        "\n".join(f"{x.start - one[0].start:10.1f} {x.took:9.2f} {x.grid:7} {x.threads:5} {x.name}" for x in one)
    )
    totals: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for x in one:
        totals[x.name, x.grid, x.threads].append(x.took)
    busy, span = sum(x.took for x in one), one[-1].start + one[-1].took - one[0].start
    gaps = f"{(span - busy) / 1e3:.2f} ms of gaps between them"
    lines = [f"{len(one)} launches and copies, {busy / 1e3:.2f} ms; {gaps}", ""]
    lines += ["| kernel | programs x threads | launches | us each | ms |", "|---|---|---|---|---|"]
    for (name, grid, threads), took in sorted(totals.items(), key=lambda item: -sum(item[1]))[:SHOWN]:
        each = sum(took) / len(took)
        lines.append(f"| {name} | {grid} x {threads} | {len(took)} | {each:.1f} | {sum(took) / 1e3:.3f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
