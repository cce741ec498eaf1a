"""Products of which a panel of the left operand stays in the first cache: same bits, and sums that are the result go to
its memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tessera
from tessera.function import CompiledFunction
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.dialect import Predicate, launch_stages
from tesserac.schedule.machine import X86_64_V4, Code, Machine, as_found
from tesserac.schedule.model.cuts import cut_of
from tesserac.target.cpu import build
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms

PROGRAM = """
def plain(x: Tensor[M, K, f32], y: Tensor[K, N, f32]): return x @ y
def double(x: Tensor[M, K, f64], y: Tensor[K, N, f64]): return x @ y
def turned(x: Tensor[K, M, f32], y: Tensor[N, K, f32]): return x.T @ y.T
def more(x: Tensor[M, K, f32], y: Tensor[K, N, f32]): return relu(x @ y)
def several(x: Tensor[B, M, K, f32], y: Tensor[B, K, N, f32]): return x @ y
def narrow(x: Tensor[M, 300, f32], y: Tensor[300, 3, f32]): return x @ y
def wide(x: Tensor[600, K, f32], y: Tensor[K, 9000, f32]): return x @ y
"""
SMALL_CACHE = as_found(X86_64_V4, Code("t", "c", "", ()), 2, (32 * 1024, 0, 0))
"""AVX-512 with 32 KiB: 256 terms of a left panel stay there, not of a right one."""
SHAPES = ((37, 1003, 77), (13, 4096, 33), (200, 4097, 16), (12, 9000, 20), (40, 0, 20), (3, 5, 7))
"""Cut rows and columns; one segment of terms, several, and none."""


def _passing(name: str, panel_bytes: int = 128) -> CompiledFunction:
    """A function for the machine at hand, as if so small a part of the right operand stayed in its first cache."""
    here, source, session = build.host_platform(), SourceFile("m.tess", PROGRAM), Session()
    record = replace(here.schedule, panel_bytes=panel_bytes, left_panel_bytes=512)
    return CompiledFunction(session.artifact(source, session.function(source, name), replace(here, schedule=record)))


def _operands(name: str, m: int, k: int, n: int) -> list[np.ndarray]:
    rng, lead = np.random.default_rng(m), (2,) if name == "several" else ()
    x, y = rng.standard_normal((*lead, m, k)), rng.standard_normal((*lead, k, n))
    x[..., 1, :] = -0.0
    dtype = np.float64 if name == "double" else np.float32
    pair = (x.T.copy(), y.T.copy()) if name == "turned" else (x, y)
    return [each.astype(dtype) for each in pair]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["plain", "double", "turned", "more", "several"])
@pytest.mark.parametrize("panel_bytes", [128, 512])
def test_bits_are_those_of_the_program(name: str, panel_bytes: int) -> None:
    """On one thread, which packs its own columns, and on several, for which the right operand is laid out."""
    function, forms = _passing(name, panel_bytes), compile_to_forms(PROGRAM)
    before = tessera.get_num_threads()
    try:
        for m, k, n in SHAPES:
            args = _operands(name, m, k, n)
            expected = run_function(forms, f"m.{name}", args)[0]
            for threads in (1, 3):
                tessera.set_num_threads(threads)
                same_bits(np.asarray(function(*args)), expected)
    finally:
        tessera.set_num_threads(before)


@pytest.mark.one_in(4)
def test_many_rows_and_columns_that_are_known_have_them_too() -> None:
    """More rows than two programs have, a panel of one vector, and rows and columns that are numbers of the program."""
    forms = compile_to_forms(PROGRAM)
    for name, (m, k, n) in {"plain": (1600, 40, 70), "narrow": (50, 300, 3), "wide": (600, 20, 9000)}.items():
        args = _operands(name, m, k, n)
        same_bits(np.asarray(_passing(name)(*args)), run_function(forms, f"m.{name}", args)[0])


def _launches(name: str, machine: Machine) -> list[Op]:
    host = run_passes(compile_to_forms(PROGRAM), schedule_passes(machine), verify=True).lookup(f"m.{name}")
    return [op for op in host.walk() if op.name == "schedule.launch" and op.attrs["kind"] == "contract"]


@pytest.mark.one_in(4)
def test_the_first_cache_says_which_panel_stays() -> None:
    room = as_found(X86_64_V4, Code("t", "c", "", ()), 2, (48 * 1024, 0, 0))
    for machine, expected in ((SMALL_CACHE, {"panel"}), (room, {"panel", "panels"}), (X86_64_V4, {"panels"})):
        staged = [stage for launch in _launches("plain", machine) for stage in launch_stages(launch)]
        assert {s.layout for s in staged if s.operand == 0} - {"rows"} == expected


@pytest.mark.one_in(4)
def test_each_thread_packs_the_columns_that_it_has_if_they_are_enough() -> None:
    """And rows of several panels are cut where a panel ends."""
    launches = _launches("plain", SMALL_CACHE)
    [by_itself] = [op for op in launches if [stage.layout for stage in launch_stages(op)] == ["panel", "panels"]]
    region = by_itself.parent
    assert region is not None and region.parent_op is not None
    predicates = region.parent_op.attrs["predicates"]
    assert isinstance(predicates, tuple)
    fewest, own = predicates
    assert isinstance(fewest, Predicate) and isinstance(own, Predicate)
    few, many = (own.left.evaluate({"M": m, "N": n}) for m, n in ((100, 40), (1000, 2000)))
    assert own.kind == "each_thread" and few >= own.right.evaluate({}) * 1024 and many == 2000
    assert fewest.left.evaluate({}) == 8 and fewest.right.evaluate({"M": 7}) == 7
    cut = cut_of(by_itself)
    assert cut is not None and [cut.unit_rows.evaluate({"M": m}) for m in (37, 512)] == [4, 12]
