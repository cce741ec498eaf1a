"""Files that a program imports: found, and checked before it.

Enters: a parsed module and the place of its file. Leaves: for each import the checked module, or why there is none, and
the files that were read, with digests, so that whoever keeps a result knows when it is stale.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from tessera.store import file_digest
from tesserac.base.dataclass import dataclass
from tesserac.base.records import Records
from tesserac.base.source import SourceFile, Span
from tesserac.check.infer import CheckResult, Imported, check_module
from tesserac.check.names.cascades import all_said
from tesserac.check.names.foreign_names import NO_IMPORT, is_of_python
from tesserac.check.names.resolve import LIBRARY_PATHS, ImportPath, ImportProblem
from tesserac.diag.check_record import Reads
from tesserac.diag.codes.projects import E0947
from tesserac.diag.diagnostic import Diagnostic, Severity, Step
from tesserac.modules.interfaces import interface_of, keep_interface, load_interface, restore
from tesserac.modules.library import Library
from tesserac.project.layout import PACKAGE, SUFFIX
from tesserac.project.places import Place, Places
from tesserac.syntax import ast
from tesserac.syntax.files import read_source
from tesserac.syntax.parse import ParseResult, parse_module


@dataclass(frozen=True)
class ImportedFile:
    """`said` is all there is to say about it, None where it was not checked. `imports` are the files it imports, each
    with the digest of its interface, and `digest` is that of its own; both are there where interfaces are kept."""

    source: SourceFile
    found: Imported
    reads: Reads
    said: tuple[Diagnostic, ...] | None = None
    module: ast.Module | None = None
    imports: Reads = ()
    digest: str = ""


@dataclass
class _Reading:
    """A file whose imports are being followed, and the import that is followed now."""

    path: str
    shown: str
    at: Span
    imports: dict[str, str] = field(default_factory=dict)


@dataclass
class Importer:
    """Checks every file once per folder of programs, as long as neither it nor what it imports changes: programs in
    one folder see a file under one name, whatever it is called from another folder. `own` names are taken.

    With `records` the interfaces of files are kept on disk and taken from there, so that what is found cannot be
    compiled; every file then has one name."""

    library: Library
    own: frozenset[str]
    records: Records | None = None
    suffix: str = ""
    """What names of modules end with, where they are beside those of another program."""
    places: Places = field(default_factory=Places)
    edited: dict[str, SourceFile] = field(default_factory=dict)
    """Files that are open in an editor: importers see these texts of them."""
    files: dict[tuple[str, str], ImportedFile] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _under_way: list[_Reading] = field(default_factory=list)
    _last_imports: Reads = ()

    def program(self, path: str) -> ImportedFile:
        """A file on its own, checked in any case. One without params is the same for those who import it."""
        key = (self._folder_of(path), path)
        known = self.files.get(key)
        if known is not None and known.said is not None and not _has_params(known.module) and self.fresh(known.reads):
            return known
        found = self._check(path, path, alone=True)
        if not _has_params(found.module):
            self.files[key] = found
        return found

    def interfaces_of(self, module: ast.Module, path: str) -> tuple[Reads, Reads]:
        """The files that a module imports, each with the digest of its interface, and all files read for that."""
        _, reads = self.imports_of(module, path)
        return self._last_imports, reads

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
        self._last_imports = tuple(sorted(self._under_way.pop().imports.items()))
        return found, tuple(reads.items())

    def sources(self) -> dict[str, SourceFile]:
        """Every file read so far, by path."""
        return self.places.sources() | {path: file.source for (_, path), file in self.files.items()}

    def _take(
        self, path: str, wanted: ast.ModulePath, found: dict[ImportPath, Imported], reads: dict[str, str]
    ) -> None:
        self._under_way[-1].at = wanted.span
        place = self.places.find(path, wanted)
        reads.update((file, self._digest(file)) for file in place.looked_for)
        imported = self._file(place.file, wanted, place)
        found[wanted.dots, wanted.names] = imported.found
        reads.update(imported.reads)
        if self.records is not None:
            self._under_way[-1].imports[imported.source.path] = imported.digest or repr(imported.found)

    def _take_below(
        self, path: str, item: ast.FromImport, found: dict[ImportPath, Imported], reads: dict[str, str]
    ) -> None:
        """`from package import file`: where the package itself has no such name."""
        package = found[item.path.dots, item.path.names]
        defined = package.checker.names.public if isinstance(package, CheckResult) else {}
        for imported in item.names:
            below = self.places.below(path, item.path, imported.name.id)
            if below is not None and imported.name.id not in defined:
                self._take(path, below, found, reads)

    def _file(self, path: str | None, wanted: ast.ModulePath, place: Place) -> ImportedFile:
        shown = "." * wanted.dots + ".".join(wanted.names)
        if path is None:
            said = f"there is no module `{shown}`"
            foreign = is_of_python(wanted)
            problem = ImportProblem(said, remark=NO_IMPORT) if foreign else ImportProblem(said, guess=place.guess)
            return _problem(place.looked_for[-1], problem)
        if place.others:
            both = " and ".join(f"`{file}`" for file in (path, *place.others))
            return _problem(path, ImportProblem(f"`{shown}` would mean two things: {both}"))
        if os.path.abspath(path) in [reading.path for reading in self._under_way]:
            return self._cycle(path)
        key = (self._folder, path)
        known = self.files.get(key)
        if known is None or not self.fresh(known.reads) or _is_cycle(known.found):
            known = self.files[key] = self._check(path, shown)
        return known

    @property
    def _folder(self) -> str:
        """Where the program is that imports."""
        return self._folder_of(self._under_way[0].path)

    def _folder_of(self, path: str) -> str:
        return os.path.dirname(os.path.abspath(path)) if self.records is None else ""

    def fresh(self, reads: Reads) -> bool:
        """Whether files are what they were when they were read."""
        if self.records is not None:
            return self.records.fresh(reads)
        return all(self._digest(path) == digest for path, digest in reads)

    def _digest(self, path: str) -> str:
        if path in self.edited:
            return hashlib.sha256(self.edited[path].text.encode("utf-8", "surrogatepass")).hexdigest()
        return file_digest(path) if self.records is None else self.records.digest(path)

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

    def _check(self, path: str, shown: str, *, alone: bool = False) -> ImportedFile:
        """`alone`: as a program, whose params have short names, and with all there is to say."""
        source = self.edited.get(path) or read_source(path)
        if isinstance(source, Diagnostic):
            return _problem(path, ImportProblem(f"there is no module `{shown}`: {source.title}"))
        name = self._name(path)
        kept = load_interface(self.records, path, name) if self.records is not None else None
        parsed = parse_module(source) if kept is None else ParseResult(kept.module, ())
        imports, reads = self.imports_of(parsed.module, path)
        direct, reads = self._last_imports, ((path, self._digest(path)), *reads)
        if kept is not None and kept.imports == direct and not alone:
            restored = restore(kept, source, self.library, imports)
            return ImportedFile(source, restored, reads, imports=direct, digest=kept.digest)
        short = alone and _has_params(parsed.module)
        result = check_module(parsed.module, source, name, self.library, imports, "" if short else f"{name}.")
        said = tuple(all_said(source, parsed.diagnostics, result.diagnostics))
        found = self._found(result, said, shown, imports)
        file = ImportedFile(source, found, reads, said, parsed.module, direct)
        return file if short or isinstance(found, ImportProblem) else self._kept(file, found)

    def _found(
        self,
        result: CheckResult,
        said: tuple[Diagnostic, ...],
        shown: str,
        imports: Mapping[ImportPath, Imported],
    ) -> Imported:
        """What importers get."""
        errors = [d for d in said if d.severity is Severity.ERROR]
        if not errors:
            return result
        importing = self._under_way[-1].path if self._under_way else ""
        through = (problem for problem in imports.values() if importing and _is_cycle(problem, importing))
        return next(through, None) or _has_errors(shown, errors)

    def _kept(self, file: ImportedFile, result: CheckResult) -> ImportedFile:
        """The same with its interface written down, where interfaces are."""
        if self.records is None or file.module is None:
            return file
        path = file.source.path
        interface = interface_of(result, file.module, file.source, self._digest(path), file.imports)
        keep_interface(self.records, path, interface)
        return replace(file, digest=interface.digest)

    def _name(self, path: str) -> str:
        """What symbols of the module start with: the name of its file, unless that is taken."""
        within = self._folder if self._under_way else self._folder_of(path)
        key = (within, path)
        if key not in self._names:
            named = (name for (folder, _), name in self._names.items() if folder == within)
            taken = self.own | {name.removesuffix(self.suffix) for name in named}
            stem = _stem(path)
            numbered = (stem if n == 1 else f"{stem}_{n}" for n in range(1, len(taken) + 2))
            self._names[key] = next(name for name in numbered if name not in taken) + self.suffix
        return self._names[key]


def _is_cycle(found: Imported, through: str = "") -> bool:
    """Whether files import each other, among them the one given."""
    return isinstance(found, ImportProblem) and bool(found.cycle) and (not through or through in found.cycle)


def _has_params(module: ast.Module | None) -> bool:
    return module is not None and any(isinstance(item, ast.ParamDecl) for item in module.items)


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
