"""From how many taps on a circular convolution is faster by transforms: `python -m benchmarks.crossover`.

Prints for each size the times of both forms that `op.conv1d` has, on one thread, and the least number of taps from
which the transforms win: that is the table in `tesserac/check/algebra/crossover.py`. Writes
`benchmarks/results/crossover-<machine>.md`.
"""

from __future__ import annotations

import platform
from datetime import date

import numpy as np

import tessera
from benchmarks.apart import ROOT
from benchmarks.measure import interleaved

SIZES = (64, 256, 1024, 4096, 16384)
TAPS = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
TURNS, REPEAT = 5, 4
TEXT = """
def direct(taps: Tensor[{k}, f32], x: Tensor[{n}, f32]):
    at = arange({n})[:, None] - arange({k})[None, :]
    return gather(x, at % {n}, axis=0) @ taps

def transformed(taps: Tensor[{k}, f32], x: Tensor[{n}, f32]):
    ring = concat([taps, zeros({n} - {k})], axis=0)
    return irfft(rfft(ring) * rfft(x), {n})
"""


def times(size: int, taps: int) -> tuple[float, float]:
    """Microseconds of both."""
    module = tessera.compile(TEXT.format(n=size, k=taps))
    rng = np.random.default_rng(0)
    k, x = rng.standard_normal(taps).astype("f4"), rng.standard_normal(size).astype("f4")
    np.testing.assert_allclose(module.direct(k, x), module.transformed(k, x), rtol=1e-3, atol=1e-4)
    forms = {"direct": lambda: module.direct(k, x), "transformed": lambda: module.transformed(k, x)}
    found = interleaved(forms, turns=TURNS, repeat=REPEAT)
    return found["direct"].best * 1e6, found["transformed"].best * 1e6


def main() -> None:
    tessera.set_num_threads(1)
    lines = [
        "# Convolutions: windows or transforms", "",
        f"`python -m benchmarks.crossover`, {date.today()}, {platform.machine()}, one thread, f32; microseconds.",
        "The first number is that of the windows, the second that of the transforms.", "",
        "| size | " + " | ".join(f"{taps} taps" for taps in TAPS) + " | transforms from |",
        "|---" * (len(TAPS) + 2) + "|",
    ]  # fmt: skip
    for size in SIZES:
        found = {taps: times(size, taps) for taps in TAPS if taps <= size}
        wins = [taps for taps, (direct, transformed) in found.items() if transformed < direct]
        cells = [f"{found[taps][0]:.1f} / {found[taps][1]:.1f}" if taps in found else "" for taps in TAPS]
        lines.append(f"| {size} | {' | '.join(cells)} | {min(wins, default='never')} |")
    text = "\n".join(lines) + "\n"
    (ROOT / "benchmarks" / "results" / f"crossover-{platform.machine()}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
