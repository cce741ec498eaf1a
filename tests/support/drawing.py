"""What random programs of linear algebra draw first: how numbers are stored, and whether sizes are known."""

from __future__ import annotations

import random


class Drawing:
    """`known` are sizes that the program says as numbers; others are symbols."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.dtype = self.random.choice(["f32", "f64", "f64", "c64", "c128"])
        self.known = self.random.random() < 0.5
