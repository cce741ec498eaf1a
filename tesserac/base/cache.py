"""The user's cache folder, and writing into it so that no reader ever sees half a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def user_cache_dir() -> Path:
    """`$TESSERA_CACHE_DIR`, else `tessera` under `$XDG_CACHE_HOME` or `~/.cache`. It need not exist."""
    if chosen := os.environ.get("TESSERA_CACHE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tessera"


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: two writers leave one whole file, a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
