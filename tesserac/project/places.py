"""Where the file of an imported module lies.

Enters: the importing file and the path that the import writes. Leaves: the file, or what to say of its absence, and
every file that was looked for: a result kept for later is stale once one of them appears or changes.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import field, replace

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.check.names.resolve import LIBRARY_PATHS
from tesserac.project.layout import PACKAGE, SUFFIX, Project, module_file
from tesserac.syntax import ast


@dataclass(frozen=True)
class Place:
    """`file` is None where there is none; `guess` then is what the import may have meant. `others` are files that the
    import could mean as well."""

    file: str | None
    looked_for: tuple[str, ...]
    others: tuple[str, ...] = ()
    guess: str = ""


@dataclass
class Places:
    """Knows the projects that files belong to. A project file is read again when it has changed."""

    _projects: dict[str, tuple[tuple[str, ...], Project]] = field(default_factory=dict)

    def project_of(self, path: str) -> Project | None:
        from tesserac.project.manifest import find_manifest, read_project

        manifest = find_manifest(os.path.dirname(os.path.abspath(path)))
        if manifest is None:
            return None
        known = self._projects.get(manifest)
        if known is None or known[0] != _stamps(known[1], manifest):
            project = read_project(_like(path, manifest))
            self._projects[manifest] = known = (_stamps(project, manifest), project)
        return known[1]

    def sources(self) -> dict[str, SourceFile]:
        """The project files read so far, by path."""
        return {file.path: file for _, project in self._projects.values() for file in project.files}

    def find(self, importing: str, wanted: ast.ModulePath) -> Place:
        """The file of a module. One that is written with dots lies where they say; any other in a source folder of the
        project, in a dependency of that name, or, for a file outside of source folders, beside it."""
        project = self.project_of(importing)
        manifests = [file.path for file in project.files] if project is not None else []
        bases = _bases(importing, wanted, project)
        found = [file for folder, names in bases if (file := module_file(folder, names)) is not None]
        files = list(dict.fromkeys(_like(importing, file) for file in found))
        looked_for = [_like(importing, c) for folder, names in bases for c in _candidates(folder, names)]
        if files:
            return Place(files[0], (*manifests, *looked_for), tuple(files[1:]))
        return Place(None, (*manifests, *looked_for), guess=_guess(importing, bases, wanted, project))

    def below(self, importing: str, package: ast.ModulePath, name: str) -> ast.ModulePath | None:
        """The module that `from package import name` means, if it means a file."""
        path = ast.ModulePath(package.span, package.dots, (*package.names, name))
        return path if self.find(importing, path).file is not None else None


Base = tuple[str, tuple[str, ...]]
"""A folder, and the names that lead on from there."""


def _bases(importing: str, wanted: ast.ModulePath, project: Project | None) -> list[Base]:
    beside = os.path.dirname(os.path.abspath(importing))
    if wanted.dots:
        up = [os.pardir] * (wanted.dots - 1)
        return [(os.path.normpath(os.path.join(beside, *up)), wanted.names)]
    if project is None:
        return [(beside, wanted.names)]
    first, rest = wanted.names[0], wanted.names[1:]
    folders = project.sources if project.holds(importing) else (beside, *project.sources)
    bases = [(folder, wanted.names) for folder in dict.fromkeys(folders)]
    bases += [(folder, rest) for folder in project.sources if first == project.name]
    dependency = project.dependencies.get(first)
    return bases + [(folder, rest) for folder in (dependency.sources if dependency is not None else ())]


def _candidates(folder: str, names: tuple[str, ...]) -> list[str]:
    base = os.path.join(folder, *names)
    package = os.path.join(base, f"{PACKAGE}{SUFFIX}")
    return [f"{base}{SUFFIX}", package] if names else [package]


def _guess(importing: str, bases: list[Base], wanted: ast.ModulePath, project: Project | None) -> str:
    """The nearest name among the modules where the last folder is that exists, or among the dependencies; none that
    leads nowhere either."""
    dependencies = list(project.dependencies) if project is not None and not wanted.dots else []
    for folder, names in bases:
        for depth in range(len(names)):
            inside = _modules_in(os.path.join(folder, *names[:depth])) + (dependencies if depth == 0 else [])
            close = difflib.get_close_matches(names[depth], inside, n=1, cutoff=0.7)
            if close and close[0] != names[depth]:
                taken = len(wanted.names) - len(names)
                guessed = (*wanted.names[:taken], *names[:depth], close[0], *names[depth + 1 :])
                if _is_module(importing, replace(wanted, names=guessed), project):
                    return "." * wanted.dots + ".".join(guessed)
    library = difflib.get_close_matches(".".join(wanted.names), map(".".join, LIBRARY_PATHS), n=1, cutoff=0.75)
    return library[0] if library and not wanted.dots else ""


def _is_module(importing: str, path: ast.ModulePath, project: Project | None) -> bool:
    """Whether a path leads to a file, or to a folder of files."""
    places = [os.path.join(folder, *names) for folder, names in _bases(importing, path, project)]
    return any(os.path.isdir(place) or os.path.isfile(f"{place}{SUFFIX}") for place in places)


def _modules_in(folder: str) -> list[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return []
    files = [e.name.removesuffix(SUFFIX) for e in entries if e.name.endswith(SUFFIX)]
    folders = [e.name for e in entries if e.is_dir() and e.name.isidentifier()]
    return sorted(name for name in (*files, *folders) if name != PACKAGE)


def _like(shown: str, path: str) -> str:
    """A path as a reader of `shown` expects it: from the folder where he is, if that one is so."""
    return path if os.path.isabs(shown) else os.path.relpath(path)


def _stamps(project: Project, manifest: str) -> tuple[str, ...]:
    """When the files of a project were last written."""
    paths = [manifest, *(file.path for file in project.files)]
    return tuple(f"{path}:{os.stat(path).st_mtime_ns}" if os.path.exists(path) else path for path in paths)
