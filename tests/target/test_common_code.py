"""Functions that many programs have: taken out of a module they are compiled once, and the linker finds them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessera
from tessera.container import image_to_bytes
from tessera.loader import load_image
from tessera.threads import resolve_libc
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.target import common_code, parallel
from tesserac.target.common_code import common_objects
from tesserac.target.compile import Machine, data_layout, emit_object, host_machine, parse
from tesserac.target.cpu.build import PLATFORMS, host_platform
from tesserac.target.cpu.products import micro, row_products
from tesserac.target.emit import Function, Module
from tesserac.target.link import link
from tesserac.target.llvm_types import I64, const_i64
from tesserac.target.parallel import Effort, Workers, emit_apart
from tests.support.caches import new_cache

PRODUCT = "def f(a: Tensor[M, K, f32], b: Tensor[K, N, f32]):\n    return a @ b\n"


def calling(
    module: Module, name: str, others: list[Function], *, is_common: bool, linkage: str = "internal"
) -> Function:
    """name(x) = 1 + max(x, 5) + what the others give for x."""
    function = module.function(name, I64, [I64], linkage=linkage)
    function.is_common = is_common
    b, x = function.builder, function.args[0]
    total = b.add(const_i64(1), b.maximum_int(x, const_i64(5)))
    for other in others:
        total = b.add(total, b.call(other, [x]))
    b.ret(total)
    return function


def example() -> Module:
    """`all` calls three, of which two are connected by a fourth."""
    module = Module("test", host_machine().triple, data_layout(host_machine()))
    rare = calling(module, "rare.a", [], is_common=True)
    parts = [calling(module, name, [rare], is_common=True) for name in ("rest.b", "rest.a")]
    alone, own = calling(module, "micro", [], is_common=True), calling(module, "part1", [], is_common=False)
    calling(module, "all", [*parts, alone, own], is_common=False, linkage="")
    return module


def test_what_calls_one_another_is_one_text() -> None:
    module, again = example(), example()
    texts = [common.text for common in module.take_common()]
    names = ("micro", "rare.a", "rest.a", "rest.b")
    defined = [[name for name in names if f"define hidden i64 @{name}(" in text] for text in texts]
    assert defined == [["micro"], ["rare.a", "rest.a", "rest.b"]]
    assert texts == [common.text for common in again.take_common()] and module.take_common() == []
    for text in (*texts, str(module)):
        parse(text)
    assert "define internal i64 @part1(" in str(module) and "declare hidden i64 @micro(i64) nounwind" in str(module)


def test_the_parts_run_together() -> None:
    module = example()
    objects = [made() for made in common_objects(module, host_machine(), Workers())]
    image = load_image(link([*objects, emit_object(str(module), host_machine())]), resolve_libc)
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(image.address("all"))
    assert [run(x) for x in (2, 7)] == [7 * 6, 7 * 8]


def test_common_code_that_needs_more_is_a_fault() -> None:
    module = example()
    own = module.find_function("part1")
    assert own is not None
    calling(module, "wrong", [own], is_common=True)
    with pytest.raises(TypeError, match="part1"):
        module.take_common()


@pytest.mark.one_in(2)
def test_a_second_program_compiles_no_common_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in one process nor, from disk, in the next."""
    made: list[str] = []

    def counted(text: str, machine: Machine, effort: Effort) -> bytes:
        made.extend([text] if effort is Effort.SCHEDULED else [])
        return emit_apart(text, machine, effort)

    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path))
    monkeypatch.setattr(parallel, "emit_apart", counted)
    common_code._COMMON.clear()
    x = np.ones((2, 3), np.float32)
    counts = []
    for number in (1, 2, 3):
        source = f"def f(x: Tensor[M, N, f32]):\n    return exp(x) * {number}.0\n"
        assert np.allclose(np.asarray(tessera.compile(source).f(x)), np.e * number)
        counts.append(len(made))
        if number == 2:
            common_code._COMMON.clear()
    assert 0 < counts[0] == counts[1] == counts[2]


@pytest.mark.one_in(4)
def test_a_second_product_packs_by_the_code_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(text: str, machine: Machine, effort: Effort) -> bytes:
        made.extend([text] if re.search(r"define hidden void @pack_\w+\(", text) else [])
        return emit_apart(text, machine, effort)

    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path))
    monkeypatch.setattr(parallel, "emit_apart", counted)
    a, counts = np.ones((40, 40), np.float32), []
    for number in (1, 2):
        common_code._SHARED.clear()
        source = f"def f(a: Tensor[M, K, f32], b: Tensor[K, N, f32]):\n    return a @ b * {number}.0\n"
        assert np.allclose(np.asarray(tessera.compile(source).f(a, a)), 40 * number)
        counts.append(len(made))
    assert 0 < counts[0] == counts[1]


@pytest.mark.one_in(2)
def test_what_a_product_has_from_an_earlier_one_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its micro-kernels nor its products of rows; the code is the same to the byte."""
    written: list[str] = []

    def counting(build: Callable[[Any], Function]) -> Callable[[Any], Function]:
        return lambda product: (written.append(type(product).__name__), build(product))[1]

    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path))
    monkeypatch.setattr(common_code, "_SHARED", {})
    for kind in (micro._MicroKernel, row_products._RowProduct):
        monkeypatch.setattr(kind, "build", counting(kind.build))
    source, platform = SourceFile("t.tess", PRODUCT), host_platform()
    made = []
    for forgotten in (True, True, False):
        if forgotten:
            common_code._SHARED.clear()
        session = Session()
        code = session.artifact(source, session.function(source, "f"), platform).code
        made.append((image_to_bytes(code), len(written)))
    assert len(set(made)) == 1 and set(written) == {"_MicroKernel", "_RowProduct"}


@pytest.mark.one_in(2)
def test_products_of_a_unit_that_must_be_asked_for_are_made_too() -> None:
    """What refers to the system, or to memory of its own, belongs to its program."""
    source = SourceFile(
        "t.tess",
        "half = bf16 @accum(f32)\n"
        "def f(a: Tensor[M, K, half], b: Tensor[K, N, half]) -> Tensor[M, N, half]:\n    return a @ b\n",
    )
    session = Session()
    made = session.artifact(source, session.function(source, "f"), PLATFORMS["x86-64-v4-amx"])
    assert made.code.data
