"""Losses of classes and of sequences, and norms, over their options, and what PyTorch makes of them."""

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
    for dims, given in product((1, 2, 3), (0, 1, 2)):
        operands = {"x": x, **{name: RNG.normal(size=x.shape[3 - dims :]) for name in "sb"[:given]}}
        call = f"layernorm({', '.join(operands)}, eps=1e-3, axis=-{dims})"
        yield Case(call, operands, lambda x, *p, d=dims: torch.nn.functional.layer_norm(
            x, x.shape[3 - d :], *p, eps=1e-3))  # fmt: skip


def class_cases(torch: Any) -> Iterator[Case]:
    """Losses of classes along axis 1. PyTorch has no derivative by weights of labels."""
    x, labels, weight = RNG.normal(size=(3, 4, 5)), RNG.integers(0, 4, (3, 5)), RNG.uniform(0.5, 2.0, 4)
    shares = RNG.dirichlet(np.ones(4), (3, 5)).swapaxes(1, 2)
    f = torch.nn.functional
    for reduction, smooth, weighted in product(("mean", "sum", "none"), (0.0, 0.1), (False, True)):
        fixed = ", weight=stop_gradient(w)" if weighted else ""
        options = f'label_smoothing={smooth}, reduction="{reduction}", axis=1{fixed}'
        heavy = {"w": weight} if weighted else {}
        for target, ignored in ((labels, -100), (labels, 2), (shares, -100)):
            call = f"cross_entropy(x, t, {options}{', ignore_index=2' if ignored == 2 else ''})"
            keys = {"reduction": reduction, "label_smoothing": smooth, "ignore_index": ignored}
            yield Case(call, {"x": x, "t": target, **heavy}, lambda x, t, w=None, k=keys: f.cross_entropy(
                x, t, None if w is None else w.detach(), **k))  # fmt: skip
        if not smooth:
            call = f"nll(log_softmax(x, axis=1), t, {options.replace('label_smoothing=0.0, ', '')})"
            yield Case(call, {"x": x, "t": labels, **heavy}, lambda x, t, w=None, r=reduction: f.nll_loss(
                x.log_softmax(1), t, None if w is None else w.detach(), reduction=r))  # fmt: skip
