"""What checking found, kept on disk between runs: one file per source file and kind of record.

Enters: paths and plain data. Leaves: the same data in a later run of the same compiler; another compiler has a folder
of its own. A record that is damaged or absent is None, and so is everything where the folder cannot be used: it only
costs time. Whoever could change a record could change the compiled programs beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import time
from pathlib import Path
from typing import Literal

from tessera.store import file_digest
from tessera.toolchain import toolchain_key
from tesserac.base.cache import user_cache_dir, write_atomically
from tesserac.base.collecting import collection_paused

Kind = Literal["verdict", "ledger", "interface"]

FOLDER = "check-"
KEPT_SECONDS = 7 * 24 * 3600
"""How long the records of another compiler are left alone."""


class Records:
    """One run of a command: a file that it has looked at is taken to stay as it is."""

    def __init__(self) -> None:
        self._folder = user_cache_dir() / f"{FOLDER}{toolchain_key()[:16]}"
        self._digests: dict[str, str] = {}

    def read(self, kind: Kind, path: str) -> object:
        try:
            data = self._place(kind, path).read_bytes()
            with collection_paused():
                return pickle.loads(data)
        except Exception:  # absent, cut short, or of a form that unpickling does not like
            return None

    def write(self, kind: Kind, path: str, record: object) -> None:
        with contextlib.suppress(OSError, RecursionError):
            if not self._folder.exists():
                self._remove_old()
            write_atomically(self._place(kind, path), pickle.dumps(record, protocol=5))

    def digest(self, path: str) -> str:
        """The SHA-256 of a file's content; empty where there is none."""
        found = self._digests.get(path)
        if found is None:
            found = self._digests[path] = file_digest(path)
        return found

    def fresh(self, reads: tuple[tuple[str, str], ...]) -> bool:
        """Whether files are what they were when they were read."""
        return all(self.digest(path) == digest for path, digest in reads)

    def _place(self, kind: Kind, path: str) -> Path:
        """Records speak of paths as they were written, so those of a file under another spelling are others."""
        written = f"{os.path.abspath(path)}\0{path}"
        name = hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / f"{name}.{kind}"

    def _remove_old(self) -> None:
        for folder in user_cache_dir().glob(f"{FOLDER}*"):
            if time.time() - folder.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
