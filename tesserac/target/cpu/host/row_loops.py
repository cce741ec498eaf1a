"""Loops whose rows go through all iterations apart from each other: the whole loop is one kernel over rows.

    schedule.loop {rows}    becomes    void tessera.rows.N(ptr table, i64 begin, i64 end, i64 worker)

    tessera.rows.N   loop: @kernel(context, begin * of_row, end * of_row, worker)      for each launch, in order

Enters: a marked loop (`schedule/loops/row_loops.py`). Leaves: that function in the host's module (`outlined.py`), and
one launch of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr
from tesserac.schedule.dialect import ROWS
from tesserac.target.cpu.host.launches import launcher
from tesserac.target.cpu.host.outlined import Outlined, OwnThread, may_leave, work_of
from tesserac.target.cpu.host.program import HostProgram
from tesserac.target.dims import emit_dim
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import Value
from tesserac.types.dims import Dim

NAME = "tessera.rows"


def run_by_rows(host: HostProgram, loop: Op) -> None:
    """Writes the loop as a function over rows, and a launch of it."""
    if may_leave(host, [loop]):
        host.loop(loop)
        return
    b, rows = host.b, emit_dim(host.b, attr(loop, ROWS, Dim), host.symbols)
    kernel = Outlined(host, [loop], NAME, [rows])
    kernel.emit(lambda called: _RowRunner(host.runner.code, called), lambda program: program.loop(loop))
    work, table = work_of(host, loop), kernel.table()
    b.call(launcher(b.module), [kernel.function.pointer, table, rows, work, host.runner.threads, host.status])
    kernel.take_addresses(table)


@dataclass(frozen=True)
class _RowRunner(OwnThread):
    """Runs the programs that launches have for some rows, on this thread."""

    def blocks(self, b: Builder, launch: Op, symbols: Mapping[str, Value]) -> dict[str, Value]:
        return {}

    def start(
        self, b: Builder, touched: Dim, code: Value, context: Value, programs: Value, symbols: Mapping[str, Value]
    ) -> None:
        called = self.called
        of_row = b.binary("udiv", programs, called.given[0])
        b.call(code, [context, b.mul(called.begin, of_row), b.mul(called.end, of_row), called.worker])
