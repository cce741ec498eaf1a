"""Who is told of when the library asserts: the function that a program calls, at the place of the call.

Enters: functions of a module, and what inlining copies out of one. Leaves: assertions that name their function.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.graph.dialect import CUSTOM
from tesserac.ir.core import Op


def library_name(symbol: str, span: Span) -> str | None:
    """What a program calls a function of the library; None for a function of the program itself."""
    module = span.file.removesuffix(".tess").replace("/", ".")
    is_library = module.startswith("stdlib.") and symbol.startswith(f"{module}.")
    return symbol.removeprefix(f"{module}.").partition(".")[0] if is_library else None


def attribute(op: Op, name: str, at: Span) -> None:
    """What an operation asserts, or will once it is its body, is said of the function of this name."""
    for inner in op.walk():
        if inner.name in ("form.assert", CUSTOM):
            inner.attrs["operator"] = name
            inner.span = at
