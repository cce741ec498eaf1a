"""The generated pages and pictures, and the generated parts of pages that people write.

`make docs` writes them; a test compares them with what the compiler gives now. Code is shown for two fixed processors
and one GPU, never for the machine this runs on, so the pages are the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path

from docs.corners import corner_section
from docs.equivalents import equivalents_page
from docs.errors import errors_page
from docs.interfaces import commands_page, python_page
from docs.ir_spec import ir_page
from docs.later import later_section
from docs.machines import machines_page
from docs.numbers import bits_section, bounds_section
from docs.performance import charts, performance_page
from docs.pictures import pictures
from docs.readme import figures_section, gpu_refused_section, gpu_runs_section, where_section
from docs.reference import reference
from docs.walk import walk_through
from docs.where import where_page

FOLDER = Path(__file__).parent
README = FOLDER.parent / "README.md"
_PART = re.compile(r"(?<=<!-- generated: )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
SIMPLE: dict[str, Callable[[], str]] = {
    "errors.md": errors_page,
    "equivalents.md": equivalents_page,
    "commands.md": commands_page,
    "python.md": python_page,
    "ir.md": ir_page,
    "machines.md": machines_page,
    "performance.md": performance_page,
}
"""Whole pages that say what is declared."""
COMPILED: dict[str, Callable[[], str]] = {"softmax.md": walk_through, "where.md": where_page}
"""Whole pages that show what becomes of programs."""


def pages() -> dict[Path, str]:
    """Every generated page and picture with its text."""
    return declared_pages() | compiled_pages()


def declared_pages() -> dict[Path, str]:
    """What follows from declarations and from files; making it takes two seconds."""
    whole = {name: page() for name, page in SIMPLE.items()} | reference() | pictures() | charts()
    return {FOLDER / name: text for name, text in whole.items()} | {
        FOLDER / "language.md": _filled("language.md", later=later_section()),
        FOLDER / "differentiation.md": _filled("differentiation.md", corners=corner_section()),
        FOLDER / "numerics.md": _filled("numerics.md", bounds=bounds_section(), bits=bits_section()),
    }


def compiled_pages() -> dict[Path, str]:
    """What follows from compiling programs for every target; making it takes ten seconds."""
    gpu = _filled("learn/09-gpu.md", runs=gpu_runs_section(), refused=gpu_refused_section())
    return {FOLDER / name: page() for name, page in COMPILED.items()} | {
        FOLDER / "learn/09-gpu.md": gpu,
        README: _filled("../README.md", where=where_section(), figures=figures_section()),
    }


def _filled(name: str, **parts: str) -> str:
    """A page with its generated parts replaced; each of them stands in it."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert {match[1] for match in _PART.finditer(text)} == set(parts), name
    return _PART.sub(lambda match: match[1] + match[2] + parts[match[1]], text)


def strays(kept: Collection[Path]) -> list[Path]:
    """Generated pages of things that are no longer there."""
    found = [*(FOLDER / "operators").glob("*.md"), *(FOLDER / "pictures").glob("*.svg")]
    return [path for path in found if path not in kept]


def write(found: dict[Path, str]) -> None:
    for path, text in found.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> None:
    found = pages()
    write(found)
    for path in strays(found):
        path.unlink()


if __name__ == "__main__":
    main()
