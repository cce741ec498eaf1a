"""Memory of calls, kept from one call to the next: part of the image of the pool, so that all functions share it.

    ptr pool_take(i64 bytes)      as malloc, at a cache line
    void pool_give(ptr)           as free

         given by malloc            start, a multiple of 64
         v                          v
         | ... | address | bytes    | workspace and scratch of a call ...
                 start-16  start-8

The system hands out large blocks as pages that it has to clear when they are touched first, for each call anew: with a
scratch for each of many threads that takes longer than the work of a small product. So one block, the last that was
given, is kept where it is worth it and not too much. It is taken and given by exchanging one word: two calls at once
never see the same block, and the second of them asks the system. A large block is to have huge pages: launches that
walk columns of it would wait for the table of its pages.
"""

from __future__ import annotations

from tesserac.target.cpu.pool.words import THREADS, at
from tesserac.target.emit import Module
from tesserac.target.entry.system import call_imported, has_futex
from tesserac.target.flow import if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I32, I64, PTR, VOID, Value, const_i64, const_int, zero

LEAST, MOST, MOST_OF_THREAD = 64 * 1024, 128 * 1024 * 1024, 64 * 1024 * 1024
"""Bytes of a block that is kept: less the C library keeps itself, more is not left lying. A thread has scratch for the
largest blocks of products, which is up to 35 MB; of that it touches what a product needs, and no more is kept in fact.
On 16 threads the scratch alone may be more than the first limit: to clear it anew took 1.4 of the 3.1 ms of a system of
512 equations on 4."""
LARGE = 4 * 1024 * 1024
"""Bytes from which a block starts at a huge page, and asks for such."""
_LINE, _HUGE_PAGE = 64, 2 * 1024 * 1024
_USE_HUGE_PAGES = 14
"""The advice, as Linux calls it."""
_KEPT = Value(PTR, "@kept")


def emit_memory(module: Module) -> None:
    module.variable("kept", I64, align=_LINE)
    _emit_take(module)
    _emit_give(module)


def _emit_take(module: Module) -> None:
    function = module.function("pool_take", PTR, [I64])
    b, (size,) = function.builder, function.args

    def look() -> None:
        old = b.atomic_rmw("xchg", _KEPT, const_i64(0), "acq_rel")
        if_then(b, b.icmp("ne", old, const_i64(0)), lambda: use(old))

    def use(old: Value) -> None:
        kept = b.cast("inttoptr", old, PTR)
        if_return(b, b.icmp("sle", size, b.load(I64, _size_place(b, kept), 8)), lambda: b.ret(kept))
        _free(b, kept)

    if_then(b, b.icmp("sge", size, const_i64(LEAST)), look)
    is_large = b.icmp("sge", size, const_i64(LARGE))
    unit = b.select(is_large, const_i64(_HUGE_PAGE), const_i64(_LINE))
    before = b.add(unit, const_i64(_LINE))
    block = call_imported(b, "libc.malloc", [b.intrinsic("llvm.sadd.sat", I64, [size, before], [I64])], PTR)
    if_return(b, b.icmp("eq", block, zero(PTR)), lambda: b.ret(block))
    behind = b.add(b.cast("ptrtoint", block, I64), b.sub(before, const_i64(1)))
    start = b.cast("inttoptr", b.binary("and", behind, b.sub(const_i64(0), unit)), PTR)
    b.store(block, b.gep(I64, start, -2), 8)
    b.store(size, _size_place(b, start), 8)

    def advise() -> None:
        call_imported(b, "libc.madvise", [start, size, const_int(I32, _USE_HUGE_PAGES)], I32)

    if has_futex(module.triple):
        if_then(b, is_large, advise)
    b.ret(start)


def _emit_give(module: Module) -> None:
    function = module.function("pool_give", VOID, [PTR])
    b, (start,) = function.builder, function.args

    def keep() -> None:
        old = b.atomic_rmw("xchg", _KEPT, b.cast("ptrtoint", start, I64), "acq_rel")
        if_then(b, b.icmp("ne", old, const_i64(0)), lambda: _free(b, b.cast("inttoptr", old, PTR)))
        b.ret()

    size, threads = b.load(I64, _size_place(b, start), 8), b.load_atomic(I64, at(b, THREADS), "monotonic")
    most = b.add(const_i64(MOST), b.mul(threads, const_i64(MOST_OF_THREAD)))
    worth = b.binary("and", b.icmp("sge", size, const_i64(LEAST)), b.icmp("sle", size, most))
    if_return(b, worth, keep)
    _free(b, start)
    b.ret()


def _size_place(b: Builder, start: Value) -> Value:
    return b.gep(I64, start, -1)


def _free(b: Builder, start: Value) -> None:
    call_imported(b, "libc.free", [b.load(PTR, b.gep(I64, start, -2), 8)])
