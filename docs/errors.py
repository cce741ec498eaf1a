"""`docs/errors.md`: all codes, each with the title of its page."""

from __future__ import annotations

from itertools import groupby

from tesserac.diag.pages import load_page, page_codes

FAMILIES = {
    "01": "Syntax",
    "02": "Names",
    "03": "Shapes",
    "04": "Precision",
    "05": "Kernels and schedules",
    "06": "Effects and placement",
    "07": "Derivatives and transforms",
    "08": "Operators as values",
    "09": "Files, artifacts, the run time",
}
HEAD = """\
# Errors and warnings

Every message has a code, and every code a page: why there is such a rule, a program that breaks it, what the compiler
says, and the program mended. `tesserac explain E0301` shows the page in a terminal. The tests check that each program
gives its message, word for word, and that each mended one gives none.

Codes that begin with E are errors, those with W warnings. A Python traceback or E0999 is a fault of the compiler.
"""


def errors_page() -> str:
    codes = sorted(page_codes(), key=lambda code: (code[1:3], code))
    parts = [HEAD]
    for family, members in groupby(codes, key=lambda code: code[1:3]):
        parts.append(f"## {FAMILIES[family]}\n\n| code | |\n|---|---|\n{_rows(list(members))}\n")
    return "\n".join(parts)


def _rows(codes: list[str]) -> str:
    return "\n".join(f"| [{code}](../tesserac/diag/codes/{code}.md) | {_title(code)} |" for code in codes)


def _title(code: str) -> str:
    page = load_page(code)
    assert page is not None
    return page.title.replace("|", "\\|")
