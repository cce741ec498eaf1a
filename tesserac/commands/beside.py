"""IR with the source beside it.

    %0 = graph.add(%x, %y) : tensor<[N], f32>      // line 4: return x + y

A line of source stands behind the first of the operations that came from it; the next ones have none until another
line's turn comes. Remarks start at one column; those of long lines stand above them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tesserac.base.source import SourceFile
from tesserac.ir.core import Module, Op
from tesserac.ir.printer import print_module

MOST = 88
"""A line longer than this has its remark above it."""
_MARK = "\x00"
_SPLIT = f"  // {_MARK}"


def print_beside(module: Module, sources: Mapping[str, SourceFile], own: str) -> str:
    """The module with lines of source; `own` is the file whose name need not be said."""
    lines = print_module(module, annotate=_Remarks(sources, own)).splitlines()
    pairs = [line.partition(_SPLIT) for line in lines]
    column = max((len(code) for code, _, remark in pairs if remark and len(code) <= MOST), default=0)
    return "".join(_joined(code, remark, column) for code, _, remark in pairs)


def _joined(code: str, remark: str, column: int) -> str:
    if not remark:
        return f"{code}\n"
    if len(code) <= MOST:
        return f"{code:{column}}  // {remark}\n"
    indent = code[: len(code) - len(code.lstrip())]
    return f"{indent}// {remark}\n{code}\n"


class _Remarks:
    """Says the line of an operation, once for a run of operations from one line."""

    def __init__(self, sources: Mapping[str, SourceFile], own: str) -> None:
        self._sources = sources
        self._own = own
        self._last = ""

    def __call__(self, op: Op) -> str:
        text = self._line(op)
        if not text or text == self._last:
            return ""
        self._last = text
        return _MARK + text

    def _line(self, op: Op) -> str:
        source = self._sources.get(op.span.file)
        if source is None or not op.span.known or op.opdef.terminator:
            return ""
        line, _ = source.position(op.span.start)
        place = f"line {line}" if source.path == self._own else f"{source.path}:{line}"
        return f"{place}: {source.line_text(line).strip()}"
