"""A project as data: its name, the folders its modules lie in, and the projects it depends on.

Leaves `manifest.py`; read by whoever looks for a module. Folders are absolute.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic
from tesserac.syntax.files import MANIFEST as MANIFEST

SUFFIX = ".tess"
PACKAGE = "__init__"
"""The module that stands for its folder."""


@dataclass(frozen=True)
class Project:
    """`dependencies` are by the name that imports use. `files` are the project files read for all of it."""

    folder: str
    name: str
    version: str
    sources: tuple[str, ...]
    dependencies: dict[str, Project] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    def holds(self, path: str) -> bool:
        """Whether a file lies under one of the source folders."""
        return any(is_within(path, source) for source in self.sources)

    def modules(self) -> Iterator[str]:
        """Every file of the project, in the order of their paths; hidden folders are not looked into."""
        seen: set[str] = set()
        for source in self.sources:
            for path in files_below(source):
                if path not in seen:
                    seen.add(path)
                    yield path


def is_within(path: str, folder: str) -> bool:
    return os.path.commonpath([os.path.abspath(path), folder]) == folder


def files_below(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith(SUFFIX))


def module_file(folder: str, names: tuple[str, ...]) -> str | None:
    """The file of a module under a folder: `a/b.tess`, or `a/b/__init__.tess`."""
    base = os.path.join(folder, *names)
    candidates = (f"{base}{SUFFIX}", os.path.join(base, f"{PACKAGE}{SUFFIX}"))
    return next((path for path in candidates[0 if names else 1 :] if os.path.isfile(path)), None)
