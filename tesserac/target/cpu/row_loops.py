"""Loops whose rows go through all iterations apart from each other: the whole loop is one kernel over rows.

    schedule.loop {rows}    becomes    void tessera.rows.N(ptr table, i64 begin, i64 end, i64 worker)

    host             table = addresses, bounds, sizes, scratch       tessera.launch(@tessera.rows.N, table, rows, ...)
    tessera.rows.N   addresses of buffers that change hands: copied to the stack
                     loop: @kernel(context, begin * of_row, end * of_row, worker)      for each launch, in order
                     of row 0: the addresses go back to the table

Enters: a marked loop (`schedule/row_loops.py`). Leaves: that function in the host's module, and one launch of it. Every
call of the function exchanges buffers as often as any other, so that all end with the same addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import ROWS
from tesserac.target.cpu.guards import sizes_at
from tesserac.target.cpu.host_program import HostProgram
from tesserac.target.cpu.interrupts import is_stopped
from tesserac.target.cpu.launches import launcher
from tesserac.target.cpu.runners import elements_touched
from tesserac.target.cpu.system import HOST_ATTRIBUTES, call_imported
from tesserac.target.dims import emit_dim
from tesserac.target.flow import choose, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, PTR, VOID, LType, Value, const_i64
from tesserac.target.sizes import implied_guards
from tesserac.types.dims import ZERO, Dim

NAME = "tessera.rows"


def run_by_rows(host: HostProgram, loop: Op) -> None:
    """Writes the loop as a function over rows, and a launch of it."""
    if _may_leave(host, loop):
        host.loop(loop)
        return
    b, kernel = host.b, _RowKernel(host, loop)
    kernel.emit()
    low, high = (host.values[value] for value in loop.operands)
    launches = [op for op in loop.walk() if op.name == "tile.launch"]
    sizes = {**host.symbols, attr(loop, "counter", str): high}
    touched = emit_dim(b, sum(map(elements_touched, launches), ZERO), sizes)
    work = b.mul(touched, b.maximum_int(b.sub(high, low), const_i64(0)))
    table, rows = host.words(kernel.words()), emit_dim(b, kernel.rows, host.symbols)
    b.call(launcher(b.module), [kernel.function.pointer, table, rows, work, host.runner.threads, host.status])
    for place, value in enumerate(kernel.exchanged, start=kernel.ends):
        b.store(b.load(PTR, b.gep(I64, table, place), 8), host.slots[value], 8)


def _may_leave(host: HostProgram, loop: Op) -> bool:
    """Whether a size of an iteration may have no value: then the call ends, which no row can do by itself."""
    sizes = [dim for op in loop.walk() for dim in sizes_at(op, host.kernel_sizes)]
    return any(guard not in host.defined for guard in implied_guards(sizes))


class _RowKernel:
    """The function of one loop. Its table has what the loop takes from around it, the sizes, the scratch with the bytes
    of a worker, the status, the rows, and behind these the addresses that exchanged buffers have in the end."""

    def __init__(self, host: HostProgram, loop: Op) -> None:
        self.host, self.loop, self.rows = host, loop, attr(loop, ROWS, Dim)
        inside = {v for op in loop.walk() for v in (*op.results, *(a for r in op.regions for a in r.block.args))}
        self.outside = list(dict.fromkeys(v for op in loop.walk() for v in op.operands if v not in inside))
        self.symbols = sorted(host.symbols)
        self.exchanged = [value for value in self.outside if value in host.slots]
        self.ends = len(self.outside) + len(self.symbols) + 4
        number, module = 0, host.b.module
        while module.find_function(f"{NAME}.{number}") is not None:
            number += 1
        given = [PTR, I64, I64, I64]
        self.function = module.function(f"{NAME}.{number}", VOID, given, attributes=HOST_ATTRIBUTES, linkage="internal")

    def words(self) -> list[Value]:
        host = self.host
        given = [host.address(value) for value in self.outside] + [host.symbols[name] for name in self.symbols]
        rows = emit_dim(host.b, self.rows, host.symbols)
        kept = [host.address(value) for value in self.exchanged]
        return [*given, host.scratch, host.per_worker, host.status, rows, *kept]

    def emit(self) -> None:
        b, (table, begin, end, worker) = self.function.builder, self.function.args
        places = iter(range(self.ends))

        def taken(type_: LType) -> Value:
            return b.load(type_, b.gep(I64, table, next(places)), 8)

        values = {v: taken(PTR if isinstance(v.type, MemRefType) else I64) for v in self.outside}
        symbols = {name: taken(I64) for name in self.symbols}
        scratch, per_worker, status, rows = (taken(type_) for type_ in (PTR, I64, PTR, I64))
        slots = {value: b.alloca(PTR, 8) for value in self.exchanged}
        for value, slot in slots.items():
            b.store(values[value], slot, 8)
        program = replace(
            self.host, b=b, values=values, symbols=symbols, slots=slots, scratch=scratch, per_worker=per_worker,
            runner=_RowRunner(self.host.runner.code, status, rows, begin, end, worker), status=status, stop=b.ret,
            launch_functions=None,
        )  # fmt: skip
        program.loop(self.loop)

        def tell_addresses() -> None:
            for place, slot in enumerate(slots.values(), start=self.ends):
                b.store(b.load(PTR, slot, 8), b.gep(I64, table, place), 8)

        if_then(b, b.icmp("eq", begin, const_i64(0)), tell_addresses)
        b.ret()


@dataclass(frozen=True)
class _RowRunner:
    """Runs the programs that launches have for some rows, on this thread."""

    runs_in_turn: ClassVar[bool] = False
    threads: ClassVar[Value] = const_i64(1)
    code: Callable[[Op], Value]
    status: Value
    rows: Value
    begin: Value
    end: Value
    worker: Value

    def blocks(self, b: Builder, launch: Op, symbols: Mapping[str, Value]) -> dict[str, Value]:
        return {}

    def start(
        self, b: Builder, touched: Dim, code: Value, context: Value, programs: Value, symbols: Mapping[str, Value]
    ) -> None:
        of_row = b.binary("udiv", programs, self.rows)
        b.call(code, [context, b.mul(self.begin, of_row), b.mul(self.end, of_row), self.worker])

    def poll(self, b: Builder, loop: Op) -> None:
        """The thread that called looks for signals, and the others at what it found."""
        looks = b.icmp("eq", self.worker, const_i64(0))
        [stopped] = choose(
            b, looks, lambda: [call_imported(b, "pool.pool_poll", [self.status], I1)],
            lambda: [is_stopped(b, self.status)],
        )  # fmt: skip
        if_return(b, stopped, lambda: b.ret())
