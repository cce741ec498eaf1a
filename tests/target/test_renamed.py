"""Kernels that do the same with sizes of other names have one code."""

from __future__ import annotations

import re

from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.ir.passes import run_passes
from tesserac.target.cpu.build import host_platform, kernel_code, kernels_of
from tesserac.target.cpu.renamed import Renamed
from tesserac.target.emit import Module
from tesserac.target.llvm_types import I64, PTR, VOID

PROGRAM = """
def both(x: Tensor[A, D, f32], y: Tensor[B, D, f32], w: Tensor[D, D, f32]) -> (Tensor[A, D, f32], Tensor[B, D, f32]):
    return tanh(x @ w), tanh(y @ w)
def other(x: Tensor[A, D, f32], y: Tensor[B, D, f32], w: Tensor[D, D, f32]) -> (Tensor[A, D, f32], Tensor[B, D, f32]):
    return tanh(x @ w), exp(y @ w)
"""


def written(function: str) -> tuple[str, int, int]:
    """The code of the kernels, how many there are, and how many do what another does."""
    session, source, cpu = Session(), SourceFile("sizes.tess", PROGRAM), host_platform()
    tiles = session.levels(source, session.function(source, function), cpu.schedule).tile
    lowered, renamed = run_passes(tiles, [cpu.lowering], verify=True), Renamed()
    kernels = kernels_of(lowered).values()
    return str(kernel_code(lowered, cpu)), len(kernels), sum(renamed.earlier(k) is not None for k in kernels)


def test_a_name_of_a_size_makes_no_other_code() -> None:
    text, kernels, again = written("both")
    assert again > 0
    assert len(re.findall(r"^define void @main\.both", text, re.M)) == kernels - again
    assert len(re.findall(r"^@main\.both\S* = alias", text, re.M)) == again


def test_what_is_computed_does() -> None:
    """Whatever both functions share, the last kernels of these do not do the same."""
    assert written("other")[2] < written("both")[2]


def test_what_is_given_away_already_is_called() -> None:
    module = Module("kernels")
    first = module.function("f$0", VOID, [PTR, I64, I64, I64])
    first.builder.ret()
    module.do_again("f$1", first)
    (given,) = module.begin(1, ())
    module.do_again("f$2", first)
    assert "@f$1 = alias void (ptr, i64, i64, i64), ptr @f$0" in given and "f$2" not in given
    assert "tail call void @f$0(ptr %a0, i64 %a1, i64 %a2, i64 %a3)" in "".join(module.parts(1, 1))


def test_names_stay_those_of_a_function_that_is_merged() -> None:
    module = Module("kernels")
    functions = [module.function(name, VOID, [PTR, I64, I64, I64]) for name in ("f$0", "f$1")]
    for function in functions:
        function.builder.ret()
    module.do_again("f$2", functions[1])
    module.merge_equal()
    assert str(module).count("ptr @f$0") == 2
