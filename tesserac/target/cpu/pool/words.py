"""The words that the threads of the pool share, and how they wait for each other on them.

    void tell()  { write what there is (seq_cst); if one of SLEEPERS is asked for: EVENT += 1, wake some of them }
    void look()  { spin; else { add to SLEEPERS; look once more; sleep while EVENT is what it was; take it back } }

Either the one who looks sees what was written, or the one who writes sees a sleeper: both are `seq_cst`. One state for
a process, in lines of a cache apart (`cpu/pool/image.py`, `cpu/pool/tasks.py`, `cpu/pool/forks.py`).

    WORD      generation 35 | threads 10 | chunks 19     written once for a job, behind its other fields in one line
    RANGE i   generation 35 | next chunk 29              a line each; advanced by claims, the first of a job included
    COUNT i   generation 35 | chunks that were run 29    a line each; advanced by worker i when it leaves a range
    SLEEPERS  workers from 32 on 32 | a bit for each of the others 32
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import futex_wait, futex_wait_as, futex_wake, futex_wake_some, has_futex, nap, pause
from tesserac.target.flow import do_while, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, PTR, LType, Value, const_i64, const_int

_SPINS = const_i64(5000)
"""About ten microseconds: longer than the gap between two launches, shorter than a time slice of the scheduler."""
_NAP_NANOSECONDS = 50_000
_NAMED = 32
"""Workers that have a bit of SLEEPERS for themselves, the caller with them; those beyond are counted."""
_ALL = 0x7FFFFFFF

CHUNK_BITS, THREAD_BITS = 19, 10
MAX_CHUNKS, MAX_THREADS = (1 << CHUNK_BITS) - 1, (1 << THREAD_BITS) - 1
_THREADS_AT, _GENERATION_AT = CHUNK_BITS, CHUNK_BITS + THREAD_BITS

LINE = 128
"""What one side polls while another writes its neighbour stands in a cache line of its own."""
WORD, KERNEL, CONTEXT, PROGRAMS, CHUNK = (8 * i for i in range(5))
FINISHED, WAITING = LINE, LINE + 8
BUSY, OWNER, CREATED, WIPED = (2 * LINE + 8 * i for i in range(4))
EVENT, SLEEPERS = 3 * LINE, 3 * LINE + 8
THREADS = 4 * LINE
TASK, TASK_WAITS, TASK_WORKER, TASK_CODE, TASK_CONTEXT = (5 * LINE + 8 * i for i in range(5))
RANGES = 6 * LINE
MOST_RANGES = 64
"""Workers beyond have a range and a count with another one: what is looked at for each job stays little."""
COUNTS = RANGES + MOST_RANGES * LINE
STATE_SIZE = COUNTS + MOST_RANGES * LINE


def at(b: Builder, offset: int) -> Value:
    return b.gep(I64, Value(PTR, "@state"), offset // 8)


def i32(number: int) -> Value:
    return const_int(I32, number)


def internal(module: Module, name: str, result: LType, parameters: list[LType]) -> Function:
    return module.function(name, result, parameters, linkage="internal")


def _field(b: Builder, word: Value, low: int, bits: int) -> Value:
    return b.binary("and", b.binary("lshr", word, const_i64(low)), const_i64((1 << bits) - 1))


def chunks_of(b: Builder, word: Value) -> Value:
    return _field(b, word, 0, CHUNK_BITS)


def threads_of(b: Builder, word: Value) -> Value:
    return _field(b, word, _THREADS_AT, THREAD_BITS)


def counted(b: Builder, state: Value) -> Value:
    """The number in the word of a range or a count."""
    return _field(b, state, 0, _GENERATION_AT)


def generation_of(b: Builder, word: Value) -> Value:
    """Of any word, where it stands in it."""
    return b.binary("and", word, const_i64(-(1 << _GENERATION_AT)))


def next_word(b: Builder, word: Value, threads: Value, chunks: Value) -> Value:
    """That of the job behind."""
    job = b.add(generation_of(b, word), const_i64(1 << _GENERATION_AT))
    return b.binary("or", b.binary("or", job, b.binary("shl", threads, const_i64(_THREADS_AT))), chunks)


def ranges_of(b: Builder, word: Value) -> Value:
    return b.minimum_int(threads_of(b, word), const_i64(MOST_RANGES))


def first_of(b: Builder, word: Value, number: Value) -> Value:
    """The first chunk of a range."""
    return b.binary("udiv", b.mul(number, chunks_of(b, word)), ranges_of(b, word))


def line_of(b: Builder, lines: int, number: Value) -> Value:
    """One of the lines of ranges, or of counts."""
    return b.gep(I64, at(b, lines), b.mul(number, const_i64(LINE // 8)))


def sleep(b: Builder, address: Value, expected: Value) -> None:
    if has_futex(b.module.triple):
        futex_wait(b, address, expected)
    else:
        nap(b, _NAP_NANOSECONDS)


def wake(b: Builder, address: Value) -> None:
    if has_futex(b.module.triple):
        futex_wake(b, address, _ALL)


def spin_until(b: Builder, condition: Callable[[], Value], spins: Value = _SPINS) -> Value:
    """Tests the condition so many times at most; gives whether it held at last."""

    def test(carried: list[Value]) -> tuple[Value, list[Value]]:
        held, left = condition(), b.sub(carried[0], const_i64(1))
        stop = b.binary("or", held, b.icmp("eq", left, const_i64(0)))
        goes_on = b.binary("xor", stop, const_int(I1, 1))
        if_then(b, goes_on, lambda: pause(b))
        return goes_on, [left, held]

    return do_while(b, [spins, const_int(I1, 0)], test)[1]


def fall_asleep(b: Builder, worker: Value, finds_work: Callable[[], Value]) -> None:
    """Sleeps until an event. The test after announcing the sleep pairs with the one in `_announce`."""
    event = b.load_atomic(I32, at(b, EVENT), "seq_cst")
    own = b.binary("shl", const_i64(1), b.minimum_int(worker, const_i64(_NAMED)))
    b.atomic_rmw("add", at(b, SLEEPERS), own, "seq_cst")

    def sleep_as() -> None:
        if has_futex(b.module.triple):
            futex_wait_as(b, at(b, EVENT), event, _bit_of(b, worker))
        else:
            nap(b, _NAP_NANOSECONDS)

    if_then(b, b.icmp("eq", finds_work(), const_int(I1, 0)), sleep_as)
    b.atomic_rmw("sub", at(b, SLEEPERS), own, "seq_cst")


def wake_for_job(b: Builder, threads: Value) -> None:
    """Two of the workers that a job of so many threads is for, if any of them sleeps; behind what they look for, which
    was written with `seq_cst`. See Note [Waking] of the pool."""
    few = b.binary("sub", b.binary("shl", const_i64(1), b.minimum_int(threads, const_i64(_NAMED))), const_i64(1))
    asked = b.select(b.icmp("ule", threads, const_i64(_NAMED)), few, const_i64(-1))
    _announce(b, asked, b.cast("trunc", asked, I32), i32(2))


def wake_for_task(b: Builder, worker: Value) -> None:
    """The one worker that a task is for; behind what it looks for."""
    own = b.binary("shl", const_i64(1), worker)
    asked = b.select(b.icmp("ult", worker, const_i64(_NAMED)), own, const_i64(-(1 << _NAMED)))
    _announce(b, asked, _bit_of(b, worker), i32(_ALL))


def _announce(b: Builder, asked: Value, bits: Value, count: Value) -> None:
    sleepers = b.load_atomic(I64, at(b, SLEEPERS), "seq_cst")

    def wake_some() -> None:
        b.atomic_rmw("add", at(b, EVENT), i32(1), "seq_cst")
        if has_futex(b.module.triple):
            futex_wake_some(b, at(b, EVENT), count, bits)

    if_then(b, b.icmp("ne", b.binary("and", sleepers, asked), const_i64(0)), wake_some)


def _bit_of(b: Builder, worker: Value) -> Value:
    """As what a worker sleeps: a futex has 32 bits, the last one is that of all others."""
    return b.cast("trunc", b.binary("shl", const_i64(1), b.minimum_int(worker, const_i64(_NAMED - 1))), I32)


def wait_until(b: Builder, done: Callable[[], Value], word: int, waits: int) -> None:
    """Returns when `done` of a word is true, by spinning first, then asleep on the word. Whoever writes it looks at
    `waits` behind that."""

    def sleep_once(_: list[Value]) -> tuple[Value, list[Value]]:
        seen = b.load_atomic(I32, at(b, word), "seq_cst")
        unfinished = b.icmp("eq", done(), const_int(I1, 0))
        if_then(b, unfinished, lambda: sleep(b, at(b, word), seen))
        return unfinished, []

    def sleep_until_done() -> None:
        b.store_atomic(i32(1), at(b, waits), "seq_cst")
        do_while(b, [], sleep_once)
        b.store_atomic(i32(0), at(b, waits), "monotonic")

    if_then(b, b.icmp("eq", spin_until(b, done), const_int(I1, 0)), sleep_until_done)
