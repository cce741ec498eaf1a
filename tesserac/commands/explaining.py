"""`tesserac explain`: the page of a code as text, or the list of all."""

from __future__ import annotations

import difflib

from tesserac.commands.outcome import BAD_USAGE, Outcome
from tesserac.diag.pages import explain, load_page, page_codes
from tesserac.diag.render import Palette
from tesserac.diag.snippet import Piece


def explain_code(code: str, palette: Palette) -> Outcome:
    page = explain(code)
    if page is not None:
        return Outcome(page_text(page, palette))
    close = difflib.get_close_matches(code.upper(), page_codes(), n=1)
    hint = f"did you mean {close[0]}?\n" if close else ""
    return Outcome(list_codes(), f"there is no code {code}; {hint or 'these are all:'}".rstrip() + "\n", BAD_USAGE)


def list_codes() -> str:
    pages = filter(None, map(load_page, page_codes()))
    return "".join(f"{page.code}  {page.title}\n" for page in pages)


def page_text(markdown: str, palette: Palette) -> str:
    """The page for a terminal: headings bare, programs indented, the rest as written."""
    lines: list[str] = []
    in_program = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            in_program = not in_program
        elif in_program:
            lines.append(f"    {line}".rstrip())
        elif line.startswith("#"):
            lines.append(palette.paint(Piece(line.lstrip("# "), "title")))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"
