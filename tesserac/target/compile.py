"""LLVM text to machine code. Enters: text from `emit.py` and a `Machine`. Leaves: an ELF object, or assembly.

The modules come here already vectorised, unrolled and with loops tested at the bottom, so no module passes run: they
would double the time of compilation and change nothing in the speed of the code. LLVM ends the whole process on IR that
its code generator cannot handle; hence only intrinsics known to work are let through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from threading import Condition
from typing import Any

import llvmlite.binding as llvm

from tessera.toolchain import FULL_OPTIMISATION, optimisation_level
from tesserac.base.dataclass import dataclass
from tesserac.schedule import machine
from tesserac.schedule.machine import Machine as Record


@dataclass(frozen=True)
class Machine:
    """What LLVM must know of a processor, and how hard it shall try. `cpu` implies features that `features` may lack;
    both are given."""

    triple: str
    cpu: str
    features: str = ""
    level: int = FULL_OPTIMISATION


def described(record: Record) -> Machine:
    """What the record of a machine says of it."""
    return Machine(record.code.triple, record.code.cpu, record.code.features)


X86_64_V3, X86_64_V4, AARCH64 = map(described, (machine.X86_64_V3, machine.X86_64_V4, machine.AARCH64))

OF_WHOLE_VECTORS = ("scalef", "getexp", "getmant", "fixupimm")
SAFE_INTRINSICS = frozenset(
    f"llvm.{name}"
    for name in (
        *("fma", "sqrt", "fabs", "copysign", "floor", "ceil", "trunc", "roundeven", "maximum", "minimum"),
        *("smax", "smin", "umax", "umin", "abs", "sadd.sat", "fptosi.sat", "fptoui.sat"),
        *("ctpop", "ctlz", "cttz", "vector.reduce.or", "vector.reduce.smax", "masked.gather"),
        *("experimental.vector.compress", "masked.expandload", "masked.load", "masked.store"),
        *("memcpy", "memmove", "memset", "prefetch", "aarch64.hint", "x86.sse2.pause"),
        *("x86.ldtilecfg", "x86.tilerelease", "x86.tilezero", "x86.tileloadd64", "x86.tilestored64", "x86.tdpbf16ps"),
        *("x86.tdpbssd", "x86.avx512.vpdpbusd.512"),
        *(f"x86.avx512.mask.{name}.{kind}.512" for name in OF_WHOLE_VECTORS for kind in ("ps", "pd")),
        *("x86.avx512.mask.range.ps.512", "x86.avx512.mask.range.pd.512"),
        *("aarch64.get.fpcr", "aarch64.set.fpcr", "x86.sse.stmxcsr", "x86.sse.ldmxcsr"),
    )
)


class CodegenError(Exception):
    """LLVM text that must not reach the code generator: a fault of the compiler."""


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def host_machine() -> Machine:
    """The processor this runs on, at the level that is asked for."""
    return at_level(_host())


def at_level(machine: Machine) -> Machine:
    """The machine at the level of optimisation that is asked for."""
    level = optimisation_level()
    return machine if level == machine.level else replace(machine, level=level)


@cache
def _host() -> Machine:
    """Name and features together: each alone hides some instructions."""
    _initialize()
    return Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


@cache
def target_machine(machine: Machine) -> Any:
    """LLVM's own object for a machine."""
    return new_target_machine(machine)


def new_target_machine(machine: Machine) -> Any:
    """One of its own for a thread."""
    _initialize()
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=machine.level, reloc="pic", codemodel="default"
    )


def data_layout(machine: Machine) -> str:
    return str(target_machine(machine).target_data)


def parse(text: str, context: Any = None) -> Any:
    """An LLVM module, parsed and verified, with nothing in it that is known to abort."""
    _initialize()
    check_intrinsics(text)
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(str(error)) from error
    return module


_INTRINSIC = re.compile(r"@\"?(llvm\.[\w.]+)")


def check_intrinsics(text: str) -> None:
    """Raises where the text names one that is not known to be safe. To ask LLVM for the functions of a module would be
    hundreds of calls, each of which takes its turn with other threads."""
    for name in dict.fromkeys(_INTRINSIC.findall(text)):
        parts = name.split(".")
        if not any(".".join(parts[:length]) in SAFE_INTRINSICS for length in range(2, len(parts) + 1)):
            raise CodegenError(f"intrinsic {name} is not known to be safe")


def emit_object(text: str, machine: Machine, *, scheduled: bool = False) -> bytes:
    """A relocatable ELF object; `scheduled` by LLVM where the order of instructions is not yet that of the machine."""
    with passes(scheduled=scheduled):
        return bytes(target_machine(machine).emit_object(parse(text)))


def emit_assembly(text: str, machine: Machine, *, scheduled: bool = False) -> str:
    """The assembly of the same code, for people and tests."""
    with passes(scheduled=scheduled):
        return str(target_machine(machine).emit_assembly(parse(text)))


Mode = tuple[bool, bool, bool]


class _Switches:
    """What the whole process has set, and how many threads compile with it."""

    changed = Condition()
    mode: Mode = (True, True, True)
    users = 0


@contextmanager
def passes(*, scheduled: bool, reduced: bool = False, forwarded: bool = True) -> Iterator[None]:
    """With or without two passes that take a third of the time, and a part of one. Loop strength reduction gains
    nothing on a CPU: fixed parts of addresses are written before loops, and pointers walk in the hot ones. Nor does
    scheduling of instructions, unless it is asked for: they are written in an order that keeps few values waiting,
    which it undoes in long bodies (a step of a Fourier transform spills three times as much with it). What a load gives
    is looked for in earlier ones and in stores where code is `forwarded`: kernels of a GPU load nothing twice. The
    switches belong to the whole process, and one that was ever set hides what a target does by itself: every target
    says what it wants, and who wants another than is set waits until nobody compiles with that."""
    wanted, state = (scheduled, reduced, forwarded), _Switches
    with state.changed:
        state.changed.wait_for(lambda: not state.users or state.mode == wanted)
        state.mode, state.users = wanted, state.users + 1
        if state.users == 1:
            _set(wanted)
    try:
        yield
    finally:
        with state.changed:
            state.users -= 1
            if not state.users:
                _set((True, True, True))
            state.changed.notify_all()


def _set(mode: Mode) -> None:
    scheduled, reduced, forwarded = mode
    llvm.set_option("", f"-disable-lsr={str(not reduced).lower()}")
    llvm.set_option("", f"-enable-misched={str(scheduled).lower()}")
    llvm.set_option("", f"-enable-gvn-memdep={str(forwarded).lower()}")
