"""Files as bytes: read where they are files, written whole or not at all.

What waits for somebody (a FIFO) or has no end (a device) is not read: names of files come from projects, and from links
in them, that others wrote.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

_NO_WAITING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
_ANY_FILE = 0o666
"""From which the user's umask takes away."""


def read_file(path: str | os.PathLike[str], limit: int | None = None, *, own: bool = False) -> bytes:
    """The content of a file, or its first `limit` bytes. `own`: only if nobody else can have written it, but root.
    Raises OSError."""
    with open(os.open(path, _NO_WAITING), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            kind = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
            raise OSError(kind, os.strerror(kind) if kind == errno.EISDIR else "Not a regular file", str(path))
        if own and writable_by_others(status):
            raise OSError(errno.EPERM, "Others can write to it", str(path))
        return file.read(-1 if limit is None else limit)


def writable_by_others(status: os.stat_result) -> bool:
    """Whether somebody besides this user and root can change a file or folder."""
    if not hasattr(os, "geteuid"):
        return False
    return status.st_uid not in (os.geteuid(), 0) or bool(status.st_mode & _OTHERS_WRITE)


def write_file(
    path: str | os.PathLike[str], data: bytes, mode: int | None = None, *, durable: bool = False
) -> None:
    """Puts `data` at `path` in one step: two writers leave one whole file, a reader sees the old or the new one, and
    where it fails nothing is left behind. A link stays, and what it leads to changes. Without a `mode` a file keeps
    its permissions and owner. `durable`: a machine that loses power keeps one of them too. Raises OSError."""
    place = os.path.realpath(path)
    temporary = f"{place}.{os.getpid()}-{os.urandom(8).hex()}.part"
    try:
        with open(os.open(temporary, _NEW, _ANY_FILE if mode is None else mode), "wb") as file:
            file.write(data)
            if mode is None:
                _keep_status(place, file.fileno())
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _keep_status(place: str, handle: int) -> None:
    """A file that is replaced keeps its permissions, and its owner where that can be."""
    try:
        before = os.stat(place)
    except OSError:
        return
    if not stat.S_ISREG(before.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", place)
    with suppress(OSError, AttributeError):
        os.fchown(handle, before.st_uid, before.st_gid)
    with suppress(AttributeError):
        os.fchmod(handle, stat.S_IMODE(before.st_mode))
