"""The schedule cache: what tuning found for kernels, by what they compute and for which machine.

Enters: a file. Leaves: settings for a kernel. An entry is found by the digest of the kernel's program, which has dtypes
and policies in it, and the architecture; of several the last one that agrees with the sizes that are known. A file that
is damaged is an error, never a schedule: its entries have a checksum. Bits do not depend on what is found.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tessera.store import SCHEDULES
from tesserac.base.cache import user_cache_dir
from tesserac.base.dataclass import dataclass
from tesserac.types.dims import Dim

VERSION = 1


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
    sizes: Mapping[str, int]
    settings: Mapping[str, int]
    ms: float
    default_ms: float

    def fits(self, dims: Mapping[str, Dim]) -> bool:
        """Whether sizes that are known are those that were measured."""
        return all(dims[name].constant in (None, size) for name, size in self.sizes.items() if name in dims)


@dataclass(frozen=True)
class Schedules:
    entries: tuple[Entry, ...] = ()

    def find(self, digest: str, arch: str, dims: Mapping[str, Dim]) -> Mapping[str, int]:
        """The settings that were found for a kernel; nothing where it was not tuned."""
        found = (e for e in reversed(self.entries) if (e.digest, e.arch) == (digest, arch) and e.fits(dims))
        return next((entry.settings for entry in found), {})

    def with_entries(self, new: Sequence[Entry]) -> Schedules:
        """These and others; one of the same kernel, machine and sizes replaces an earlier one."""
        known = {(entry.digest, entry.arch, tuple(sorted(entry.sizes.items()))): entry for entry in self.entries}
        for entry in new:
            key = (entry.digest, entry.arch, tuple(sorted(entry.sizes.items())))
            known.pop(key, None)
            known[key] = entry
        return Schedules(tuple(known.values()))

    def to_text(self) -> str:
        rows = [
            {"kernel": e.kernel, "digest": e.digest, "arch": e.arch, "sizes": dict(e.sizes)}
            | {"settings": dict(e.settings), "ms": e.ms, "default_ms": e.default_ms}
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


def read_schedules(path: Path) -> Schedules:
    """Those of a file; none where there is no file. Raises DamagedSchedules."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Schedules()
    except (OSError, UnicodeDecodeError) as problem:
        raise DamagedSchedules(path, str(problem)) from None
    try:
        content = json.loads(text)
        rows, said = content["entries"], content["checksum"]
        if content["version"] != VERSION or _checksum(rows) != said:
            raise DamagedSchedules(path, "its entries are not those that were written")
        return Schedules(tuple(Entry(**row) for row in rows))
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedSchedules(path, f"it is no schedule cache ({type(problem).__name__})") from None


def _checksum(rows: object) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
