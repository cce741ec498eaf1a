"""From `.tess` text to forms, with the whole library in scope: what tests of programs share."""

from __future__ import annotations

from functools import cache

import numpy as np

import tessera
from tesserac.base.resources import stdlib_files
from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.absorb import absorb
from tesserac.graph.passes.cse import cse
from tesserac.graph.passes.dce import dce
from tesserac.graph.passes.fold import fold
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.inline import inline
from tesserac.graph.passes.split_complex import split_complex
from tesserac.graph.rules import apply_rules
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.library import check_library
from tesserac.syntax.parse import parse_module
from tests.cpu_kernels import same_bits

GRAPH_PASSES = (apply_rules, inline, fold, cse, dce, generalize, split_complex, absorb)


def check_text(text: str, name: str, libraries: tuple[CheckResult, ...]) -> CheckResult:
    source = SourceFile(f"{name}.tess", text)
    checked = check_module(parse_module(source).module, source, name, libraries)
    assert not checked.has_errors, checked.diagnostics
    return checked


@cache
def library() -> tuple[CheckResult, ...]:
    """In the order in which files use each other's names."""
    return check_library(stdlib_files())


@cache
def compile_to_forms(text: str) -> Module:
    """The functions of a program, named `m.<function>`, after all Graph passes."""
    checked = check_text(text, "m", library())
    entries = {function.symbol for function in checked.module.functions}
    return run_passes(build_module(list(checked.functions.values()), entries), GRAPH_PASSES, verify=True)


def run_both(program: str, *args: np.ndarray) -> np.ndarray:
    """The result of `f` as machine code, once the interpreter agrees."""
    result = np.asarray(tessera.compile(program).f(*args))
    same_bits(result, np.asarray(run_function(compile_to_forms(program), "m.f", list(args))[0]))
    return result


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
