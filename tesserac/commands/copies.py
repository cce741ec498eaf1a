"""`tesserac check --explain-memory`: the copies of whole tensors that iterations of loops make, and why.

Enters: a checked file. Leaves: text, for each function that the CPU runs with such a copy.

    step: every iteration of the loop of line 3 copies `out`, 32*T bytes, at line 5
        the tensor as it was is read behind the update, at line 6
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.base.source import SourceFile, Span
from tesserac.check.model.typed import TypedFunction
from tesserac.commands.memory import line_of, size_text
from tesserac.commands.targets import find_target
from tesserac.driver.refusals import ProgramError, SizesMissing
from tesserac.driver.session import Checked, Session
from tesserac.ir.core import Op
from tesserac.schedule.dialect import launch_outs, memory
from tesserac.schedule.forms.updates import Copied
from tesserac.types.dims import product

LOOPS = ("schedule.loop", "schedule.while")
SMALL = 4096
"""Bytes, known while compiling, of a copy that nobody has to hear of."""


def list_copies(session: Session, checked: Checked) -> str:
    found: list[str] = []
    for function in checked.result.module.functions:
        for launch, loop in _copies(session, checked, function):
            found.append("".join(f"  {line}\n" for line in _described(checked.source, function, launch, loop)))
    head = "copied in loops" if found else "no loop copies a tensor whole"
    return f"{checked.source.path}: {head}\n" + "".join(dict.fromkeys(found))


def _copies(session: Session, checked: Checked, function: TypedFunction) -> Iterator[tuple[Op, Op]]:
    """The launches that copy, each with the loop around it. What cannot be compiled yet is told of elsewhere."""
    try:
        levels = session.levels(checked.source, function, find_target("cpu").machine)
    except (ProgramError, SizesMissing):
        return
    for host in levels.schedule.ops:
        for op in host.walk():
            loop = _loop_around(op) if "copied" in op.attrs else None
            if loop is not None and not _is_small(op):
                yield op, loop


def _loop_around(op: Op) -> Op | None:
    around = op.parent.parent_op if op.parent is not None else None
    while around is not None and around.name not in LOOPS:
        around = around.parent.parent_op if around.parent is not None else None
    return around


def _is_small(launch: Op) -> bool:
    ty = memory(launch_outs(launch)[0])
    size = product(ty.dims).constant
    return size is not None and size * ty.dtype.bytes <= SMALL


def _described(source: SourceFile, function: TypedFunction, launch: Op, loop: Op) -> Iterator[str]:
    copied, out = launch.attrs["copied"], launch_outs(launch)[0]
    assert isinstance(copied, Copied)
    ty, name = memory(out), f"`{out.name}`" if out.name else "a tensor"
    size = size_text(product(ty.dims) * ty.dtype.bytes)
    around, at = line_of(source, loop.span), line_of(source, launch.span)
    yield f"{function.name}: every iteration of the loop of {around} copies {name}, {size} bytes, at {at}"
    blamed = f", at {line_of(source, Span(copied.file, copied.start, copied.end))}" if copied.file else ""
    yield f"    {copied.why}{blamed}"
