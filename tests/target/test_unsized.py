"""Kernels that do the same with other sizes have one code."""

from __future__ import annotations

import numpy as np

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.ir.core import Op
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.target.cpu.build import host_platform, kernel_code, kernels_of
from tesserac.target.cpu.host.runners import code_of, sizes_wanted
from tesserac.tile.dialect import LIKE

PROGRAM = """
def both(x: Tensor[A, D, f32], y: Tensor[B, D, f32], w: Tensor[D, D, f32]) -> (Tensor[A, D, f32], Tensor[B, D, f32]):
    return tanh(x @ w), tanh(y @ w)
def other(x: Tensor[A, D, f32], y: Tensor[B, D, f32], w: Tensor[D, D, f32]) -> (Tensor[A, D, f32], Tensor[B, D, f32]):
    return tanh(x @ w), exp(y @ w)
def parts(x: Tensor[N, f32], y: Tensor[2 * N + 3, f32]) -> (Tensor[N, f32], Tensor[2 * N + 3, f32]):
    return sort(tanh(sort(x))), sort(tanh(sort(y)))
"""


def lowered(function: str) -> tuple[dict[str, Op], str]:
    """The kernels of a function, and their code."""
    session, source, cpu = Session(), SourceFile("sizes.tess", PROGRAM), host_platform()
    tiles = session.levels(source, session.function(source, function), cpu.schedule).tile
    module = run_passes(tiles, [cpu.lowering], verify=True)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return kernels_of(module), str(kernel_code(module, cpu))


def alike(function: str) -> int:
    """How many kernels have code that is not their own."""
    return sum(LIKE in kernel.attrs for kernel in lowered(function)[0].values())


def test_a_name_of_a_size_makes_no_other_code() -> None:
    kernels, text = lowered("both")
    shared = [kernel for kernel in kernels.values() if LIKE in kernel.attrs]
    assert shared and len({code_of(kernel) for kernel in shared}) < len(shared)
    for kernel in shared:
        assert f"define void @{kernel.symbol}(" not in text and f"define void @{code_of(kernel)}(" in text
        assert len(sizes_wanted(kernel)) == len(kernels[code_of(kernel)].attrs["symbols"])


def test_nor_does_what_a_size_comes_from() -> None:
    assert alike("parts") > 0


def test_what_is_computed_does() -> None:
    """Whatever both functions share, the last kernels of these do not do the same."""
    assert alike("other") < alike("both")


def test_sizes_are_those_of_each_launch() -> None:
    x, y, w = (np.random.default_rng(n).normal(size=size).astype(np.float32) for n, size in enumerate(SIZES))
    for left, right in zip(tessera.compile(PROGRAM).both(x, y, w), (np.tanh(x @ w), np.tanh(y @ w)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
    x, y = y[:, 0].copy(), np.concatenate([x[:, 0], y[:, 1], y[:, 2], y[:3, 3]])[: 2 * len(y) + 3]
    for left, right in zip(tessera.compile(PROGRAM).parts(x, y), (x, y), strict=True):
        np.testing.assert_allclose(left, np.sort(np.tanh(np.sort(right))), rtol=1e-6)


SIZES = (70, 40), (33, 40), (40, 40)
