"""How the launches of a host program are run.

Enters: a launch and what the host has for it: where the code of its kernel is, what that reads, how many programs there
are. Leaves: instructions of the host function, here calls of what hands programs to the pool (`launches.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Protocol

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr_tuple
from tesserac.schedule.dialect import memory
from tesserac.schedule.model.cuts import cut_of
from tesserac.target.cpu.host.launches import emit_blocks, launcher, small_or
from tesserac.target.dims import emit_dim
from tesserac.target.entry.system import call_imported
from tesserac.target.flow import if_return
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, PTR, Value, array
from tesserac.tile.dialect import CODE, GIVEN, LIKE
from tesserac.types.dims import ZERO, Dim, product


def elements_touched(launch: Op) -> Dim:
    """A measure of a launch's work."""
    touched = launch.attrs.get("touched")
    return touched if isinstance(touched, Dim) else _elements(tuple(memory(v).dims for v in launch.operands))


@lru_cache(maxsize=4096)
def _elements(shapes: tuple[tuple[Dim, ...], ...]) -> Dim:
    return sum(map(product, shapes), ZERO)


class Runner(Protocol):
    """How the kernels of a host program are run, and how it is found out whether the call is to end."""

    runs_in_turn: ClassVar[bool]  # whether the launches of a chain are one

    @property
    def threads(self) -> Value:
        """How many threads may run programs at once."""

    def blocks(self, b: Builder, launch: Op, symbols: Mapping[str, Value]) -> dict[str, Value]:
        """The symbols that a launch gives its kernel beside those of the program."""

    def code(self, kernel: Op) -> Value:
        """Where the code of a kernel is."""

    def start(
        self, b: Builder, touched: Dim, code: Value, context: Value, programs: Value, symbols: Mapping[str, Value]
    ) -> None:
        """Runs so many programs, which touch so many elements."""

    def poll(self, b: Builder, loop: Op) -> None:
        """In each iteration of a loop."""


class LaunchWriter(Protocol):
    """Writes launches as calls."""

    def on(self, threads: Value) -> LaunchWriter:
        """The same for another number of threads."""

    def launch(
        self, b: Builder, op: Op, kernel: Op, memory: Sequence[Value], symbols: Mapping[str, Value]
    ) -> None: ...


@dataclass(frozen=True)
class PoolRunner:
    """Hands the programs of every launch to the pool, which has `threads` threads at most."""

    runs_in_turn: ClassVar[bool] = True

    threads: Value
    status: Value
    stop: Callable[[], None]

    def blocks(self, b: Builder, launch: Op, symbols: Mapping[str, Value]) -> dict[str, Value]:
        if cut_of(launch) is None:
            return {}
        touched = emit_dim(b, elements_touched(launch), symbols)
        return emit_blocks(b, launch, symbols, small_or(b, touched, self.threads))

    def code(self, kernel: Op) -> Value:
        return Value(PTR, f"@{code_of(kernel)}")

    def start(
        self, b: Builder, touched: Dim, code: Value, context: Value, programs: Value, symbols: Mapping[str, Value]
    ) -> None:
        work = emit_dim(b, touched, symbols)
        b.call(launcher(b.module), [code, context, programs, work, self.threads, self.status])

    def poll(self, b: Builder, loop: Op) -> None:
        if_return(b, call_imported(b, "pool.pool_poll", [self.status], I1), self.stop)


def sizes_given(b: Builder, kernel: Op, symbols: Mapping[str, Value]) -> list[Value]:
    """The values of the sizes that a kernel reads."""
    return [emit_dim(b, size, symbols) for size in sizes_wanted(kernel)]


def sizes_wanted(kernel: Op) -> Sequence[Dim]:
    """The sizes that a kernel reads: those of the program that it names, or what stands for those of its code."""
    if GIVEN in kernel.attrs:
        return attr_tuple(kernel, GIVEN, Dim)
    return [Dim.sym(name) for name in attr_tuple(kernel, "symbols", str)]


def code_of(kernel: Op) -> str:
    """The name of its code."""
    return str(kernel.attrs.get(CODE, kernel.attrs.get(LIKE, kernel.symbol)))


def words(b: Builder, given: Sequence[Value]) -> Value:
    """Memory that holds these, each in a slot of 8 bytes."""
    block = b.alloca(array(I64, max(len(given), 1)), 8)
    for place, word in enumerate(given):
        b.store(word, b.gep(I64, block, place), 8)
    return block
