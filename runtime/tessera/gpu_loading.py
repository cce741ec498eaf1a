"""Kernels that a first call will launch, made and loaded side by side before it starts.

Enters: a program and the sizes of a call. Leaves: the functions of the kernels that these sizes choose, known to
`gpu_launch`. A kernel's code is written, goes through LLVM in a process of its own and through the driver's assembler;
launch by launch a first call would wait for each in turn.

    call       | host program's code ---|            | launches
    threads    | kernel 0: PTX | assembler |
               | kernel 1: PTX | assembler --|
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from tessera.cuda_driver import DriverError
from tessera.devices import Gpu
from tessera.errors import TesseraError
from tessera.gpu_launch import is_loaded, load_function, variant
from tessera.gpu_program import GpuProgram, Kernel, Launch, Loop, Select, Steps, While
from tessera.keeping import side_by_side
from tessera.sizes import SizeError

MOST_LOADED = 8
"""Kernels that are loaded at once."""


@contextmanager
def kernels_loading(gpu: Gpu, program: GpuProgram, symbols: Mapping[str, int]) -> Iterator[None]:
    """Beside what is done inside, other threads load the kernels that a call with these sizes comes to, as far as they
    are not; behind it they are there. What has no code is left to its launch, which says why."""
    missing = [kernel for kernel in expected_kernels(program, symbols) if not is_loaded(gpu, kernel)]
    if not missing:
        yield
        return

    def load(kernel: Kernel) -> None:
        with suppress(TesseraError, DriverError), gpu.entered():
            load_function(gpu, kernel)

    makers = [lambda kernel=kernel: load(kernel) for kernel in missing]
    worker = threading.Thread(target=side_by_side, args=(makers, MOST_LOADED), name="tessera-load")
    worker.start()
    try:
        yield
    finally:
        worker.join()


def expected_kernels(program: GpuProgram, symbols: Mapping[str, int]) -> list[Kernel]:
    """The variants that the launches of a call choose, each once. Branches on data are not looked into, and where a
    counter of a loop decides nothing is expected."""
    found: dict[object, Kernel] = {}
    for launch in _launches(program.steps, symbols):
        with suppress(KeyError, SizeError):
            kernel = variant(program, launch, symbols)
            found.setdefault(kernel.code, kernel)
    return list(found.values())


def _launches(steps: Steps, symbols: Mapping[str, int]) -> Iterator[Launch]:
    for step in steps:
        match step:
            case Launch():
                yield step
            case Select(predicates, arms):
                with suppress(KeyError, SizeError):
                    taken = next((i for i, p in enumerate(predicates) if p.holds(symbols)), len(arms) - 1)
                    yield from _launches(arms[taken], symbols)
            case Loop(_, _, _, body):
                yield from _launches(body, symbols)
            case While(test, _, body):
                yield from _launches((*test, *body), symbols)
