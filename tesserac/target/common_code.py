"""Code that many programs have is compiled once for a machine: micro-kernels, rows of products, rests of elementary
functions.

Enters: a module with all its functions. Leaves: their objects, found in memory, on disk or made now; the module only
declares them.

    define internal void @micro_f32_8x12(...) { ... }   ->   declare hidden void @micro_f32_8x12(...)
    define internal float @rest.exp(...) { ... @rare.exp }   declare hidden float @rest.exp(...)

Functions that call one another are one object, so that nothing is in two. The text of an object says all that it
depends on, but for the machine and LLVM. What is made once may take its time: LLVM schedules the instructions.
"""

from __future__ import annotations

from functools import lru_cache

import llvmlite

from tessera.cache import DiskCache, cache_key, default_directory
from tesserac.target.compile import Machine, emit_object
from tesserac.target.emit import Module

MOST = 256
"""Objects that a process remembers."""


def common_objects(module: Module, machine: Machine) -> list[bytes]:
    """Takes the functions out of the module."""
    return [common_object(text, machine) for text in module.take_common()]


@lru_cache(MOST)
def common_object(text: str, machine: Machine) -> bytes:
    """The object of a text that other programs have too."""
    kept, key = DiskCache(default_directory()), cache_key(["common", text, repr(machine), llvmlite.__version__])
    found = kept.read(key)
    if found is None:
        found = emit_object(text, machine, scheduled=True)
        kept.write(key, found)
    return found
