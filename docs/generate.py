"""The generated pages: `docs/softmax.md`, `docs/operators.md`, `docs/where.md`, the last section of `docs/language.md`,
and the tables of `docs/differentiation.md`.

`make docs` writes them; a test compares them with what the compiler gives now. Code is shown for two fixed processors
and one GPU, never for the machine this runs on, so the pages are the same everywhere.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.corners import corner_section
from docs.later import later_section
from docs.reference import reference
from docs.walk import walk_through
from docs.where import where_page

FOLDER = Path(__file__).parent
_LATER = re.compile(r"(?<=<!-- generated: later -->\n).*?(?=<!-- end -->)", re.DOTALL)
_CORNERS = re.compile(r"(?<=<!-- generated: corners -->\n).*?(?=<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Every generated page with its text."""
    language, derivatives = FOLDER / "language.md", FOLDER / "differentiation.md"
    later, corners = later_section(), corner_section()
    return {
        FOLDER / "softmax.md": walk_through(),
        FOLDER / "operators.md": reference(),
        FOLDER / "where.md": where_page(),
        language: _LATER.sub(lambda _: later, language.read_text(encoding="utf-8")),
        derivatives: _CORNERS.sub(lambda _: corners, derivatives.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
