"""Matrices for the tests of linear algebra: ordinary ones and those that algorithms fear."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def general(kind: str, m: int, n: int, seed: int) -> Array:
    """A matrix of any shape."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((m, n))
    rows = np.arange(m)[:, None]
    match kind:
        case "normal":
            return x
        case "hilbert":
            return 1.0 / (rows + np.arange(n) + 1.0)
        case "graded":
            return np.asarray(10.0 ** (-12.0 * rows / max(m, 1))) * x
        case "deficient":
            return rng.standard_normal((m, 2)) @ rng.standard_normal((2, n))
        case "zero":
            return np.zeros((m, n))
        case "ones":
            return np.ones((m, n))
        case "huge":
            return x * 1e30
        case "tiny":
            return x * 1e-30
    raise ValueError(kind)


KINDS = ("normal", "hilbert", "graded", "deficient", "zero", "ones", "huge", "tiny")


def symmetric(kind: str, n: int, seed: int) -> Array:
    """A symmetric matrix with eigenvalues of a kind."""
    rng = np.random.default_rng(seed)
    if kind in KINDS:
        x = general(kind, n, n, seed)
        return x + x.T
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    spread = {"repeated": np.ones(n), "clustered": 1 + 1e-9 * np.arange(n), "signs": (-1.0) ** np.arange(n)}[kind]
    return (q * spread) @ q.T


SYMMETRIC_KINDS = (*KINDS, "repeated", "clustered", "signs")
