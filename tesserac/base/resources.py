"""The data that comes with the package: the grammar and the standard library.

A wheel carries them under `tesserac/_data`, with what packaging prepared from them; a checkout has them as `grammar/`
and `stdlib/` beside `tesserac/`. This is the one place that knows.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

TABLES = "grammar/tessera.tables.json"
CHECKED_LIBRARY = "stdlib/checked.library"
"""What packaging prepares, by its path under `tesserac/_data`."""


def _data(folder: str) -> Traversable:
    installed = resources.files("tesserac") / "_data" / folder
    if installed.is_dir():
        return installed
    return Path(__file__).resolve().parents[2] / folder


def grammar_text() -> str:
    """The text of `tessera.lark`."""
    return (_data("grammar") / "tessera.lark").read_text(encoding="utf-8")


def shipped_tables_text() -> str | None:
    """The parser tables that packaging put beside the grammar, if it did. They may be out of date."""
    data = _prepared(TABLES)
    return data.decode("utf-8") if data is not None else None


def shipped_library() -> bytes | None:
    """The checked library that packaging prepared, if it did. Only ever a file of the installed package."""
    return _prepared(CHECKED_LIBRARY)


def _prepared(path: str) -> bytes | None:
    file = resources.files("tesserac").joinpath("_data", *path.split("/"))
    return file.read_bytes() if file.is_file() else None


def stdlib_files() -> dict[str, str]:
    """Every `.tess` file of the standard library: its path inside `stdlib/` (with `/`) and its text."""
    root = _data("stdlib")
    return dict(sorted(_tess_files(root, ""))) if root.is_dir() else {}


def library_file(path: str) -> Path | None:
    """Where a file of the library lies on disk, by the path that spans have (`stdlib/nn/softmax.tess`)."""
    folder, _, name = path.partition("/")
    file = _data("stdlib").joinpath(*name.split("/")) if folder == "stdlib" and name else None
    return file if isinstance(file, Path) and file.is_file() else None


@cache
def of_library(path: str) -> bool:
    """Whether a file is one of the library's: by the path that its spans have, or by where it lies on disk."""
    if library_file(path) is not None:
        return True
    root = _data("stdlib")
    return isinstance(root, Path) and Path(path).is_absolute() and Path(path).resolve().is_relative_to(root)


@cache
def library_folder(path: str) -> str:
    """`stdlib.linalg` of a file of the library in that folder; empty for others."""
    if not of_library(path):
        return ""
    below = Path(path)
    if below.is_absolute():
        root = _data("stdlib")
        assert isinstance(root, Path)
        below = Path("stdlib") / below.resolve().relative_to(root)
    return ".".join(below.parent.parts)


def _tess_files(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _tess_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".tess"):
            found.append((prefix + entry.name, _text(entry)))
    return found


def _text(entry: Traversable) -> str:
    if not isinstance(entry, Path):
        return entry.read_text(encoding="utf-8")
    status = entry.stat()
    return _text_as_of(entry, status.st_mtime_ns, status.st_size)


@lru_cache(1 << 10)
def _text_as_of(file: Path, changed: int, size: int) -> str:
    """Every session of a process asks for the library's files, whose texts are a megabyte."""
    return file.read_text(encoding="utf-8")
