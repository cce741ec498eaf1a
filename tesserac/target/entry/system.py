"""What generated host code asks of the machine and the system it runs on, each as a few instructions.

Functions of the C library, of Python and of the pool are reached through import slots: variables that the loader
fills (see `link.py`). The name says where the loader looks: `libc.malloc`, `python.Py_DecRef`, `pool.pool_run`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.target.instructions import Builder
from tesserac.target.link import IMPORT_PREFIX
from tesserac.target.llvm_types import I32, I64, PTR, VOID, LType, Value, array, const_i64, const_int, zero

HOST_ATTRIBUTES = ("nounwind", "noinline", "optnone")
"""Of functions that run once per call: LLVM takes half the time for them when told not to optimise, and a call loses
twenty nanoseconds."""

_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE, _FUTEX_WAIT_BITS_PRIVATE, _FUTEX_WAKE_BITS_PRIVATE = 128, 129, 137, 138
_DEFAULT_STATE = {"x86_64": 0x1F80, "aarch64": 0}
"""Round to nearest, subnormals kept, no exception traps: MXCSR and FPCR as a process starts with."""
_MXCSR_FLAGS = 0x3F
"""Bits of MXCSR that only record what has happened."""


def machine_of(triple: str) -> str:
    """`x86_64` or `aarch64`."""
    name = triple.partition("-")[0]
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)


def imported(b: Builder, name: str) -> Value:
    """The address that the loader put into the slot of `name`."""
    slot = f"{IMPORT_PREFIX}{name}"
    if not b.module.has_variable(slot):
        b.module.variable(slot, PTR, "null", linkage="hidden externally_initialized")
    return b.load(PTR, Value(PTR, f"@{slot}"), 8)


def call_imported(b: Builder, name: str, arguments: Sequence[Value], result: LType | None = None) -> Value:
    return b.call(imported(b, name), arguments, result)


def pause(b: Builder) -> None:
    """Tells the core that this thread is waiting in a loop."""
    if machine_of(b.module.triple) == "x86_64":
        b.intrinsic("llvm.x86.sse2.pause", VOID, [])
    else:
        b.intrinsic("llvm.aarch64.hint", VOID, [const_int(I32, 1)])


def has_futex(triple: str) -> bool:
    return "linux" in triple


def futex_wait(b: Builder, address: Value, expected: Value) -> None:
    """Sleeps while the 32-bit word at `address` is `expected`, until woken; may return early."""
    _futex(b, [address, const_int(I32, _FUTEX_WAIT_PRIVATE), expected, zero(PTR)])


def futex_wake(b: Builder, address: Value, count: int) -> None:
    _futex(b, [address, const_int(I32, _FUTEX_WAKE_PRIVATE), const_int(I32, count)])


def futex_wait_as(b: Builder, address: Value, expected: Value, bits: Value) -> None:
    """As `futex_wait`, for those who wake some of these bits."""
    _futex(b, [address, const_int(I32, _FUTEX_WAIT_BITS_PRIVATE), expected, zero(PTR), zero(PTR), bits])


def futex_wake_some(b: Builder, address: Value, count: Value, bits: Value) -> None:
    """Wakes so many at most of those who wait as one of these bits, the first to come first."""
    _futex(b, [address, const_int(I32, _FUTEX_WAKE_BITS_PRIVATE), count, zero(PTR), zero(PTR), bits])


def _futex(b: Builder, arguments: Sequence[Value]) -> None:
    number = const_int(I64, _FUTEX_NUMBER[machine_of(b.module.triple)])
    text = ", ".join(map(str, [number, *arguments]))
    b.define(I64, f"call i64 (i64, ...) {imported(b, 'libc.syscall').text}({text})")


def nap(b: Builder, nanoseconds: int) -> None:
    """Sleeps a little; for systems without a futex."""
    length = b.alloca(array(I64, 2), 8)
    b.store(const_i64(0), length, 8)
    b.store(const_i64(nanoseconds), b.gep(I64, length, 1), 8)
    call_imported(b, "libc.nanosleep", [length, zero(PTR)], I32)


def read_float_state(b: Builder) -> Value:
    """The thread's rounding mode and treatment of subnormals."""
    if machine_of(b.module.triple) == "aarch64":
        return b.intrinsic("llvm.aarch64.get.fpcr", I64, [])
    place = b.alloca(I32, 4)
    b.intrinsic("llvm.x86.sse.stmxcsr", VOID, [place])
    return b.load(I32, place, 4)


def write_float_state(b: Builder, state: Value) -> None:
    if machine_of(b.module.triple) == "aarch64":
        b.intrinsic("llvm.aarch64.set.fpcr", VOID, [state])
        return
    place = b.alloca(I32, 4)
    b.store(state, place, 4)
    b.intrinsic("llvm.x86.sse.ldmxcsr", VOID, [place])


def default_float_state(b: Builder) -> Value:
    """The state in which results are defined: nearest even, subnormals kept."""
    machine = machine_of(b.module.triple)
    return const_int(I64 if machine == "aarch64" else I32, _DEFAULT_STATE[machine])


def float_state_differs(b: Builder, state: Value) -> Value:
    """Whether results under `state` could differ from those under the default one."""
    if machine_of(b.module.triple) == "x86_64":
        state = b.binary("and", state, const_int(I32, ~_MXCSR_FLAGS))
    return b.icmp("ne", state, default_float_state(b))
