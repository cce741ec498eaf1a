"""What every page of a diagnostic code must keep: its programs do what it says, its message is as shown.

Each family of codes tests its pages with `assert_page` and its own check, from a source file to diagnostics.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tesserac.base.source import SourceFile
from tesserac.diag import codes
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.pages import Page
from tesserac.diag.render import render
from tests.support.message_rules import assert_reads_well

Check = Callable[[SourceFile], tuple[Diagnostic, ...]]
FOLDER = Path(codes.__file__).parent


def assert_page(page: Page, check: Check, *, update: bool = False) -> None:
    """The failing program gives the page's code and nothing else, with the message shown; the fixed one nothing."""
    source = SourceFile("example.tess", page.fails)
    diagnostics = check(source)
    assert [d.code for d in diagnostics] == [page.code]
    message = render(diagnostics[0], {source.path: source}) + "\n"
    if update:
        write_message(page, message)
    else:
        assert page.message == message, "run pytest --update and read the diff"
    assert_reads_well(diagnostics[0], message)
    assert check(SourceFile("example.tess", page.fixed)) == ()


def write_message(page: Page, message: str) -> None:
    block = f"```tess\n{page.fails}```\n"
    text = re.sub(r"\n```text\n.*?^```\n", "", page.text, flags=re.MULTILINE | re.DOTALL)
    assert block in text
    (FOLDER / f"{page.code}.md").write_text(
        text.replace(block, f"{block}\n```text\n{message}```\n", 1), encoding="utf-8"
    )
