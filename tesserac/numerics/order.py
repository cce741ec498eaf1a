"""The canonical orders of summation: what every backend must compute, bit for bit.

    Chain(4096)      contractions: ascending fma chains from +0 over segments of 4096, combined by the tree
    Blocks(512, 64)  reductions: 64 lanes over a block of 512, folded 32, 16, ..., 1; combined by the tree
    RUN_SEGMENT      folds into places: what names one place in ascending chains of 512, combined by the tree
    Free()           `numerics(fast)`: any order

Enters: NumPy arrays in the accumulation dtype. Leaves: their sum or contraction in that dtype, in that order.
Integer arithmetic wraps and has no order. Every sum ends with `+ (+0)`: a zero is +0 and padding never shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, TypeAlias, TypeVar

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import ml_dtypes, np
from tesserac.numerics.exact import Array, fma, maximum, minimum
from tesserac.numerics.narrow import narrow_fma
from tesserac.types.dtype import FP8_E4M3

T = TypeVar("T")
Combine: TypeAlias = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Chain:
    """Segments of `length` terms; a segment is one ascending chain of fma from +0."""

    length: int = 4096


@dataclass(frozen=True)
class Blocks:
    """Blocks of `block` terms; lane i of `lanes` adds i, i + lanes, ... ascending; lanes fold in halves."""

    block: int = 512
    lanes: int = 64


@dataclass(frozen=True)
class Free:
    """Any order; only under `numerics(fast)`."""


Order: TypeAlias = Chain | Blocks | Free

CONTRACTION = Chain()
REDUCTION = Blocks()
RUN_SEGMENT = 512
"""Rows for one place that are folded one after the other, from the first of them on."""


def tree(values: list[T], combine: Callable[[T, T], T]) -> T:
    """The aligned tree: neighbours combine, an odd last one passes. `values` is not empty."""
    while len(values) > 1:
        paired = [combine(values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
        values = paired + values[len(paired) * 2 :]
    return values[0]


def binary_counter(values: Iterable[T], combine: Callable[[T, T], T]) -> T:
    """The aligned tree over a stream of unknown length: slot i holds a full subtree of 2**i values."""
    slots: list[T | None] = []
    for value in values:
        _push(slots, value, combine)
    held = [value for value in slots if value is not None]
    total = held[0]
    for larger in held[1:]:
        total = combine(larger, total)
    return total


def _push(slots: list[T | None], value: T, combine: Callable[[T, T], T]) -> None:
    """Adds one to the counter: full slots carry."""
    for level, held in enumerate(slots):
        if held is None:
            slots[level] = value
            return
        slots[level] = None
        value = combine(held, value)
    slots.append(value)


def chain_contract(a: Array, b: Array, order: Order = CONTRACTION) -> Array:
    """a[..., m, k] with b[..., k, n] gives [..., m, n], in the canonical order of contractions."""
    if _is_integer(a.dtype):
        return np.asarray(np.matmul(_whole(a), _whole(b)).astype(a.dtype))
    length = order.length if isinstance(order, Chain) else CONTRACTION.length
    terms = a.shape[-1]
    segments = [
        _chain(a[..., start : start + length], b[..., start : start + length, :]) for start in range(0, terms, length)
    ]
    if not segments:
        return np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)
    with np.errstate(all="ignore"):
        return _plus_zero(tree(segments, np.add))


def _chain(a: Array, b: Array) -> Array:
    """One segment: the chain runs over k, vectorised over all outputs."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    acc = np.zeros((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    step = fma if a.dtype in (np.float32, np.float64) else narrow_fma
    for k in range(a.shape[-1]):
        acc = step(a[..., :, k, None], b[..., None, k, :], acc)
    return acc


def _plus_zero(x: Array) -> Array:
    return np.asarray(x + x.dtype.type(0))


def block_sum(x: Array, order: Order = REDUCTION) -> Array:
    """The sum over the last axis in the canonical order of reductions."""
    if x.dtype.kind in "iu":
        return np.asarray(x.sum(axis=-1, dtype=x.dtype))
    return _plus_zero(_fold_blocks(x, order, np.add, 0.0))


def block_prod(x: Array, order: Order = REDUCTION) -> Array:
    """The product over the last axis; the same order as a sum."""
    if x.dtype.kind in "iu":
        return np.asarray(x.prod(axis=-1, dtype=x.dtype))
    return _fold_blocks(x, order, np.multiply, 1.0)


def _fold_blocks(x: Array, order: Order, combine: Combine, identity: float) -> Array:
    shape = order if isinstance(order, Blocks) else REDUCTION
    if x.shape[-1] == 0:
        return np.full(x.shape[:-1], identity, x.dtype)
    with np.errstate(all="ignore"):
        return tree(list(_block_results(x, shape, combine, identity)), combine)


