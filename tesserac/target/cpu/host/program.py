"""The body of a host program as code: launches in order, and the control flow around them.

Enters: operations of a `schedule.func`, with the memory and sizes they refer to. Leaves: instructions of the host
function. Every program of a launch goes through the pool, which runs small launches on the calling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from typing import Protocol

from tessera.signature import STATUS_ASSERT, STATUS_BAD_INDEX, STATUS_GUARD
from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, attr, attr_tuple
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import Guard
from tesserac.schedule.dialect import BESIDE, BRANCHES, KEPT, LENGTH, LENGTHS, ROWS, Predicate, memory
from tesserac.target.cpu.elements.gathers import NO_BAD_INDEX
from tesserac.target.cpu.elements.registers import memory_type
from tesserac.target.cpu.host.chains import chain_from, chain_table, in_turn
from tesserac.target.cpu.host.launches import several
from tesserac.target.cpu.host.runners import LaunchWriter, Runner, elements_touched, sizes_given, words
from tesserac.target.dims import INDEX_OPS, emit_dim
from tesserac.target.entry.checks import emit_guard, emit_predicate, negated
from tesserac.target.entry.guards import certain_guards, kernel_sizes, sizes_at
from tesserac.target.entry.interrupts import is_stopped
from tesserac.target.entry.printing import describe_print
from tesserac.target.entry.status import Sites
from tesserac.target.entry.system import call_imported
from tesserac.target.flow import choose, do_while, for_loop, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I8, I64, PTR, Value, const_i64, const_int, integer
from tesserac.target.sizes import implied_guards
from tesserac.tile.dialect import grid
from tesserac.types.dims import ZERO, Dim, product


def kernel_name(launch: Op) -> str:
    return attr(launch, "kernel", str)


class Leave(Protocol):
    """Ends the call: `op` is the place in the program, `values` are those of the status."""

    def __call__(self, code: int, op: Op, values: Sequence[Value]) -> None: ...


Iteration = Callable[[Value, list[Value]], Sequence[Value]]
"""The body of a loop: given the index and what is carried, it gives what is carried on."""


@dataclass
class HostProgram:
    """Writes operations with `b`. Each worker has `per_worker` bytes of `scratch`. `symbols` grows by the counters of
    the loops around the place. `leave` ends the call with a status, `stop` a call that was interrupted. `apart` writes
    a loop that is compiled as one; there is none in such a loop."""

    b: Builder
    kernels: Mapping[str, Op]
    values: dict[IRValue, Value]
    symbols: dict[str, Value]
    runner: Runner
    scratch: Value
    per_worker: Value
    leave: Leave
    sites: Sites
    status: Value
    stop: Callable[[], None]
    apart: Callable[[HostProgram, Op], None] | None
    slots: dict[IRValue, Value] = field(default_factory=dict)
    """Where the addresses of buffers that change hands are kept."""
    last: list[Value] = field(default_factory=list)
    """For each loop around that may end early, where it is kept that an iteration is the last."""
    defined: frozenset[Guard] = frozenset()
    """What has been tested by now for sizes to have values."""

    known_sizes: Mapping[str, Sequence[Dim]] | None = None
    """The sizes that each kernel uses, where they have been found."""
    invoke: Callable[[HostProgram, Op], None] | None = None
    """Writes a call of another function; there is none in a loop that is compiled as one."""
    keep: Callable[[HostProgram, Op], None] | None = None
    """Writes what reads a pack that is kept; likewise."""
    by_rows: Callable[[HostProgram, Op], None] | None = None
    """Writes a loop whose rows go apart; likewise."""
    beside: Callable[[HostProgram, Op], None] | None = None
    """Writes what runs beside other work; likewise."""
    launch_functions: LaunchWriter | None = None
    """Where there are many launches, those that are alike call one function."""
    done: set[Op] = field(default_factory=set)
    """Launches that run in turn with an earlier one."""

    @cached_property
    def kernel_sizes(self) -> Mapping[str, Sequence[Dim]]:
        return self.known_sizes or kernel_sizes(self.kernels)

    def prepare(self, func: Op) -> None:
        """Puts the addresses of buffers that change hands where they can be exchanged."""
        certain = certain_guards(func, self.kernel_sizes, self.symbols.keys())
        self.defined = frozenset(guard for _, guards in certain for guard in guards)
        for op in func.walk():
            for value in op.operands if op.name == "schedule.swap" else ():
                if value not in self.slots and not is_register(value):
                    self.slots[value] = self.b.alloca(PTR, 8)
                    self.b.store(self.values[value], self.slots[value], 8)

    def address(self, value: IRValue) -> Value:
        """The address that a name stands for now."""
        slot = self.slots.get(value)
        return self.values[value] if slot is None else self.b.load(PTR, slot, 8)

    def _swap(self, op: Op) -> None:
        left, right = (self.address(value) for value in op.operands)
        if is_register(op.operands[0]):
            self._exchange(left, right, register_bits(op.operands[0]))
            return
        for value, address in zip(op.operands, (right, left), strict=True):
            self.b.store(address, self.slots[value], 8)

    def _exchange(self, left: Value, right: Value, bits: int) -> None:
        """Registers keep their places, and what they hold changes hands."""
        held = [self.b.load(integer(bits), place, 1) for place in (left, right)]
        for value, place in zip(held, (right, left), strict=True):
            self.b.store(value, place, 1)

    def run(self, block: Block) -> None:
        before = self.defined
        for op in block.ops:
            self.run_op(op)
        self.defined = before

    def run_op(self, op: Op) -> None:
        self._define(op)
        if op.opdef.dialect == "index":
            self.values[op.result] = self._index(op)
        elif "sequential" in op.attrs and self.apart is not None:
            self.apart(self, op)
        elif ROWS in op.attrs and op.name == "schedule.loop" and self.by_rows is not None:
            self.by_rows(self, op)
        elif op.name not in DECLARATIONS:
            _RULES[op.name](self, op)

    def site(self, op: Op) -> int:
        """The number of a place that can end the call."""
        operator, text = op.attrs.get("operator", "assert"), op.attrs.get("text", "every index is in range")
        guard = op.attrs.get("guard")
        text = guard.text if isinstance(guard, Guard) else text
        return self.sites.add(str(operator), str(text), op.span)

    def _define(self, op: Op) -> None:
        """Leaves where a size that an operation uses has no value here; the entry has tested those of every call."""
        known = [dim for dim in sizes_at(op, self.kernel_sizes) if dim.symbols() <= self.symbols.keys()]
        for guard in implied_guards(known) if op.name not in DECLARATIONS else ():
            if guard not in self.defined:
                self.defined |= {guard}
                holds, left, right = emit_guard(self.b, guard, self.symbols)
                if_return(self.b, negated(self.b, holds), partial(self._undefined, op, guard, left, right))

    def _undefined(self, op: Op, guard: Guard, left: Value, right: Value) -> None:
        place = Op(op.opdef, (), (), {"operator": "guard", "guard": guard}, (), op.span)
        self.leave(STATUS_GUARD, place, [left, right])

    def _index(self, op: Op) -> Value:
        dim = op.attrs.get("dim")
        if isinstance(dim, Dim):
            return emit_dim(self.b, dim, self.symbols)
        left, right = (self.values[v] for v in op.operands)
        return INDEX_OPS[op.name.removeprefix("index.")](self.b, left, right)

    def _box(self, op: Op) -> None:
        offset, element = op.attrs["offset"], memory_type(memory(op.result).dtype)
        assert isinstance(offset, Dim)
        start = emit_dim(self.b, offset, self.symbols)
        self.values[op.result] = self.b.gep(element, self.address(op.operands[0]), start)

    def _parts(self, op: Op) -> None:
        self.values[op.result] = self.values[op.operands[0]]

    def _check(self, op: Op) -> None:
        """Leaves where a kernel has told of a bad index."""
        sizes = op.attrs["sizes"]
        assert isinstance(sizes, tuple)
        for number, size in enumerate(sizes):
            assert isinstance(size, Dim)
            word = self.b.load(I64, self.b.gep(I64, self.values[op.operands[0]], number), 8)
            bad = self.b.icmp("ne", word, const_i64(NO_BAD_INDEX))
            values = [word, emit_dim(self.b, size, self.symbols)]
            if_return(self.b, bad, partial(self.leave, STATUS_BAD_INDEX, op, values))

    def _stop_here(self) -> None:
        """What launches would have written is not there in a call that was stopped."""
        if_return(self.b, is_stopped(self.b, self.status), self.stop)

    def _assert(self, op: Op) -> None:
        self._stop_here()
        failed = self.b.icmp("eq", self.b.load(I8, self.address(op.operands[0]), 1), const_int(I8, 0))
        if_return(self.b, failed, partial(self.leave, STATUS_ASSERT, op, []))

    def _require(self, op: Op) -> None:
        guard, shown = op.attrs["guard"], op.attrs.get("shown")
        assert isinstance(guard, Guard)
        holds, left, right = emit_guard(self.b, guard, self.symbols)
        code, values = STATUS_GUARD, [left, right]
        if isinstance(shown, Dim):
            code, values = STATUS_BAD_INDEX, [emit_dim(self.b, shown, self.symbols), right]
        if_return(self.b, negated(self.b, holds), partial(self.leave, code, op, values))

    def _print(self, op: Op) -> None:
        """Hands the runtime the number of this place, and for each value its address and sizes."""
        self._stop_here()
        pieces, shown = op.attrs["pieces"], [memory(value) for value in op.operands]
        site = self.sites.add(str(op.attrs["to"]), describe_print(pieces, shown), op.span)
        words = [self.address(value) for value in op.operands]
        words += [emit_dim(self.b, dim, self.symbols) for mem in shown for dim in mem.dims]
        call_imported(self.b, "call.print", [const_i64(site), self.words(words)])

    def _launch(self, op: Op) -> None:
        kernel = self.kernels[kernel_name(op)]
        chain = chain_from(op) if self.runner.runs_in_turn else []
        if LENGTHS in op.attrs:
            self._launch_tensors(op, kernel)
        elif op not in self.done and not (len(chain) > 1 and self._launch_in_turn(chain)):
            self._launch_alone(op, kernel)

    def _launch_alone(self, op: Op, kernel: Op) -> None:
        if self.launch_functions is not None:
            memory = [self.address(value) for value in op.operands]
            self.launch_functions.launch(self.b, op, kernel, memory, self.symbols)
            return
        symbols = {**self.symbols, **self.runner.blocks(self.b, op, self.symbols)}
        context = self.words(self._slots(op.operands, kernel, symbols))
        programs = emit_dim(self.b, product(grid(kernel)), symbols)
        self.runner.start(self.b, elements_touched(op), self.runner.code(kernel), context, programs, symbols)

    def _launch_tensors(self, op: Op, kernel: Op) -> None:
        """One launch, whose programs are those of the first tensor, then those of the second, and so on."""
        b, lengths = self.b, attr_tuple(op, LENGTHS, Dim)
        many, total, firsts, contexts = len(op.operands) // len(lengths), const_i64(0), [const_i64(0)], list[Value]()
        for number, length in enumerate(lengths):
            symbols = {**self.symbols, LENGTH: emit_dim(b, length, self.symbols)}
            own = op.operands[number * many : (number + 1) * many]
            contexts.append(self.words(self._slots(own, kernel, symbols)))
            total = b.add(total, emit_dim(b, product(grid(kernel)), symbols))
            firsts.append(total)
        table = self.words([self.runner.code(kernel), const_i64(len(lengths)), *firsts, *contexts])
        self.runner.start(b, elements_touched(op), several(b.module).pointer, table, total, self.symbols)

    def _launch_in_turn(self, chain: Sequence[Op]) -> bool:
        """One launch, whose programs are those of all, number by number; whether there is one."""
        kernels = [self.kernels[kernel_name(launch)] for launch in chain]
        given = [self._slots(op.operands, kernel, self.symbols) for op, kernel in zip(chain, kernels, strict=True)]
        table = chain_table(self.b, chain, list(map(self.runner.code, kernels)), given, self.symbols)
        if table is not None:
            programs = emit_dim(self.b, product(grid(kernels[0])), self.symbols)
            touched = sum(map(elements_touched, chain), ZERO)
            self.runner.start(self.b, touched, in_turn(self.b), self.words(table), programs, self.symbols)
            self.done.update(chain)
        return table is not None

    def _call(self, op: Op) -> None:
        assert self.invoke is not None
        self.invoke(self, op)

    def _beside(self, op: Op) -> None:
        assert self.beside is not None
        self.beside(self, op)

    def words(self, given: Sequence[Value]) -> Value:
        return words(self.b, given)

    def _slots(self, operands: Sequence[IRValue], kernel: Op, given: Mapping[str, Value]) -> list[Value]:
        """What the kernel reads: memory, sizes, scratch, each in a slot."""
        words = [self.address(v) for v in operands]
        return [*words, *sizes_given(self.b, kernel, given), self.scratch, self.per_worker]

    # --- control ------------------------------------------------------------------------------------------------------

    def _select(self, op: Op) -> None:
        self._select_from(attr_tuple(op, "predicates", Predicate), [r.block for r in op.regions])

    def _select_from(self, predicates: Sequence[Predicate], blocks: Sequence[Block]) -> None:
        if not predicates:
            self.run(blocks[0])
            return
        holds = emit_predicate(self.b, predicates[0], self.symbols, self.runner.threads)
        self.either(holds, lambda: self.run(blocks[0]), lambda: self._select_from(predicates[1:], blocks[1:]))

    def _kept(self, op: Op) -> None:
        assert self.keep is not None
        self.keep(self, op)

    def _cond(self, op: Op) -> None:
        yes, no = (region.block for region in op.regions)
        flag = self._flag(op.operands[0])
        self.either(flag, lambda: self.run(yes), lambda: self.run(no))

    def either(self, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        def arm(run: Callable[[], None]) -> Callable[[], Sequence[Value]]:
            def body() -> Sequence[Value]:
                run()
                return ()

            return body

        choose(self.b, condition, arm(yes), arm(no))

    def _flag(self, value: IRValue) -> Value:
        return self.b.icmp("ne", self.b.load(I8, self.address(value), 1), const_int(I8, 0))

    def loop(self, op: Op) -> None:
        counter = attr(op, "counter", str)
        low, high = (self.values[v] for v in op.operands)

        def body(index: Value, _: list[Value]) -> Sequence[Value]:
            self.values[op.body.args[0]] = self.symbols[counter] = index
            self.runner.poll(self.b, op)
            self.run(op.body)
            del self.symbols[counter]
            return ()

        if _may_end(op):
            self._loop_that_may_end(low, high, body)
        else:
            for_loop(self.b, low, high, const_i64(1), [], body)

    def _loop_that_may_end(self, low: Value, high: Value, body: Iteration) -> None:
        """A loop that counts, until an iteration says that it is the last."""
        self.last.append(self.b.alloca(I8, 1))

        def again(carried: list[Value]) -> tuple[Value, Sequence[Value]]:
            body(carried[0], [])
            after = self.b.add(carried[0], const_i64(1))
            goes_on = self.b.icmp("eq", self.b.load(I8, self.last[-1], 1), const_int(I8, 0))
            return self.b.binary("and", goes_on, self.b.icmp("slt", after, high)), [after]

        def run() -> None:
            self.b.store(const_int(I8, 0), self.last[-1], 1)
            do_while(self.b, [low], again)

        if_then(self.b, self.b.icmp("slt", low, high), run)
        self.last.pop()

    def _last(self, op: Op) -> None:
        self.b.store(const_int(I8, 1), self.last[-1], 1)

    def _while(self, op: Op) -> None:
        test, body = (region.block for region in op.regions)

        def again(_: list[Value]) -> tuple[Value, Sequence[Value]]:
            self.runner.poll(self.b, op)
            self.run(test)
            go_on = self._flag(test.terminator.operands[0])
            if_then(self.b, go_on, lambda: self.run(body))
            return go_on, ()

        do_while(self.b, [], again)


def is_register(value: IRValue) -> bool:
    made = value.defining_op
    return made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "register"


def register_bits(buffer: IRValue) -> int:
    """Of all elements that it has."""
    ty = memory(buffer)
    return memory_type(ty.dtype).bits * product(ty.dims).evaluate({})


def _may_end(loop: Op) -> bool:
    branches = (region.block for op in loop.body.ops if op.name in BRANCHES for region in op.regions)
    return any(op.name == "schedule.last" for block in branches for op in block.ops)


DECLARATIONS = frozenset({"schedule.guard", "schedule.buffer", "schedule.return", "schedule.end", "schedule.test"})
"""Handled on entry, or by the operation around them."""

_RULES: dict[str, Callable[[HostProgram, Op], None]] = {
    "schedule.box": HostProgram._box,
    "schedule.swap": HostProgram._swap,
    "schedule.parts": HostProgram._parts,
    "schedule.check": HostProgram._check,
    "tile.launch": HostProgram._launch,
    "schedule.call": HostProgram._call,
    "schedule.assert": HostProgram._assert,
    "schedule.require": HostProgram._require,
    "schedule.print": HostProgram._print,
    "schedule.select": HostProgram._select,
    KEPT: HostProgram._kept,
    BESIDE: HostProgram._beside,
    "schedule.cond": HostProgram._cond,
    "schedule.loop": HostProgram.loop,
    "schedule.last": HostProgram._last,
    "schedule.while": HostProgram._while,
}
