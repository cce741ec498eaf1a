"""The host program of a function as machine code: guards, workspace, launches, in order.

Enters: a `schedule.func` whose launches are `tile.launch`, and the `cpu.kernel`s they name, whose code stands in the
same module under their names. Leaves, in that module:

    i32 tessera.entry(ptr args, ptr status)
        args: 8-byte slots: data of the inputs, data of the outputs, values of the symbols (sorted)
        status: {i32 code, i32 site, i64 values[4]}, written where the call fails; see `tessera.signature`
    i32 tessera.guards(ptr args, ptr status)
        only tests what the entry tests first

and the table of sites. Nothing is computed before every guard holds; nothing is left allocated on any way out. The
floating-point state of the thread is set to the one in which results are defined, and restored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tessera.signature import STATUS_INTERRUPTED, STATUS_OUT_OF_MEMORY
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.table import table_of
from tesserac.ir.types import TensorType
from tesserac.schedule.dialect import memory
from tesserac.target.cpu.checks import all_hold
from tesserac.target.cpu.extents import loop_bounds
from tesserac.target.cpu.gathers import NO_BAD_INDEX
from tesserac.target.cpu.guards import TOO_LARGE, GuardWriter
from tesserac.target.cpu.host_program import HostProgram, PoolRunner, elements_touched, kernel_name, register_bits
from tesserac.target.cpu.interrupts import begin_status, is_stopped
from tesserac.target.cpu.launches import INLINE_ELEMENTS
from tesserac.target.cpu.pool import MAX_THREADS
from tesserac.target.cpu.sequential import LoopModule
from tesserac.target.cpu.status import HostSite, Sites, return_status
from tesserac.target.cpu.system import (
    HOST_ATTRIBUTES,
    call_imported,
    default_float_state,
    float_state_differs,
    read_float_state,
    write_float_state,
)
from tesserac.target.cpu.workspace import ALIGNMENT, BufferBytes, plan_workspace, slot_of
from tesserac.target.dims import emit_dim
from tesserac.target.emit import Function, Module
from tesserac.target.flow import choose, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I8, I32, I64, PTR, Value, array, const_i64, const_int, integer, zero
from tesserac.types.dims import LARGEST_SIZE


def emit_host(
    module: Module, func: Op, kernels: Mapping[str, Op], buffer_bytes: BufferBytes, loops: LoopModule
) -> tuple[Function, tuple[HostSite, ...]]:
    """Emits `tessera.entry` and gives it with its sites; loops that are compiled as one go to `loops`."""
    host = _Host(module, func, kernels, buffer_bytes, loops)
    host.emit(host.emit_guards())
    return _emit_entry(module, host.function), host.sites.table()


def _emit_entry(module: Module, body: Function) -> Function:
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
    return entry


class _Host:
    def __init__(
        self, module: Module, func: Op, kernels: Mapping[str, Op], buffer_bytes: BufferBytes, loops: LoopModule
    ) -> None:
        self.module = module
        self.loops = loops
        self.func = func
        self.function = module.function("tessera.host", I32, [PTR, PTR], attributes=HOST_ATTRIBUTES, linkage="internal")
        self.b = self.function.builder
        self.sites = Sites()
        self.values: dict[IRValue, Value] = {}
        self.symbols: dict[str, Value] = {}
        self.launches = [op for op in func.walk() if op.name == "tile.launch"]
        self.kernels = {name: kernels[name] for name in map(kernel_name, self.launches)}
        self.outputs = sorted((op for op in func.body.ops if _has_role(op, "output")), key=slot_of)
        self.workspaces = [op for op in func.body.ops if _has_role(op, "workspace")]
        self.plan = plan_workspace(self.workspaces, self.kernels.values(), buffer_bytes, loop_bounds(func))

    def emit_guards(self) -> Function:
        writer = GuardWriter(self.module, self.func, self.sites)
        symbols = self._read_symbols(writer.b, writer.function.args[0])
        kernels = list(self.kernels.values())
        return writer.emit(symbols, kernels, [*self.plan.slots, self.plan.scratch * MAX_THREADS])

    def emit(self, guards: Function) -> None:
        b = self.b
        refused = b.call(guards, self.function.args)
        if_return(b, b.icmp("ne", refused, const_int(I32, 0)), lambda: b.ret(refused))
        self._read_arguments()
        threads = self._threads()
        per_worker = emit_dim(b, self.plan.scratch, self.symbols)
        self._clear_status()
        self._place_tables()
        self._place_registers()
        block, scratch = self._allocate(threads, per_worker)

        def free() -> None:
            if block is not None:
                call_imported(b, "pool.pool_give", [block])

        def leave(code: int, op: Op, values: Sequence[Value]) -> None:
            free()
            return_status(b, self.function.args[1], code, program.site(op), values)

        def stop() -> None:
            free()
            b.ret(const_int(I32, STATUS_INTERRUPTED))

        places, status = (self.values, self.symbols), self.function.args[1]
        runner, apart = PoolRunner(threads, status, stop), partial(self.loops.run_apart, free=free)
        program = HostProgram(
            b, self.kernels, *places, runner, scratch, per_worker, leave, self.sites, status, stop, apart
        )
        program.prepare(self.func)
        program.run(self.func.body)
        free()
        b.ret(const_int(I32, 0))

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
            self.values[op.result] = self.module.bytes_constant(f"tessera.table.{number}", data, ALIGNMENT)

    def _read_arguments(self) -> None:
        b, arguments = self.b, self.function.args[0]
        for place, value in enumerate([*self.func.body.args, *(op.result for op in self.outputs)]):
            self.values[value] = b.load(PTR, b.gep(PTR, arguments, place), 8)
        self.symbols.update(self._read_symbols(b, arguments))

    def _read_symbols(self, b: Builder, arguments: Value) -> dict[str, Value]:
        first = len(self.func.body.args) + len(self.outputs)
        names = {name for arg in self.func.body.args for dim in memory(arg).dims for name in dim.symbols()}
        places = enumerate(sorted(names), first)
        return {name: b.load(I64, b.gep(I64, arguments, place), 8) for place, name in places}

    def _threads(self) -> Value:
        """How many threads launches may use: one, without asking the pool, for a call whose launches are all small."""
        b, sizes = self.b, dict.fromkeys(elements_touched(launch) for launch in self.launches)

        def ask() -> list[Value]:
            return [call_imported(b, "pool.pool_threads", [], I64)]

        if not all(size.symbols() <= self.symbols.keys() for size in sizes):
            return ask()[0]
        values = [emit_dim(b, size, self.symbols) for size in sizes]
        small = all_hold(b, [b.icmp("ult", value, const_i64(INLINE_ELEMENTS)) for value in values])
        return choose(b, small, lambda: [const_i64(1)], ask)[0]

    def _allocate(self, threads: Value, per_worker: Value) -> tuple[Value | None, Value]:
        """Takes the workspace and places the buffers in it; gives what to give back, and the scratch."""
        b, starts = self.b, [const_i64(0)]
        for size in self.plan.slots:
            starts.append(_sum(b, starts[-1], emit_dim(b, size, self.symbols)))
        total = _sum(b, starts[-1], b.mul(per_worker, threads))
        block = None if total.number == 0 else self._taken(total)
        start = zero(PTR) if block is None else block
        for op in self.workspaces:
            self.values[op.result] = b.gep(I8, start, starts[slot_of(op)])
        return block, b.gep(I8, start, starts[-1])

    def _taken(self, total: Value) -> Value:
        """Memory at a cache line, or the end of the call."""
        b = self.b
        block = call_imported(b, "pool.pool_take", [total], PTR)
        site, status = self.sites.add("workspace", TOO_LARGE, self.func.span), self.function.args[1]
        failed = b.icmp("eq", block, zero(PTR))
        if_return(b, failed, lambda: return_status(b, status, STATUS_OUT_OF_MEMORY, site, [total]))
        return block


def _sum(b: Builder, left: Value, right: Value) -> Value:
    """Of numbers of bytes; more than all memory rather than wrapped around."""
    if left.number is not None and right.number is not None:
        return const_i64(min(left.number + right.number, LARGEST_SIZE))
    return b.intrinsic("llvm.sadd.sat", I64, [left, right], [I64])


def _has_role(op: Op, role: str) -> bool:
    return op.name == "schedule.buffer" and op.attrs["role"] == role
