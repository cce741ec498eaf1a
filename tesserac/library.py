"""The standard library, checked: restored from what packaging prepared or an earlier start kept, else checked now.

Enters: the files of `stdlib/`. Leaves: one `CheckResult` per file. A library with a mistake does not leave this room:
packaging fails, and so does every start from a checkout. See Note [A pickled library].
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path

from tessera import __version__
from tessera.toolchain import toolchain_key
from tesserac.base.cache import user_cache_dir, write_atomically
from tesserac.base.collecting import collection_paused
from tesserac.base.resources import shipped_library, stdlib_files
from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.diag.render import render
from tesserac.syntax.parse import parse_module

PRELUDE = "prelude.tess"
FOLDER = "stdlib"
_FIRST = (PRELUDE, "math", "random")

Library = tuple[CheckResult, ...]


def load_library() -> Library:
    """Each module in the scope of those before it; the prelude is first."""
    files = stdlib_files()
    cached = user_cache_dir() / library_name()
    for data in (shipped_library(), _read(cached)):
        restored = decode_library(data, files) if data is not None else None
        if restored is not None:
            return restored
    library = check_library(files)
    with contextlib.suppress(OSError):  # a read-only home only costs time
        write_atomically(cached, encode_library(library, files))
    return library


def library_name() -> str:
    """What the file in the user's cache is called that keeps the library of this compiler."""
    return f"library-{toolchain_key()[:32]}.pickle"


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def library_sources() -> dict[str, SourceFile]:
    """The files of the library by the path that spans have."""
    sources = (_source(path, text) for path, text in stdlib_files().items())
    return {source.path: source for source in sources}


def _source(path: str, text: str) -> SourceFile:
    return SourceFile(f"{FOLDER}/{path}", text)


def check_library(files: Mapping[str, str]) -> Library:
    modules: Library = ()
    for path in sorted(files, key=place_of):
        modules += (_check(_source(path, files[path]), modules),)
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
        raise AssertionError("the library has a mistake:\n" + render(diagnostic, {source.path: source}))
    return result


# ------------------------------------------------------------------------------------------------------- on disk


def encode_library(library: Library, files: Mapping[str, str]) -> bytes:
    return _key(files) + pickle.dumps(library, protocol=5)


def decode_library(data: bytes, files: Mapping[str, str]) -> Library | None:
    """The library that `encode_library` wrote; None if it was made of other files, or by another compiler."""
    key = _key(files)
    if not data.startswith(key):
        return None
    try:
        with collection_paused():
            library: Library = pickle.loads(data[len(key) :])
    except Exception:  # unpickling raises whatever it likes; the library is there as text too
        return None
    return library


def _key(files: Mapping[str, str]) -> bytes:
    digest = hashlib.sha256(__version__.encode())
    for path, text in sorted(files.items()):
        digest.update(f"\0{path}\0{text}".encode())
    return digest.digest()


# Note [A pickled library]
# Parsing and checking the library takes 100 ms of every start that compiles something; restoring it takes a tenth of
# that. A wheel carries the pickle, made out of the classes in the same wheel; a checkout keeps one in the user's cache,
# under a key that changes with every file of the compiler. Whoever could change either could change the code beside it,
# or the compiled programs that the cache holds. What it holds besides trees and types are caches of the checker, whose
# keys are compared by value or are nodes of the same pickle. No hash is in it (see Dim.__getstate__).
