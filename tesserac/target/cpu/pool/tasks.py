"""A task: what one worker of the pool does beside the jobs of a caller who does not wait for it yet.

    i1 pool_begin(ptr task, ptr ctx, i64 threads)
        hands task(ctx, 0, 1, worker) to the last of so many threads, while the caller goes on; false where that cannot
        be. Until `pool_end` the caller runs its programs on one thread less
    void pool_end()
        returns when the task has run; where nobody has begun with it, it runs here

    TASK      free -> held -> offered -> taken -> run -> free       by the caller, then the worker, then the caller
                              offered -> held -> free               where the worker has not come
"""

from __future__ import annotations

from tesserac.target.cpu.pool.words import (
    BUSY,
    MAX_THREADS,
    TASK,
    TASK_CODE,
    TASK_CONTEXT,
    TASK_WAITS,
    TASK_WORKER,
    at,
    i32,
    internal,
    wait_until,
    wake,
    wake_for_task,
)
from tesserac.target.emit import Function, Module
from tesserac.target.flow import if_else, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, PTR, VOID, Value, const_i64, const_int

_FREE, _HELD, _OFFERED, _TAKEN, _RUN = range(5)
"""States of the task; `held` is its caller's, who writes what the task is, or runs it."""


def has_task(b: Builder, worker: Value) -> Value:
    """Whether a task is offered to this worker."""
    offered = b.icmp("eq", b.load_atomic(I32, at(b, TASK), "seq_cst"), i32(_OFFERED))
    return b.binary("and", offered, b.icmp("eq", b.load_atomic(I64, at(b, TASK_WORKER), "monotonic"), worker))


def emit_take_task(module: Module) -> Function:
    """Runs the task that is offered to a worker, if there is one, and wakes a caller who waits for its end."""
    function = internal(module, "take_task", VOID, [I64])
    b, worker = function.builder, function.args[0]
    if_return(b, b.icmp("eq", has_task(b, worker), const_int(I1, 0)), lambda: b.ret())
    _, taken = b.compare_exchange(at(b, TASK), i32(_OFFERED), i32(_TAKEN), "acq_rel")
    if_return(b, b.icmp("eq", taken, const_int(I1, 0)), lambda: b.ret())
    _run_task(b, worker)
    b.store_atomic(i32(_RUN), at(b, TASK), "seq_cst")
    waiting = b.load_atomic(I32, at(b, TASK_WAITS), "seq_cst")
    if_then(b, b.icmp("ne", waiting, i32(0)), lambda: wake(b, at(b, TASK)))
    b.ret()
    return function


def _run_task(b: Builder, worker: Value) -> None:
    code, context = (b.load(PTR, at(b, field), 8) for field in (TASK_CODE, TASK_CONTEXT))
    b.call(code, [context, const_i64(0), const_i64(1), worker])


def emit_begin(module: Module, acquire: Function, create: Function) -> None:
    function = module.function("pool_begin", I1, [PTR, PTR, I64])
    b, (code, context, threads) = function.builder, function.args
    if_return(b, b.icmp("eq", b.call(acquire, []), const_int(I1, 0)), lambda: b.ret(const_int(I1, 0)))
    _, held = b.compare_exchange(at(b, TASK), i32(_FREE), i32(_HELD), "acq_rel")

    def offer() -> None:
        last = b.sub(b.minimum_int(threads, const_i64(MAX_THREADS)), const_i64(1))
        b.call(create, [last])
        b.store(code, at(b, TASK_CODE), 8)
        b.store(context, at(b, TASK_CONTEXT), 8)
        b.store_atomic(last, at(b, TASK_WORKER), "monotonic")
        b.store_atomic(i32(_OFFERED), at(b, TASK), "seq_cst")
        wake_for_task(b, last)

    if_then(b, held, offer)
    b.store_atomic(i32(0), at(b, BUSY), "release")
    b.ret(held)


def emit_end(module: Module) -> None:
    b = module.function("pool_end", VOID, []).builder
    _, left = b.compare_exchange(at(b, TASK), i32(_OFFERED), i32(_HELD), "acq_rel")
    if_else(b, left, lambda: _run_task(b, const_i64(0)), lambda: _wait_for_task(b))
    b.store_atomic(i32(_FREE), at(b, TASK), "release")
    b.ret()


def _wait_for_task(b: Builder) -> None:
    """Returns when the worker that has taken the task has run it."""

    def has_run() -> Value:
        return b.icmp("eq", b.load_atomic(I32, at(b, TASK), "seq_cst"), i32(_RUN))

    wait_until(b, has_run, TASK, TASK_WAITS)


# Note [Tasks]
# What only one thread can do (a block of columns of a matrix, one column after the other) runs beside programs of the
# same call that do not wait for it. It is for one worker alone, the last, and jobs meanwhile are for those before it:
# were it anyone's, a job cut for the others would lack one of them. There is one task at a time in a process. A second
# caller, and one whose worker does not come, runs its task itself: it is a function like any kernel. That a worker sees
# an offer, or the caller a sleeper, follows as for jobs.
