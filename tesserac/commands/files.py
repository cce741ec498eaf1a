"""Which programs a command is about: files, the programs in folders, or a whole project."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tesserac.commands.outcome import UsageMistake
from tesserac.project.layout import MANIFEST, Project, files_below
from tesserac.project.manifest import find_manifest, read_project


def program_files(paths: Sequence[str]) -> list[str]:
    """Files as they are named, and those in folders. Raises UsageMistake for a folder without programs."""
    found: dict[str, None] = {}
    for path in paths:
        inside = list(files_below(path)) if os.path.isdir(path) else [path]
        if not inside:
            raise UsageMistake(f"there are no .tess files in `{path}`")
        found.update(dict.fromkeys(inside))
    return list(found)


def project_here() -> Project:
    """The project of the current folder. Raises UsageMistake where there is none."""
    manifest = find_manifest(os.getcwd())
    if manifest is None:
        raise UsageMistake(f"name a file: there is no {MANIFEST} here or in a folder above")
    return read_project(os.path.relpath(manifest))


def files_of(project: Project) -> list[str]:
    """Every program of a project, by its path from the current folder."""
    return [os.path.relpath(path) for path in project.modules()]
