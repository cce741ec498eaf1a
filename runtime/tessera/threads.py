"""The process's thread pools and how many threads they use.

Every artifact carries the image of the pool it was built against; equal images are mapped once, so all functions of
one build share one pool.
"""

from __future__ import annotations

import ctypes
import os
from operator import index
from typing import SupportsIndex

from tessera.errors import BAD_SETTING, failure
from tessera.frozen_arrays import add_pool
from tessera.image import Image
from tessera.loader import LIBC, LoadedImage, load_image
from tessera.processor import available_cores

_VARIABLE = "TESSERA_NUM_THREADS"


class _Pools:
    def __init__(self) -> None:
        self.loaded: dict[Image, LoadedImage] = {}
        self.threads: int | None = None


_POOLS = _Pools()


def get_num_threads() -> int:
    """How many threads a call may use."""
    if _POOLS.threads is None:
        _POOLS.threads = _initial_threads()
    return _POOLS.threads


def set_num_threads(count: SupportsIndex) -> None:
    """Changes how many threads calls may use from now on. Results do not depend on it."""
    if isinstance(count, bool) or not hasattr(count, "__index__") or index(count) < 1:
        raise failure(BAD_SETTING, f"the number of threads must be a positive integer, not {count!r}")
    _POOLS.threads = index(count)
    for pool in _POOLS.loaded.values():
        _tell(pool, index(count))


def load_pool(image: Image) -> LoadedImage:
    if image not in _POOLS.loaded:
        pool = load_image(image, resolve_import)
        _tell(pool, get_num_threads())
        _POOLS.loaded[image] = pool
        add_pool(pool)
    return _POOLS.loaded[image]


def resolve_import(name: str) -> int:
    """What the pool calls: `python.NAME` or `libc.NAME`."""
    space, _, rest = name.partition(".")
    return function_address(ctypes.pythonapi, rest) if space == "python" else resolve_libc(name)


def resolve_libc(name: str) -> int:
    """The address of `libc.NAME`."""
    return function_address(LIBC, name.removeprefix("libc."))


def function_address(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _tell(pool: LoadedImage, count: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(pool.address("pool_set_threads"))(count)


def _initial_threads() -> int:
    text = os.environ.get(_VARIABLE, "").strip()
    if not text:
        return available_cores()
    if not text.isdecimal() or int(text) < 1:
        raise failure(BAD_SETTING, f"{_VARIABLE} must be a positive integer, not `{text}`")
    return int(text)
