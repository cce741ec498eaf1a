"""`make site`: the pages of the site, with links that lead from one to another.

Enters: the Markdown of the project, wherever it lies. Leaves: a folder of pages and pictures for mkdocs, and the menu.
A page may link to any file that the site has; a link to something else is an error that names both.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from docs.nav import Nav, navigation
from docs.reference import sections

ROOT = Path(__file__).resolve().parent.parent
_CODE = re.compile(r"(^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$|^(?: {4}).*?$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"""(?<=\]\()([^)\s]+)(?=\))|(?<=\bsrc=")([^"]+)(?=")|(?<=\bhref=")([^"]+)(?=")""")
_ELSEWHERE = re.compile(r"[a-z]+:")
_MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contribute.md",
    "LICENSE": "license.md",
}
_FOLDERS = {"tesserac/diag/codes": "errors", "benchmarks/results": "results", "examples": "examples"}
ALONE = "---\nhide:\n  - navigation\n---\n"
"""The front page has no menu at its side."""


class BrokenLink(Exception):
    """A link of a page leads to nothing that the site has."""


@dataclass(frozen=True)
class Site:
    """Pages by their place in the site, texts still with the links of the repository; files that are copied."""

    pages: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    """Where a file of the repository stands in the site."""

    def add(self, source: str, place: str, text: str | None = None) -> None:
        self.places[source] = place
        if text is None and not place.endswith(".md"):
            self.files[place] = ROOT / source
        else:
            self.pages[place] = text if text is not None else (ROOT / source).read_text(encoding="utf-8")


@cache
def site() -> Site:
    found = Site()
    for path in sorted(path for kind in ("*.md", "*.svg", "*.css") for path in (ROOT / "docs").rglob(kind)):
        found.add(path.relative_to(ROOT).as_posix(), path.relative_to(ROOT / "docs").as_posix())
    for source, place in _MOVED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        found.add(source, place, f"# Licence\n\n```text\n{text}```\n" if source == "LICENSE" else text)
    for folder, place in _FOLDERS.items():
        for path in sorted((ROOT / folder).glob("*.md")):
            found.add(f"{folder}/{path.name}", f"{place}/{path.name}")
    for path in sorted((ROOT / "examples").glob("*.tess")):
        code = path.read_text(encoding="utf-8")
        found.add(f"examples/{path.name}", f"examples/{path.stem}.md", f"# {path.name}\n\n```tess\n{code}```\n")
    return found


def menu() -> Nav:
    return navigation(sections(), set(site().pages))


@cache
def linked_pages() -> dict[str, str]:
    """Every page, with links as they are inside the site. Raises BrokenLink."""
    origins = {place: source for source, place in site().places.items()}
    return {place: _relinked(text, origins[place], place) for place, text in site().pages.items()}


def _relinked(text: str, source: str, place: str) -> str:
    def moved(match: re.Match[str]) -> str:
        return _target(match[0], source, place)

    return _outside_code(text, lambda part: _LINK.sub(moved, part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts, last = [], 0
    for match in _CODE.finditer(text):
        parts += [change(text[last : match.start()]), match[0]]
        last = match.end()
    return "".join([*parts, change(text[last:])])


def _target(link: str, source: str, place: str) -> str:
    if _ELSEWHERE.match(link):
        return link
    path, hash_, anchor = link.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else source
    if wanted not in site().places:
        raise BrokenLink(f"{source} links to {link}: the site has no {wanted}")
    found = site().places[wanted]
    if anchor and found.endswith(".md") and anchor not in anchors(found):
        raise BrokenLink(f"{source} links to {link}: {wanted} has no such heading")
    return link if not path else posixpath.relpath(found, posixpath.dirname(place) or ".") + hash_ + anchor


@cache
def anchors(place: str) -> frozenset[str]:
    """The headings of a page as they stand in links."""
    text = _CODE.sub(lambda match: "" if "\n" in match[0] else match[0], site().pages[place])
    return frozenset(map(_slug, re.findall(r"^#+ (.+)$", text, re.MULTILINE)))


def _slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def links(place: str) -> Iterator[str]:
    """The pages of the site that a page links to."""
    for match in _LINK.finditer(_CODE.sub("", linked_pages()[place])):
        if not _ELSEWHERE.match(match[0]) and not match[0].startswith("#"):
            yield posixpath.normpath(posixpath.join(posixpath.dirname(place), match[0].partition("#")[0]))


def write(folder: Path) -> None:
    """All pages and pictures."""
    shutil.rmtree(folder, ignore_errors=True)
    for place, text in linked_pages().items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(ALONE + text if place == "index.md" else text, encoding="utf-8")
    for place, path in site().files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / place)
