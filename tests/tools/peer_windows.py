"""Pools, and images of other sizes, over products of all their options in one, two and three dims, beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.tools.peer_cases import Case

RNG = np.random.default_rng(4)
SIGNALS = {1: RNG.normal(size=(2, 3, 9)), 2: RNG.normal(size=(2, 4, 7, 5)), 3: RNG.normal(size=(1, 2, 4, 5, 6))}
GRIDS = {2: RNG.uniform(-1.6, 1.6, (2, 3, 7, 2)), 3: RNG.uniform(-1.6, 1.6, (1, 2, 3, 4, 3))}
WINDOWS = ((3, 2, 1), (2, 3, 1), (2, None, 0), (3, 1, 0))
"""Size, stride and padding of a window."""
UNEVEN = ((2, 3, 2), (2, 1, 2), (1, 0, 1))
"""One that differs from axis to axis, for as many as there are."""
FLAGS = (False, True)


def windows(dims: int) -> Iterator[tuple[Any, Any, Any]]:
    yield from WINDOWS
    if dims > 1:
        size, stride, padding = (each[:dims] for each in UNEVEN)
        yield size, stride, padding


def max_pool_cases(torch: Any) -> Iterator[Case]:
    """Values and places of maxima at once."""
    for dims, x in SIGNALS.items():
        for window, dilation, ceil in product(windows(dims), (1, 2), FLAGS):
            if not _fits(x, window, dilation):
                continue
            given = (*window, dilation, ceil)
            call = f"max_pool{dims}d(x, {', '.join(map(str, given))}, True)"
            yield Case(_summed(call), {"x": x}, lambda x, o=given, d=dims: _sum(_pool(torch, "max", d)(x, *o, True)))


def _fits(x: np.ndarray, window: tuple[Any, Any, Any], dilation: int) -> bool:
    size, _, padding = (np.broadcast_to(0 if part is None else part, x.ndim - 2) for part in window)
    return bool((dilation * (size - 1) < np.array(x.shape[2:]) + 2 * padding).all())


def _summed(call: str) -> str:
    return f"(lambda pair: pair[0] + 0.01 * cast(pair[1], f64))({call})"


def _sum(pair: Any) -> Any:
    return pair[0] + 0.01 * pair[1].double()


def _pool(torch: Any, kind: str, dims: int) -> Any:
    return getattr(torch.nn.functional, f"{kind}_pool{dims}d")


def avg_pool_cases(torch: Any) -> Iterator[Case]:
    for dims, x in SIGNALS.items():
        for window, ceil, include in product(windows(dims), FLAGS, FLAGS):
            for divisor in (None, 3) if dims > 1 else (None,):
                given = (*window, ceil, include, *((divisor,) if dims > 1 else ()))
                call = f"avg_pool{dims}d(x, {', '.join(map(str, given))})"
                yield Case(call, {"x": x}, lambda x, o=given, d=dims: _pool(torch, "avg", d)(x, *o))


def norm_pool_cases(torch: Any) -> Iterator[Case]:
    """Of windows that are whole: PyTorch scales what is cut at the end."""
    for dims, p, size, stride in product(SIGNALS, (1.0, 2.0, 3.0), (2, 3), (None, 1)):
        x = np.abs(SIGNALS[dims]) + 0.1
        call = f"lp_pool{dims}d(x, {p}, {size}, {stride})"
        yield Case(call, {"x": x}, lambda x, o=(p, size, stride), d=dims: _pool(torch, "lp", d)(x, *o))


def adaptive_pool_cases(torch: Any) -> Iterator[Case]:
    sizes = {1: (4, 1, 9), 2: (3, (4, 3), (None, 2), 1), 3: (2, (3, 2, 4), (None, 1, 3))}
    for dims, x in SIGNALS.items():
        for size in sizes[dims]:
            call, pool = f"adaptive_avg_pool{dims}d(x, {size})", _pool(torch, "adaptive_avg", dims)
            yield Case(call, {"x": x}, lambda x, s=size, f=pool: f(x, s))
            call, pool = f"adaptive_max_pool{dims}d(x, {size}, True)", _pool(torch, "adaptive_max", dims)
            yield Case(_summed(call), {"x": x}, lambda x, s=size, f=pool: _sum(f(x, s, True)))


def unpool_cases(torch: Any) -> Iterator[Case]:
    """Of windows that do not overlap: PyTorch gives a place that two of them have the slope of both."""
    f = torch.nn.functional
    for dims, x in SIGNALS.items():
        for size, stride, padding in ((2, None, 0), (3, None, 1), (2, 3, 1)):
            shape = x.shape[2:]
            given = f"{size}, {stride}, {padding}"
            pooled = f"max_pool{dims}d(x, {given}, return_indices=True)"
            back = f"max_unpool{dims}d(pair[0], pair[1], {given}, {shape})"
            unpool = getattr(f, f"max_unpool{dims}d")

            def peer(x: Any, o: Any = (size, stride, padding), d: int = dims, w: Any = shape, g: Any = unpool) -> Any:
                value, place = _pool(torch, "max", d)(x, *o, return_indices=True)
                return g(value, place, *o, w)

            yield Case(f"(lambda pair: {back})({pooled})", {"x": x}, peer)


def resize_cases(torch: Any) -> Iterator[Case]:
    sizes = {1: (12, 3, 9), 2: ((12, 7), (3, 4), (7, 9)), 3: ((6, 3, 7), (2, 8, 4))}
    factors = {1: (1.5, 2.0, 0.6), 2: (1.5, 2.0, 0.6, (0.7, 2.3)), 3: (1.5, (0.7, 2.0, 1.3))}
    for dims, x in SIGNALS.items():
        for options in _modes(dims):
            for size in sizes[dims]:
                yield _resized(torch, x, {"size": size, **options})
            for factor, again in product(factors[dims], FLAGS):
                if not (again and options.get("align_corners")):
                    yield _resized(torch, x, {"scale_factor": factor, "recompute_scale_factor": again, **options})


def _modes(dims: int) -> Iterator[dict[str, Any]]:
    """The modes of so many dims, each with all that it takes."""
    yield from ({"mode": mode} for mode in ("nearest", "nearest-exact", "area"))
    smooth = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}[dims]
    for mode, corners, anti in product(smooth, FLAGS, FLAGS if dims == 2 else (False,)):
        yield {"mode": mode, "align_corners": corners, **({"antialias": anti} if dims == 2 else {})}


def _resized(torch: Any, x: np.ndarray, options: dict[str, Any]) -> Case:
    shown = ", ".join(f'{key}="{value}"' if key == "mode" else f"{key}={value}" for key, value in options.items())
    given = {key: value for key, value in options.items() if key != "recompute_scale_factor" or value}
    return Case(f"interpolate(x, {shown})", {"x": x}, lambda x, o=given: torch.nn.functional.interpolate(x, **o))


def sample_cases(torch: Any) -> Iterator[Case]:
    for dims, mode in ((2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")):
        for padding, corners in product(("zeros", "border", "reflection"), FLAGS):
            call = f'grid_sample(x, g, mode="{mode}", padding_mode="{padding}", align_corners={corners})'
            operands = {"x": SIGNALS[dims], "g": GRIDS[dims]}
            yield Case(call, operands, lambda x, g, o=(mode, padding, corners): torch.nn.functional.grid_sample(
                x, g, *o))  # fmt: skip


def fold_cases(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    for size, dilation, padding, stride in product((2, (2, 3)), (1, 2), (0, (1, 2)), (1, (2, 1))):
        given = f"{size}, {dilation}, {padding}, {stride}"
        x, o = SIGNALS[2], (size, dilation, padding, stride)
        yield Case(f"unfold(x, {given})", {"x": x}, lambda x, o=o: f.unfold(x, *o))
        yield Case(f"fold(unfold(x, {given}), (7, 5), {given})", {"x": x}, lambda x, o=o: f.fold(
            f.unfold(x, *o), (7, 5), *o))  # fmt: skip


ALL = (
    max_pool_cases,
    avg_pool_cases,
    norm_pool_cases,
    adaptive_pool_cases,
    unpool_cases,
    resize_cases,
    sample_cases,
    fold_cases,
)
