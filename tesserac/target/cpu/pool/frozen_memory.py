"""Packed operands of frozen memory, a cache that all functions of a process share: part of the image of the pool.

    void pool_freeze(i64 start, i64 end)      nothing writes this memory from now on
    void pool_thaw(i64 start)                 it is about to be freed; what was packed of it goes with it
    ptr pool_packed(i64 source, i64 key, i64 bytes, i1 constant)
        The pack of the matrix at `source` that `key` describes (layout, sizes, strides), to be read or, where its word
        `filled` is 0, to be filled by this caller. Null where the source is in no frozen memory, and no `constant` of
        the code either; where another call is filling it; where there is no memory. The caller then packs for itself:
        nobody ever waits for a pack, and bits do not depend on who has one.
    void pool_pack_filled(ptr), void pool_pack_dropped(ptr)       whether the caller has filled it
    void pool_frozen(ptr counts)              i64[4]: frozen memories, their bytes, packs, their bytes
    void pool_hold_packs(), void pool_release_packs()             around fork(), where another thread may be inside

One lock guards a table of ranges and a hash table of packs, chained; it is held for a few loads and stores, and a call
that does not get it at once goes on without. A pack is freed only by `pool_thaw`, and a call holds what it reads.

    @frozen   lock | ranges | room | bytes | packs | their bytes | -> [start, end) [start, end) ...
    @packs    256 buckets -> pack -> pack -> ...

         given by malloc                                                     start, a multiple of 64
         v                                                                   v
         | ...      | next   | source | key    | bytes  | filled | address   | panels ...
                    start-64  -56      -48      -40      -32      -24
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import call_imported, pause
from tesserac.target.flow import do_while, for_loop, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, PTR, VOID, LType, Value, array, const_i64, const_int, zero

BUCKETS = 256
TRIES = 100
"""How often a call looks whether the lock is free before it goes on without."""
FIRST_ROOM = 64
_LINE = 64
_LOCK, _RANGES, _ROOM, _BYTES, _PACKS, _PACKED_BYTES, _TABLE = range(7)
_NEXT, _SOURCE, _KEY, _SIZE, _FILLED, _BLOCK = -8, -7, -6, -5, -4, -3
_NONE = -1
_MIX = 0x9E3779B97F4A7C15 - (1 << 64)
"""The golden ratio in 64 bits: its high bits depend on all bits of what it multiplies."""


def emit_frozen_memory(module: Module) -> None:
    module.variable("frozen", array(I64, 8), align=_LINE)
    module.variable("packs", array(I64, BUCKETS), align=_LINE)
    range_of = _emit_range_of(module)
    _emit_freeze(module)
    _emit_thaw(module, range_of)
    _emit_packed(module, range_of)
    _emit_ends(module)
    _emit_counts(module)


def filled_word(b: Builder, pack: Value) -> Value:
    """Whether somebody has filled a pack: not 0."""
    return b.load_atomic(I64, b.gep(I64, pack, _FILLED), "acquire")


# --- the lock -----------------------------------------------------------------------------------------------------


def _field(b: Builder, number: int) -> Value:
    return b.gep(I64, Value(PTR, "@frozen"), number)


def _read(b: Builder, number: int) -> Value:
    return b.load(I64, _field(b, number), 8)


def _count(b: Builder, number: int, by: Value) -> None:
    b.store(b.add(_read(b, number), by), _field(b, number), 8)


def _taken(b: Builder) -> Value:
    """Whether the lock was free, and is this caller's now."""
    return b.compare_exchange(_field(b, _LOCK), const_i64(0), const_i64(1), "acq_rel")[1]


def _lock(b: Builder) -> None:
    def again(_: list[Value]) -> tuple[Value, list[Value]]:
        pause(b)
        return b.binary("xor", _taken(b), const_int(I1, 1)), []

    do_while(b, [], again)


def _unlock(b: Builder) -> None:
    b.store_atomic(const_i64(0), _field(b, _LOCK), "release")


def _return_unlocked(b: Builder, value: Value | None = None) -> None:
    _unlock(b)
    b.ret(value)


# --- ranges -------------------------------------------------------------------------------------------------------


def _emit_range_of(module: Module) -> Function:
    """The number of the range that an address is in, or -1."""
    function = module.function("range_of", I64, [I64], linkage="internal")
    b, (address,) = function.builder, function.args
    table = b.cast("inttoptr", _read(b, _TABLE), PTR)

    def look(i: Value, _: list[Value]) -> Sequence[Value]:
        start, end = _bounds(b, table, i)
        inside = b.binary("and", b.icmp("ule", start, address), b.icmp("ult", address, end))
        if_return(b, inside, lambda: b.ret(i))
        return []

    for_loop(b, const_i64(0), _read(b, _RANGES), const_i64(1), [], look)
    b.ret(const_i64(_NONE))
    return function


