"""What parses but is not compiled yet, as the compiler itself says it: each program here gives E0299."""

from __future__ import annotations

from tesserac.base.source import SourceFile
from tesserac.check.declarations.annotations import LATER_TYPES
from tesserac.diag.codes.names import E0299
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session

BODY = "def f(x: Tensor[N, f32], s: Tensor[f32], i: Tensor[K, i32], n: i32) -> Tensor[N, f32]:\n    {}\n    return x\n"
"""One statement in the body of a function."""

STATEMENTS = (
    "x[i] %= 2.0",
)


class NotLater(Exception):
    """A program of this list is compiled by now, or is wrong in another way: the list is out of date."""


def later_section() -> str:
    """The section: statements with what is said of them, then names of types."""
    rows = [f"| `{text}` | {said(BODY.format(text))} |" for text in STATEMENTS]
    table = "\n".join(["| program | not supported yet |", "|---|---|", *rows])
    return f"{table}\n\nNames of types that are known, but have no meaning yet: {_names(LATER_TYPES)}.\n"


def said(program: str) -> str:
    """What E0299 says of the program. Raises NotLater where it does not."""
    from tesserac.commands.select import select_all
    from tesserac.target.cpu.build import AARCH64

    session = Session()
    source = SourceFile("later.tess", program)
    try:
        for selected in select_all(session, source).functions:
            session.artifact(source, selected.function, AARCH64)
    except ProgramError as problem:
        first = problem.diagnostics[0]
        if first.code == E0299.id:
            return first.notes[0] if first.notes else first.title.removeprefix("not supported yet: ")
        raise NotLater(f"{first.title}:\n{program}") from None
    raise NotLater(f"this compiles:\n{program}")


def _names(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
