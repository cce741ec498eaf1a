"""Whose the pool is: one caller at a time, in the process that has made its threads.

fork() copies memory but not threads: the first call in a child starts over with an empty pool. Asking for the id of the
process in every call would be a system call, which takes as long as all else that a small job needs. So a page is kept
that Linux clears in a child (`MADV_WIPEONFORK`), with a word that says that the pool is this process's own:

    acquire    WIPED is set and its word is 1         ->  the pool is ours
               else OWNER is another process          ->  clear the state: generations go on, words of ranges and counts
                                                          are of old ones
                    then take the pool, and write 1, into a new page if there is none

Where there is no such page, the process is asked for every time.
"""

from __future__ import annotations

from tesserac.target.cpu.pool.words import (
    BUSY,
    CREATED,
    OWNER,
    SLEEPERS,
    TASK,
    TASK_WAITS,
    WAITING,
    WIPED,
    WORD,
    at,
    generation_of,
    i32,
    internal,
)
from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import call_imported, has_futex
from tesserac.target.flow import choose, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, PTR, Value, const_i64, const_int, zero

_RESETTING = -1
_PAGE = const_i64(4096)
_READ_WRITE, _PRIVATE_ANONYMOUS, _WIPE_ON_FORK = 3, 0x22, 18
"""As Linux calls them, on every processor."""
_FAILED = const_i64(-1)


def emit_acquire(module: Module) -> Function:
    """Whether the pool is this caller's until it clears BUSY."""
    function = internal(module, "acquire", I1, [])
    b = function.builder
    page = b.load_atomic(PTR, at(b, WIPED), "acquire")
    known = choose(b, b.icmp("ne", page, zero(PTR)), lambda: [_is_marked(b, page)], lambda: [const_int(I1, 0)])[0]
    if_return(b, known, lambda: b.ret(_take(b)))
    here = call_imported(b, "libc.getpid", [], I32)
    owner = b.load_atomic(I32, at(b, OWNER), "acquire")
    if_then(b, b.icmp("ne", owner, here), lambda: _reset(b, owner, here))
    free = _take(b)
    if has_futex(module.triple):
        if_then(b, free, lambda: _mark(b, page))
    b.ret(free)
    return function


def _take(b: Builder) -> Value:
    return b.compare_exchange(at(b, BUSY), i32(0), i32(1), "acq_rel")[1]


def _is_marked(b: Builder, page: Value) -> Value:
    return b.icmp("ne", b.load_atomic(I32, page, "acquire"), i32(0))


def _mark(b: Builder, page: Value) -> None:
    """Says that the pool is this process's own, where a page can say so; its caller has taken it."""
    if_then(b, b.icmp("eq", page, zero(PTR)), lambda: _make_page(b))
    made = b.load_atomic(PTR, at(b, WIPED), "monotonic")
    if_then(b, b.icmp("ne", made, zero(PTR)), lambda: b.store_atomic(i32(1), made, "release"))


def _make_page(b: Builder) -> None:
    arguments = [zero(PTR), _PAGE, i32(_READ_WRITE), i32(_PRIVATE_ANONYMOUS), i32(-1), const_i64(0)]
    page = call_imported(b, "libc.mmap", arguments, PTR)

    def advise() -> None:
        refused = call_imported(b, "libc.madvise", [page, _PAGE, i32(_WIPE_ON_FORK)], I32)
        if_then(b, b.icmp("eq", refused, i32(0)), lambda: b.store_atomic(page, at(b, WIPED), "release"))

    if_then(b, b.icmp("ne", b.cast("ptrtoint", page, I64), _FAILED), advise)


def _reset(b: Builder, owner: Value, here: Value) -> None:
    """One thread of the new process clears what the old one left; any other runs its work alone meanwhile."""
    if_return(b, b.icmp("eq", owner, i32(_RESETTING)), lambda: b.ret(const_int(I1, 0)))
    _, first = b.compare_exchange(at(b, OWNER), owner, i32(_RESETTING), "acq_rel")
    if_return(b, b.icmp("eq", first, const_int(I1, 0)), lambda: b.ret(const_int(I1, 0)))
    last = b.load_atomic(I64, at(b, WORD), "monotonic")
    b.store_atomic(generation_of(b, last), at(b, WORD), "monotonic")
    for field in (BUSY, CREATED, WAITING, TASK, TASK_WAITS):
        b.store_atomic(i32(0), at(b, field), "monotonic")
    b.store_atomic(const_i64(0), at(b, SLEEPERS), "monotonic")
    b.store_atomic(here, at(b, OWNER), "release")
