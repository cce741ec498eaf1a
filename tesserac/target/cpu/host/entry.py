"""The host program of a function as machine code: guards, workspace, launches, in order.

Enters: a `schedule.func` whose launches are `tile.launch`, with those that it calls, and the `cpu.kernel`s they name,
whose code stands in the same module under their names. Leaves, in that module:

    i32 tessera.entry(ptr args, ptr status)
        args: 8-byte slots: data of the inputs, data of the outputs, values of the symbols (sorted)
        status: {i32 code, i32 site, i64 values[4]}, written where the call fails; see `tessera.signature`
    i32 tessera.guards(ptr args, ptr status)
        only tests what the entry tests first
    i1 tessera.short(ptr args)
        whether such a call is over so soon that it keeps the interpreter lock (`short_calls.py`)
    i32 tessera.call.N(ptr args, ptr status, ptr workspace, ptr scratch, i64 per_worker, i64 threads)
        a function that others of the module call, in the room that its caller has for it

and the table of sites. Nothing is computed before every guard holds; nothing is left allocated on any way out. The
floating-point state of the thread is set to the one in which results are defined, and restored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tessera.signature import STATUS_INTERRUPTED, STATUS_OUT_OF_MEMORY
from tesserac.base.dataclass import dataclass
from tesserac.ir.calls import call_dims, callee_of, own_symbols
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.table import table_of
from tesserac.ir.types import TensorType
from tesserac.schedule.dialect import CALL, LENGTHS, memory
from tesserac.target.cpu.elements.gathers import NO_BAD_INDEX
from tesserac.target.cpu.host.frozen_packs import emit_kept
from tesserac.target.cpu.host.launch_functions import WRITTEN_OUT, LaunchFunctions
from tesserac.target.cpu.host.launches import INLINE_ELEMENTS
from tesserac.target.cpu.host.program import HostProgram, kernel_name, register_bits
from tesserac.target.cpu.host.row_loops import run_by_rows
from tesserac.target.cpu.host.runners import PoolRunner, elements_touched
from tesserac.target.cpu.host.sequential import LoopModules
from tesserac.target.cpu.host.short_calls import SHORT, emit_short, is_straight
from tesserac.target.cpu.host.tasks import run_beside
from tesserac.target.cpu.host.workspace import ALIGNMENT, BufferBytes, Plan, plan_workspace, slot_of
from tesserac.target.cpu.pool.words import MAX_THREADS
from tesserac.target.dims import emit_dim
from tesserac.target.emit import Function, Module
from tesserac.target.entry.checks import all_hold
from tesserac.target.entry.extents import loop_bounds
from tesserac.target.entry.guards import TOO_LARGE, GuardWriter, kernel_sizes
from tesserac.target.entry.interrupts import begin_status, is_stopped
from tesserac.target.entry.status import HostSite, Sites, return_status
from tesserac.target.entry.system import (
    HOST_ATTRIBUTES,
    call_imported,
    default_float_state,
    float_state_differs,
    read_float_state,
    write_float_state,
)
from tesserac.target.flow import choose, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I8, I32, I64, PTR, LType, Value, array, const_i64, const_int, integer, zero
from tesserac.types.dims import LARGEST_SIZE, Dim


def emit_host(
    module: Module, functions: Sequence[Op], kernels: Mapping[str, Op], buffer_bytes: BufferBytes, loops: LoopModules
) -> tuple[HostSite, ...]:
    """Emits `tessera.entry` and gives its sites. `functions` are what it calls, each behind what that calls
    itself, and the entry; loops that are compiled as one go to `loops`."""
    program = _Program(module, kernels, buffer_bytes, loops)
    *called, entry = functions
    for func in called:
        program.called[func.symbol] = _Called(program, func)
    host = _Entry(program, entry)
    for made in program.called.values():
        made.emit()
    host.emit()
    host.emit_short()
    _emit_entry(module, host.function)
    return program.sites.table()


def _emit_entry(module: Module, body: Function) -> None:
    """Runs the body in the floating-point state in which results are defined."""
    entry = module.function("tessera.entry", I32, [PTR, PTR], attributes=HOST_ATTRIBUTES)
    b = entry.builder
    before = read_float_state(b)
    differs = float_state_differs(b, before)
    if_then(b, differs, lambda: write_float_state(b, default_float_state(b)))
    begin_status(b, entry.args[1])
    code = b.call(body, entry.args)
    if_then(b, differs, lambda: write_float_state(b, before))
    b.ret(b.select(is_stopped(b, entry.args[1]), const_int(I32, STATUS_INTERRUPTED), code))


class _Program:
    """What the functions of an artifact share."""

    def __init__(
        self, module: Module, kernels: Mapping[str, Op], buffer_bytes: BufferBytes, loops: LoopModules
    ) -> None:
        self.module = module
        self.kernels = kernels
        self.buffer_bytes = buffer_bytes
        self.loops = loops
        self.sites = Sites()
        self.called: dict[str, _Called] = {}


@dataclass(frozen=True)
class _Room:
    """Where a function works: its workspace, the scratch of the workers with the bytes of each, and so many threads."""

    workspace: Value
    scratch: Value
    per_worker: Value
    threads: Value


class _Host:
    """The code of one function; where it finds room is said by who it is."""

    def __init__(self, program: _Program, func: Op, name: str, parameters: Sequence[LType]) -> None:
        self.program = program
        self.module = program.module
        self.func = func
        self.name = name
        self.function = self.module.function(
            name, I32, list(parameters), attributes=HOST_ATTRIBUTES, linkage="internal"
        )
        self.b = self.function.builder
        self.values: dict[IRValue, Value] = {}
        self.symbols: dict[str, Value] = {}
        self.launches = [op for op in func.walk() if op.name == "tile.launch"]
        self.calls = [op for op in func.walk() if op.name == CALL]
        self.kernels = {name: program.kernels[name] for name in map(kernel_name, self.launches)}
        self.kernel_sizes = kernel_sizes(self.kernels)
        self.outputs = sorted((op for op in func.body.ops if _has_role(op, "output")), key=slot_of)
        self.workspaces = [op for op in func.body.ops if _has_role(op, "workspace")]
        inside = [(program.called[callee_of(op)].plan, call_dims(op)) for op in self.calls]
        self.plan: Plan = plan_workspace(
            self.workspaces, self.kernels.values(), program.buffer_bytes, loop_bounds(func), inside
        )

    def touched(self) -> list[Dim]:
        """How many elements each launch touches, also of what is called."""
        found = dict.fromkeys(elements_touched(launch) for launch in self.launches)
        for op in self.calls:
            dims = call_dims(op)
            found |= dict.fromkeys(size.substitute(dims) for size in self.program.called[callee_of(op)].touched())
        return list(found)

    def emit_guards(self, name: str) -> Function:
        writer = GuardWriter(self.module, self.func, self.program.sites, name)
        symbols = self._read_symbols(writer.b, writer.function.args[0])
        kernels = list(self.kernels.values())
        return writer.emit(symbols, kernels, self.kernel_sizes, [*self.plan.parts, self.plan.scratch * MAX_THREADS])

    def write(self, guards: Function, take_room: Callable[[], _Room], free: Callable[[], None]) -> None:
        """`take_room` is called once sizes are known and guards hold, `free` on every way out behind that."""
        b, status = self.b, self.function.args[1]
        refused = b.call(guards, self.function.args[:2])
        if_return(b, b.icmp("ne", refused, const_int(I32, 0)), lambda: b.ret(refused))
        self._read_arguments()
        self._clear_status()
        self._place_tables()
        self._place_registers()
        room = take_room()
        inside = self._place_workspace(room.workspace)

        def leave(code: int, op: Op, values: Sequence[Value]) -> None:
            free()
            return_status(b, status, code, program.site(op), values)

        def end(code: Value) -> None:
            free()
            b.ret(code)

        stop = partial(end, const_int(I32, STATUS_INTERRUPTED))
        runner, apart = PoolRunner(room.threads, status, stop), partial(self.program.loops.run_apart, free=free)
        program = HostProgram(
            b, self.kernels, self.values, self.symbols, runner, room.scratch, room.per_worker, leave,
            self.program.sites, status, stop, apart, known_sizes=self.kernel_sizes,
            invoke=partial(self._invoke, replace(room, workspace=inside), end),
            keep=partial(emit_kept, self.program.buffer_bytes), by_rows=run_by_rows, beside=run_beside,
            launch_functions=self._launch_functions(room),
        )  # fmt: skip
        program.prepare(self.func)
        program.run(self.func.body)
        end(const_int(I32, 0))

    def _launch_functions(self, room: _Room) -> LaunchFunctions | None:
        if len(self.launches) <= WRITTEN_OUT:
            return None
        alone = [(op, self.kernels[kernel_name(op)]) for op in self.launches if LENGTHS not in op.attrs]
        given = (room.scratch, room.per_worker, room.threads, self.function.args[1])
        return LaunchFunctions(self.b, alone, self.symbols, given)

    def _invoke(self, room: _Room, end: Callable[[Value], None], program: HostProgram, op: Op) -> None:
        """Runs another function in the room that is left, and ends as it does if it fails."""
        b, callee, dims = self.b, self.program.called[callee_of(op)], call_dims(op)
        words = [program.address(value) for value in op.operands]
        words += [emit_dim(b, dims[name], program.symbols) for name in own_symbols(callee.func)]
        given = [program.words(words), program.status, room.workspace, room.scratch, room.per_worker, room.threads]
        code = b.call(callee.function, given)
        if_return(b, b.icmp("ne", code, const_int(I32, 0)), partial(end, code))

    def _place_workspace(self, start: Value) -> Value:
        """Places the buffers; gives where what is called has its own."""
        b, place = self.b, start
        starts = []
        for size in self.plan.slots:
            starts.append(place)
            place = b.gep(I8, place, emit_dim(b, size, self.symbols))
        for op in self.workspaces:
            self.values[op.result] = starts[slot_of(op)]
        return place

    def _clear_status(self) -> None:
        """Words in which kernels tell of bad indices, on the stack: at first there are none."""
        b = self.b
        for op in self.func.body.ops:
            if _has_role(op, "status"):
                count = memory(op.result).dims[0].evaluate({})
                words = self.values[op.result] = b.alloca(array(I64, count), 8)
                for number in range(count):
                    b.store(const_i64(NO_BAD_INDEX), b.gep(I64, words, number), 8)

    def _place_registers(self) -> None:
        for op in self.func.body.ops:
            if _has_role(op, "register"):
                self.values[op.result] = self.b.alloca(integer(register_bits(op.result)), 8)

    def _place_tables(self) -> None:
        for number, op in enumerate(op for op in self.func.body.ops if _has_role(op, "constant")):
            ty = memory(op.result)
            data = table_of(op).values(TensorType(ty.dims, ty.dtype, ty.policy)).tobytes()
            self.values[op.result] = self.module.table(f"{self.name}.table.{number}", data, ALIGNMENT)

    def _read_arguments(self) -> None:
        b, arguments = self.b, self.function.args[0]
        for place, value in enumerate([*self.func.body.args, *(op.result for op in self.outputs)]):
            self.values[value] = b.load(PTR, b.gep(PTR, arguments, place), 8)
        self.symbols.update(self._read_symbols(b, arguments))

    def _read_symbols(self, b: Builder, arguments: Value) -> dict[str, Value]:
        first = len(self.func.body.args) + len(self.outputs)
        places = enumerate(own_symbols(self.func), first)
        return {name: b.load(I64, b.gep(I64, arguments, place), 8) for place, name in places}


class _Entry(_Host):
    """What is called from outside: it takes its room from the system."""

    def __init__(self, program: _Program, func: Op) -> None:
        super().__init__(program, func, "tessera.host", [PTR, PTR])
        self._block: Value | None = None

    def emit(self) -> None:
        self.write(self.emit_guards("tessera.guards"), self._take, self._free)

    def emit_short(self) -> None:
        function = self.module.function(SHORT, I1, [PTR], attributes=HOST_ATTRIBUTES)
        if is_straight(self.func):
            emit_short(function.builder, self.touched(), self._read_symbols(function.builder, function.args[0]))
        else:
            function.builder.ret(const_int(I1, 0))

    def _free(self) -> None:
        if self._block is not None:
            call_imported(self.b, "pool.pool_give", [self._block])

    def _take(self) -> _Room:
        b, end = self.b, const_i64(0)
        threads, per_worker = self._threads(), emit_dim(b, self.plan.scratch, self.symbols)
        for size in self.plan.parts:
            end = _sum(b, end, emit_dim(b, size, self.symbols))
        total = _sum(b, end, b.mul(per_worker, threads))
        self._block = None if total.number == 0 else self._taken(total)
        start = zero(PTR) if self._block is None else self._block
        return _Room(start, b.gep(I8, start, end), per_worker, threads)

    def _threads(self) -> Value:
        """How many threads launches may use: one, without asking the pool, for a call whose launches are all small."""
        b, sizes = self.b, self.touched()

        def ask() -> list[Value]:
            return [call_imported(b, "pool.pool_threads", [], I64)]

        if not all(size.symbols() <= self.symbols.keys() for size in sizes):
            return ask()[0]
        values = [emit_dim(b, size, self.symbols) for size in sizes]
        small = all_hold(b, [b.icmp("ult", value, const_i64(INLINE_ELEMENTS)) for value in values])
        return choose(b, small, lambda: [const_i64(1)], ask)[0]

    def _taken(self, total: Value) -> Value:
        """Memory at a cache line, or the end of the call."""
        b = self.b
        block = call_imported(b, "pool.pool_take", [total], PTR)
        site, status = self.program.sites.add("workspace", TOO_LARGE, self.func.span), self.function.args[1]
        failed = b.icmp("eq", block, zero(PTR))
        if_return(b, failed, lambda: return_status(b, status, STATUS_OUT_OF_MEMORY, site, [total]))
        return block


class _Called(_Host):
    """What others of the artifact call: they give it room."""

    def __init__(self, program: _Program, func: Op) -> None:
        name = f"tessera.call.{len(program.called)}"
        super().__init__(program, func, name, [PTR, PTR, PTR, PTR, I64, I64])

    def emit(self) -> None:
        guards = self.emit_guards(f"{self.name}.guards")
        guards.linkage = "internal"
        self.write(guards, lambda: _Room(*self.function.args[2:]), lambda: None)


def _sum(b: Builder, left: Value, right: Value) -> Value:
    """Of numbers of bytes; more than all memory rather than wrapped around."""
    if left.number is not None and right.number is not None:
        return const_i64(min(left.number + right.number, LARGEST_SIZE))
    return b.intrinsic("llvm.sadd.sat", I64, [left, right], [I64])


def _has_role(op: Op, role: str) -> bool:
    return op.name == "schedule.buffer" and op.attrs["role"] == role
