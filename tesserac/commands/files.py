"""Which programs a command is about: files, the programs in folders, or a whole project; and their texts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tessera.files import write_file
from tesserac.base.resources import library_file
from tesserac.base.source import SourceFile
from tesserac.commands.outcome import UsageMistake
from tesserac.diag.diagnostic import Diagnostic
from tesserac.project.layout import MANIFEST, Project, files_below
from tesserac.project.manifest import find_manifest, read_project
from tesserac.syntax.files import read_source


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


def wanted_files(paths: Sequence[str]) -> tuple[list[str], list[Diagnostic]]:
    """The programs that paths name, or without any those of the project here; and what is wrong with their project
    files, each once. Raises UsageMistake."""
    here = None if paths else project_here()
    files = program_files(paths) if here is None else files_of(here)
    found = (find_manifest(os.path.dirname(os.path.abspath(path))) for path in files)
    manifests = dict.fromkeys(manifest for manifest in found if manifest is not None)
    said = [d for manifest in manifests for d in read_project(os.path.relpath(manifest)).diagnostics]
    mistakes = list(dict.fromkeys((*(here.diagnostics if here is not None else ()), *said)))
    if not files and not mistakes:
        raise UsageMistake("this project has no .tess files")
    return files, mistakes


class FoundSources(Mapping[str, SourceFile]):
    """Any file that a diagnostic speaks of, read when it is asked for; those of the library by the path spans have."""

    def __init__(self) -> None:
        self._read: dict[str, SourceFile] = {}

    def __getitem__(self, path: str) -> SourceFile:
        if path not in self._read:
            found = read_source(library_file(path) or path)
            if isinstance(found, Diagnostic):
                raise KeyError(path)
            self._read[path] = SourceFile(path, found.text)
        return self._read[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


def rewrite(path: Path, text: str) -> None:
    """Puts another text into a program's file, in one step. Raises UsageMistake."""
    try:
        write_file(path, text.encode())
    except OSError as problem:
        raise UsageMistake(f"cannot write `{path}`: {(problem.strerror or str(problem)).lower()}") from None
