"""The order in which a matrix unit of 16 x 64 bytes adds products of bf16 numbers.

    acc = acc + (e + o)      for each 32 terms of a segment, ascending; missing ones are zero
    e = a[0] b[0] + a[2] b[2] + ...  and  o = a[1] b[1] + a[3] b[3] + ...     chains of fma from +0

Enters: f32 arrays that hold bf16 numbers. Leaves: their contraction in f32, as `chain_contract` gives that of wide
ones. The unit takes subnormal numbers for zeros, which this does not.
"""

from __future__ import annotations

from tesserac.base.lazy import np
from tesserac.numerics.exact import Array, fma
from tesserac.numerics.order import CONTRACTION, tree

TERMS = 32


def tile_contract(a: Array, b: Array) -> Array:
    """a[m, k] with b[k, n] gives [m, n]."""
    length, terms = CONTRACTION.length, a.shape[-1]
    if not terms:
        return np.zeros((a.shape[0], b.shape[1]), np.float32)
    starts = range(0, terms, length)
    segments = [_segment(a[:, start : start + length], b[start : start + length]) for start in starts]
    with np.errstate(all="ignore"):
        return np.asarray(tree(segments, np.add) + np.float32(0))


def _segment(a: Array, b: Array) -> Array:
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for start in range(0, a.shape[1], TERMS):
        sums = [np.zeros_like(total), np.zeros_like(total)]
        for k in range(start, min(start + TERMS, a.shape[1])):
            sums[k % 2] = fma(a[:, k, None], b[None, k, :], sums[k % 2])
        with np.errstate(all="ignore"):
            total = total + (sums[0] + sums[1])
    return total
