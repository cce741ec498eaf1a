"""Steps of transforms are code without sizes, which transforms of other lengths have too."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.commands.select import select_one
from tesserac.driver.session import Session
from tesserac.ir.core import Module
from tesserac.schedule.machine import AARCH64
from tesserac.tile.build import Holds, holds_nothing
from tesserac.tile.dialect import CODE, GIVEN
from tests.support.tile_eval import run_host

SESSION = Session()


def tiles(length: int, what: str = "fft(x)", dtype: str = "c64", holds: Holds = holds_nothing) -> Module:
    source = SourceFile("f.tess", f"def f(x: Tensor[B, {length}, {dtype}]):\n    return {what}\n")
    return SESSION.levels(source, select_one(SESSION, source, "f").function, AARCH64, {}, holds).tile


def codes(module: Module) -> list[str]:
    return [str(op.attrs[CODE]) for op in module.ops if CODE in op.attrs]


def names(length: int, what: str = "fft(x)", dtype: str = "c64") -> list[str]:
    """Of the steps, without building them."""
    return codes(tiles(length, what, dtype, lambda name: True))


def test_lengths_share_their_steps() -> None:
    short, long = (set(names(length)) for length in (1 << 12, 1 << 16))
    assert short == long and len(long) == 3  # the first, the last, and those between
    million, longer = (set(names(length)) for length in (1 << 20, 1 << 24))
    assert million < longer and long.isdisjoint(longer)  # those of packed columns


def test_an_inverse_has_one_last_step_for_all_lengths() -> None:
    assert names(1 << 12, "ifft(x)")[-1] == names(1 << 16, "ifft(x)")[-1]


def test_other_radices_signs_and_types_are_other_code() -> None:
    found = [*map(set, (names(4096), names(4096, "ifft(x)"), names(4096, dtype="c128"), names(1000)))]
    assert sum(map(len, found)) == len(set.union(*found))


def test_code_that_is_there_is_not_built() -> None:
    built, held = tiles(12), tiles(12, holds=lambda name: True)
    named = {op.symbol for op in built.ops}
    assert set(codes(built)) <= named and codes(held) == codes(built)
    assert named - {op.symbol for op in held.ops} == set(codes(built))
    given = [[op.attrs[GIVEN] for op in module.ops if CODE in op.attrs] for module in (built, held)]
    assert given[0] == given[1]


@pytest.mark.parametrize("length", [6, 20])
def test_shared_code_computes_the_transform(length: int) -> None:
    rng = np.random.default_rng(length)
    x = (rng.normal(size=(3, length)) + 1j * rng.normal(size=(3, length))).astype(np.complex64)
    (found,) = run_host(tiles(length), "main.f", [x])
    assert np.allclose(found, np.fft.fft(x), atol=1e-5 * length)


LOOP = """
def f(x: Tensor[4, f32]):
    i, x = 0, 2 * irfft(conj(rfft(x)), n=4)
    while i < 2:
        i, x = i + 1, 2 * irfft(conj(rfft(x)), n=4)
    return x
"""


def test_a_step_in_a_loop_that_is_compiled_as_one_has_its_own_code() -> None:
    """Also where a step outside says the same: that one is only a name for code which the loop has no part of."""
    source = SourceFile("f.tess", LOOP)
    module = SESSION.levels(source, select_one(SESSION, source, "f").function, AARCH64, {}).tile
    (loop,) = (op for op in module.walk() if "sequential" in op.attrs)
    inside = {str(op.attrs["kernel"]) for op in loop.walk() if op.name == "tile.launch"}
    kernels = {op.symbol: op for op in module.ops if op.name == "tile.kernel"}
    assert codes(module) and not any(CODE in kernels[name].attrs for name in inside)
