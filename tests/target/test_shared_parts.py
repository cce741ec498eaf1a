"""Parts of kernels that mean and read the same are written once, and what they mean says all that their code does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.ir.passes import run_passes
from tesserac.pipeline import target_passes
from tesserac.target.cpu import shared
from tesserac.target.cpu.build import AARCH64, kernel_code
from tesserac.target.emit import Function, Module

PRODUCTS = """
def products(a: Tensor[N, N, f32], b: Tensor[N, N, f32], c: Tensor[N, N, f32]):
    return tanh(a @ b), (a @ c) * 2.0, exp(c @ a), c @ b
"""


@pytest.mark.one_in(4)
def test_parts_that_mean_the_same_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    session, source = Session(), SourceFile("products.tess", PRODUCTS)
    levels = session.levels(source, session.function(source, "products"), AARCH64.schedule)
    lowered = run_passes(levels.tile, target_passes(AARCH64), verify=False)
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
