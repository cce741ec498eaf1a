"""Reading `tessera.toml`.

    [project]
    name = "vision"
    version = "0.1.0"
    sources = ["src"]

    [dependencies]
    layers = { path = "../layers", version = "1.2" }

Enters: a folder, or a file in one. Leaves: the `Project`, with a diagnostic for every mistake in its file; what is
wrong is left out, so that the rest still means what it says.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.projects import E0940, E0941, E0942, E0943, E0944, E0945, E0948
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.sink import Draft, Sink
from tesserac.project.layout import MANIFEST, Project, module_file
from tesserac.syntax.files import project_folder, read_source

TABLES = ("project", "dependencies")
PROJECT_KEYS = ("name", "version", "sources")
DEPENDENCY_KEYS = ("path", "version")
LIBRARY = "tessera"

_NAME = re.compile(r"[^\W\d]\w*")
_VERSION = re.compile(r"\d+(\.\d+)*([-+.]?\w+)*")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

Chain = tuple[tuple[str, Span], ...]
"""Folders of the projects that are being read, each with the place that asks for it."""


def find_manifest(path: str) -> str | None:
    """The project file of a file or folder: the nearest one above."""
    folder = project_folder(os.path.abspath(path))
    return None if folder is None else os.path.join(folder, MANIFEST)


def read_project(manifest: str, chain: Chain = ()) -> Project:
    source = read_source(manifest)
    folder = os.path.dirname(os.path.abspath(manifest))
    if isinstance(source, Diagnostic):
        return Project(folder, os.path.basename(folder), "", (folder,), diagnostics=(source,))
    return _Manifest(source, folder, chain).project()


class _Manifest:
    """One file, as it is read."""

    def __init__(self, source: SourceFile, folder: str, chain: Chain) -> None:
        self.source = source
        self.folder = folder
        self.sink = Sink()
        self._chain = chain

    def project(self) -> Project:
        tables = self._tables
        self._known_keys(tables, TABLES, "a project file", ())
        own = self._table(tables, "project")
        self._known_keys(own, PROJECT_KEYS, "`[project]`", ("project",))
        name = self._name(own)
        version = self._text(own, "version", "0.0.0", _VERSION, "a version such as `0.1.0`")
        sources = self._sources(own)
        found = self._dependencies(self._table(tables, "dependencies"), name, sources)
        files = (self.source, *(file for project in found.values() for file in project.files))
        below = [diagnostic for project in found.values() for diagnostic in project.diagnostics]
        said = dict.fromkeys((*self.sink.diagnostics, *below))
        return Project(self.folder, name, version, sources, found, tuple(dict.fromkeys(files)), tuple(said))

    @cached_property
    def _tables(self) -> Mapping[str, object]:
        import tomllib  # here: most programs stand in no project

        try:
            return tomllib.loads(self.source.text)
        except tomllib.TOMLDecodeError as problem:
            text = str(problem)
            place = _PLACE.search(text)
            line, column = (int(n) for n in place.groups()) if place and place[1] else self._last_place
            at = self.source.offset(line, column)
            reason = _PLACE.sub("", text)
            self.sink.error(E0940, at=self.source.span(at, at + 1), reason=reason[:1].lower() + reason[1:])
            return {}

    @property
    def _last_place(self) -> tuple[int, int]:
        return self.source.position(len(self.source.text.rstrip()))

    # --------------------------------------------------------------------------------------------------- values

    def _table(self, tables: Mapping[str, object], name: str) -> Mapping[str, object]:
        table = tables.get(name, {})
        if isinstance(table, dict):
            return table
        self._wrong((name,), f"`{name}`", f"a table: write `[{name}]` on a line of its own")
        return {}

    def _known_keys(
        self, table: Mapping[str, object], known: Sequence[str], where: str, path: tuple[str, ...]
    ) -> None:
        for key in table:
            if key in known:
                continue
            at = self._key_span((*path, key))
            draft = self.sink.error(E0941, at=at, key=key, table=where)
            guess = next(iter(difflib.get_close_matches(key, known, n=1)), None)
            if guess is not None:
                draft.replace(f"did you mean `{guess}`?", at, guess)
            draft.remark(f"known here: {', '.join(f'`{name}`' for name in known)}")

    def _wrong(self, path: tuple[str, ...], what: str, wanted: str) -> Draft:
        return self.sink.error(E0942, at=self._key_span(path), what=what, wanted=wanted)

    def _text(self, own: Mapping[str, object], key: str, default: str, form: re.Pattern[str], wanted: str) -> str:
        value = own.get(key, default)
        if isinstance(value, str) and form.fullmatch(value):
            return value
        self._wrong(("project", key), f"`{key}`", wanted)
        return default

    def _name(self, own: Mapping[str, object]) -> str:
        if "name" in own:
            return self._text(own, "name", "", _NAME, 'a name as imports write it, such as `"vision"`')
        if self._tables:
            self._wrong(("project",), "the name of a project", "given").remark('write `name = "..."` under `[project]`')
        return ""

    def _sources(self, own: Mapping[str, object]) -> tuple[str, ...]:
        value = own.get("sources", ["."])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or not value:
            self._wrong(("project", "sources"), "`sources`", 'a list of folders, such as `["src"]`')
            return (self.folder,)
        return tuple(folder for item in value if (folder := self._folder(("project", "sources"), item, "a source")))

    def _folder(self, path: tuple[str, ...], text: str, what: str) -> str | None:
        folder = os.path.normpath(os.path.join(self.folder, text))
        if os.path.isdir(folder):
            return folder
        wanted = f"{what} folder, from where {MANIFEST} lies"
        self.sink.error(E0943, at=self._value_span(path, text), path=text, wanted=wanted)
        return None

    # --------------------------------------------------------------------------------------------- dependencies

    def _dependencies(
        self, table: Mapping[str, object], own: str, sources: Sequence[str]
    ) -> dict[str, Project]:
        found: dict[str, Project] = {}
        for name, value in table.items():
            if not self._is_free(name, own, sources):
                continue
            project = self._dependency(name, value)
            if project is not None:
                found[name] = project
        return found

    def _is_free(self, name: str, own: str, sources: Sequence[str]) -> bool:
        """Whether an import of that name can only mean the dependency."""
        at = self._key_span(("dependencies", name))
        beside = (path for folder in sources if (path := module_file(folder, (name,))) is not None)
        taken = "the library" if name == LIBRARY else "this project" if name == own else next(beside, None)
        if taken is None:
            return True
        first = taken if name in (LIBRARY, own) else f"the file `{os.path.relpath(taken, self.folder)}`"
        self.sink.error(E0945, at=at, name=name, first=first, second="this dependency").remark(
            f"rename it here: the name before `=` is the one that imports use, whatever `{name}` calls itself"
        )
        return False

    def _dependency(self, name: str, value: object) -> Project | None:
        key = ("dependencies", name)
        path = value.get("path") if isinstance(value, dict) else value
        if isinstance(value, dict):
            self._known_keys(value, DEPENDENCY_KEYS, f"the dependency `{name}`", key)
        if not isinstance(path, str):
            self._wrong(key, "a dependency", f'a path: write `{name} = {{ path = "../{name}" }}`')
            return None
        folder = self._folder(key, path, "a dependency's")
        project = self._project_in(folder, name, path) if folder is not None else None
        if project is not None and isinstance(value, dict) and "version" in value:
            self._check_version(project, name, value["version"])
        return project

    def _check_version(self, project: Project, name: str, asked: object) -> None:
        """What is asked for are the first numbers of a version: `1.2` is any `1.2.x`."""
        if not isinstance(asked, str) or not _VERSION.fullmatch(asked):
            self._wrong(("dependencies", name), f"the `version` of `{name}`", "a version such as `1.2`")
            return
        wanted, found = asked.split("."), project.version.split(".")
        if found[: len(wanted)] != wanted:
            at = self._value_span(("dependencies", name), asked)
            draft = self.sink.error(E0948, at=at, name=name, asked=asked, found=project.version)
            draft.remark("it is used as it is: a path leads to one version, whatever is asked for")
            draft.replace("ask for what is there", at, f'"{project.version}"')

    def _project_in(self, folder: str, name: str, text: str) -> Project | None:
        at = self._value_span(("dependencies", name), text)
        manifest = os.path.join(folder, MANIFEST)
        if not os.path.isfile(manifest):
            wanted = "a dependency is a folder with a project file"
            self.sink.error(E0943, at=at, path=f"{text}/{MANIFEST}", wanted=wanted)
            return None
        chain = (*self._chain, (self.folder, at))
        folders = [before for before, _ in chain]
        if folder in folders:
            self._cycle(chain[folders.index(folder) :])
            return None
        return read_project(_beside(self.source.path, manifest), chain)

    def _cycle(self, chain: Chain) -> None:
        """Told where it closes, with the place in every file that leads on."""
        names = [os.path.basename(folder) for folder, _ in (*chain, chain[0])]
        draft = self.sink.error(E0944, at=chain[-1][1], cycle=" -> ".join(names))
        for (_, at), before, after in zip(chain, names, names[1:], strict=False):
            draft.because(f"`{before}` depends on `{after}`", at)

    # --------------------------------------------------------------------------------------------------- places

    def _key_span(self, path: tuple[str, ...]) -> Span:
        """Where a key stands. TOML has many ways to write one; those that are not found are told at the top."""
        start, end = self._section(path[0])
        if len(path) == 1:
            header = re.compile(rf"^[ \t]*\[?[ \t]*(?P<key>{re.escape(path[0])})\b", re.MULTILINE)
            return self._match(header, 0, len(self.source.text)) or self.source.span(0, 0)
        pattern = re.compile(rf"(?<![\w-])(?P<key>{re.escape(path[-1])})\"?\s*[=.\]]")
        return self._match(pattern, start, end) or self.source.span(start, start)

    def _value_span(self, path: tuple[str, ...], text: str) -> Span:
        start, end = self._section(path[0])
        key = self._key_span(path)
        pattern = re.compile(rf"(?P<key>[\"']{re.escape(text)}[\"'])")
        return self._match(pattern, max(start, key.start), end) or key

    def _section(self, table: str) -> tuple[int, int]:
        """The text from the header of a table to that of another."""
        header = re.compile(rf"^[ \t]*\[[ \t]*{re.escape(table)}[ \t]*[.\]]", re.MULTILINE)
        found = header.search(self.source.text)
        if found is None:
            return 0, len(self.source.text)
        after = re.compile(rf"^[ \t]*\[(?![ \t]*{re.escape(table)}\b)", re.MULTILINE)
        end = after.search(self.source.text, found.end())
        return found.start(), end.start() if end else len(self.source.text)

    def _match(self, pattern: re.Pattern[str], start: int, end: int) -> Span | None:
        found = pattern.search(self.source.text, start, end)
        return self.source.span(found.start("key"), found.end("key")) if found else None


def _beside(shown: str, path: str) -> str:
    """A path as a reader of `shown` expects it: from the same folder where that one is relative."""
    return path if os.path.isabs(shown) else os.path.relpath(path)
