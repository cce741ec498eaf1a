"""Memory that calls hand on: one block, never to two at once."""

from __future__ import annotations

import ctypes
from functools import cache
from itertools import pairwise

from tessera.loader import LoadedImage
from tessera.threads import get_num_threads, load_pool, set_num_threads
from tesserac.target.compile import host_machine
from tesserac.target.cpu.artifact import begun_pool
from tesserac.target.cpu.pool.kept_memory import LEAST, MOST, MOST_OF_THREAD


@cache
def pool() -> LoadedImage:
    return load_pool(begun_pool(host_machine())())


def take(size: int) -> int:
    """The address; 0 where there is no memory."""
    return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(pool().address("pool_take"))(size) or 0


def give(address: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(pool().address("pool_give"))(address)


def fill(address: int, size: int) -> None:
    ctypes.memset(address, 0xA5, size)


def test_a_block_serves_the_next_call_that_it_is_large_enough_for() -> None:
    first = take(3 * LEAST)
    give(first)
    again = take(2 * LEAST)
    assert again == first
    give(again)
    larger = take(40 * LEAST)
    fill(larger, 40 * LEAST)
    give(larger)
    assert take(40 * LEAST) == larger
    give(larger)


def test_two_calls_at_once_have_different_memory() -> None:
    give(take(5 * LEAST))
    sizes = [5 * LEAST, 5 * LEAST, LEAST, 100, 1]
    held = [take(size) for size in sizes]
    ends = sorted((start, start + size) for start, size in zip(held, sizes, strict=True))
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    for start, size in zip(held, sizes, strict=True):
        assert start % 64 == 0
        fill(start, size)
    for start in held:
        give(start)


def test_scratch_of_many_threads_is_kept() -> None:
    before = get_num_threads()
    try:
        set_num_threads(16)
        first = take(MOST + 12 * MOST_OF_THREAD)
        give(first)
        assert take(MOST + 10 * MOST_OF_THREAD) == first
        give(first)
    finally:
        set_num_threads(before)


def test_what_is_too_large_goes_back_and_what_there_is_not_is_told() -> None:
    give(take(MOST + get_num_threads() * MOST_OF_THREAD + 1))
    assert take(2**63 - 1) == 0
    small = take(LEAST)
    fill(small, LEAST)
    give(small)
