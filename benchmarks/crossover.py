"""From which size on convolutions are faster by transforms: `python -m benchmarks.crossover [SIZES]`.

For circular convolutions by rings and numbers of taps, and for Toeplitz matrices by their size: the times of both forms
that `op.conv1d` and `op.toeplitz` have, on one thread, and from where the transforms win. These are the tables in
`tesserac/check/algebra/crossover.py`. Writes `benchmarks/results/crossover-<machine>.md`.
"""

from __future__ import annotations

import platform
import sys
from datetime import date

import numpy as np

import tessera
from benchmarks.apart import ROOT
from benchmarks.measure import interleaved

SIZES = tuple(map(int, sys.argv[1:])) or (64, 256, 1024, 4096, 16384)
TOEPLITZ = (4, 8, 16, 32, 48, 64, 96, 128, 256)
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


MATRICES = """
def direct(c: Tensor[{n}, f32], x: Tensor[{n}, f32]):
    ring = concat([flip(c[1:]), c], axis=0)
    at = arange({n})[:, None] - arange({n})[None, :] + ({n} - 1)
    return gather(ring, at, axis=0) @ x

def transformed(c: Tensor[{n}, f32], x: Tensor[{n}, f32]):
    ring = concat([c, zeros(1), flip(c[1:])], axis=0)
    return irfft(rfft(ring) * rfft(concat([x, zeros({n})], axis=0)), 2 * {n})[:{n}]
"""


def times(text: str, size: int, taps: int) -> tuple[float, float]:
    """Microseconds of both."""
    module = tessera.compile(text.format(n=size, k=taps))
    rng = np.random.default_rng(0)
    k, x = rng.standard_normal(taps).astype("f4"), rng.standard_normal(size).astype("f4")
    np.testing.assert_allclose(module.direct(k, x), module.transformed(k, x), rtol=1e-3, atol=1e-4)
    forms = {"direct": lambda: module.direct(k, x), "transformed": lambda: module.transformed(k, x)}
    found = interleaved(forms, turns=TURNS, repeat=REPEAT)
    return found["direct"].best * 1e6, found["transformed"].best * 1e6


def toeplitz() -> list[str]:
    found = {size: times(MATRICES, size, size) for size in TOEPLITZ}
    wins = [size for size, (direct, transformed) in found.items() if transformed < direct]
    cells = [f"{direct:.1f} / {transformed:.1f}" for direct, transformed in found.values()]
    return [
        "", "Toeplitz matrices, by the product of the matrix and by transforms of twice their size:", "",
        "| " + " | ".join(f"{size} rows" for size in TOEPLITZ) + " | transforms from |",
        "|---" * (len(TOEPLITZ) + 1) + "|",
        "| " + " | ".join(cells) + f" | {min(wins, default='never')} |",
    ]  # fmt: skip


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
        found = {taps: times(TEXT, size, taps) for taps in TAPS if taps <= size}
        wins = [taps for taps, (direct, transformed) in found.items() if transformed < direct]
        cells = [f"{found[taps][0]:.1f} / {found[taps][1]:.1f}" if taps in found else "" for taps in TAPS]
        lines.append(f"| {size} | {' | '.join(cells)} | {min(wins, default='never')} |")
    text = "\n".join(lines + toeplitz()) + "\n"
    (ROOT / "benchmarks" / "results" / f"crossover-{platform.machine()}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
