"""What a command leaves: text for its output, text for people, an exit status."""

from __future__ import annotations

from tesserac.base.dataclass import dataclass

OK, MISTAKES, BAD_USAGE, FAULT, INTERRUPTED = 0, 1, 2, 70, 130
"""Exit statuses: all well; the program has mistakes; the command was used wrongly; the compiler itself failed; Ctrl-C
ended it."""


@dataclass(frozen=True)
class Outcome:
    """`output` is what was asked for and goes to standard output; `remarks` go to standard error."""

    output: str = ""
    remarks: str = ""
    status: int = OK


class UsageMistake(Exception):
    """A command was asked for something that does not exist. The text says what, and what does."""
