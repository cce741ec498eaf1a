"""The thread pool, as LLVM IR: one image that all compiled functions of a process share.

    void pool_run(ptr kernel, ptr ctx, i64 programs, i64 chunk, i64 threads, ptr status)
        calls kernel(ctx, begin, end, worker) until [0, programs) is covered, and returns when all calls have;
        0 <= worker < threads, and no two calls that run at once have the same worker. Between two chunks the caller
        looks for signals: where a handler raises, chunks that nobody has claimed are left
    i1 pool_begin(ptr task, ptr ctx, i64 threads), void pool_end()      a task beside jobs (`cpu/pool/tasks.py`)
    i1 pool_poll(ptr status)        whether the call is to end; looks for signals about 20 times a second
    i64 pool_threads()              how many threads the next call should ask for
    void pool_set_threads(i64)
    ptr pool_take(i64), void pool_give(ptr)      memory of calls (`kept_memory.py`)
    ptr pool_packed(...), ...       packed operands of frozen memory (`frozen_memory.py`)

One 64-bit word says what there is to do: the number of chunks, the number of threads, a generation. Chunks are cut into
ranges, one for each thread, and a word for each range has the generation and the next chunk of it. Whoever sees a new
job, the caller included, claims chunks by advancing words: of its own range first, which nobody else touches as long as
threads are of one speed, then of those behind it. So a worker that comes late or never costs nothing, and the caller
waits only for chunks that somebody has claimed. `cpu/pool/words.py` has the bits of all words. See Notes [Claims],
[Ranges], [Counts], [Waking] and [Moments].
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.target.cpu.pool.forks import emit_acquire
from tesserac.target.cpu.pool.frozen_memory import emit_frozen_memory
from tesserac.target.cpu.pool.kept_memory import emit_memory
from tesserac.target.cpu.pool.tasks import emit_begin, emit_end, emit_take_task, has_task
from tesserac.target.cpu.pool.words import (
    BUSY,
    CHUNK,
    CONTEXT,
    COUNTS,
    CREATED,
    FINISHED,
    KERNEL,
    LINE,
    MAX_CHUNKS,
    MAX_THREADS,
    MOST_RANGES,
    PROGRAMS,
    RANGES,
    STATE_SIZE,
    THREADS,
    WAITING,
    WORD,
    at,
    chunks_of,
    counted,
    fall_asleep,
    first_of,
    generation_of,
    i32,
    internal,
    line_of,
    next_word,
    ranges_of,
    spin_until,
    threads_of,
    wait_until,
    wake,
    wake_for_job,
)
from tesserac.target.emit import Function, Module
from tesserac.target.entry.interrupts import emit_poll
from tesserac.target.entry.system import call_imported, default_float_state, write_float_state
from tesserac.target.flow import choose, do_while, for_loop, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, PTR, VOID, Value, array, const_i64, const_int, zero

MOMENT = 6
"""Pauses of a thread that has run its own range: some hundred nanoseconds on an x86."""
FEW_THREADS = 4
"""Up to so many, a caller waits for none: it has run what is left of an empty job before another thread sees it."""

_SIGNAL_SET_BYTES = 128
_SIG_SETMASK = 2


def pool_module(triple: str, layout: str) -> Module:
    module = Module("pool", triple, layout)
    module.variable("state", array(I64, STATE_SIZE // 8), align=LINE)
    _emit_settings(module)
    emit_memory(module)
    emit_frozen_memory(module)
    poll = emit_poll(module)
    drain = _emit_drain(module, poll)
    worker = _emit_worker(module, drain, emit_take_task(module))
    acquire = emit_acquire(module)
    create = _emit_create_workers(module, worker)
    _emit_run(module, acquire, create, drain, poll)
    emit_begin(module, acquire, create)
    emit_end(module)
    return module


def _emit_settings(module: Module) -> None:
    b = module.function("pool_threads", I64, []).builder
    b.ret(b.maximum_int(b.load_atomic(I64, at(b, THREADS), "monotonic"), const_i64(1)))
    setter = module.function("pool_set_threads", VOID, [I64])
    b = setter.builder
    count = b.minimum_int(b.maximum_int(setter.args[0], const_i64(1)), const_i64(MAX_THREADS))
    b.store_atomic(count, at(b, THREADS), "monotonic")
    b.ret()


def _has_work(b: Builder, word: Value, worker: Value, seen: Value) -> Value:
    """Whether this is another job than the one that a worker has seen, and it may take part."""
    return b.binary("and", b.icmp("ne", word, seen), b.icmp("ult", worker, threads_of(b, word)))


def _emit_drain(module: Module, poll: Function) -> Function:
    """Claims and runs chunks as long as there are any for this worker; gives the word of their job. The caller, who has
    a status, may end it."""
    function = internal(module, "drain", I64, [I64, PTR])
    b, (worker, status) = function.builder, function.args
    word = b.load_atomic(I64, at(b, WORD), "acquire")
    if_return(b, b.icmp("uge", worker, threads_of(b, word)), lambda: b.ret(word))
    ranges = ranges_of(b, word)

    def run(number: Value) -> None:
        _count_done(b, word, worker, _run_range(b, word, number, worker, (status, poll)))

    def one_range(carried: list[Value]) -> tuple[Value, list[Value]]:
        number, left = carried
        following = b.add(number, const_i64(1))
        following = b.select(b.icmp("ult", following, ranges), following, const_i64(0))
        run(following)
        return b.icmp("ugt", left, const_i64(2)), [following, b.sub(left, const_i64(1))]

    own = b.binary("urem", worker, ranges)
    begins = b.binary("and", b.icmp("eq", status, zero(PTR)), _is_unbegun(b, word, own))
    if_then(b, begins, lambda: wake_for_job(b, threads_of(b, word)))
    run(own)
    if_return(b, _is_over_soon(b, word, status), lambda: b.ret(word))
    do_while(b, [own, ranges], one_range)
    b.ret(word)
    return function


def _is_unbegun(b: Builder, word: Value, number: Value) -> Value:
    """Whether nobody has claimed from a range of this job: it is not over then."""
    state = b.load_atomic(I64, line_of(b, RANGES, number), "monotonic")
    return b.icmp("sgt", b.sub(generation_of(b, word), generation_of(b, state)), const_i64(0))


def _is_over_soon(b: Builder, word: Value, status: Value) -> Value:
    """Whether a job ends in the moment in which threads of one speed end. The caller sees it by the counts, a worker by
    the next job. See Note [Moments]."""

    def by_counts() -> list[Value]:
        few = b.icmp("ule", threads_of(b, word), const_i64(FEW_THREADS))
        moment = b.select(few, const_i64(1), const_i64(MOMENT))
        return [spin_until(b, lambda: _all_done(b, word), moment)]

    def is_next() -> Value:
        return b.icmp("ne", b.load_atomic(I64, at(b, WORD), "acquire"), word)

    def by_word() -> list[Value]:
        return [spin_until(b, is_next, const_i64(MOMENT))]

    return choose(b, b.icmp("ne", status, zero(PTR)), by_counts, by_word)[0]


def _run_range(b: Builder, word: Value, number: Value, worker: Value, stopping: tuple[Value, Function]) -> Value:
    """Claims and runs chunks of a range until none is left, or the job is over; gives how many."""
    end, place = first_of(b, word, b.add(number, const_i64(1))), line_of(b, RANGES, number)
    status, poll = stopping

    def one_claim(carried: list[Value]) -> tuple[Value, list[Value]]:
        state = b.load_atomic(I64, place, "acquire")
        following, may = _claimed(b, word, number, state)
        chunk = b.sub(counted(b, following), const_i64(1))
        left = b.binary("and", may, b.icmp("ult", chunk, end))

        def claim() -> list[Value]:
            claimed = b.compare_exchange(place, state, following, "acq_rel")[1]
            if_then(b, claimed, lambda: run(chunk))
            return [b.add(carried[0], b.cast("zext", claimed, I64))]

        return left, choose(b, left, claim, lambda: [carried[0]])

    def run(chunk: Value) -> None:
        _run_chunk(b, chunk, worker)
        if_then(b, b.icmp("ne", status, zero(PTR)), look)

    def look() -> None:
        if_then(b, b.call(poll, [status]), lambda: _cancel(b, word))

    return do_while(b, [const_i64(0)], one_claim)[0]


def _claimed(b: Builder, word: Value, number: Value, state: Value) -> tuple[Value, Value]:
    """What the word of a range is after a claim, and whether one may be made. See Note [Claims]."""
    ahead = b.sub(generation_of(b, word), generation_of(b, state))
    is_begun = b.icmp("eq", ahead, const_i64(0))
    unbegun = b.add(generation_of(b, word), first_of(b, word, number))
    return b.add(b.select(is_begun, state, unbegun), const_i64(1)), b.icmp("sge", ahead, const_i64(0))


def _cancel(b: Builder, word: Value) -> None:
    """Leaves the chunks of this caller's job that nobody has claimed: they count as done."""

    def one_range(number: Value, _: list[Value]) -> Sequence[Value]:
        place, end = line_of(b, RANGES, number), first_of(b, word, b.add(number, const_i64(1)))

        def exchange(_: list[Value]) -> tuple[Value, list[Value]]:
            state = b.load_atomic(I64, place, "acquire")
            claimed = counted(b, _claimed(b, word, number, state)[0])
            left = b.sub(b.add(end, const_i64(1)), claimed)
            done = b.compare_exchange(place, state, b.add(generation_of(b, word), end), "acq_rel")[1]
            if_then(b, done, lambda: _count_done(b, word, const_i64(0), left))
            return b.binary("xor", done, const_int(I1, 1)), []

        do_while(b, [], exchange)
        return ()

    for_loop(b, const_i64(0), ranges_of(b, word), const_i64(1), [], one_range)


