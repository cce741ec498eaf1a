"""The schedule cache: what tuning found for kernels, by what they compute and for which machine.

Enters: a file. Leaves: settings for a kernel. An entry is found by the digest of the kernel's program, which has dtypes
and policies in it, the machine and the version of the compiler; of several the last one that agrees with the sizes that
are known, one of a machine with as many cores first. A file that is damaged is an error, never a schedule: its entries
have a checksum. Bits do not depend on what is found.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tessera.store import SCHEDULES, file_digest
from tessera.version import __version__
from tesserac.base.cache import user_cache_dir
from tesserac.base.dataclass import dataclass
from tesserac.graph.passes.place_kernels import Tuned
from tesserac.schedule.machine import Machine
from tesserac.types.dims import Dim

VERSION = 2


class DamagedSchedules(Exception):
    """A file is no schedule cache, or not as it was written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


@dataclass(frozen=True)
class Entry:
    """What was best for one kernel: its settings, and the medians with them and without."""

    kernel: str
    digest: str
    arch: str
    cores: int
    sizes: Mapping[str, int]
    settings: Mapping[str, int]
    ms: float
    default_ms: float
    compiler: str = __version__

    @property
    def key(self) -> tuple[object, ...]:
        return (self.digest, self.arch, self.cores, self.compiler, tuple(sorted(self.sizes.items())))

    def fits(self, dims: Mapping[str, Dim]) -> bool:
        """Whether sizes that are known are those that were measured."""
        return all(dims[name].constant in (None, size) for name, size in self.sizes.items() if name in dims)


@dataclass(frozen=True)
class Schedules:
    entries: tuple[Entry, ...] = ()

    def find(self, digest: str, machine: Machine, dims: Mapping[str, Dim]) -> Entry | None:
        """What was found for a kernel; None where it was not tuned."""
        wanted = (digest, machine.arch, __version__)
        found = [e for e in self.entries if (e.digest, e.arch, e.compiler) == wanted and e.fits(dims)]
        return max(found, key=lambda e: (e.cores == machine.cores, self.entries.index(e)), default=None)

    def with_entries(self, new: Sequence[Entry]) -> Schedules:
        """These and others; one of the same kernel, machine and sizes replaces an earlier one."""
        known = {entry.key: entry for entry in self.entries}
        for entry in new:
            known.pop(entry.key, None)
            known[entry.key] = entry
        return Schedules(tuple(known.values()))

    def to_text(self) -> str:
        rows = [
            {"kernel": e.kernel, "digest": e.digest, "arch": e.arch, "cores": e.cores, "sizes": dict(e.sizes)}
            | {"settings": dict(e.settings), "ms": e.ms, "default_ms": e.default_ms, "compiler": e.compiler}
            for e in self.entries
        ]
        return json.dumps({"version": VERSION, "checksum": _checksum(rows), "entries": rows}, indent=1) + "\n"

    def write(self, path: Path) -> None:
        """The whole file at once: who reads it meanwhile has the old one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(self.to_text(), encoding="utf-8")
        new.replace(path)


def default_path() -> Path:
    return user_cache_dir() / SCHEDULES


def said_path(said: str) -> Path:
    """The file that `cache=` of a kernel names; what has no suffix is a folder."""
    path = Path(said).expanduser()
    return path if path.suffix else path / SCHEDULES


def known_schedules(said: Iterable[str]) -> Schedules:
    """What was found, of the user's cache and then of those that kernels name. Raises DamagedSchedules."""
    known = read_schedules(default_path())
    for path in dict.fromkeys(said_path(text) for text in said if text):
        known = known.with_entries(read_schedules(path).entries)
    return known


def cache_reads(said: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The files that kernels name, with digests of what they hold now: code made without it is made again."""
    paths = dict.fromkeys(str(said_path(text)) for text in said if text)
    return tuple((path, file_digest(path)) for path in paths)


def asking(known: Schedules, machine: Machine, note: Callable[[Entry], None]) -> Tuned:
    """How a compilation asks for what was found; what it takes is noted."""

    def ask(digest: str, dims: Mapping[str, Dim]) -> Mapping[str, int]:
        entry = known.find(digest, machine, dims)
        if entry is None:
            return {}
        note(entry)
        return entry.settings

    return ask


def read_schedules(path: Path) -> Schedules:
    """Those of a file; none where there is no file. Raises DamagedSchedules."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Schedules()
    except (OSError, UnicodeDecodeError) as problem:
        raise DamagedSchedules(path, str(problem)) from None
    return schedules_of(text, path)


def schedules_of(text: str, path: Path) -> Schedules:
    """Those that a text holds. Raises DamagedSchedules."""
    try:
        content = json.loads(text)
        rows, said = content["entries"], content["checksum"]
        if content["version"] != VERSION:
            raise DamagedSchedules(path, f"it is of version {content['version']}, and this compiler reads {VERSION}")
        if _checksum(rows) != said:
            raise DamagedSchedules(path, "its entries are not those that were written")
        return Schedules(tuple(Entry(**row) for row in rows))
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedSchedules(path, f"it is no schedule cache ({type(problem).__name__})") from None


def _checksum(rows: object) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
