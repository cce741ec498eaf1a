"""The objects of one program, each begun as soon as its text is complete.

    kernels, one by one ---> `kernel_written`    what need not wait for the others; code that many programs have
    loops ----------------> `loop_written`
    host, if it is apart -> `host_written`
    all kernels ----------> `all_made`           the rest of them, in parts; then all objects, in the order of linking

Enters: modules of LLVM text, while the program is written. Leaves: ELF objects, which threads make meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tessera.toolchain import NO_OPTIMISATION
from tesserac.target.common_code import Making, common_object, common_objects, shared_code
from tesserac.target.compile import Machine
from tesserac.target.emit import Module
from tesserac.target.parallel import Effort, Job, Workers

PART, MOST_PARTS = 20_000, 16
"""Characters of text that are worth a thread, and the most that the end of a program is cut into; what goes to LLVM
while kernels are still written is cut alike. Another thread works in memory that is new to it: a product in parts of
25,000 takes 9 % more of the processors than in one. In parts of 20,000 it passes in less time than in larger ones."""


class Objects:
    """`shared` is code of kernels that many programs have, in the module of the kernels or made before."""

    def __init__(self, machine: Machine, shared: Sequence[str]) -> None:
        self._machine, self._shared, self._workers = machine, shared, Workers()
        self._many: dict[str, Making] = {}
        self._begun: list[Making] = []
        self._loops: list[Making] = []

    def kernel_written(self, kernels: Module) -> None:
        """Takes out of the module what need not wait for the others. The more is begun, the larger parts are: the cores
        have enough to do, and each part takes some time of its own."""
        wanted, size = self._wanted(kernels), PART * (1 + len(self._begun) // MOST_PARTS)
        for code in (code for code in wanted if code not in self._many and kernels.is_computing(code)):
            self._many[code] = shared_code(code, kernels, self._machine, self._workers)
        self._begun += [self._start(Job(text, self._machine)) for text in kernels.begin(size, wanted)]

    def loop_written(self, loop: Module) -> None:
        self._loops.append(self._start(Job(str(loop), self._machine, Effort.OPTIMISED)))

    def host_written(self, host: Module) -> None:
        """The host's code where it is apart. Its long function is the one thing that cores cannot share: begun before
        the kernels are written, it is ready when the last of them are."""
        self._begun.append(self._start(Job(str(host), replace(self._machine, level=NO_OPTIMISATION))))

    def all_made(self, kernels: Module, common: str) -> list[bytes]:
        """All objects, that of a text that other programs have too among them. This thread only waits for them, so it
        makes the first part of the kernels itself."""
        machine, workers = self._machine, self._workers
        many = [self._many.get(code) or shared_code(code, kernels, machine, workers) for code in self._wanted(kernels)]
        many += common_objects(kernels, machine, workers)
        parts = [Job(text, machine) for text in kernels.parts(PART, MOST_PARTS)]
        for job in parts[1:]:
            workers.start(job)
        last = common_object(common, machine, workers)
        return [made() for made in (*many, *(job.object for job in parts), *self._begun, last, *self._loops)]

    def _wanted(self, kernels: Module) -> tuple[str, ...]:
        return (*self._shared, *kernels.shared_widely)

    def _start(self, job: Job) -> Making:
        return self._workers.start(job).object