def _count_done(b: Builder, word: Value, worker: Value, count: Value) -> None:
    """Counts chunks that a worker has run, if there are any, and wakes a caller who waits for them."""
    place = line_of(b, COUNTS, b.binary("urem", worker, const_i64(MOST_RANGES)))

    def add(_: list[Value]) -> tuple[Value, list[Value]]:
        state = b.load_atomic(I64, place, "monotonic")
        before = b.select(_is_of(b, word, state), state, generation_of(b, word))
        done = b.compare_exchange(place, state, b.add(before, count), "seq_cst")[1]
        return b.binary("xor", done, const_int(I1, 1)), []

    def announce() -> None:
        b.atomic_rmw("add", at(b, FINISHED), i32(1), "seq_cst")
        wake(b, at(b, FINISHED))

    def tell() -> None:
        do_while(b, [], add)
        if_then(b, b.icmp("ne", b.load_atomic(I32, at(b, WAITING), "seq_cst"), i32(0)), announce)

    if_then(b, b.icmp("ne", count, const_i64(0)), tell)


def _all_done(b: Builder, word: Value) -> Value:
    """Whether the counts of a job are all its chunks."""

    def one_worker(number: Value, carried: list[Value]) -> Sequence[Value]:
        state = b.load_atomic(I64, line_of(b, COUNTS, number), "seq_cst")
        return [b.add(carried[0], b.select(_is_of(b, word, state), counted(b, state), const_i64(0)))]

    [done] = for_loop(b, const_i64(0), ranges_of(b, word), const_i64(1), [const_i64(0)], one_worker)
    return b.icmp("eq", done, chunks_of(b, word))


