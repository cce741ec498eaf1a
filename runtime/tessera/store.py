"""Between a module and the compiler: compiled functions come from the disk cache where it has them.

A module is found by its text, its path, the toolchain and how large a matrix may become by itself; a function by its
module, its name, its compile-time arguments, the level of optimisation and what tuning has found. An entry that is
damaged or was made from other files than those here now is made again and replaced.

A function is kept a second time by what it says, with numbers for the places that its messages tell of. An edit of a
file makes the keys of all its functions new; those that say what they said before are then only checked.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tessera.artifact import CPU_TARGET, Artifact, read_artifact
from tessera.cache import DiskCache, cache_key, default_directory
from tessera.errors import Place, TesseraError
from tessera.files import read_file
from tessera.interface import Compiler, ModuleInterface, Source, Specialization, read_interface
from tessera.keeping import keep_later
from tessera.toolchain import materialize_limit, optimisation_level

if TYPE_CHECKING:
    from tessera.arguments import Array
    from tessera.gpu_artifact import AnyArtifact
    from tessera.tracing import Wanted

SCHEDULES = "schedules.json"
"""What tuning has found, in the user's cache: code that was made without it is made again."""
AT_ONCE = 1 << 20
"""Bytes of code and constants that are written to the cache before the first call."""
_NOWHERE, _UNKNOWN = -1, Place("", 0, 0)
"""The number of the place of a message that tells of none, and that place."""
_COMPILING = threading.RLock()
"""The compiler serves one thread at a time."""


class Store:
    """Serves one source. `compiler` is called, and so imported, only for what the cache lacks."""

    def __init__(self, source: Source, compiler: Callable[[], Compiler], cache: DiskCache, toolchain: str) -> None:
        self._source = source
        self._compiler = compiler
        self._cache = cache
        kinds = [kind for kind in ("release", "debug") if getattr(source, kind)]
        self._made_with = (toolchain, *kinds)

    @property
    def _environment(self) -> tuple[str, ...]:
        """What all code depends on beside the program."""
        return *self._made_with, str(materialize_limit())

    @property
    def _key(self) -> str:
        return cache_key([self._source.path, self._source.text, *self._environment])

    def source(self) -> Source:
        return self._source

    def interface(self) -> ModuleInterface:
        key = cache_key([self._key, "interface"])
        found = self._cached_interface(key)
        if found is None:
            with _COMPILING:
                found = self._compiler().interface(self._source)
            self._cache.write(key, found.to_bytes())
        return found

    def _cached_interface(self, key: str) -> ModuleInterface | None:
        data = self._cache.read(key)
        if data is None:
            return None
        try:
            found = read_interface(data)
        except (ValueError, TypeError):
            return None
        fresh = all(file_digest(path) == digest for path, digest in found.reads)
        return found if fresh else None

    def target(self, wanted: Sequence[str]) -> str:
        """The target to compile for, of those that would do, best first."""
        return wanted[0]

    def function(
        self, interface: ModuleInterface, name: str, specialization: Specialization, target: str
    ) -> AnyArtifact:
        tuned = file_digest(os.path.join(default_directory(), SCHEDULES))
        made_for = [repr(specialization), target, str(optimisation_level()), tuned]
        key = cache_key([self._key, repr(interface.reads), name, *made_for])
        found = self._cached_function(key, target)
        if found is None:
            with _COMPILING:
                found = self._compiled(key, name, specialization, target, made_for)
        return found

    def _compiled(
        self, key: str, name: str, specialization: Specialization, target: str, made_for: Sequence[str]
    ) -> AnyArtifact:
        """A function that is not there under its key: found by what it says, or made now."""
        compiler = self._compiler()
        meaning, places = compiler.content(self._source, name, specialization, target)
        same = cache_key([*self._environment, meaning, *made_for])
        found = self._cached_function(same, target)
        if found is not None:
            placed = _placed(found, places)
            self._keep(placed, {key: placed})
            return placed
        made = compiler.compile_function(self._source, name, specialization, target)
        apart = _without_places(made, places)
        self._keep(made, {key: made} if apart is None else {key: made, same: apart})
        return made

    def _keep(self, made: AnyArtifact, under: Mapping[str, AnyArtifact]) -> None:
        """Nobody waits for tables of megabytes to be written, nor for variants that no call has come to."""

        def write() -> None:
            for key, artifact in under.items():
                self._cache.write(key, artifact.to_bytes())

        def write_all() -> None:
            assert not isinstance(made, Artifact)
            made.make_code()
            with _COMPILING:
                write()

        if isinstance(made, Artifact):
            is_small = len(made.code.text) <= AT_ONCE
            write() if is_small else keep_later(write)
        else:
            write() if made.is_complete() else keep_later(write_all)

    def trace(self, name: str, specialization: Specialization, args: Sequence[Array], wanted: Wanted) -> None:
        """Shows what a call with these arguments does, operator by operator."""
        with _COMPILING:
            self._compiler().trace(self._source, name, specialization, args, wanted)

    def _cached_function(self, key: str, target: str) -> AnyArtifact | None:
        data = self._cache.read(key)
        if data is None:
            return None
        try:
            return read_for(target, data, key)
        except TesseraError:
            return None


def _without_places(made: AnyArtifact, places: Sequence[Place]) -> AnyArtifact | None:
    """The artifact with a number for each place that a message may tell of; None where one is not among them."""
    numbers = {place: number for number, place in enumerate(places)}
    sites = made.signature.sites
    if not all(site.file == "" or site.place in numbers for site in sites):
        return None
    return made.with_sites([site.at(Place("", numbers.get(site.place, _NOWHERE), 0)) for site in sites])


def _placed(kept: AnyArtifact, places: Sequence[Place]) -> AnyArtifact:
    """The opposite, with the places of the program as it is now."""
    sites = kept.signature.sites
    return kept.with_sites([site.at(_UNKNOWN if site.line == _NOWHERE else places[site.line]) for site in sites])


def read_for(target: str, data: bytes, source: str) -> AnyArtifact:
    """A function that was compiled for a target."""
    if target == CPU_TARGET:
        return read_artifact(data, source)
    from tessera.gpu_artifact import read_gpu_artifact

    return read_gpu_artifact(data, source)


def file_digest(path: str) -> str:
    """SHA-256 of a file's content, as it stands in `ModuleInterface.reads`; of nothing where it cannot be read."""
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except (OSError, ValueError):
        return ""
