"""Where an expression stands in its text, for fixes that write more than the expression.

Enters: its span. Leaves: whether it is all of a statement, or of what is assigned or given, and the lines it stands in.
"""

from __future__ import annotations

import sys

from tesserac.base.source import Span
from tesserac.check.state.body import Body


def stands_alone(body: Body, span: Span) -> bool:
    """Whether an expression is all that is assigned, returned or given."""
    before, after = _around(body, span)
    return before.rstrip(" ").endswith(("=", "(", ",", "return")) and after.lstrip(" ")[:1] in ("", "\n", ",", ")", "#")


def is_statement(body: Body, span: Span) -> bool:
    """Whether it is all of a line, but for a comment."""
    before, after = _around(body, span)
    return not before.rpartition("\n")[2].strip() and after.lstrip(" ")[:1] in ("", "\n", "#")


def is_assigned(body: Body, span: Span) -> bool:
    """Whether it is all that a line gives a name to."""
    before, after = _around(body, span)
    name, _, rest = before.rpartition("\n")[2].rstrip(" ").rpartition("=")
    return not rest and name.strip().isidentifier() and after.lstrip(" ")[:1] in ("", "\n", "#")


def names_a_value(body: Body, span: Span) -> bool:
    """Whether it stands in what a line gives a name to."""
    before, after = _around(body, span)
    name, given, rest = before.rpartition("\n")[2].partition("=")
    line = rest + after.partition("\n")[0]
    return bool(given) and name.strip().isidentifier() and line.count("(") == line.count(")")


def whole_lines(body: Body, span: Span) -> Span:
    """The lines that it stands in, with the end of the last."""
    before, after = _around(body, span)
    start = span.start - len(before.rpartition("\n")[2])
    return Span(span.file, start, span.end + len(after.partition("\n")[0]) + 1)


def indentation(body: Body, span: Span) -> str:
    """The blanks that the line begins with."""
    line = _around(body, span)[0].rpartition("\n")[2]
    return line[: len(line) - len(line.lstrip(" "))]


def _around(body: Body, span: Span) -> tuple[str, str]:
    before = body.rules.text(Span(span.file, 0, span.start))
    return before, body.rules.text(Span(span.file, span.end, sys.maxsize))
