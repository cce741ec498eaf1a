"""A random kernel under several schedules: as tiles, as machine code and on emulated threads of a GPU.

Enters: kernels of `kernel_gen.py`. Leaves: nothing, or the first difference. f32 and f64 have the bits of the
interpreter; narrow types those of the machine, under any schedule: their results are compared way by way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import tessera
from tesserac.graph.interp import run_function
from tests.support import tile_eval
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_gen import RandomKernel
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs import tiles
from tests.tile.test_programs_gpu import emulated

Blocks = tuple[int, ...] | None
SCHEDULES: tuple[Blocks, ...] = (None, (1, 1, 1), (8, 16, 7), (5, 3, 300), (64, 128, 64))
NARROW: tuple[Blocks, ...] = (None, (1, 32, 32), (8, 64, 32), (5, 96, 320), (64, 128, 64))
"""Of terms that matrix units add at a time."""


def schedules_of(kernel: RandomKernel) -> tuple[Blocks, ...]:
    return NARROW if kernel.is_narrow else SCHEDULES


def check(kernel: RandomKernel, args: list[np.ndarray], way: str, schedules: Sequence[Blocks]) -> None:
    """Raises where a schedule shows."""
    if kernel.is_narrow and way == "gpu":
        return  # matrix units have their own order, which no thread of the host has
    wanted: Sequence[np.ndarray] | None = None
    if not kernel.is_narrow:
        wanted = run_function(compile_to_forms(kernel.scheduled(None)), "m.f", args)
    for blocks in schedules:
        got = RUNS[way](kernel.scheduled(blocks), args)
        for one, other in zip(got, wanted or got, strict=True):
            same_bits(one, other)
        wanted = got


def _as_tiles(text: str, args: list[np.ndarray]) -> list[np.ndarray]:
    return list(tile_eval.run_host(tiles(text), "m.f", args))


def _as_code(text: str, args: list[np.ndarray]) -> list[np.ndarray]:
    return _arrays(tessera.compile(text).f(*args))


def _on_threads(text: str, args: list[np.ndarray]) -> list[np.ndarray]:
    return list(emulated(text)(*args))


def _on_device(text: str, args: list[np.ndarray]) -> list[np.ndarray]:
    return _arrays(tessera.compile(text, device="cuda").f(*args))


def _arrays(result: object) -> list[np.ndarray]:
    return [np.asarray(one) for one in (result if isinstance(result, tuple) else (result,))]


RUNS = {"tiles": _as_tiles, "code": _as_code, "gpu": _on_threads, "device": _on_device}
