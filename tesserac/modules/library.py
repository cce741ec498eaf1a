"""The standard library, checked: restored from what packaging prepared or an earlier start kept, else checked now.

Enters: the files of `stdlib/`. Leaves: one `CheckResult` per file. A library with a mistake does not leave this room:
packaging fails, and so does every start from a checkout. See Note [A library on disk].
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache

from tessera.cache import default_directory, read_entry, seal, unseal, write_entry
from tessera.interface import functions_text
from tessera.toolchain import toolchain_key
from tessera.version import __version__
from tesserac.base.codec import Codec
from tesserac.base.collecting import collection_paused
from tesserac.base.late import Fields, Late
from tesserac.base.long_work import tell
from tesserac.base.resources import shipped_library, stdlib_files
from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.check.module.stored import CHECKED, CHECKERS, LATE, NAMED, VALUES
from tesserac.entry.interface import hidden_of
from tesserac.syntax.parse import parse_module

PRELUDE = "prelude.tess"
FOLDER = "stdlib"
_FIRST = (PRELUDE, "math", "random")

Library = tuple[CheckResult, ...]


def load_library() -> Library:
    """Each module in the scope of those before it; the prelude is first. The sessions of a process share it."""
    return _loaded(library_key(stdlib_files()))


@lru_cache(1)
def _loaded(key: str) -> Library:
    shipped = shipped_library()
    kept = None if shipped is None else unseal(key, shipped)
    restored = _restored(kept or read_entry(default_directory(), library_name(), key))
    if restored is not None:
        return restored
    library = check_library(stdlib_files())
    write_entry(default_directory(), library_name(), key, _encoded(library))
    tell(len(library) + 1, len(library) + 1)
    return library


def library_name() -> str:
    """What the file in the user's cache is called that keeps the library of this compiler."""
    return f"library-{toolchain_key()[:32]}"


def library_sources(library: Library) -> Mapping[str, SourceFile]:
    """The files of the library by the path that spans have."""
    return library[-1].checker.sources() if library else {}


def _source(path: str, text: str) -> SourceFile:
    return SourceFile(f"{FOLDER}/{path}", text)


def check_library(files: Mapping[str, str]) -> Library:
    modules: Library = ()
    with collection_paused():
        for path in sorted(files, key=place_of):
            modules += (_check(_source(path, files[path]), modules),)
            tell(len(modules), len(files) + 1)
    for result in modules:  # each of which those behind it have asked for instances
        result.checker.types.clear()  # an editor asks for them, of the file that it shows
    return modules


def place_of(path: str) -> tuple[int, str]:
    """Where a file stands in the order: the prelude, then what the rest is written with, then the rest."""
    folder = path.partition("/")[0]
    return (_FIRST.index(folder) if folder in _FIRST else len(_FIRST)), path


def _check(source: SourceFile, before: Library) -> CheckResult:
    parsed = parse_module(source)
    name = source.path.removesuffix(".tess").replace("/", ".")
    result = check_module(parsed.module, source, name, before)
    for diagnostic in (*parsed.diagnostics, *result.diagnostics):
        from tesserac.diag.render import render

        raise AssertionError("the library has a mistake:\n" + render(diagnostic, {source.path: source}))
    result.checker.offered = functions_text(hidden_of(result.checker, ""))  # every program is asked for it
    return result


# ------------------------------------------------------------------------------------------------------- on disk


_MODULE: dict[type[Late], Fields] = {CheckResult: Fields(("module",), lambda result: result.checker.file)}
_CODEC = Codec((*CHECKED, CheckResult), CHECKERS, NAMED, {**LATE, **_MODULE}, VALUES)


def encode_library(library: Library, files: Mapping[str, str]) -> bytes:
    """The library as packaging ships it."""
    return seal(library_key(files), _encoded(library))


def _encoded(library: Library) -> bytes:
    with collection_paused():
        return _CODEC.encode(library)


def decode_library(data: bytes, files: Mapping[str, str]) -> Library | None:
    """The library that `encode_library` wrote; None if it was made of other files, or by another compiler."""
    return _restored(unseal(library_key(files), data))


def _restored(data: bytes | None) -> Library | None:
    if data is None:
        return None
    try:
        with collection_paused():
            library: Library = _CODEC.decode(data)
            return library
    except ValueError:  # of classes that have changed; the library is there as text too
        return None


def library_key(files: Mapping[str, str]) -> str:
    return _key_of(tuple(sorted(files.items())))


@lru_cache(2)
def _key_of(files: tuple[tuple[str, str], ...]) -> str:
    digest = hashlib.sha256(__version__.encode())
    for path, text in files:
        digest.update(f"\0{path}\0{text}".encode())
    return f"library {digest.hexdigest()}"


# Note [A library on disk]
# Parsing and checking the library takes seconds; restoring it takes a tenth of one. A wheel carries it, made out of the
# classes in the same wheel; a checkout keeps one in the user's cache, under a name that changes with every file of the
# compiler. What it holds besides trees and types are caches of the checker, whose keys are compared by value or are
# nodes of the same tree. Bodies, and what is known of functions, are restored file by file, signatures one by one, when
# they are first asked for: they are most of it, and a program calls functions of two to ten of a hundred files.
