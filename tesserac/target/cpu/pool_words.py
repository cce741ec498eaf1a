"""The words that the threads of the pool share, and how they wait for each other on them.

    void tell()  { write what there is (seq_cst); if SLEEPERS: EVENT += 1, wake all }
    void look()  { spin; else { SLEEPERS += 1; look once more; sleep while EVENT is what it was; SLEEPERS -= 1 } }

Either the one who looks sees what was written, or the one who writes sees a sleeper: both are `seq_cst`. One state for
a process, in lines of a cache apart (`pool.py`, `pool_tasks.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.target.cpu.system import futex_wait, futex_wake, has_futex, nap, pause
from tesserac.target.emit import Function, Module
from tesserac.target.flow import do_while, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, PTR, LType, Value, const_i64, const_int

SPINS = 5000
"""About ten microseconds: longer than the gap between two launches, shorter than a time slice of the scheduler."""
_NAP_NANOSECONDS = 50_000

THREAD_BITS = 10
MAX_THREADS = (1 << THREAD_BITS) - 1

LINE = 128
"""What one side polls while another writes its neighbour stands in a cache line of its own."""
WORD = 0
KERNEL, CONTEXT, PROGRAMS, CHUNK = (LINE + 8 * i for i in range(4))
DONE, WAITING = 2 * LINE, 2 * LINE + 8
BUSY, OWNER, CREATED = (3 * LINE + 8 * i for i in range(3))
EVENT, SLEEPERS = 4 * LINE, 4 * LINE + 8
THREADS = 5 * LINE
TASK, TASK_WAITS, TASK_WORKER, TASK_CODE, TASK_CONTEXT = (6 * LINE + 8 * i for i in range(5))
RANGES = 7 * LINE
MOST_RANGES = 64
"""Workers beyond have a range with another one: what is written for each job stays little."""
STATE_SIZE = RANGES + MOST_RANGES * LINE


def at(b: Builder, offset: int) -> Value:
    return b.gep(I64, Value(PTR, "@state"), offset // 8)


def i32(number: int) -> Value:
    return const_int(I32, number)


def internal(module: Module, name: str, result: LType, parameters: list[LType]) -> Function:
    return module.function(name, result, parameters, linkage="internal")


def sleep(b: Builder, address: Value, expected: Value) -> None:
    if has_futex(b.module.triple):
        futex_wait(b, address, expected)
    else:
        nap(b, _NAP_NANOSECONDS)


def wake(b: Builder, address: Value) -> None:
    if has_futex(b.module.triple):
        futex_wake(b, address, 0x7FFFFFFF)


def spin_until(b: Builder, condition: Callable[[], Value]) -> Value:
    """Tests the condition up to SPINS times; gives whether it held at last."""

    def test(carried: list[Value]) -> tuple[Value, list[Value]]:
        pause(b)
        held, left = condition(), b.sub(carried[0], const_i64(1))
        spent = b.icmp("eq", left, const_i64(0))
        stop = b.binary("or", held, spent)
        return b.binary("xor", stop, const_int(I1, 1)), [left, held]

    return do_while(b, [const_i64(SPINS), const_int(I1, 0)], test)[1]


def fall_asleep(b: Builder, finds_work: Callable[[], Value]) -> None:
    """Sleeps until the next event. The test after announcing the sleep pairs with the one in `wake_sleepers`."""
    event = b.load_atomic(I32, at(b, EVENT), "seq_cst")
    b.atomic_rmw("add", at(b, SLEEPERS), i32(1), "seq_cst")
    idle = b.icmp("eq", finds_work(), const_int(I1, 0))
    if_then(b, idle, lambda: sleep(b, at(b, EVENT), event))
    b.atomic_rmw("sub", at(b, SLEEPERS), i32(1), "seq_cst")


def wake_sleepers(b: Builder) -> None:
    """Behind what they look for, which was written with `seq_cst`."""
    sleepers = b.load_atomic(I32, at(b, SLEEPERS), "seq_cst")

    def announce() -> None:
        b.atomic_rmw("add", at(b, EVENT), i32(1), "seq_cst")
        wake(b, at(b, EVENT))

    if_then(b, b.icmp("ne", sleepers, i32(0)), announce)


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
