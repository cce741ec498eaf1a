"""From `.tess` text to forms, with the whole library in scope: what tests of programs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

import tessera
from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.graph.build import build_module
from tesserac.graph.devices import alone
from tesserac.graph.interp import run_function
from tesserac.graph.passes.choose_forms import choose_forms
from tesserac.graph.passes.fix_sizes import fix_sizes
from tesserac.graph.passes.inline import inline
from tesserac.graph.rules import apply_rules
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES
from tesserac.syntax.parse import parse_module
from tests.support.checking import library as library
from tests.support.cpu_kernels import same_bits


def check_text(text: str, name: str, libraries: tuple[CheckResult, ...]) -> CheckResult:
    source = SourceFile(f"{name}.tess", text)
    checked = check_module(parse_module(source).module, source, name, libraries)
    assert not checked.has_errors, checked.diagnostics
    return checked


@cache
def compile_to_forms(text: str) -> Module:
    """The functions of a program, named `m.<function>`, after all Graph passes."""
    checked = check_text(text, "m", library())
    entries = {function.symbol: function for function in checked.module.functions}
    sizes = {name: size for function in entries.values() for name, size in alone(function).items()}
    whole = run_passes(build_module(list(checked.functions.values()), entries), CALL_PASSES, verify=True)
    return run_passes(whole, [fix_sizes(sizes), *GRAPH_PASSES] if sizes else GRAPH_PASSES, verify=True)


def run_both(program: str, *args: np.ndarray) -> np.ndarray:
    """The result of `f` as machine code, once the interpreter agrees."""
    result = np.asarray(tessera.compile(program).f(*args))
    same_bits(result, np.asarray(run_function(compile_to_forms(program), "m.f", list(args))[0]))
    return result


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def graph_of(checked: CheckResult) -> Op:
    """The function `f` of a module `m` in the Graph, with all that it calls inside but what it asserts and prints."""
    entries = {function.symbol for function in checked.module.functions}
    built = build_module(list(checked.functions.values()), entries, derives=True)
    module = run_passes(built, [apply_rules, inline, choose_forms], verify=True)
    function = module.lookup("m.f")
    for op in list(function.walk()):
        if op.name in ("form.assert", "form.print"):
            op.erase()
    return function


def body_of(function: Op) -> Callable[[Builder, Sequence[Value]], list[Value]]:
    """What writes the operations of a function once more, for other arguments."""

    def body(builder: Builder, args: Sequence[Value]) -> list[Value]:
        values = dict(zip(function.body.args, args, strict=True))
        for op in function.body.ops[:-1]:
            builder.add(copy_op(op, values, {}))
        return [values[v] for v in function.body.terminator.operands]

    return body
