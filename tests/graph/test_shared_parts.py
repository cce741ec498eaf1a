"""Products that differ in what is done with their results share the code of their sums; nothing else is taken apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.ir.passes import run_passes
from tesserac.target.cpu import shared
from tesserac.target.cpu.build import AARCH64, PLATFORMS, CpuPlatform, cpu_pass, kernel_code
from tesserac.target.emit import Function, Module
from tests.support.source_support import normal, run_both

TWO_PRODUCTS = """
def f(x: Tensor[N, K, f32], v: Tensor[K, M, f32], w: Tensor[K, M, f32]) -> Tensor[N, M, f32]:
    return tanh(x @ v) * relu(x @ w)
"""
FOUR_PRODUCTS = """
def f(a: Tensor[N, N, f32], b: Tensor[N, N, f32], c: Tensor[N, N, f32]):
    return tanh(a @ b), (a @ c) * 2.0, exp(c @ a), c @ b
"""
NO_PRODUCT = """
def f(x: Tensor[N, M, f32]) -> Tensor[N, f32]:
    return sum(exp(x), axis=1)
"""


SHAPES = ("aarch64", "x86-64-v3")


def functions(program: str, cpu: CpuPlatform) -> dict[str, str]:
    """The text of every function in the code of a program's kernels."""
    session, source = Session(verify=True), SourceFile("m.tess", program)
    levels = session.levels(source, session.function(source, "f"), cpu.schedule)
    text = str(kernel_code(run_passes(levels.tile, [cpu_pass(cpu.tiles)], verify=True), cpu))
    found = re.finditer(r"^define[^@]*@([^(]+)\(.*?^}$", text, re.MULTILINE | re.DOTALL)
    return {match[1]: match[0] for match in found}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cpu", [PLATFORMS[arch] for arch in SHAPES], ids=SHAPES)
def test_sums_of_products_are_one_function(cpu: CpuPlatform) -> None:
    """One for operands that are packed beforehand, one for those that are not; each has both products."""
    found = functions(TWO_PRODUCTS, cpu)
    kernels = [text for name, text in found.items() if name.startswith("main.")]
    loops = [name for name, text in found.items() if name.startswith("part") and "@micro_" in text]
    sums = [name for name, text in found.items() if any(f"@{loop}(" in text for loop in loops) and name not in loops]
    assert [sum(f"@{name}(" in kernel for kernel in kernels) for name in sums] == [2, 2]
    assert not any("@micro_" in kernel for kernel in kernels)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cpu", [PLATFORMS[arch] for arch in SHAPES], ids=SHAPES)
def test_no_two_functions_say_the_same(cpu: CpuPlatform) -> None:
    bodies = [text.partition("\n")[2] for text in functions(TWO_PRODUCTS, cpu).values()]
    assert len(set(bodies)) == len(bodies)


def test_other_kernels_stay_whole() -> None:
    """But for elementary functions of the elements that vectors leave over."""
    assert all(name.startswith(("main.", "rest.")) for name in functions(NO_PRODUCT, PLATFORMS["aarch64"]))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("depth", [0, 3, 4097, 13000])
def test_shared_sums_have_the_bits_of_the_oracle(depth: int) -> None:
    """No sum, one block, two and several, which are put together in shared loops over scratch."""
    run_both(TWO_PRODUCTS, normal(0, 9, depth), normal(1, depth, 11), normal(2, depth, 11))


@pytest.mark.one_in(4)
def test_parts_that_mean_the_same_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what they mean says all that their code depends on: it is the same where each is written."""
    session, source = Session(), SourceFile("m.tess", FOUR_PRODUCTS)
    levels = session.levels(source, session.function(source, "f"), AARCH64.schedule)
    lowered = run_passes(levels.tile, [AARCH64.lowering], verify=False)
    written: list[Function] = []

    def counted(*args: Any) -> Function:
        written.append(write(*args))
        return written[-1]

    def every_time(module: Module, meaning: str, write: Callable[[], Function]) -> Function:
        return write()

    write = shared._written
    monkeypatch.setattr(shared, "_written", counted)
    text, needed = str(kernel_code(lowered, AARCH64)), len(written)
    monkeypatch.setattr(Module, "asked_for", every_time)
    assert str(kernel_code(lowered, AARCH64)) == text
    assert needed < (len(written) - needed) / 2, "of four products that differ in what is done with their results"