def _bounds(b: Builder, table: Value, number: Value) -> tuple[Value, Value]:
    place = b.gep(I64, table, b.mul(number, const_i64(2)))
    return b.load(I64, place, 8), b.load(I64, b.gep(I64, place, 1), 8)


def _set_bounds(b: Builder, number: Value, bounds: tuple[Value, Value]) -> None:
    table = b.cast("inttoptr", _read(b, _TABLE), PTR)
    place = b.gep(I64, table, b.mul(number, const_i64(2)))
    for offset, value in enumerate(bounds):
        b.store(value, b.gep(I64, place, offset), 8)


def _emit_freeze(module: Module) -> None:
    """Memory for which there is no room in the table is as good as any that nobody froze."""
    function = module.function("pool_freeze", VOID, [I64, I64])
    b, (start, end) = function.builder, function.args
    _lock(b)

    def grow() -> None:
        room = b.maximum_int(b.mul(_read(b, _ROOM), const_i64(2)), const_i64(FIRST_ROOM))
        old = b.cast("inttoptr", _read(b, _TABLE), PTR)
        table = call_imported(b, "libc.realloc", [old, b.mul(room, const_i64(16))], PTR)
        if_return(b, b.icmp("eq", table, zero(PTR)), lambda: _return_unlocked(b))
        b.store(b.cast("ptrtoint", table, I64), _field(b, _TABLE), 8)
        b.store(room, _field(b, _ROOM), 8)

    number = _read(b, _RANGES)
    if_then(b, b.icmp("eq", number, _read(b, _ROOM)), grow)
    _set_bounds(b, number, (start, end))
    _count(b, _RANGES, const_i64(1))
    _count(b, _BYTES, b.sub(end, start))
    _return_unlocked(b)


def _emit_thaw(module: Module, range_of: Function) -> None:
    function = module.function("pool_thaw", VOID, [I64])
    b, (start,) = function.builder, function.args
    _lock(b)
    number = b.call(range_of, [start])
    if_return(b, b.icmp("eq", number, const_i64(_NONE)), lambda: _return_unlocked(b))
    _, end = _bounds(b, b.cast("inttoptr", _read(b, _TABLE), PTR), number)
    last = b.sub(_read(b, _RANGES), const_i64(1))
    _set_bounds(b, number, _bounds(b, b.cast("inttoptr", _read(b, _TABLE), PTR), last))
    _count(b, _RANGES, const_i64(-1))
    _count(b, _BYTES, b.sub(start, end))

    def bucket(i: Value, _: list[Value]) -> Sequence[Value]:
        def goes(pack: Value) -> Value:
            source = _of(b, pack, _SOURCE)
            return b.binary("and", b.icmp("ule", start, source), b.icmp("ult", source, end))

        _remove(b, i, goes)
        return []

    for_loop(b, const_i64(0), const_i64(BUCKETS), const_i64(1), [], bucket)
    _return_unlocked(b)


# --- packs --------------------------------------------------------------------------------------------------------


def _of(b: Builder, pack: Value, field: int, type_: LType = I64) -> Value:
    return b.load(type_, b.gep(I64, pack, field), 8)


def _bucket(b: Builder, source: Value) -> Value:
    return b.binary("lshr", b.mul(source, const_i64(_MIX)), const_i64(64 - BUCKETS.bit_length() + 1))


def _remove(b: Builder, bucket: Value, goes: Callable[[Value], Value]) -> None:
    """Frees the packs of a bucket that `goes` says."""
    first = b.gep(I64, Value(PTR, "@packs"), bucket)

    def step(carried: list[Value]) -> tuple[Value, list[Value]]:
        place, pack = carried
        following = _of(b, pack, _NEXT, PTR)
        drop = goes(pack)

        def free() -> None:
            b.store(following, place, 8)
            _count(b, _PACKS, const_i64(-1))
            _count(b, _PACKED_BYTES, b.sub(const_i64(0), _of(b, pack, _SIZE)))
            call_imported(b, "libc.free", [_of(b, pack, _BLOCK, PTR)])

        beside = b.select(drop, place, b.gep(I64, pack, _NEXT))
        if_then(b, drop, free)
        return b.icmp("ne", following, zero(PTR)), [beside, following]

    head = b.load(PTR, first, 8)

    def walk() -> None:
        do_while(b, [first, head], step)

    if_then(b, b.icmp("ne", head, zero(PTR)), walk)