def _is_of(b: Builder, word: Value, state: Value) -> Value:
    """Whether the word of a count is of the same job."""
    return b.icmp("eq", generation_of(b, word), generation_of(b, state))


def _run_chunk(b: Builder, number: Value, worker: Value) -> None:
    kernel = b.load(PTR, at(b, KERNEL), 8)
    context = b.load(PTR, at(b, CONTEXT), 8)
    chunk = b.load(I64, at(b, CHUNK), 8)
    begin = b.mul(number, chunk)
    end = b.minimum_int(b.add(begin, chunk), b.load(I64, at(b, PROGRAMS), 8))
    b.call(kernel, [context, begin, end, worker])


def _emit_worker(module: Module, drain: Function, take_task: Function) -> Function:
    """The life of a thread: look for work, for a while eagerly, then asleep."""
    function = internal(module, "worker", PTR, [PTR])
    b = function.builder
    worker = b.cast("ptrtoint", function.args[0], I64)
    write_float_state(b, default_float_state(b))

    def look(carried: list[Value]) -> tuple[Value, list[Value]]:
        def finds_work() -> Value:
            job = _has_work(b, b.load_atomic(I64, at(b, WORD), "seq_cst"), worker, carried[0])
            return b.binary("or", job, has_task(b, worker))

        found = spin_until(b, finds_work)
        if_then(b, b.icmp("eq", found, const_int(I1, 0)), lambda: fall_asleep(b, worker, finds_work))
        b.call(take_task, [worker])
        return const_int(I1, 1), [b.call(drain, [worker, zero(PTR)])]

    do_while(b, [const_i64(0)], look)
    b.unreachable()
    return function


