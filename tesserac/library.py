"""The standard library, checked: restored from what packaging prepared, else parsed and checked now.

Enters: the files of `stdlib/`. Leaves: one `CheckResult` per file. A library with a mistake does not leave this room:
packaging fails, and so does every start from a checkout. See Note [A pickled library].
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping

from tessera import __version__
from tesserac.base.resources import shipped_library, stdlib_files
from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.diag.render import render
from tesserac.syntax.parse import parse_module

PRELUDE = "prelude.tess"
FOLDER = "stdlib"

Library = tuple[CheckResult, ...]


def load_library() -> Library:
    """Each module in the scope of those before it; the prelude is first."""
    files = stdlib_files()
    shipped = shipped_library()
    restored = decode_library(shipped, files) if shipped is not None else None
    return check_library(files) if restored is None else restored


def library_sources() -> dict[str, SourceFile]:
    """The files of the library by the path that spans have."""
    sources = (_source(path, text) for path, text in stdlib_files().items())
    return {source.path: source for source in sources}


def _source(path: str, text: str) -> SourceFile:
    return SourceFile(f"{FOLDER}/{path}", text)


def check_library(files: Mapping[str, str]) -> Library:
    modules: Library = ()
    for path in sorted(files, key=lambda p: (p != PRELUDE, p)):
        modules += (_check(_source(path, files[path]), modules),)
    return modules


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
# Parsing and checking the library takes 25 ms of every start that compiles something; restoring it takes 4. The pickle
# is made when the wheel is, out of the classes in the same wheel, and is read from the installed package only: whoever
# could change it could change the code beside it. What it holds besides trees and types are caches of the checker,
# whose keys are compared by value or are nodes of the same pickle. No hash is in it (see Dim.__getstate__).
