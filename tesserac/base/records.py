"""What checking found, kept on disk between runs: one file per source file and kind of record.

Enters: paths, plain data, and the codec of its classes. Leaves: the same data in a later run of the same compiler;
another compiler has a folder of its own. A record that is damaged, absent, of another file or not our own is None, and
so is everything where the folder cannot be used: it only costs time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from typing import Literal

from tessera.cache import read_entry, write_entry
from tessera.store import file_digest
from tessera.toolchain import materialize_limit, toolchain_key
from tesserac.base.cache import user_cache_dir
from tesserac.base.codec import Codec
from tesserac.base.collecting import collection_paused
from tesserac.base.columns import Unencodable

Kind = Literal["checked", "ledger", "interface"]

FOLDER = "check-"
KEPT_SECONDS = 7 * 24 * 3600
"""How long the records of another compiler are left alone."""


class Records:
    """One run of a command: a file that it has looked at is taken to stay as it is."""

    def __init__(self) -> None:
        self._home = user_cache_dir()
        self._folder = f"{FOLDER}{toolchain_key()[:16]}"
        self._limit = materialize_limit()
        self._digests: dict[str, str] = {}

    def read(self, kind: Kind, path: str, codec: Codec) -> object:
        data = read_entry(str(self._home), *self._entry(kind, path))
        if data is None:
            return None
        try:
            with collection_paused():
                return codec.decode(data)
        except ValueError:
            return None

    def write(self, kind: Kind, path: str, record: object, codec: Codec) -> None:
        if not (self._home / self._folder).exists():
            self._remove_old()
        with contextlib.suppress(Unencodable):
            write_entry(str(self._home), *self._entry(kind, path), codec.encode(record))

    def digest(self, path: str) -> str:
        """The SHA-256 of a file's content; empty where there is none."""
        found = self._digests.get(path)
        if found is None:
            found = self._digests[path] = file_digest(path)
        return found

    def fresh(self, reads: tuple[tuple[str, str], ...]) -> bool:
        """Whether files are what they were when they were read."""
        return all(self.digest(path) == digest for path, digest in reads)

    def _entry(self, kind: Kind, path: str) -> tuple[str, str]:
        """The file of a record, and the key in it. Records speak of paths as they were written, so those of a file
        under another spelling are others, and so are those of another limit on matrices."""
        written = f"{os.path.abspath(path)}\0{path}\0{self._limit}"
        name = hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
        return os.path.join(self._folder, f"{name[:32]}.{kind}"), f"{kind} {name} {toolchain_key()}"

    def _remove_old(self) -> None:
        with contextlib.suppress(OSError):
            for folder in self._home.glob(f"{FOLDER}*"):
                if time.time() - folder.stat().st_mtime > KEPT_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
