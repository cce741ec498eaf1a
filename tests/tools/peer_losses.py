"""`ctc_loss` and `local_response_norm` over their options, and what PyTorch makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.tools.peer_cases import Case

RNG = np.random.default_rng(6)
FRAMES = RNG.normal(size=(9, 3, 5))
TARGETS = np.array([[1, 2, 2, 4], [3, 3, 1, 0], [2, 0, 0, 0]])
INPUTS, LENGTHS = np.array([9, 7, 4]), np.array([4, 3, 0])
SHORT = np.array([9, 3, 4])


def ctc_cases(torch: Any) -> Iterator[Case]:
    for reduction, zero, inputs in product(("mean", "sum", "none"), (False, True), (INPUTS, SHORT)):
        if zero or inputs is INPUTS:
            call = f'ctc_loss(log_softmax(x), t, n, m, 0, "{reduction}", {zero})'
            operands = {"x": FRAMES, "t": TARGETS, "n": inputs, "m": LENGTHS}
            yield Case(call, operands, lambda x, t, n, m, r=reduction, z=zero: torch.nn.functional.ctc_loss(
                x.log_softmax(-1), t, n, m, 0, r, z))  # fmt: skip


def norm_cases(torch: Any) -> Iterator[Case]:
    x = RNG.normal(size=(2, 6, 3)) * 3
    for size, beta, k in product((1, 2, 5), (0.75, 0.5), (1.0, 2.0)):
        call = f"local_response_norm(x, {size}, 0.1, {beta}, {k})"
        yield Case(call, {"x": x}, lambda x, o=(size, 0.1, beta, k): torch.nn.functional.local_response_norm(x, *o))
