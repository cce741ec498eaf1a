"""The function that every launch of a host program calls: how its programs are divided among threads.

    void tessera.launch(ptr kernel, ptr context, i64 programs, i64 touched, i64 threads, ptr status)

In a call that was stopped it does nothing.

One for all launches: a step of training has hundreds, and what is written for each of them LLVM translates for each.
"""

from __future__ import annotations

from tesserac.target.cpu.interrupts import is_stopped
from tesserac.target.cpu.system import HOST_ATTRIBUTES, call_imported
from tesserac.target.dims import ceil_div
from tesserac.target.emit import Function, Module
from tesserac.target.flow import if_return
from tesserac.target.llvm_types import I1, I64, PTR, VOID, const_i64

LAUNCH = "tessera.launch"
INLINE_ELEMENTS = 1 << 15
"""A launch that touches fewer elements than this runs on the calling thread: waking others would take longer."""
CHUNKS_PER_THREAD = 4
"""Enough to even out threads of different speed, few enough that a kernel keeps what it packed."""


def launcher(module: Module) -> Function:
    """The function of a module that runs the `programs` of a kernel, if there are any; made with the first launch."""
    return module.find_function(LAUNCH) or _launcher(module)


def _launcher(module: Module) -> Function:
    parameters = [PTR, PTR, I64, I64, I64, PTR]
    function = module.function(LAUNCH, VOID, parameters, attributes=HOST_ATTRIBUTES, linkage="internal")
    b = function.builder
    kernel, context, programs, touched, most, status = function.args

    def run_here() -> None:
        b.call(kernel, [context, const_i64(0), programs, const_i64(0)])
        b.ret()

    if_return(b, is_stopped(b, status), lambda: b.ret())
    if_return(b, b.icmp("sle", programs, const_i64(0)), lambda: b.ret())
    if_return(b, b.icmp("ult", touched, const_i64(INLINE_ELEMENTS)), run_here)
    chunk = ceil_div(b, programs, b.mul(most, const_i64(CHUNKS_PER_THREAD)))
    call_imported(b, "pool.pool_run", [kernel, context, programs, chunk, most, status])
    call_imported(b, "pool.pool_poll", [status], I1)
    b.ret()
    return function
