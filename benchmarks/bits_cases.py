"""What `benchmarks.bits` runs: sizes of each program of bits.tess, and inputs that are the same on every machine.

Enters: the name of a program and its signature. Leaves: arrays. Numbers are whole numbers scaled by powers of two, so
no library function of any platform has a part in them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tessera.dtypes import numpy_dtype
from tessera.signature import Signature, TensorSpec

Array = np.ndarray[Any, Any]
Sizes = dict[str, int]

_MATRICES = [(3, 5), (1, 1), (4, 0), (0, 7), (7, 64), (5, 513), (33, 700), (3, 4097), (300, 96), (2, 40000)]
_PRODUCTS = [(1, 1, 1), (3, 0, 5), (0, 5, 3), (5, 7, 3), (129, 17, 131), (130, 515, 70), (20, 4097, 36)]
_LONG_PRODUCTS = [(17, 9000, 33), (12, 20480, 20), (256, 1024, 256), (1, 300, 1000)]
_CUBES = [(3, 4, 5), (0, 3, 2), (2, 600, 3), (700, 3, 40), (5, 1, 1100), (1, 1, 1)]
_STEPS = [(0, 5), (1, 1), (17, 33), (10, 300)]
_VECTORS = [(0,), (1,), (7,), (513,), (4097,), (100003,)]


def _named(names: str, shapes: list[tuple[int, ...]]) -> list[Sizes]:
    return [dict(zip(names, shape, strict=True)) for shape in shapes]


SIZES: dict[str, list[Sizes]] = {
    "add": _named("N", _VECTORS),
    "noise": _named("MN", _MATRICES),
    "softmax_rows": _named("MN", _MATRICES),
    "softmax_columns": _named("NM", _MATRICES),
    "softmax_f64": _named("MN", _MATRICES),
    "log_softmax_rows": _named("MN", _MATRICES),
    "logsumexp_rows": _named("MN", _MATRICES),
    "matmul_f32": _named("MKN", [*_PRODUCTS, *_LONG_PRODUCTS]),
    "matmul_f64": _named("MKN", [*_PRODUCTS, *_LONG_PRODUCTS]),
    "matmul_bf16": _named("MKN", [*_PRODUCTS, *_LONG_PRODUCTS, (128, 64, 256), (300, 4104, 136)]),
    "batched": _named("BMKN", [(2, 3, 5, 4), (0, 3, 5, 4), (3, 70, 130, 66), (2, 5, 4100, 9)]),
    "gram": _named("MK", [(3, 5), (0, 4), (130, 33), (5000, 20)]),
    "by_laws": _named("N", [(1,), (7,), (130,), (515,)]),
    "systems": _named("NR", [(1, 1), (7, 3), (64, 5), (130, 33)]),
    "linear": _named("MKN", [*_PRODUCTS, (64, 500, 200)]),
    "attention": _named("SDT", [(3, 4, 5), (1, 64, 1), (70, 64, 130), (33, 128, 1000), (5, 16, 5000)]),
    "layernorm": _named("MN", _MATRICES),
    "layernorm_f64": _named("MN", _MATRICES),
    "sums": _named("ABC", _CUBES),
    "sums_of_two": _named("ABC", _CUBES),
    "extremes": _named("MN", _MATRICES),
    "pointwise": _named("N", _VECTORS),
    "pointwise_f64": _named("N", _VECTORS),
    "elementary": _named("N", _VECTORS),
    "elementary_f64": _named("N", _VECTORS),
    "ends": _named("N", _VECTORS),
    "broadcast": _named("MN", _MATRICES),
    "views": _named("MN", _MATRICES),
    "whole_numbers": _named("N", _VECTORS),
    "rounded": _named("MN", _MATRICES),
    "rows_in_turn": _named("ND", [(0, 5), (1, 1), (17, 300), (40, 4097)]),
    "sum_in_turn": _named("ND", [(1, 1), (17, 300), (600, 3), (1300, 40)]),
    "spectra": _named("MN", [(1, 1), (3, 5), (33, 20), (90, 90), (60, 130)]),
    "frames": _named("N", [(64,), (600,), (5000,)]),
    "until_small": _named("N", [(1,), (600,), (5000,)]),
    "by_sign": _named("N", [(1,), (600,), (5000,)]),
    "gradient_perceptron": _named("MKN", _PRODUCTS),
    "curvature_perceptron": _named("MKN", _PRODUCTS),
    "gradient_attention": _named("SDT", [(3, 4, 5), (1, 64, 1), (70, 64, 130), (33, 128, 1000)]),
    "gradient_layernorm": _named("MN", _MATRICES),
    "gradients_of_rows": _named("MN", _MATRICES),
    "gradient_recurrent": _named("ND", _STEPS),
    "gradient_in_segments": _named("ND", _STEPS),
    "gradient_by_sign": _named("N", [(1,), (600,), (5000,)]),
}
"""Odd, empty, long and of many segments."""

PER_ARCHITECTURE = frozenset({"matmul_bf16"})
"""Products of narrow types, whose bits the language leaves to the architecture."""


def inputs(name: str, signature: Signature, sizes: Sizes) -> list[Array]:
    """The arguments of one call; they depend on nothing but the names and sizes."""
    key = hashlib.sha256(repr((name, sorted(sizes.items()))).encode()).digest()
    rng = np.random.default_rng(int.from_bytes(key[:8], "little"))
    return [_numbers(rng, spec, sizes) for spec in signature.parameters]


def _numbers(rng: np.random.Generator, spec: TensorSpec, sizes: Sizes) -> Array:
    shape, dtype = tuple(size.evaluate(sizes) for size in spec.sizes), numpy_dtype(spec.dtype)
    if dtype.kind in "iu":
        return rng.integers(-1000, 1000, shape).astype(dtype)
    whole = rng.integers(-(2**20), 2**20, shape)
    exponents = rng.integers(-26, -14, shape)
    return np.ldexp(whole.astype(np.float64), exponents).astype(dtype)