def _emit_packed(module: Module, range_of: Function) -> None:
    find, make = _emit_find(module), _emit_make(module)
    function = module.function("pool_packed", PTR, [I64, I64, I64, I1])
    b, (source, key, size, constant) = function.builder, function.args

    def again(carried: list[Value]) -> tuple[Value, list[Value]]:
        pause(b)
        if_return(b, b.icmp("eq", carried[0], const_i64(0)), lambda: b.ret(zero(PTR)))
        return b.binary("xor", _taken(b), const_int(I1, 1)), [b.sub(carried[0], const_i64(1))]

    def wait() -> None:
        do_while(b, [const_i64(TRIES)], again)

    if_then(b, b.binary("xor", _taken(b), const_int(I1, 1)), wait)
    found = b.call(find, [source, key, size])

    def known() -> None:
        ready = b.icmp("ne", filled_word(b, found), const_i64(0))
        _return_unlocked(b, b.select(ready, found, zero(PTR)))

    if_return(b, b.icmp("ne", found, zero(PTR)), known)
    outside = b.icmp("eq", b.call(range_of, [source]), const_i64(_NONE))
    unknown = b.binary("and", outside, b.binary("xor", constant, const_int(I1, 1)))
    if_return(b, unknown, lambda: _return_unlocked(b, zero(PTR)))
    _return_unlocked(b, b.call(make, [source, key, size]))


def _emit_find(module: Module) -> Function:
    function = module.function("find_pack", PTR, [I64, I64, I64], linkage="internal")
    b, (source, key, size) = function.builder, function.args

    def step(carried: list[Value]) -> tuple[Value, list[Value]]:
        (pack,) = carried
        if_return(b, b.icmp("eq", pack, zero(PTR)), lambda: b.ret(pack))
        same = [b.icmp("eq", _of(b, pack, f), v) for f, v in ((_SOURCE, source), (_KEY, key), (_SIZE, size))]
        if_return(b, b.binary("and", b.binary("and", same[0], same[1]), same[2]), lambda: b.ret(pack))
        return const_int(I1, 1), [_of(b, pack, _NEXT, PTR)]

    do_while(b, [b.load(PTR, b.gep(I64, Value(PTR, "@packs"), _bucket(b, source)), 8)], step)
    b.unreachable()
    return function


def _emit_make(module: Module) -> Function:
    """A pack that nobody has filled yet, the first of its bucket; null where there is no memory."""
    function = module.function("make_pack", PTR, [I64, I64, I64], linkage="internal")
    b, (source, key, size) = function.builder, function.args
    whole = b.intrinsic("llvm.sadd.sat", I64, [size, const_i64(2 * _LINE)], [I64])
    block = call_imported(b, "libc.malloc", [whole], PTR)
    if_return(b, b.icmp("eq", block, zero(PTR)), lambda: b.ret(block))
    address = b.add(b.cast("ptrtoint", block, I64), const_i64(2 * _LINE - 1))
    pack = b.cast("inttoptr", b.binary("and", address, const_i64(-_LINE)), PTR)
    first = b.gep(I64, Value(PTR, "@packs"), _bucket(b, source))
    fields = {_NEXT: b.load(I64, first, 8), _SOURCE: source, _KEY: key, _SIZE: size, _FILLED: const_i64(0)}
    for field, value in fields.items():
        b.store(value, b.gep(I64, pack, field), 8)
    b.store(block, b.gep(I64, pack, _BLOCK), 8)
    b.store(pack, first, 8)
    _count(b, _PACKS, const_i64(1))
    _count(b, _PACKED_BYTES, size)
    b.ret(pack)
    return function


def _emit_ends(module: Module) -> None:
    function = module.function("pool_pack_filled", VOID, [PTR])
    b, (pack,) = function.builder, function.args
    b.store_atomic(const_i64(1), b.gep(I64, pack, _FILLED), "release")
    b.ret()
    function = module.function("pool_pack_dropped", VOID, [PTR])
    b, (pack,) = function.builder, function.args
    _lock(b)
    _remove(b, _bucket(b, _of(b, pack, _SOURCE)), lambda other: b.icmp("eq", other, pack))
    _return_unlocked(b)
    b = module.function("pool_hold_packs", VOID, []).builder
    _lock(b)
    b.ret()
    b = module.function("pool_release_packs", VOID, []).builder
    _return_unlocked(b)


def _emit_counts(module: Module) -> None:
    function = module.function("pool_frozen", VOID, [PTR])
    b, (counts,) = function.builder, function.args
    _lock(b)
    for place, number in enumerate((_RANGES, _BYTES, _PACKS, _PACKED_BYTES)):
        b.store(_read(b, number), b.gep(I64, counts, place), 8)
    _return_unlocked(b)