def _emit_create_workers(module: Module, worker: Function) -> Function:
    """Starts threads until there are `count` beside the caller, or the system gives no more."""
    function = internal(module, "create_workers", VOID, [I64])
    b, count = function.builder, function.args[0]
    created = b.cast("zext", b.load(I32, at(b, CREATED), 4), I64)
    if_return(b, b.icmp("uge", created, count), lambda: b.ret())
    blocked, saved = (b.alloca(array(I64, _SIGNAL_SET_BYTES // 8), 8) for _ in range(2))
    for i in range(_SIGNAL_SET_BYTES // 8):
        b.store(const_i64(-1), b.gep(I64, blocked, i), 8)
    call_imported(b, "libc.pthread_sigmask", [i32(_SIG_SETMASK), blocked, saved], I32)
    handle = b.alloca(I64, 8)

    def create(carried: list[Value]) -> tuple[Value, list[Value]]:
        number = b.add(carried[0], const_i64(1))
        arguments = [handle, zero(PTR), worker.pointer, b.cast("inttoptr", number, PTR)]
        made = b.icmp("eq", call_imported(b, "libc.pthread_create", arguments, I32), i32(0))
        if_then(b, made, lambda: b.store(b.cast("trunc", number, I32), at(b, CREATED), 4))
        return b.binary("and", made, b.icmp("ult", number, count)), [number]

    do_while(b, [created], create)
    call_imported(b, "libc.pthread_sigmask", [i32(_SIG_SETMASK), saved, zero(PTR)], I32)
    b.ret()
    return function


def _emit_run(module: Module, acquire: Function, create: Function, drain: Function, poll: Function) -> None:
    function = module.function("pool_run", VOID, [PTR, PTR, I64, I64, I64, PTR])
    b = function.builder
    kernel, context, programs, wanted_chunk, wanted_threads, status = function.args
    chunk = b.maximum_int(wanted_chunk, _ceil_div(b, programs, const_i64(MAX_CHUNKS)))
    chunks = _ceil_div(b, programs, b.maximum_int(chunk, const_i64(1)))
    threads = b.minimum_int(b.minimum_int(wanted_threads, chunks), const_i64(MAX_THREADS))

    def one_chunk(carried: list[Value]) -> tuple[Value, list[Value]]:
        end = b.minimum_int(b.add(carried[0], chunk), programs)
        b.call(kernel, [context, carried[0], end, const_i64(0)])
        if_return(b, b.icmp("sge", end, programs), lambda: b.ret())
        return b.binary("xor", b.call(poll, [status]), const_int(I1, 1)), [end]

    def run_alone() -> None:
        do_while(b, [const_i64(0)], one_chunk)
        b.ret()

    if_return(b, b.icmp("sle", threads, const_i64(1)), run_alone)
    if_return(b, b.icmp("eq", b.call(acquire, []), const_int(I1, 0)), run_alone)
    b.call(create, [b.sub(threads, const_i64(1))])
    for value, field in ((kernel, KERNEL), (context, CONTEXT), (programs, PROGRAMS), (chunk, CHUNK)):
        b.store(value, at(b, field), 8)
    _publish(b, chunks, threads)
    word = b.call(drain, [const_i64(0), status])
    wait_until(b, lambda: _all_done(b, word), FINISHED, WAITING)
    b.store_atomic(i32(0), at(b, BUSY), "release")
    b.ret()


def _ceil_div(b: Builder, value: Value, divisor: Value) -> Value:
    return b.binary("udiv", b.sub(b.add(value, divisor), const_i64(1)), divisor)


def _publish(b: Builder, chunks: Value, threads: Value) -> None:
    last = b.load_atomic(I64, at(b, WORD), "monotonic")
    b.store_atomic(next_word(b, last, threads, chunks), at(b, WORD), "seq_cst")
    wake_for_job(b, threads)


# Note [Claims]
# A chunk is claimed by exchanging the word of its range for one of this job that has the chunk behind. The exchange
# succeeds only if nothing changed since the word was read. A word of this generation says which chunk is next. One of
# an earlier generation says that nobody has claimed from this range of this job, so that its first chunk is next: each
# range has a chunk, and a job is not over before all are claimed, so that a job which is over leaves no such word. So a
# claim belongs to the job whose thread limit was checked, whose other fields, written before WORD was, cannot change
# until the chunk is counted; and a worker which slept through a hundred jobs needs no care at all: it finds later
# generations. It remembers the last job it has seen to its end, since one that is over looks like any other. A caller
# that finds the pool busy (two Python threads call at once) runs all its programs itself as worker 0: programs do not
# depend on each other, so the bits are the same.

# Note [Ranges]
# A worker begins with its own range, and goes on to those behind it. Threads of one speed thus work on the same part of
# every tensor of one size, call by call and launch by launch, and find it in their own caches; and they exchange words
# that no other thread writes meanwhile, and that none has to write for a new job. Were all claims taken from one word,
# as many threads would fetch its line for each. Of a range that is spent a thread only reads the word.

# Note [Counts]
# Were one word to count what all have run, threads that end at once would wait for its line one after the other. Each
# counts in a line of its own, and the caller adds them up: it asks for all lines at once. It sleeps on FINISHED, which
# a worker advances where it finds, after its count, that somebody waits; the caller looks at the counts after it said
# so.

# Note [Waking]
# To wake a thread takes the one who wakes it a microsecond or more. A caller who woke all of many would spend on that
# what the job takes, and for a job of few threads it would wake those that have no part in it. So it wakes two of those
# that are asked for, and each worker that begins with its range wakes two more: all are awake after a few steps. Of a
# job that is over nobody wakes anyone, since its ranges are begun: a worker that comes late does not call others.

# Note [Moments]
# Threads of one speed end at about the same time. Who then took from the ranges of others would fetch their lines for
# nothing, and they would wait for them in the next job: so each waits for a moment before it does. Of few threads the
# caller does not: it waits longer for a line than it takes to run what is left of a short job.
