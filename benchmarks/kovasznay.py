"""`python -m benchmarks.kovasznay`: trains `examples/kovasznay.tess` and keeps the loss and the field it finds.

Writes `benchmarks/results/kovasznay.json`, from which the pictures of the documentation are drawn. The numbers are the
same on every machine; it takes a minute or two of one core.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import tessera

RESULT = Path(__file__).parent / "results" / "kovasznay.json"
PROGRAM = Path(__file__).parent.parent / "examples" / "kovasznay.tess"
STEPS, EVERY = 3500, 25
WIDE, HIGH = 31, 41


def places() -> np.ndarray:
    """A grid over [-0.5, 1] x [-0.5, 1.5], row by row from below."""
    x, y = np.meshgrid(np.linspace(-0.5, 1.0, WIDE), np.linspace(-0.5, 1.5, HIGH))
    return np.stack([x.ravel(), y.ravel()], axis=1)


def main() -> None:
    tessera.set_num_threads(1)
    m = tessera.load(PROGRAM)
    state, data = m.init(0), m.data()
    losses = []
    for number in range(STEPS):
        state, loss = m.step(state, *data)
        if number % EVERY == 0 or number == STEPS - 1:
            losses.append([number + 1, float(f"{loss:.4g}")])
    grid = places()
    found = {
        "command": "python -m benchmarks.kovasznay",
        "steps": STEPS,
        "error": float(f"{m.evaluate(state, *data):.4g}"),
        "losses": losses,
        "wide": WIDE,
        "high": HIGH,
        "found": np.round(state.net(grid)[:, :2], 4).tolist(),
        "exact": np.round(m.exact(grid)[:, :2], 4).tolist(),
    }
    RESULT.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
