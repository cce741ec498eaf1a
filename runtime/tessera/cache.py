"""Compiled code on disk, by key. Any number of processes may share a directory.

An entry is written under a temporary name and renamed, so a reader sees all of it or nothing; two writers of one key
write the same content, and the last one stays. What an entry holds is checked by whoever reads it. A directory that
cannot be used is no error: everything is compiled again then.

Where: `TESSERA_CACHE_DIR`, else `tessera` under `XDG_CACHE_HOME`, else under `~/.cache`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress

LIMIT_BYTES = 512 << 20
"""Beyond this the entries that were not used for longest are removed."""


def cache_key(parts: Iterable[str | bytes]) -> str:
    """A key that differs whenever any part does."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def default_directory() -> str:
    if chosen := os.environ.get("TESSERA_CACHE_DIR"):
        return chosen
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))
    return os.path.join(base, "tessera")


class DiskCache:
    def __init__(self, directory: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self._directory = directory
        self._limit = limit_bytes

    def read(self, key: str) -> bytes | None:
        """The entry, marked as used now; None where there is none."""
        path = self._path(key)
        try:
            os.utime(path)
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None

    def write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            temporary = f"{path}.{os.getpid()}-{os.urandom(8).hex()}"
            try:
                with open(temporary, "xb") as file:
                    file.write(data)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise
            self._shrink()

    def _path(self, key: str) -> str:
        return os.path.join(self._directory, key[:2], key)

    def _shrink(self) -> None:
        entries = []
        for folder, _, names in os.walk(self._directory):
            for path in (os.path.join(folder, name) for name in names):
                with suppress(OSError):  # another process may have removed it
                    status = os.stat(path)
                    entries.append((status.st_mtime_ns, status.st_size, path))
        excess = sum(size for _, size, _ in entries) - self._limit
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            with suppress(OSError):
                os.unlink(path)
            excess -= size
