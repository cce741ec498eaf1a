"""`tesserac check --explain-memory`: what derivatives keep of iterations, and what a checkpoint would change.

Enters: a checked file. Leaves: text, for each function that asks for a gradient through a loop.

    slope: the loop of line 3 keeps of each of T iterations
        h: 4*N bytes (["N"] of f32, line 4)
      in all 4*N*T bytes; `with checkpoint(every=k):` keeps T/k states of 4*N bytes and k iterations of 4*N
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tesserac.base.source import SourceFile, Span
from tesserac.check.model.message_text import dims_text
from tesserac.check.model.typed import TypedFunction
from tesserac.driver.residuals import LoopResiduals, Residual, loop_residuals
from tesserac.driver.session import Checked
from tesserac.graph.autodiff.errors import NotDifferentiable
from tesserac.graph.expansion import TooManyOperators
from tesserac.types.dims import Dim

LONGEST_NAME = 40
_AT_LEAST_NONE = re.compile(r"max\(0, (\w+)\)")


def list_memory(checked: Checked) -> str:
    """What every function of the file keeps; one that cannot be compiled is told of where it is."""
    lines: list[str] = []
    for function in checked.result.module.functions:
        for loop in _loops(checked, function):
            lines += [f"  {line}\n" for line in _described(checked.source, function, loop)]
    head = "kept for derivatives" if lines else "no loop keeps anything for a derivative"
    return f"{checked.source.path}: {head}\n" + "".join(lines)


def _loops(checked: Checked, function: TypedFunction) -> list[LoopResiduals]:
    try:
        return loop_residuals(checked.result.reach(function), function.symbol)
    except (NotDifferentiable, TooManyOperators):
        return []


def _described(source: SourceFile, function: TypedFunction, loop: LoopResiduals) -> Iterator[str]:
    where = f"{function.name}: {'in segments, ' if loop.segments else ''}the loop of {line_of(source, loop.span)}"
    yield f"{where} keeps of each of {size_text(loop.rows)} iterations"
    for value in loop.values:
        place = f"{dims_text(value.type.dims)} of {value.type.dtype}, {line_of(source, value.span)}"
        yield f"    {_name(source, value)}: {size_text(value.bytes)} bytes ({place})"
    yield f"  in all {size_text(loop.rows * loop.row)} bytes{'' if loop.segments else '; ' + _advice(loop)}"


def line_of(source: SourceFile, span: Span) -> str:
    own = span.file == source.path
    return f"line {source.position(span.start)[0]}" if own else span.file


def _name(source: SourceFile, value: Residual) -> str:
    text = source.slice(value.span) if value.span.file == source.path else ""
    is_short = text and "\n" not in text and len(text) <= LONGEST_NAME
    return value.name or (f"`{text}`" if is_short else "a value on the way")


def size_text(size: Dim) -> str:
    """No loop has fewer iterations than none, which goes without saying."""
    return _AT_LEAST_NONE.sub(r"\1", str(size))


def _advice(loop: LoopResiduals) -> str:
    """What `every` iterations would cost: states at the starts of segments, and the rows of one segment."""
    if not loop.counted:
        return "iterations beyond these are computed again; `with checkpoint(max_steps=n):` keeps n of them"
    iterations, state, row = loop.rows.constant, loop.state.constant, loop.row.constant
    said = f"keeps a state of {size_text(loop.state)} bytes for every k iterations, and k iterations"
    if not (iterations and state and row):
        return f"`with checkpoint(every=k):` {said}"
    k = max(1, round(math.sqrt(iterations * state / row)))
    return f"`with checkpoint(every={k}):` keeps {math.ceil(iterations / k) * state + k * row} bytes"
