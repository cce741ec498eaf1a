"""The public functions of the library and the examples of their doc strings, read off the text: to parse it takes
longer than to collect the tests. `tests/stdlib/test_stdlib.py` holds that a parser reads the same."""

from __future__ import annotations

import inspect
import re
from functools import cache

from tesserac.base.resources import stdlib_files

_DOCUMENTED = re.compile(r'^def ([a-zA-Z]\w*).*?"""(.*?)"""', re.MULTILINE | re.DOTALL)


def public_names() -> list[tuple[str, str]]:
    """Each with its file."""
    return list(docs())


@cache
def docs() -> dict[tuple[str, str], str]:
    """By file and name."""
    return {
        (path, name): inspect.cleandoc(doc)
        for path, text in stdlib_files().items()
        for name, doc in _DOCUMENTED.findall(text)
    }


def example_of(path: str, name: str) -> str:
    doc = docs()[path, name]
    return doc[doc.index("def ") :]
