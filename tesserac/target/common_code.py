"""Code that many programs have is compiled once for a machine: micro-kernels, rows of products, rests of elementary
functions.

Enters: a module with all its functions. Leaves: their objects, found in memory, on disk or begun now; the module only
declares them.

    define internal void @micro_f32_8x12(...) { ... }   ->   declare hidden void @micro_f32_8x12(...)
    define internal float @rest.exp(...) { ... @rare.exp }   declare hidden float @rest.exp(...)

Functions that call one another are one object, so that nothing is in two. The text of an object says all that it
depends on, but for the machine and LLVM. A micro-kernel says so in a line before it is written: its text is as long as
that of ten other kernels, and only the first program writes it. What is made once may take its time: LLVM schedules the
instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import llvmlite

from tessera.cache import DiskCache, cache_key, default_directory
from tessera.toolchain import toolchain_key
from tesserac.target.compile import Machine
from tesserac.target.emit import Module
from tesserac.target.llvm_types import I64, PTR, VOID
from tesserac.target.parallel import Effort, Job, Workers

MOST = 256
"""Objects that a process remembers."""


Making = Callable[[], bytes]
"""An object that is there, or in the making."""


def common_objects(module: Module, machine: Machine, workers: Workers) -> list[Making]:
    """Takes the functions out of the module. In one order, whatever was made before."""
    made: dict[str, Making] = {name: partial(_found, held) for name, held in module.held.items()}
    made |= {name: _common_part(text, said, machine, workers) for name, text, said in module.take_common()}
    return [made[name] for name in sorted(made)]


def _found(held: bytes) -> bytes:
    return held


def _common_part(text: str, said: str, machine: Machine, workers: Workers) -> Making:
    if not said:
        return common_object(text, machine, workers)
    return workers.start(Job(text, machine, Effort.SCHEDULED, keep=partial(_keep_shared, said, machine))).object


def shared_code(name: str, module: Module, machine: Machine, workers: Workers) -> Making:
    """The object of a kernel or a packing whose name says all that it does: one that was made before, or that of the
    module."""
    found = shared_object(name, machine)
    if found is not None:
        _only_declared(name, module)
        return lambda: found

    return workers.start(Job(module.take(name), machine, keep=partial(_keep_shared, name, machine))).object


def _keep_shared(name: str, machine: Machine, made: bytes) -> None:
    DiskCache(default_directory()).write(_shared_key(name, machine), made)
    _SHARED[name, machine] = made


_SHARED: dict[tuple[str, Machine], bytes] = {}
"""What this process has read or made."""


def shared_object(name: str, machine: Machine) -> bytes | None:
    """The object of such a kernel, or of a function that has said this, if there is one from this compiler."""
    if (name, machine) not in _SHARED:
        found = DiskCache(default_directory()).read(_shared_key(name, machine))
        if found is None:
            return None
        _SHARED[name, machine] = found
    return _SHARED[name, machine]


def _shared_key(name: str, machine: Machine) -> str:
    return cache_key(["shared", name, toolchain_key(), repr(machine), llvmlite.__version__])


def _only_declared(name: str, module: Module) -> None:
    if module.find_function(name) is not None:
        module.take(name)
    else:
        module.declare(name, VOID, [PTR, I64, I64, I64], visibility="hidden")


def common_object(text: str, machine: Machine, workers: Workers) -> Making:
    """The object of a text that other programs have too."""
    found = _common(text, machine)
    if found is not None:
        return lambda: found

    def keep(made: bytes) -> None:
        DiskCache(default_directory()).write(_common_key(text, machine), made)
        _remember(text, machine, made)

    return workers.start(Job(text, machine, Effort.SCHEDULED, keep=keep)).object


def _common(text: str, machine: Machine) -> bytes | None:
    if (text, machine) not in _COMMON:
        found = DiskCache(default_directory()).read(_common_key(text, machine))
        if found is None:
            return None
        _remember(text, machine, found)
    return _COMMON[text, machine]


_COMMON: dict[tuple[str, Machine], bytes] = {}
"""What this process has read or made last."""


def _remember(text: str, machine: Machine, made: bytes) -> None:
    while len(_COMMON) >= MOST:
        _COMMON.pop(next(iter(_COMMON)))
    _COMMON[text, machine] = made


def _common_key(text: str, machine: Machine) -> str:
    return cache_key(["common", text, repr(machine), llvmlite.__version__])
