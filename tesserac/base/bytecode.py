"""The compiler's modules in one file of the user's cache: a start reads it in place of hundreds of files of bytecode.

Enters: nothing. Leaves: a finder that Python asks first, which knows the modules that earlier processes have imported.
See Note [One file of bytecode].
"""

from __future__ import annotations

import atexit
import hashlib
import marshal
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, spec_from_file_location
from types import CodeType, ModuleType
from typing import NamedTuple

from tessera.cache import cache_key, default_directory, distrust, make_private, seal, unseal
from tessera.files import PRIVATE_FILE, read_file, write_file
from tessera.toolchain import toolchain_key

PACKAGE = __name__.partition(".")[0]
MANY = 32
"""Modules that the file does not have and a process has imported, for which it is written anew."""
_NUMBER = 8
"""Bytes that say how long the table is, with which the file begins."""


class Place(NamedTuple):
    """Where the text of a module lies; where in the file its code, and the checksum of that."""

    origin: str
    is_package: bool
    start: int
    end: int
    checksum: int


class Modules:
    """The finder, over what a file holds."""

    def __init__(self, path: str, places: Mapping[str, Place], codes: memoryview) -> None:
        self.path = path
        self.places = places
        self._codes = codes

    def code(self, name: str) -> memoryview | None:
        """That of a module, as `marshal` writes it; None where the file is damaged."""
        place = self.places[name]
        code = self._codes[place.start : place.end]
        return code if _checksum(code) == place.checksum else None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What `sys.meta_path` asks its members for. None: the next is asked."""
        place = self.places.get(name)
        code = None if place is None else self.code(name)
        if place is None or code is None:
            return None
        inside = [os.path.dirname(place.origin)] if place.is_package else None
        loader = _Loader(name, place.origin, code)
        spec = spec_from_file_location(name, place.origin, loader=loader, submodule_search_locations=inside)
        if spec is not None:
            spec.cached = self.path
        return spec


class _Loader(SourceFileLoader):
    """Python's own, which knows the text and the resources of a module; only the code comes from elsewhere."""

    def __init__(self, name: str, origin: str, code: memoryview) -> None:
        super().__init__(name, origin)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        code = marshal.loads(self._code)
        assert isinstance(code, CodeType)
        return code


def find_modules_at_once() -> None:
    """Has Python find the compiler's modules in the file from now on, and the file have those of this process in the
    end."""
    try:
        key = cache_key([toolchain_key(), sys.implementation.cache_tag, MAGIC_NUMBER, str(sys.flags.optimize)])
    except ModuleNotFoundError:  # there is no LLVM, of which the key tells too: nothing will be compiled
        return
    modules = read_modules(_path(), key)
    sys.meta_path.insert(0, modules)
    if not sys.dont_write_bytecode:
        atexit.register(_complete, modules, key)


def _path() -> str:
    """One for each place where a compiler lies, and each Python."""
    place = hashlib.sha256(os.path.dirname(__file__).encode("utf-8", "surrogateescape")).hexdigest()
    return os.path.join(default_directory(), f"modules-{sys.implementation.cache_tag}-{place[:16]}")


def read_modules(path: str, key: str) -> Modules:
    """What was written under this key: nothing where there is no such file, or where it is not trusted."""
    try:
        data = b"" if distrust(os.path.dirname(path)) else read_file(path, own=True)
    except OSError:
        data = b""
    end = _NUMBER + int.from_bytes(data[:_NUMBER], "little")
    table = unseal(key, data[_NUMBER:end])
    places = {} if table is None else {name: Place(*place) for name, place in marshal.loads(table).items()}
    return Modules(path, places, memoryview(data)[end:])


def write_modules(path: str, key: str, codes: Mapping[str, tuple[str, bool, bytes]]) -> None:
    """Keeps where the text of each module lies, whether it is a package, and its code."""
    places: dict[str, tuple[str, bool, int, int, int]] = {}
    start = 0
    for name, (origin, is_package, code) in codes.items():
        places[name] = (origin, is_package, start, start + len(code), _checksum(code))
        start += len(code)
    table = seal(key, marshal.dumps(places))
    parts = [len(table).to_bytes(_NUMBER, "little"), table, *(code for _, _, code in codes.values())]
    try:
        make_private(os.path.dirname(path))
        if not distrust(os.path.dirname(path)):
            write_file(path, b"".join(parts), PRIVATE_FILE)
    except OSError:  # the next start is as slow as this one
        return


def _complete(modules: Modules, key: str) -> None:
    """Writes the file with the modules that it lacks and this process has."""
    own = (sys.modules[name].__spec__ for name in list(sys.modules) if name.partition(".")[0] == PACKAGE)
    lacking = [spec for spec in own if spec is not None and type(spec.loader) is SourceFileLoader]
    if len(lacking) < MANY:
        return
    codes = {spec.name: _made(spec) for spec in lacking}
    for name, place in modules.places.items():
        code = modules.code(name)
        if code is not None:
            codes[name] = place.origin, place.is_package, bytes(code)
    write_modules(modules.path, key, codes)


def _made(spec: ModuleSpec) -> tuple[str, bool, bytes]:
    """What is kept of a module that Python found."""
    assert isinstance(spec.loader, SourceFileLoader) and spec.origin is not None
    return spec.origin, spec.submodule_search_locations is not None, marshal.dumps(spec.loader.get_code(spec.name))


def _checksum(code: bytes | memoryview) -> int:
    """Tells damage alone, in an eighth of the time that a digest takes: nobody else can write the file."""
    return zlib.crc32(code)


# Note [One file of bytecode]
# A compilation imports 650 modules of ten kilobytes. Of each, Python asks the folders on its path, asks for the status
# of the text and of the bytecode, opens that and reads it: a quarter of what importing takes, more where files are far
# away. The file is the bytecode of them behind one another. Its key has the stamp of every file of the compiler, which
# a start looks at anyway to know what compiled code it may use, so that no module has to be asked again, and all that a
# process imports is of one state of the compiler. It is trusted as machine code in the cache is, and a module whose
# code is damaged is found as if there were no file. Which modules it has is what processes have imported: nobody keeps
# a list. `python -B` and PYTHONDONTWRITEBYTECODE forbid to write it.
