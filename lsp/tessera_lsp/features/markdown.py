"""Text for people, in the Markdown that editors show."""

from __future__ import annotations

import inspect
import re


def code(text: str) -> str:
    return f"```tess\n{text}\n```"


def paragraphs(*parts: str) -> str:
    """The parts that say something, one below the other."""
    return "\n\n".join(part for part in parts if part)


def documentation(doc: str | None) -> str:
    """A docstring; a paragraph that begins with a definition is an example."""
    text = inspect.cleandoc(doc or "")
    pieces = re.split(r"\n\s*\n", text) if text else []
    return paragraphs(*(code(piece) if piece.lstrip().startswith(("def ", "@")) else piece for piece in pieces))
