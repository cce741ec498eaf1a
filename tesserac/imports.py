"""Files that a program imports: found, and checked before it.

Enters: a parsed module and the place of its file. Leaves: for each import the checked module, or why there is none, and
the files that were read, with digests, so that whoever keeps a result knows when it is stale.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from tessera.store import file_digest
from tesserac.base.source import SourceFile, Span
from tesserac.check.infer import CheckResult, Imported, check_module
from tesserac.check.resolve import LIBRARY_PATHS, ImportPath, ImportProblem
from tesserac.diag.codes.projects import E0947
from tesserac.diag.diagnostic import Diagnostic, Severity, Step
from tesserac.library import Library
from tesserac.project.layout import PACKAGE, SUFFIX
from tesserac.project.places import Place, Places
from tesserac.syntax import ast
from tesserac.syntax.files import read_source
from tesserac.syntax.parse import parse_module

Reads = tuple[tuple[str, str], ...]
"""Paths of files, each with the SHA-256 of its content; that of a file which is not there is empty."""


@dataclass(frozen=True)
class ImportedFile:
    source: SourceFile
    found: Imported
    reads: Reads


@dataclass
class _Reading:
    """A file whose imports are being followed, and the import that is followed now."""

    path: str
    shown: str
    at: Span


@dataclass
class Importer:
    """Checks every file once per folder of programs, as long as neither it nor what it imports changes: programs in
    one folder see a file under one name, whatever it is called from another folder. `own` names are taken."""

    library: Library
    own: frozenset[str]
    places: Places = field(default_factory=Places)
    files: dict[tuple[str, str], ImportedFile] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _under_way: list[_Reading] = field(default_factory=list)

    def imports_of(self, module: ast.Module, path: str) -> tuple[dict[ImportPath, Imported], Reads]:
        """What each import of a module means; `path` is the file that the module stands in."""
        self._under_way.append(_Reading(os.path.abspath(path), path, module.span))
        found: dict[ImportPath, Imported] = {}
        reads: dict[str, str] = {}
        for item in module.items:
            for wanted in _wanted(item):
                self._take(path, wanted, found, reads)
            if isinstance(item, ast.FromImport) and _is_file(item.path):
                self._take_below(path, item, found, reads)
        self._under_way.pop()
        return found, tuple(reads.items())

    def sources(self) -> dict[str, SourceFile]:
        """Every file read so far, by path."""
        return self.places.sources() | {path: file.source for (_, path), file in self.files.items()}

    def _take(
        self, path: str, wanted: ast.ModulePath, found: dict[ImportPath, Imported], reads: dict[str, str]
    ) -> None:
        self._under_way[-1].at = wanted.span
        place = self.places.find(path, wanted)
        reads.update((file, file_digest(file)) for file in place.looked_for)
        imported = self._file(place.file, wanted, place)
        found[wanted.dots, wanted.names] = imported.found
        reads.update(imported.reads)

    def _take_below(
        self, path: str, item: ast.FromImport, found: dict[ImportPath, Imported], reads: dict[str, str]
    ) -> None:
        """`from package import file`: where the package itself has no such name."""
        package = found[item.path.dots, item.path.names]
        defined = package.checker.names.public() if isinstance(package, CheckResult) else {}
        for imported in item.names:
            below = self.places.below(path, item.path, imported.name.id)
            if below is not None and imported.name.id not in defined:
                self._take(path, below, found, reads)

    def _file(self, path: str | None, wanted: ast.ModulePath, place: Place) -> ImportedFile:
        shown = "." * wanted.dots + ".".join(wanted.names)
        if path is None:
            said = f"there is no module `{shown}`"
            return _problem(place.looked_for[-1], ImportProblem(said, guess=place.guess))
        if place.others:
            both = " and ".join(f"`{file}`" for file in (path, *place.others))
            return _problem(path, ImportProblem(f"`{shown}` would mean two things: {both}"))
        if os.path.abspath(path) in [reading.path for reading in self._under_way]:
            return self._cycle(path)
        key = (self._folder, path)
        known = self.files.get(key)
        if known is None or not fresh(known.reads) or _is_cycle(known.found):
            known = self.files[key] = self._check(path, shown)
        return known

    @property
    def _folder(self) -> str:
        """Where the program is that imports."""
        return os.path.dirname(self._under_way[0].path)

    def _cycle(self, path: str) -> ImportedFile:
        """A file that is being read: the imports that lead from it to itself, each with its place."""
        paths = [reading.path for reading in self._under_way]
        through = self._under_way[paths.index(os.path.abspath(path)) :]
        names = [_stem(reading.path) for reading in (*through, through[0])]
        steps = tuple(
            Step(f"`{before}` imports `{after}`", reading.at)
            for reading, before, after in zip(through, names, names[1:], strict=False)
        )
        problem = ImportProblem(
            " -> ".join(names), code=E0947, steps=steps, cycle=frozenset(reading.path for reading in through)
        )
        return _problem(path, problem)

    def _check(self, path: str, shown: str) -> ImportedFile:
        source = read_source(path)
        if isinstance(source, Diagnostic):
            return _problem(path, ImportProblem(f"there is no module `{shown}`: {source.title}"))
        importing = self._under_way[-1].path
        parsed = parse_module(source)
        imports, reads = self.imports_of(parsed.module, path)
        name = self._name(path)
        result = check_module(parsed.module, source, name, self.library, imports, f"{name}.")
        said = (*parsed.diagnostics, *result.diagnostics)
        errors = [d for d in said if d.severity is Severity.ERROR]
        found: Imported = result
        if errors:
            through = (problem for problem in imports.values() if _is_cycle(problem, importing))
            found = next(through, None) or _has_errors(shown, errors)
        return ImportedFile(source, found, ((path, file_digest(path)), *reads))

    def _name(self, path: str) -> str:
        """What symbols of the module start with: the name of its file, unless that is taken."""
        key = (self._folder, path)
        if key not in self._names:
            taken = self.own | {name for (folder, _), name in self._names.items() if folder == self._folder}
            stem = _stem(path)
            numbered = (stem if n == 1 else f"{stem}_{n}" for n in range(1, len(taken) + 2))
            self._names[key] = next(name for name in numbered if name not in taken)
        return self._names[key]


def fresh(reads: Reads) -> bool:
    """Whether files are what they were when they were read."""
    return all(file_digest(path) == digest for path, digest in reads)


def _is_cycle(found: Imported, through: str = "") -> bool:
    """Whether files import each other, among them the one given."""
    return isinstance(found, ImportProblem) and bool(found.cycle) and (not through or through in found.cycle)


def _has_errors(shown: str, errors: list[Diagnostic]) -> ImportProblem:
    count = "an error" if len(errors) == 1 else f"{len(errors)} errors"
    return ImportProblem(f"`{shown}` has {count}", errors[0].primary.span, errors[0].title)


def _problem(path: str, problem: ImportProblem) -> ImportedFile:
    return ImportedFile(SourceFile(path, ""), problem, ((path, file_digest(path)),))


def _stem(path: str) -> str:
    """What a module is called: its file, or the folder that it stands for."""
    folder, name = os.path.split(path)
    stem = name.removesuffix(SUFFIX)
    return os.path.basename(os.path.abspath(folder)) if stem == PACKAGE else stem


def _wanted(item: ast.Item) -> Iterator[ast.ModulePath]:
    if isinstance(item, ast.Import):
        yield from (module.path for module in item.modules if _is_file(module.path))
    elif isinstance(item, ast.FromImport) and _is_file(item.path):
        yield item.path


def _is_file(path: ast.ModulePath) -> bool:
    return path.dots > 0 or path.names not in LIBRARY_PATHS
