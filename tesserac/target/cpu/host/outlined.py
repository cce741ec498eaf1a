"""A part of a host program as a function of its own, which the pool calls as it does kernels.

    operations    become    void tessera.NAME.N(ptr table, i64 begin, i64 end, i64 worker)

    host             table = addresses, bounds, sizes, scratch, bytes of a worker, status, what else it is given
    tessera.NAME.N   addresses of buffers that change hands: copied to the stack
                     the operations, their launches run by the runner that the function makes
                     of program 0: the addresses go back to the table

Enters: operations of a host program. Leaves: that function in the host's module. Where an operation would end the call,
the function returns; who called it finds that in the words where kernels tell of bad indices. Every call exchanges
buffers as often as any other, so that all end with the same addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import LENGTH
from tesserac.schedule.model.cuts import COLUMNS, ROWS
from tesserac.target.cpu.host.program import HostProgram
from tesserac.target.cpu.host.runners import Runner, elements_touched
from tesserac.target.dims import emit_dim
from tesserac.target.entry.guards import sizes_at
from tesserac.target.entry.interrupts import is_stopped
from tesserac.target.entry.system import HOST_ATTRIBUTES, call_imported
from tesserac.target.flow import choose, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, PTR, VOID, LType, Value, const_i64
from tesserac.target.sizes import implied_guards
from tesserac.types.dims import ZERO

OF_LAUNCH = frozenset({ROWS, COLUMNS, LENGTH})
"""Symbols that a launch binds, not the program."""


@dataclass(frozen=True)
class Called:
    """What a call of the function has: the status of the program, what else it was given, and its programs."""

    status: Value
    given: tuple[Value, ...]
    begin: Value
    end: Value
    worker: Value


@dataclass(frozen=True)
class OwnThread:
    """What runners of an outlined function have in common: its launches run on the thread that has called it."""

    runs_in_turn: ClassVar[bool] = False
    threads: ClassVar[Value] = const_i64(1)
    code: Callable[[Op], Value]
    called: Called

    def poll(self, b: Builder, loop: Op) -> None:
        """The thread that called looks for signals, and the others at what it found."""
        called = self.called
        looks = b.icmp("eq", called.worker, const_i64(0))
        [stopped] = choose(
            b, looks, lambda: [call_imported(b, "pool.pool_poll", [called.status], I1)],
            lambda: [is_stopped(b, called.status)],
        )  # fmt: skip
        if_return(b, stopped, lambda: b.ret())


class Outlined:
    """The function of some operations. Its table has what they take from around them, the sizes, the scratch with the
    bytes of a worker, the status, what is `given` beside, and behind these the addresses that exchanged buffers have
    in the end."""

    def __init__(self, host: HostProgram, ops: Sequence[Op], name: str, given: Sequence[Value]) -> None:
        self.host, self.given = host, given
        inner = [op for outer in ops for op in outer.walk()]
        inside = {v for op in inner for v in (*op.results, *(a for r in op.regions for a in r.block.args))}
        self.outside = list(dict.fromkeys(v for op in inner for v in op.operands if v not in inside))
        self.symbols = sorted(host.symbols)
        self.exchanged = [value for value in self.outside if value in host.slots]
        self.ends = len(self.outside) + len(self.symbols) + 3 + len(given)
        number, module = 0, host.b.module
        while module.find_function(f"{name}.{number}") is not None:
            number += 1
        types = [PTR, I64, I64, I64]
        self.function = module.function(f"{name}.{number}", VOID, types, attributes=HOST_ATTRIBUTES, linkage="internal")

    def table(self) -> Value:
        """That of one launch."""
        host = self.host
        words = [host.address(value) for value in self.outside] + [host.symbols[name] for name in self.symbols]
        kept = [host.address(value) for value in self.exchanged]
        return host.words([*words, host.scratch, host.per_worker, host.status, *self.given, *kept])

    def take_addresses(self, table: Value) -> None:
        """Has the host go on with what the function exchanged."""
        b = self.host.b
        for place, value in enumerate(self.exchanged, start=self.ends):
            b.store(b.load(PTR, b.gep(I64, table, place), 8), self.host.slots[value], 8)

    def emit(self, runner: Callable[[Called], Runner], run: Callable[[HostProgram], None]) -> None:
        b, (table, begin, end, worker) = self.function.builder, self.function.args
        places = iter(range(self.ends))

        def taken(type_: LType) -> Value:
            return b.load(type_, b.gep(I64, table, next(places)), 8)

        values = {v: taken(PTR if isinstance(v.type, MemRefType) else I64) for v in self.outside}
        symbols = {name: taken(I64) for name in self.symbols}
        scratch, per_worker, status = (taken(type_) for type_ in (PTR, I64, PTR))
        given = tuple(taken(value.type) for value in self.given)
        slots = {value: b.alloca(PTR, 8) for value in self.exchanged}
        for value, slot in slots.items():
            b.store(values[value], slot, 8)
        made = runner(Called(status, given, begin, end, worker))
        program = replace(
            self.host, b=b, values=values, symbols=symbols, slots=slots, scratch=scratch, per_worker=per_worker,
            runner=made, leave=lambda *_: b.ret(), status=status, stop=b.ret, launch_functions=None, by_rows=None,
            beside=None,
        )  # fmt: skip
        run(program)

        def tell_addresses() -> None:
            for place, slot in enumerate(slots.values(), start=self.ends):
                b.store(b.load(PTR, slot, 8), b.gep(I64, table, place), 8)

        if_then(b, b.icmp("eq", begin, const_i64(0)), tell_addresses)
        b.ret()


def may_leave(host: HostProgram, ops: Sequence[Op]) -> bool:
    """Whether a size may have no value: then the call ends, which no function of a part can do by itself."""
    sizes = [dim for outer in ops for op in outer.walk() for dim in sizes_at(op, host.kernel_sizes)]
    program = [dim for dim in sizes if dim.symbols().isdisjoint(OF_LAUNCH)]
    return any(guard not in host.defined for guard in implied_guards(program))


def work_of(host: HostProgram, loop: Op) -> Value:
    """Elements that the launches of a loop touch in all iterations, at most."""
    b, (low, high) = host.b, (host.values[value] for value in loop.operands)
    launches = [op for op in loop.walk() if op.name == "tile.launch"]
    sizes = {**host.symbols, attr(loop, "counter", str): high}
    known = [dim for dim in map(elements_touched, launches) if dim.symbols() <= sizes.keys()]
    touched = emit_dim(b, sum(known, ZERO), sizes)
    return b.mul(touched, b.maximum_int(b.sub(high, low), const_i64(0)))
