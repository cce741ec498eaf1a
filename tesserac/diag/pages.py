"""The page of each code, for `tesserac explain`.

A page is `codes/E0302.md`:

    # E0302: a short title
    ## Why      what the rule is, and why there is one
    ## Fails    a ```tess program that gives this code, and a ```text block with the message as it is shown
    ## Fixed    the ```tess program mended: it gives no diagnostic

The message block is written by `pytest --update`. A code that no program text can give (E09xx) has no programs.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from tesserac.base.dataclass import dataclass

_PAGE_NAME = re.compile(r"([EW]\d{4})\.md")
_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """`fails`, `message` and `fixed` are empty where the page has no such block."""

    code: str
    title: str
    why: str
    fails: str
    message: str
    fixed: str
    text: str


def page_codes() -> list[str]:
    """The codes that have a page, in order."""
    names = (entry.name for entry in _folder().iterdir())
    return sorted(match[1] for name in names if (match := _PAGE_NAME.fullmatch(name)))


def explain(code: str) -> str | None:
    """The text of a code's page, in Markdown; None for an unknown code. `e302` is not `E0302`, but `e0302` is."""
    if not re.fullmatch(r"[EWew]\d{4}", code):
        return None
    page = _folder() / f"{code.upper()}.md"
    return page.read_text(encoding="utf-8") if page.is_file() else None


def page_file(code: str) -> Path | None:
    """Where the page of a code lies on disk, for an editor to link to."""
    page = _folder() / f"{code}.md"
    return page if isinstance(page, Path) and page.is_file() else None


def load_page(code: str) -> Page | None:
    text = explain(code)
    return None if text is None else parse_page(text)


def parse_page(text: str) -> Page:
    """A page from its text. One that lacks its heading or a section is a ValueError: pages are ours."""
    heading = re.match(r"# ([EW]\d{4}): (.+)\n", text)
    sections = {name: body.strip() for name, body in _SECTION.findall(text)}
    if heading is None or not sections.get("Why") or not {"Fails", "Fixed"} <= sections.keys():
        raise ValueError("a page needs `# CODE: title`, `## Why`, `## Fails` and `## Fixed`")
    fails = dict(_BLOCK.findall(sections["Fails"] + "\n"))
    fixed = dict(_BLOCK.findall(sections["Fixed"] + "\n"))
    return Page(
        code=heading[1],
        title=heading[2],
        why=sections["Why"],
        fails=fails.get("tess", ""),
        message=fails.get("text", ""),
        fixed=fixed.get("tess", ""),
        text=text,
    )


def _folder() -> resources.abc.Traversable:
    return resources.files("tesserac.diag.codes")
