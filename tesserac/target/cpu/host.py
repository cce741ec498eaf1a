"""The host program of a function as machine code: guards, workspace, launches, in order.

Enters: a `schedule.func` whose launches are `tile.launch`, and the `cpu.kernel`s they name, whose code stands in the
same module under their names. Leaves, in that module:

    i32 tessera.entry(ptr args, ptr status)
        args: 8-byte slots: data of the inputs, data of the outputs, values of the symbols (sorted)
        status: {i32 code, i32 site, i64 values[4]}, written where the call fails; see `tessera.signature`

and the table of sites. Nothing is computed before every guard holds; nothing is left allocated on any way out. The
floating-point state of the thread is set to the one in which results are defined, and restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tessera.signature import STATUS_GUARD, STATUS_OUT_OF_MEMORY
from tesserac.base.source import Span
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import Guard
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import Predicate, memory
from tesserac.target.cpu.checks import all_hold, emit_guard, negated
from tesserac.target.cpu.estimate import LARGEST, emit_estimate
from tesserac.target.cpu.host_program import INLINE_ELEMENTS, HostProgram, elements_touched, kernel_name
from tesserac.target.cpu.system import call_imported, default_float_state, read_float_state, write_float_state
from tesserac.target.cpu.workspace import ALIGNMENT, BufferBytes, plan_workspace, slot_of
from tesserac.target.dims import emit_dim
from tesserac.target.emit import Function, Module
from tesserac.target.flow import choose, if_return, if_then
from tesserac.target.llvm_types import F64, I8, I32, I64, PTR, Value, const_float, const_i64, const_int, zero
from tesserac.target.sizes import implied_guards
from tesserac.tile.dialect import grid
from tesserac.types.dims import Dim, product


@dataclass(frozen=True)
class HostSite:
    """A place in the program that can end a call; its number stands in the status."""

    operator: str
    text: str
    span: Span


def emit_host(
    module: Module, func: Op, kernels: Mapping[str, Op], buffer_bytes: BufferBytes
) -> tuple[Function, tuple[HostSite, ...]]:
    """Emits `entry` and gives it with its sites."""
    host = _Host(module, func, kernels, buffer_bytes)
    host.emit()
    return _emit_entry(module, host.function), tuple(host.sites)


def _emit_entry(module: Module, body: Function) -> Function:
    """Runs the body in the floating-point state in which results are defined."""
    entry = module.function("tessera.entry", I32, [PTR, PTR])
    b = entry.builder
    before, wanted = read_float_state(b), default_float_state(b)
    differs = b.icmp("ne", before, wanted)
    if_then(b, differs, lambda: write_float_state(b, wanted))
    code = b.call(body, entry.args)
    if_then(b, differs, lambda: write_float_state(b, before))
    b.ret(code)
    return entry


class _Host:
    def __init__(self, module: Module, func: Op, kernels: Mapping[str, Op], buffer_bytes: BufferBytes) -> None:
        self.func = func
        self.function = module.function("tessera.host", I32, [PTR, PTR], linkage="internal")
        self.b = self.function.builder
        self.sites: list[HostSite] = []
        self.values: dict[IRValue, Value] = {}
        self.symbols: dict[str, Value] = {}
        self.launches = [op for op in func.walk() if op.name == "tile.launch"]
        self.kernels = {name: kernels[name] for name in map(kernel_name, self.launches)}
        self.outputs = [op for op in func.body.ops if _has_role(op, "output")]
        self.workspaces = [op for op in func.body.ops if _has_role(op, "workspace")]
        self.plan = plan_workspace(self.workspaces, self.kernels.values(), buffer_bytes)

    def emit(self) -> None:
        self._read_arguments()
        self._check_guards()
        self._check_extents()
        threads = self._threads()
        per_worker = emit_dim(self.b, self.plan.scratch, self.symbols)
        block, scratch = self._allocate(threads, per_worker)
        program = HostProgram(self.b, self.kernels, self.values, self.symbols, threads, scratch, per_worker)
        program.run(self.func.body)
        if block is not None:
            call_imported(self.b, "libc.free", [block])
        self.b.ret(const_int(I32, 0))

    def _read_arguments(self) -> None:
        b, arguments = self.b, self.function.args[0]
        outputs = [op.result for op in sorted(self.outputs, key=slot_of)]
        pointers = [*self.func.body.args, *outputs]
        for place, value in enumerate(pointers):
            self.values[value] = b.load(PTR, b.gep(PTR, arguments, place), 8)
        names = {name for arg in self.func.body.args for dim in memory(arg).dims for name in dim.symbols()}
        for place, name in enumerate(sorted(names), len(pointers)):
            self.symbols[name] = b.load(I64, b.gep(I64, arguments, place), 8)

    def _known(self, dim: Dim) -> bool:
        """Whether the size has a value on entry; inside a loop it may depend on the loop's counter."""
        return dim.symbols() <= self.symbols.keys()

    # --- guards -------------------------------------------------------------------------------------------------------

    def _check_guards(self) -> None:
        """The program's own guards, and before a size is used what it needs to have a value."""
        checked: set[tuple[str, Dim, Dim]] = set()
        for op in self.func.body.ops:
            guard = op.attrs.get("guard")
            if isinstance(guard, Guard):
                self._check(implied_guards([guard.left, guard.right]), self.func.span, checked)
                self._check([guard], op.span, checked)
        used = [dim for dim in self._sizes_used() if self._known(dim)]
        self._check(implied_guards(used), self.func.span, checked)

    def _sizes_used(self) -> Iterator[Dim]:
        yield from (*self.plan.slots, self.plan.scratch)
        for function in (self.func, *self.kernels.values()):
            for op in function.walk():
                yield from _dims_of(op)

    def _check(self, guards: Sequence[Guard], span: Span, checked: set[tuple[str, Dim, Dim]]) -> None:
        for guard in guards:
            if (guard.kind, guard.left, guard.right) in checked:
                continue
            checked.add((guard.kind, guard.left, guard.right))
            holds, left, right = emit_guard(self.b, guard, self.symbols)
            site = self._site("guard", guard.text, span)
            if_return(self.b, negated(self.b, holds), partial(self._fail, STATUS_GUARD, site, [left, right]))

    def _check_extents(self) -> None:
        """Leaves where a number of bytes or of programs would not fit its integer."""
        b = self.b
        extents = [*self.plan.slots, self.plan.scratch, *(product(grid(k)) for k in self.kernels.values())]
        for extent in dict.fromkeys(extents):
            if extent.constant is None and self._known(extent):
                estimate = emit_estimate(b, extent, self.symbols)
                too_large = b.fcmp("uge", estimate, const_float(F64, LARGEST))
                if_return(b, too_large, partial(self._fail_memory, estimate))

    def _site(self, operator: str, text: str, span: Span) -> int:
        self.sites.append(HostSite(operator, text, span))
        return len(self.sites) - 1

    def _fail(self, code: int, site: int, values: Sequence[Value]) -> None:
        b, status = self.b, self.function.args[1]
        b.store(const_int(I32, code), status, 4)
        b.store(const_int(I32, site), b.gep(I32, status, 1), 4)
        for i, value in enumerate(values):
            b.store(value, b.gep(I64, status, 1 + i), 8)
        b.ret(const_int(I32, code))

    def _fail_memory(self, needed: Value) -> None:
        if needed.type == F64:
            needed = self.b.intrinsic("llvm.fptosi.sat", I64, [needed], [I64, F64])
        site = self._site("workspace", "the sizes of the call are too large for this machine", self.func.span)
        self._fail(STATUS_OUT_OF_MEMORY, site, [needed])

    # --- memory and threads -------------------------------------------------------------------------------------------

    def _threads(self) -> Value:
        """How many threads launches may use: one, without asking the pool, for a call whose launches are all small."""
        b, sizes = self.b, [elements_touched(launch) for launch in self.launches]

        def ask() -> list[Value]:
            return [call_imported(b, "pool.pool_threads", [], I64)]

        if not all(map(self._known, sizes)):
            return ask()[0]
        values = [emit_dim(b, size, self.symbols) for size in sizes]
        small = all_hold(b, [b.icmp("ult", value, const_i64(INLINE_ELEMENTS)) for value in values])
        return choose(b, small, lambda: [const_i64(1)], ask)[0]

    def _allocate(self, threads: Value, per_worker: Value) -> tuple[Value | None, Value]:
        """Takes the workspace from the system and places the buffers in it; gives what to free, and the scratch."""
        b, starts = self.b, [const_i64(0)]
        for size in self.plan.slots:
            starts.append(b.add(starts[-1], emit_dim(b, size, self.symbols)))
        total = b.add(starts[-1], b.mul(per_worker, threads))
        if total.number == 0:
            return None, zero(PTR)
        block, start = self._malloc(total)
        for op in self.workspaces:
            self.values[op.result] = b.gep(I8, start, starts[slot_of(op)])
        return block, b.gep(I8, start, starts[-1])

    def _malloc(self, total: Value) -> tuple[Value, Value]:
        """(what to free, the first aligned address in it)"""
        b = self.b
        block = call_imported(b, "libc.malloc", [b.add(total, const_i64(ALIGNMENT))], PTR)
        if_return(b, b.icmp("eq", block, zero(PTR)), partial(self._fail_memory, total))
        address = b.add(b.cast("ptrtoint", block, I64), const_i64(ALIGNMENT - 1))
        return block, b.cast("inttoptr", b.binary("and", address, const_i64(-ALIGNMENT)), PTR)


def _has_role(op: Op, role: str) -> bool:
    return op.name == "schedule.buffer" and op.attrs["role"] == role


def _dims_of(op: Op) -> Iterator[Dim]:
    """Every size expression that the code of an operation evaluates."""
    for attr in op.attrs.values():
        for item in attr if isinstance(attr, tuple) else (attr,):
            if isinstance(item, Dim):
                yield item
            elif isinstance(item, Predicate):
                yield from (item.left, item.right)
    for value in (*op.results, *(arg for region in op.regions for arg in region.block.args)):
        if isinstance(value.type, MemRefType):
            yield from (*value.type.dims, *value.type.strides)
