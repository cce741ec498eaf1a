"""Programs over operators, each a function of one module, after the passes that know what an operator is."""

from __future__ import annotations

from collections.abc import Mapping

from tesserac.graph.build import build_module
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES
from tests.support.source_support import check_text, library


def program_text(helpers: str, args: str, programs: Mapping[str, tuple[str, str, int]]) -> str:
    """`f_NAME` returns the expression of the program NAME."""
    return helpers + "\n".join(f"def f_{name}({args}):\n    return {row[0]}\n" for name, row in programs.items())


def module_after_laws(text: str) -> Module:
    checked = check_text(text, "m", library())
    entries = {function.symbol for function in checked.module.functions}
    return run_passes(build_module(list(checked.functions.values()), entries), CALL_PASSES, verify=True)
