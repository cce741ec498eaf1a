"""Files that a program imports: found beside it, checked before it.

Enters: a parsed module and the place of its file. Leaves: for each import the checked module, or why there is none, and
the files that were read, with digests, so that whoever keeps a result knows when it is stale.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from tessera.store import file_digest
from tesserac.base.source import SourceFile
from tesserac.check.infer import Imported, check_module
from tesserac.check.resolve import LIBRARY_PATHS, ImportPath, ImportProblem
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.library import Library
from tesserac.syntax import ast
from tesserac.syntax.files import read_source
from tesserac.syntax.parse import parse_module

SUFFIX = ".tess"

Reads = tuple[tuple[str, str], ...]
"""Paths of files, each with the SHA-256 of its content."""


@dataclass(frozen=True)
class ImportedFile:
    source: SourceFile
    found: Imported
    reads: Reads


@dataclass
class Importer:
    """Checks every file once per folder of programs, as long as neither it nor what it imports changes: programs in
    one folder see a file under one name, whatever it is called from another folder. `own` names are taken."""

    library: Library
    own: frozenset[str]
    files: dict[tuple[str, str], ImportedFile] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _under_way: list[str] = field(default_factory=list)

    def imports_of(self, module: ast.Module, path: str) -> tuple[dict[ImportPath, Imported], Reads]:
        """What each import of a module means; `path` is the file that the module stands in."""
        self._under_way.append(os.path.normpath(path))
        found: dict[ImportPath, Imported] = {}
        reads: dict[str, str] = {}
        for wanted in _wanted(module):
            file = _place(path, wanted)
            imported = self._file(file, wanted)
            found[wanted.dots, wanted.names] = imported.found
            reads.update(imported.reads)
        self._under_way.pop()
        return found, tuple(reads.items())

    def _file(self, path: str, wanted: ast.ModulePath) -> ImportedFile:
        shown = "." * wanted.dots + ".".join(wanted.names)
        if path in self._under_way:
            through = [os.path.basename(p) for p in self._under_way[self._under_way.index(path) :]]
            cycle = " imports ".join([*through, os.path.basename(path)])
            return _problem(path, ImportProblem(f"`{shown}` is imported while it is being read: {cycle}"))
        key = (self._folder, path)
        known = self.files.get(key)
        if known is not None and fresh(known.reads):
            return known
        self.files[key] = self._check(path, shown)
        return self.files[key]

    @property
    def _folder(self) -> str:
        """Where the program is that imports."""
        return os.path.dirname(self._under_way[0])

    def _check(self, path: str, shown: str) -> ImportedFile:
        source = read_source(path)
        if isinstance(source, Diagnostic):
            return _problem(path, ImportProblem(f"there is no module `{shown}`: {source.title}"))
        parsed = parse_module(source)
        imports, reads = self.imports_of(parsed.module, path)
        name = self._name(path)
        result = check_module(parsed.module, source, name, self.library, imports, f"{name}.")
        said = (*parsed.diagnostics, *result.diagnostics)
        errors = [d for d in said if d.severity is Severity.ERROR]
        found: Imported = result
        if errors:
            count = "an error" if len(errors) == 1 else f"{len(errors)} errors"
            found = ImportProblem(f"`{shown}` has {count}", errors[0].primary.span, errors[0].title)
        return ImportedFile(source, found, ((path, file_digest(path)), *reads))

    def _name(self, path: str) -> str:
        """What symbols of the module start with: the name of its file, unless that is taken."""
        key = (self._folder, path)
        if key not in self._names:
            stem = os.path.basename(path).removesuffix(SUFFIX)
            taken = self.own | {name for (folder, _), name in self._names.items() if folder == self._folder}
            numbered = (stem if n == 1 else f"{stem}_{n}" for n in range(1, len(taken) + 2))
            self._names[key] = next(name for name in numbered if name not in taken)
        return self._names[key]


def fresh(reads: Reads) -> bool:
    """Whether files are what they were when they were read."""
    return all(file_digest(path) == digest for path, digest in reads)


def _problem(path: str, problem: ImportProblem) -> ImportedFile:
    return ImportedFile(SourceFile(path, ""), problem, ((path, file_digest(path)),))


def _wanted(module: ast.Module) -> Iterator[ast.ModulePath]:
    for item in module.items:
        paths = [m.path for m in item.modules] if isinstance(item, ast.Import) else []
        paths += [item.path] if isinstance(item, ast.FromImport) else []
        yield from (path for path in paths if path.dots or path.names not in LIBRARY_PATHS)


def _place(importing: str, wanted: ast.ModulePath) -> str:
    """The file of a module: beside the importing one; each dot after the first goes one folder up."""
    up = [os.pardir] * max(wanted.dots - 1, 0)
    return os.path.normpath(os.path.join(os.path.dirname(importing), *up, *wanted.names) + SUFFIX)
