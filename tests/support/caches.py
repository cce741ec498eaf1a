"""Caches of compiled programs for tests of commands, each its own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tessera.cache import default_directory, read_entry, seal
from tesserac.base.resources import stdlib_files
from tesserac.modules.library import encode_library, library_key, library_name, load_library
from tesserac.syntax.tables import encode, load_tables, tables_name


def new_cache(folder: Path) -> str:
    """A cache in which no program is kept, only what every start needs and no test changes: the parser's tables and the
    library checked, which take longer to make than most programs to compile. Gives the folder's name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in _prepared().items():
        (folder / name).write_bytes(data)
    return str(folder)


@cache
def _prepared() -> dict[str, bytes]:
    tables = load_tables()
    return {
        tables_name(tables.key): seal(f"grammar {tables.key}", encode(tables).encode()),
        library_name(): _library(),
    }


def _library() -> bytes:
    """As this process has read or kept it: to write it down again takes seconds."""
    library, files = load_library(), stdlib_files()
    kept = read_entry(default_directory(), library_name(), library_key(files))
    return encode_library(library, files) if kept is None else seal(library_key(files), kept)
