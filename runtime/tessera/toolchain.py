"""What compiled code depends on beside its source: the compiler, its library, LLVM and this processor.

Found without importing any of them, so that a program whose code is in the cache starts fast.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

from tessera.cache import cache_key
from tessera.errors import BAD_SETTING, failure

NO_OPTIMISATION, FULL_OPTIMISATION = 0, 3
_LEVEL = "TESSERA_OPT_LEVEL"
MAX_MATERIALIZE = "TESSERA_MAX_MATERIALIZE"
"""What `--max-materialize` says, for all that a process compiles."""
_ENTRIES = 1 << 26

_CPU_INFO = "/proc/cpuinfo"
_CPU_INFO_BYTES = 4096
_CPU_FIELDS = ("flags", "Features", "model name", "cpu family", "model", "CPU implementer", "CPU part")


@cache
def toolchain_key() -> str:
    """Changes whenever a file of the compiler, its library or LLVM does, or the processor."""
    return cache_key([*_file_stamps(), sys.platform, platform.machine(), *_processor()])


def optimisation_level() -> int:
    """How hard LLVM tries on code for a CPU. Results are the same to the bit; at 0 it is done soon, for slower code."""
    text = os.environ.get(_LEVEL, "").strip() or str(FULL_OPTIMISATION)
    if text not in ("0", "1", "2", "3"):
        raise failure(BAD_SETTING, f"{_LEVEL} must be 0, 1, 2 or 3, not `{text}`")
    return int(text)


def materialize_limit() -> int:
    """The most entries that an operator's matrix may have where a function needs all of it. `to_dense` has no limit."""
    text = os.environ.get(MAX_MATERIALIZE, "").strip() or str(_ENTRIES)
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise failure(BAD_SETTING, f"{MAX_MATERIALIZE} must be a number of entries, at least 1, not `{text}`")
    return int(text)


def _file_stamps() -> Iterator[str]:
    package = _package("tesserac")
    roots = [package, *(os.path.join(os.path.dirname(package), name) for name in ("stdlib", "grammar"))]
    yield from sorted(stamp for root in roots if os.path.isdir(root) for stamp in _stamps(root))
    file = os.path.join(_package("llvmlite"), "_version.py")
    yield _stamp(file, os.stat(file))


def _package(name: str) -> str:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"compiling needs the package {name}", name=name)
    return spec.submodule_search_locations[0]


def _stamps(folder: str) -> Iterator[str]:
    """Of all files below a folder, as the system lists them: a start waits for a thousand."""
    for entry in os.scandir(folder):
        if not entry.is_dir():
            yield _stamp(entry.path, entry.stat())
        elif entry.name != "__pycache__":
            yield from _stamps(entry.path)


def _stamp(file: str, status: os.stat_result) -> str:
    return f"{file}:{status.st_size}:{status.st_mtime_ns}"


def _processor() -> list[str]:
    """What the system says of the first core; the others are taken to be alike."""
    try:
        with open(_CPU_INFO, "rb") as file:
            text = file.read(_CPU_INFO_BYTES).decode("utf-8", "replace")
    except OSError:
        return [platform.processor()]
    first = text.split("\n\n")[0].splitlines()
    return [line for line in first if line.split(":")[0].strip() in _CPU_FIELDS]
