"""What is kept on disk between runs: compiled code, and what the compiler found. Any number of processes may share it.

An entry holds its key and a checksum of all of it: one that is damaged, or was put where another belongs, is not there.
An entry is used only if nobody but this user and root can have written it, and so is a folder: it holds machine code. A
folder that cannot be used is no error: everything is made again then.

Where: `TESSERA_CACHE_DIR`, else `tessera` under `XDG_CACHE_HOME`, else under `~/.cache`, else in a private folder among
the temporary files. Never in the current folder, unless `TESSERA_CACHE_DIR` says so.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from tessera.errors import UNTRUSTED_CACHE
from tessera.files import PRIVATE_FILE, PRIVATE_FOLDER, read_file, writable_by_others, write_file

LIMIT_BYTES = 512 << 20
"""Beyond this the entries that were not used for longest are removed."""

_MAGIC = b"TESSERA-ENTRY-1\n"


def cache_key(parts: Iterable[str | bytes]) -> str:
    """A key that differs whenever any part does."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


# --------------------------------------------------------------------------------------------------------- folders


def default_directory() -> str:
    if chosen := os.environ.get("TESSERA_CACHE_DIR"):
        return os.path.abspath(chosen)
    base, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~") if os.environ.get("HOME", "~") else ""
    for folder in (base, os.path.join(home, ".cache")):
        if os.path.isabs(folder):  # the XDG specification: a relative one means nothing
            return os.path.join(folder, "tessera")
    user = os.getuid() if hasattr(os, "getuid") else "cache"
    return os.path.join(_temporary(), f"tessera-{user}")


def _temporary() -> str:
    """Where temporary files are; `tempfile` would take the current folder where there is nothing else."""
    chosen = (os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    return next(filter(os.path.isabs, chosen), os.path.abspath("/tmp"))


def distrust(directory: str) -> str:
    """Why nothing is taken from a folder that is there; empty where it is ours, and where there is none."""
    try:
        status = os.stat(directory)
    except OSError:
        return ""
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if not writable_by_others(status):
        return ""
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user ({status.st_uid})"
    return f"others can write to it (mode {stat.S_IMODE(status.st_mode):04o})"


def unused_folder() -> str:
    """A warning where the cache folder is not trusted; else empty."""
    directory = default_directory()
    reason = distrust(directory)
    return f"warning[{UNTRUSTED_CACHE}]: the cache folder `{directory}` is not used: {reason}" if reason else ""


# --------------------------------------------------------------------------------------------------------- entries


def seal(key: str, data: bytes) -> bytes:
    """An entry: what is kept, with its key and a checksum."""
    head = _head(key)
    return head + _checksum(head, data) + data


def unseal(key: str, entry: bytes) -> bytes | None:
    """What was kept under this key; None for any other bytes."""
    head, size = _head(key), hashlib.sha256().digest_size
    data = entry[len(head) + size :]
    fits = entry.startswith(head) and entry[len(head) : len(head) + size] == _checksum(head, data)
    return data if fits else None


def _head(key: str) -> bytes:
    name = key.encode()
    return _MAGIC + len(name).to_bytes(4, "little") + name


def _checksum(head: bytes, data: bytes) -> bytes:
    digest = hashlib.sha256(head)
    digest.update(data)
    return digest.digest()


def read_entry(directory: str, name: str, key: str) -> bytes | None:
    """What a file in a folder keeps under a key."""
    try:
        entry = None if distrust(directory) else read_file(os.path.join(directory, name), own=True)
    except OSError:
        return None
    return None if entry is None else unseal(key, entry)


def write_entry(directory: str, name: str, key: str, data: bytes) -> bool:
    """Keeps it where that can be."""
    with suppress(OSError):
        make_private(directory)
        if not distrust(directory):
            path = os.path.join(directory, name)
            make_private(os.path.dirname(path))
            write_file(path, seal(key, data), PRIVATE_FILE)
            return True
    return False


def make_private(directory: str) -> None:
    """A folder that only its owner uses, and those above it where they are missing."""
    if not os.path.isdir(directory):
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(directory, PRIVATE_FOLDER)


_written_unseen: dict[tuple[str, int], int] = {}
"""By folder and limit, the bytes that this process has written there since it last looked through the folder."""


class DiskCache:
    """Compiled code by key."""

    def __init__(self, directory: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self._directory = directory
        self._limit = limit_bytes

    def read(self, key: str) -> bytes | None:
        """The entry, marked as used now; None where there is none."""
        name = self._name(key)
        found = read_entry(self._directory, name, key)
        if found is not None:
            with suppress(OSError):
                os.utime(os.path.join(self._directory, name))
        return found

    def write(self, key: str, data: bytes) -> None:
        if write_entry(self._directory, self._name(key), key, data):
            self._make_room(key, len(data))

    def _make_room(self, key: str, added: int) -> None:
        """Looks through the folder after each sixteenth of the limit that a process has written, and with one in
        sixteen of the entries that are the first of theirs: once there are thousands of entries, looking takes as long
        as compiling a small program."""
        place = (self._directory, self._limit)
        before = self._limit if key.startswith("0") else 0  # of other processes, of which each may have written little
        unseen = _written_unseen.get(place, before) + added
        if unseen > self._limit // 16:
            self._shrink()
            unseen = 0
        _written_unseen[place] = unseen

    def _name(self, key: str) -> str:
        return os.path.join(key[:2], key)

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
