"""Memory that nothing writes any more: where it is, told to every pool, so that calls pack matrices of it only once.

Enters: an array of `freeze`'s own. Leaves: nothing; while the array lives, compiled code may keep what it packs of it
(`pool_packed` in the image of the pool), and when it is freed, those packs are. What is known by the address of memory
is right as long as that memory is this array's, so it is the death of its owner that ends it.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tessera.arguments import Array
    from tessera.loader import LoadedImage


class FrozenMemory(NamedTuple):
    """What `freeze` and modules hold on the CPU: so many arrays, and the packs that calls made of them."""

    arrays: int
    bytes: int
    packs: int
    packed_bytes: int


class _Held:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Also taken by the death of an array, which may come at any time: hence again by the thread that has it."""
        self.ends: dict[int, int] = {}
        """By the address where a memory starts."""
        self.pools: list[LoadedImage] = []


_HELD = _Held()


def hold(owner: Array) -> None:
    """Tells every pool of the memory of an array, which is nobody else's, and is freed with it."""
    if not owner.nbytes:
        return
    start = owner.ctypes.data
    with _HELD.lock:
        _HELD.ends[start] = start + owner.nbytes
        for pool in _HELD.pools:
            _freeze(pool, start)
    weakref.finalize(owner, _let_go, start).atexit = False


def is_held(array: Array) -> bool:
    """Whether an array is all of such a memory."""
    return _HELD.ends.get(array.ctypes.data) == array.ctypes.data + array.nbytes


def add_pool(pool: LoadedImage) -> None:
    """Tells a new pool of all there is."""
    with _HELD.lock:
        _HELD.pools.append(pool)
        for start in list(_HELD.ends):
            _freeze(pool, start)


def told() -> FrozenMemory:
    """Packs are counted in every pool; memory is what all of them know."""
    packs = packed = 0
    with _HELD.lock:
        for pool in _HELD.pools:
            counts = (ctypes.c_int64 * 4)()
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(pool.address("pool_frozen"))(ctypes.addressof(counts))
            packs, packed = packs + counts[2], packed + counts[3]
        held = [end - start for start, end in _HELD.ends.items()]
    return FrozenMemory(len(held), sum(held), packs, packed)


def _freeze(pool: LoadedImage, start: int) -> None:
    """The array may have died by the time the pool knows of it."""
    end = _HELD.ends.get(start)
    if end is None:
        return
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(pool.address("pool_freeze"))(start, end)
    if start not in _HELD.ends:
        _thaw(pool, start)


def _thaw(pool: LoadedImage, start: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(pool.address("pool_thaw"))(start)


def _let_go(start: int) -> None:
    with _HELD.lock:
        del _HELD.ends[start]
        for pool in _HELD.pools:
            _thaw(pool, start)


def _each_pool(function: str) -> None:
    for pool in _HELD.pools:
        ctypes.CFUNCTYPE(None)(pool.address(function))()


def _before_fork() -> None:
    _HELD.lock.acquire()
    _each_pool("pool_hold_packs")


def _after_fork() -> None:
    _each_pool("pool_release_packs")
    _HELD.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
