"""Work of one thread beside programs that do not wait for it: `schedule.beside`.

    schedule.beside { task } { rest }    becomes    begun = pool_begin(@tessera.task.N, table, threads)
                                                    rest: on one thread less, or on all behind the task
                                                    pool_end(), where it has begun

Enters: the operation (`schedule/loops/lookahead.py`). Leaves: the task as a function in the host's module
(`outlined.py`), and both ways to run it. With few threads all of them share the programs, the task before them: one
thread less for these would take longer than the task does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, attr_tuple
from tesserac.target.cpu.host.launches import INLINE_ELEMENTS, emit_blocks
from tesserac.target.cpu.host.outlined import Outlined, OwnThread, may_leave, work_of
from tesserac.target.cpu.host.program import HostProgram
from tesserac.target.cpu.host.runners import PoolRunner, elements_touched
from tesserac.target.dims import emit_dim
from tesserac.target.entry.system import call_imported
from tesserac.target.flow import choose, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, Value, const_i64, const_int
from tesserac.types.dims import Dim

NAME = "tessera.task"
FEWEST_THREADS = 4
"""With which a thread is spared for a task: of T threads it takes one (T - 1)-th of the rest's time from them."""

LARGEST_TASK = 8
"""Elements of a task for each that launches beside it touch: a product computes with each of its own many times. What
is larger had better be shared by all threads."""


def run_beside(host: HostProgram, op: Op) -> None:
    task, rest = (region.block for region in op.regions)
    checks = [inner for outer in task.ops for inner in outer.walk() if inner.name == "schedule.check"]
    known = all(dim.symbols() <= host.symbols.keys() for check in checks for dim in attr_tuple(check, "sizes", Dim))
    if isinstance(host.runner, PoolRunner) and known and not may_leave(host, task.ops):
        _Beside(host, host.runner, task, checks).run(rest)
    else:
        host.run(task)
        host.run(rest)


class _Beside:
    """A task with what runs beside it. Nobody leaves while it runs: memory of the call is what it works on."""

    def __init__(self, host: HostProgram, runner: PoolRunner, task: Block, checks: Sequence[Op]) -> None:
        self.host, self.runner, self.task, self.checks, self.b = host, runner, task, checks, host.b
        self.function = Outlined(host, task.ops, NAME, [])
        self.function.emit(lambda called: _Alone(runner.code, called), lambda program: program.run(task))
        self.table = self.function.table()

    def run(self, rest: Block) -> None:
        b, host = self.b, self.host
        self.begun = self._begin(rest)
        if_then(b, b.binary("xor", self.begun, const_int(I1, 1)), lambda: host.run(self.task))
        threads = b.sub(self.runner.threads, b.cast("zext", self.begun, I64))
        functions = None if host.launch_functions is None else host.launch_functions.on(threads)
        runner = replace(self.runner, threads=threads, stop=self._stop)
        replace(host, runner=runner, launch_functions=functions, leave=self._leave, stop=self._stop).run(rest)
        self._end()

    def _begin(self, rest: Block) -> Value:
        """Hands the task to another thread where that is worth it; gives whether it is another's."""
        b, threads = self.b, self.runner.threads
        many = b.icmp("sge", threads, const_i64(FEWEST_THREADS))
        beside, own = _touched(self.host, rest), _work(self.host, self.task)
        large = b.icmp("uge", beside, const_i64(INLINE_ELEMENTS))
        short = b.icmp("ule", own, b.mul(beside, const_i64(LARGEST_TASK)))
        worth = b.binary("and", many, b.binary("and", large, short))

        def offer() -> list[Value]:
            return [call_imported(b, "pool.pool_begin", [self.function.function.pointer, self.table, threads], I1)]

        return choose(b, worth, offer, lambda: [const_int(I1, 0)])[0]

    def _end(self) -> None:
        """Waits for the task, and leaves as it would have."""

        def end() -> None:
            self._wait()
            self.function.take_addresses(self.table)
            for check in self.checks:
                self.host.run_op(check)

        if_then(self.b, self.begun, end)

    def _leave(self, code: int, op: Op, values: Sequence[Value]) -> None:
        self._end()
        self.host.leave(code, op, values)

    def _stop(self) -> None:
        if_then(self.b, self.begun, self._wait)
        self.host.stop()

    def _wait(self) -> None:
        call_imported(self.b, "pool.pool_end", [])


def _work(host: HostProgram, task: Block) -> Value:
    """Elements that the loops of a task touch in all their iterations."""
    total = const_i64(0)
    for loop in (op for op in task.ops if op.name == "schedule.loop"):
        total = host.b.add(total, work_of(host, loop))
    return total


def _touched(host: HostProgram, block: Block) -> Value:
    """Elements of the largest launch."""
    launches = [op for outer in block.ops for op in outer.walk() if op.name == "tile.launch"]
    known = [dim for dim in map(elements_touched, launches) if dim.symbols() <= host.symbols.keys()]
    most = const_i64(0)
    for dim in dict.fromkeys(known):
        most = host.b.maximum_int(most, emit_dim(host.b, dim, host.symbols))
    return most


@dataclass(frozen=True)
class _Alone(OwnThread):
    """Runs all programs of a launch on this thread."""

    def blocks(self, b: Builder, launch: Op, symbols: Mapping[str, Value]) -> dict[str, Value]:
        return emit_blocks(b, launch, symbols, self.threads)

    def start(
        self, b: Builder, touched: Dim, code: Value, context: Value, programs: Value, symbols: Mapping[str, Value]
    ) -> None:
        def run() -> None:
            b.call(code, [context, const_i64(0), programs, self.called.worker])

        if_then(b, b.icmp("sgt", programs, const_i64(0)), run)
