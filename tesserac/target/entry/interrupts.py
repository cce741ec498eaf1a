"""Ending a call between two of its steps: when a handler of a signal has raised, as that of Ctrl-C does.

    i1 pool_poll(ptr status)

Compiled code runs without the interpreter lock, so Python cannot interrupt it. Instead the thread that called it looks,
between the chunks of a launch and the iterations of a loop of the host program, whether some time has passed; then it
takes the lock and has Python run the handlers of signals that have come. What one raises is kept in the status and
raised when the call has ended. A clock is read each time, which takes some nanoseconds; the lock is taken 20 times a
second. Threads other than Python's main one find no signals, so they run to their end.
"""

from __future__ import annotations

from tessera.signature import STATUS_DUE, STATUS_RAISED, STOPPED
from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import call_imported
from tesserac.target.flow import if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I8, I32, I64, PTR, Value, array, const_i64, const_int

_FIRST = 0
"""What `due` is at the start of a call: the clock has not been read yet."""
_PERIOD = 50_000_000
"""Nanoseconds between two looks."""
_CLOCK = 6
"""CLOCK_MONOTONIC_COARSE of Linux, which is read in five nanoseconds, and CLOCK_MONOTONIC of macOS."""


def begin_status(b: Builder, status: Value) -> None:
    b.store(const_i64(_FIRST), _due(b, status), 8)


def is_stopped(b: Builder, status: Value) -> Value:
    return b.icmp("eq", b.load(I64, _due(b, status), 8), const_i64(STOPPED))


def emit_poll(module: Module) -> Function:
    function = module.function("pool_poll", I1, [PTR])
    b, status = function.builder, function.args[0]
    due, now = b.load(I64, _due(b, status), 8), _now(b)
    if_return(b, b.icmp("eq", due, const_i64(STOPPED)), lambda: b.ret(const_int(I1, 1)))
    if_return(b, b.icmp("slt", now, due), lambda: b.ret(const_int(I1, 0)))
    b.store(b.add(now, const_i64(_PERIOD)), _due(b, status), 8)
    if_return(b, b.icmp("eq", due, const_i64(_FIRST)), lambda: b.ret(const_int(I1, 0)))
    lock = call_imported(b, "python.PyGILState_Ensure", [], I32)
    raised = b.icmp("ne", call_imported(b, "python.PyErr_CheckSignals", [], I32), const_int(I32, 0))
    if_then(b, raised, lambda: _keep(b, status))
    call_imported(b, "python.PyGILState_Release", [lock])
    b.ret(raised)
    return function


def _keep(b: Builder, status: Value) -> None:
    places = [b.gep(I8, status, STATUS_RAISED + 8 * i) for i in range(3)]
    call_imported(b, "python.PyErr_Fetch", places)
    b.store(const_i64(STOPPED), _due(b, status), 8)


def _due(b: Builder, status: Value) -> Value:
    return b.gep(I8, status, STATUS_DUE)


def _now(b: Builder) -> Value:
    """Nanoseconds since some time."""
    time = b.alloca(array(I64, 2), 8)
    call_imported(b, "libc.clock_gettime", [const_int(I32, _CLOCK), time], I32)
    seconds, rest = (b.load(I64, b.gep(I64, time, i), 8) for i in range(2))
    return b.add(b.mul(seconds, const_i64(1_000_000_000)), rest)