def _block_results(x: Array, shape: Blocks, combine: Combine, identity: float) -> Iterator[Array]:
    """One result per block. Lanes start from the identity, which changes nothing but the sign of a zero."""
    for start in range(0, x.shape[-1], shape.block):
        part = x[..., start : start + shape.block]
        lanes = np.full((*x.shape[:-1], shape.lanes), identity, x.dtype)
        for row in range(0, part.shape[-1], shape.lanes):
            present = min(shape.lanes, part.shape[-1] - row)
            lanes[..., :present] = combine(lanes[..., :present], part[..., row : row + present])
        half = shape.lanes // 2
        while half:
            lanes = combine(lanes[..., :half], lanes[..., half : 2 * half])
            half //= 2
        yield lanes[..., 0]


def block_scan(x: Array, kind: str, order: Order = REDUCTION) -> Array:
    """Running folds over the last axis: ascending inside a block, behind the tree over the totals of those before."""
    combine, start = SCANNED[kind]
    length = order.block if isinstance(order, Blocks) else REDUCTION.block
    identity = np.full(x.shape[:-1], start(x.dtype), x.dtype)
    parts: list[Array] = []
    totals: list[Array] = []
    with np.errstate(all="ignore"):
        for begin in range(0, x.shape[-1], length):
            offset = tree(list(totals), combine) if totals else identity
            inside = _running(x[..., begin : begin + length], combine, identity)
            parts.append(combine(offset[..., None], inside))
            totals.append(inside[..., -1])
    return np.concatenate(parts, axis=-1) if parts else x


def _running(x: Array, combine: Combine, start: Array) -> Array:
    """One block: every element is the fold of those up to it, from `start` on."""
    folded: list[Array] = []
    for place in range(x.shape[-1]):
        start = combine(start, x[..., place])
        folded.append(start)
    return np.stack(folded, axis=-1)


def run_fold(rows: Array, kind: str) -> Array:
    """The fold of rows[0], rows[1], ... in chains of a segment, through the tree: what a scatter adds to a place."""
    combine, start = SCANNED[kind]
    if not len(rows):
        return np.full(rows.shape[1:], start(rows.dtype), rows.dtype)
    with np.errstate(all="ignore"):
        segments = (rows[begin : begin + RUN_SEGMENT] for begin in range(0, len(rows), RUN_SEGMENT))
        return tree([reduce(combine, segment) for segment in segments], combine)


def fold_max(x: Array) -> Array:
    """The largest over the last axis: NaN wins, -0 < +0, nothing gives the type's lowest value."""
    return _fold_extreme(x, maximum, lowest(x.dtype))


def fold_min(x: Array) -> Array:
    """The smallest over the last axis: NaN wins, -0 < +0, nothing gives the type's highest value."""
    return _fold_extreme(x, minimum, highest(x.dtype))


def _fold_extreme(x: Array, combine: Combine, empty: float | int | bool) -> Array:
    """Neither order nor grouping shows in a maximum, so fold in halves: log2(n) steps over whole arrays."""
    if x.shape[-1] == 0:
        return np.full(x.shape[:-1], empty, x.dtype)
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        folded = combine(x[..., :half], x[..., half : 2 * half])
        x = np.concatenate([folded, x[..., 2 * half :]], axis=-1)
    return x[..., 0]


def lowest(dtype: np.dtype[Any]) -> float | int | bool:
    """What an empty maximum gives: less than it is no value of the type."""
    if dtype.kind == "b":
        return False
    return int(_limits(dtype).min) if _is_integer(dtype) else -_beyond(dtype)


def highest(dtype: np.dtype[Any]) -> float | int | bool:
    """What an empty minimum gives."""
    if dtype.kind == "b":
        return True
    return int(_limits(dtype).max) if _is_integer(dtype) else _beyond(dtype)


def _whole(x: Array) -> Array:
    """Integers of four bits in a byte: modulo 16 their sums and products are the same."""
    return x if x.dtype.kind in "iu" else x.astype(np.int8)


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4")


def _limits(dtype: np.dtype[Any]) -> ml_dtypes.iinfo:
    return ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]


def _beyond(dtype: np.dtype[Any]) -> float:
    """Infinity, or the largest number of a format that has none."""
    return FP8_E4M3.largest if dtype.name == FP8_E4M3.numpy_name else np.inf


SCANNED: dict[str, tuple[Combine, Callable[[np.dtype[Any]], float | int | bool]]] = {
    "sum": (lambda a, b: np.add(a, b), lambda dtype: 0),
    "prod": (lambda a, b: np.multiply(a, b), lambda dtype: 1),
    "max": (maximum, lowest),
    "min": (minimum, highest),
}
"""How each kind of running fold combines, and what it starts from."""
