"""The host program of a function as machine code: guards, workspace, launches, in order.

Enters: a `schedule.func` whose launches are `tile.launch`, and the `cpu.kernel`s they name, whose code stands in the
same module under their names. Leaves, in that module:

    i32 entry(ptr args, ptr status)
        args: 8-byte slots: data of the inputs, data of the outputs, values of the symbols (sorted)
        status: {i32 code, i32 site, i64 values[4]}, written where the call fails; see `tessera.signature`

and the table of sites. Nothing is computed before every guard holds; nothing is left allocated on any way out. The
floating-point state of the thread is set to the one in which results are defined, and restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tessera.signature import STATUS_GUARD, STATUS_OUT_OF_MEMORY
from tesserac.base.source import Span
from tesserac.ir.core import Block, Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import Guard
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import Predicate, memory
from tesserac.target.cpu.checks import emit_guard, negated
from tesserac.target.cpu.system import call_imported, default_float_state, read_float_state, write_float_state
from tesserac.target.cpu.workspace import ALIGNMENT, BufferBytes, plan_workspace
from tesserac.target.dims import ceil_div, emit_dim, floor_div, modulo
from tesserac.target.emit import Function, Module
from tesserac.target.flow import choose, do_while, for_loop, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I8, I32, I64, PTR, Value, array, const_i64, const_int, zero
from tesserac.target.sizes import implied_guards
from tesserac.tile.dialect import grid
from tesserac.types.dims import Dim, product

INLINE_ELEMENTS = 1 << 15
"""A launch that touches fewer elements than this runs on the calling thread: waking others would take longer."""
CHUNKS_PER_THREAD = 4
"""Enough to even out threads of different speed, few enough that a kernel keeps what it packed."""


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
    entry = module.function("entry", I32, [PTR, PTR])
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
        self.function = module.function("host", I32, [PTR, PTR], linkage="internal")
        self.b = self.function.builder
        self.sites: list[HostSite] = []
        self.values: dict[IRValue, Value] = {}
        self.symbols: dict[str, Value] = {}
        self.kernels = {name: kernels[name] for name in _launched(func)}
        self.outputs = [op for op in func.body.ops if _has_role(op, "output")]
        self.workspaces = [op for op in func.body.ops if _has_role(op, "workspace")]
        self.plan = plan_workspace(self.workspaces, self.kernels.values(), buffer_bytes)
        self.threads = const_i64(1)
        self.scratch = zero(PTR)

    def emit(self) -> None:
        self._read_arguments()
        self._check_guards()
        self.threads = call_imported(self.b, "pool.pool_threads", [], I64)
        block = self._allocate()
        self._run_block(self.func.body)
        if block is not None:
            call_imported(self.b, "libc.free", [block])
        self.b.ret(const_int(I32, 0))

    # --- on entry -----------------------------------------------------------------------------------------------------

    def _read_arguments(self) -> None:
        b, place = self.b, 0
        for value in (*self.func.body.args, *(op.result for op in sorted(self.outputs, key=_slot))):
            self.values[value] = b.load(PTR, b.gep(PTR, self.function.args[0], place), 8)
            place += 1
        for name in sorted(frozenset[str]().union(*(d.symbols() for a in self.func.body.args for d in memory(a).dims))):
            self.symbols[name] = b.load(I64, b.gep(I64, self.function.args[0], place), 8)
            place += 1

    def _check_guards(self) -> None:
        """The program's own guards, and before each use of a size what it needs to have a value."""
        checked: set[tuple[str, Dim, Dim]] = set()
        stated = [(op.attrs["guard"], op.span) for op in self.func.body.ops if op.name == "schedule.guard"]
        for guard, span in stated:
            assert isinstance(guard, Guard)
            self._check(implied_guards([guard.left, guard.right]), self.func.span, checked)
            self._check([guard], span, checked)
        used = [dim for dim in self._sizes_used() if dim.symbols() <= self.symbols.keys()]
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

    # --- memory -------------------------------------------------------------------------------------------------------

    def _allocate(self) -> Value | None:
        """Takes the workspace from the system and places the buffers in it; None where the call needs none."""
        b = self.b
        sizes = [emit_dim(b, size, self.symbols) for size in self.plan.slots]
        per_worker = emit_dim(b, self.plan.scratch, self.symbols)
        starts = [const_i64(0)]
        for size in sizes:
            starts.append(b.add(starts[-1], size))
        total = b.add(starts[-1], b.mul(per_worker, self.threads))
        if total.number == 0:
            return None
        block, start = self._malloc(total)
        for op in self.workspaces:
            self.values[op.result] = b.gep(I8, start, starts[_slot(op)])
        self.scratch = b.gep(I8, start, starts[-1])
        return block

    def _malloc(self, total: Value) -> tuple[Value, Value]:
        """(what to free, the first aligned address in it)"""
        b = self.b
        block = call_imported(b, "libc.malloc", [b.add(total, const_i64(ALIGNMENT))], PTR)
        site = self._site("workspace", "the sizes of the call are too large for this machine", self.func.span)
        failed = b.icmp("eq", block, zero(PTR))
        if_return(b, failed, lambda: self._fail(STATUS_OUT_OF_MEMORY, site, [total]))
        address = b.add(b.cast("ptrtoint", block, I64), const_i64(ALIGNMENT - 1))
        return block, b.cast("inttoptr", b.binary("and", address, const_i64(-ALIGNMENT)), PTR)

    # --- the program --------------------------------------------------------------------------------------------------

    def _run_block(self, block: Block) -> None:
        for op in block.ops:
            if op.opdef.dialect == "index":
                self.values[op.result] = self._index(op)
            elif op.name not in _DECLARATIONS:
                _RULES[op.name](self, op)

    def _index(self, op: Op) -> Value:
        dim = op.attrs.get("dim")
        if isinstance(dim, Dim):
            return emit_dim(self.b, dim, self.symbols)
        left, right = (self.values[v] for v in op.operands)
        return _INDEX_RULES[op.name](self.b, left, right)

    def _launch(self, op: Op) -> None:
        kernel = self.kernels[str(op.attrs["kernel"])]
        programs = self._product(grid(kernel))
        if_then(self.b, self.b.icmp("sgt", programs, const_i64(0)), lambda: self._run_programs(op, kernel, programs))

    def _run_programs(self, op: Op, kernel: Op, programs: Value) -> None:
        b = self.b
        context = self._context(op, kernel)
        touched = const_i64(0)
        for value in op.operands:
            touched = b.add(touched, self._product(memory(value).dims))
        small = b.icmp("slt", touched, const_i64(INLINE_ELEMENTS))
        threads = b.select(small, const_i64(1), self.threads)
        parts = b.mul(threads, const_i64(CHUNKS_PER_THREAD))
        chunk = ceil_div(b, programs, parts)
        arguments = [Value(PTR, f"@{kernel.symbol}"), context, programs, chunk, threads]
        call_imported(b, "pool.pool_run", arguments)

    def _product(self, dims: Sequence[Dim]) -> Value:
        return emit_dim(self.b, product(dims), self.symbols)

    def _context(self, op: Op, kernel: Op) -> Value:
        """What the kernel reads: memory, sizes, scratch, each in a slot."""
        b = self.b
        symbols = kernel.attrs["symbols"]
        assert isinstance(symbols, tuple)
        per_worker = emit_dim(b, self.plan.scratch, self.symbols)
        words = [self.values[v] for v in op.operands]
        words += [self.symbols[str(name)] for name in symbols]
        words += [self.scratch, per_worker]
        context = b.alloca(array(I64, len(words)), 8)
        for i, word in enumerate(words):
            b.store(word, b.gep(I64, context, i), 8)
        return context

    # --- control ------------------------------------------------------------------------------------------------------

    def _select(self, op: Op) -> None:
        predicates = op.attrs["predicates"]
        assert isinstance(predicates, tuple)
        self._select_from([p for p in predicates if isinstance(p, Predicate)], [r.block for r in op.regions])

    def _select_from(self, predicates: Sequence[Predicate], blocks: Sequence[Block]) -> None:
        if not predicates:
            self._run_block(blocks[0])
            return
        first = predicates[0]
        guard = Guard(first.kind, first.left, first.right, "")
        holds, _, _ = emit_guard(self.b, guard, self.symbols)
        self._either(holds, lambda: self._run_block(blocks[0]), lambda: self._select_from(predicates[1:], blocks[1:]))

    def _cond(self, op: Op) -> None:
        yes, no = (region.block for region in op.regions)
        flag = self._flag(op.operands[0])
        self._either(flag, lambda: self._run_block(yes), lambda: self._run_block(no))

    def _either(self, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        def arm(run: Callable[[], None]) -> Callable[[], Sequence[Value]]:
            def body() -> Sequence[Value]:
                run()
                return ()

            return body

        choose(self.b, condition, arm(yes), arm(no))

    def _flag(self, value: IRValue) -> Value:
        return self.b.icmp("ne", self.b.load(I8, self.values[value], 1), const_int(I8, 0))

    def _loop(self, op: Op) -> None:
        counter = op.attrs["counter"]
        assert isinstance(counter, str)
        low, high = (self.values[v] for v in op.operands)

        def body(index: Value, _: list[Value]) -> Sequence[Value]:
            self.values[op.body.args[0]] = self.symbols[counter] = index
            self._run_block(op.body)
            del self.symbols[counter]
            return ()

        for_loop(self.b, low, high, const_i64(1), [], body)

    def _while(self, op: Op) -> None:
        test, body = (region.block for region in op.regions)

        def again(_: list[Value]) -> tuple[Value, Sequence[Value]]:
            self._run_block(test)
            go_on = self._flag(test.terminator.operands[0])
            if_then(self.b, go_on, lambda: self._run_block(body))
            return go_on, ()

        do_while(self.b, [], again)


_DECLARATIONS = frozenset({"schedule.guard", "schedule.buffer", "schedule.return", "schedule.end", "schedule.test"})
"""Handled on entry, or by the operation around them."""

_RULES: dict[str, Callable[[_Host, Op], None]] = {
    "tile.launch": _Host._launch,
    "schedule.select": _Host._select,
    "schedule.cond": _Host._cond,
    "schedule.loop": _Host._loop,
    "schedule.while": _Host._while,
}


_INDEX_RULES: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "index.add": Builder.add,
    "index.sub": Builder.sub,
    "index.mul": Builder.mul,
    "index.floor_div": floor_div,
    "index.ceil_div": ceil_div,
    "index.rem": modulo,
    "index.min": Builder.minimum_int,
    "index.max": Builder.maximum_int,
}


def _launched(func: Op) -> list[str]:
    """The kernels that the program runs, each once, in order."""
    return list(dict.fromkeys(str(op.attrs["kernel"]) for op in func.walk() if op.name == "tile.launch"))


def _has_role(op: Op, role: str) -> bool:
    return op.name == "schedule.buffer" and op.attrs["role"] == role


def _slot(op: Op) -> int:
    slot = op.attrs["slot"]
    assert isinstance(slot, int)
    return slot


def _dims_of(op: Op) -> Iterator[Dim]:
    """Every size expression that the code of an operation evaluates."""
    for attr in op.attrs.values():
        yield from (a for a in (attr if isinstance(attr, tuple) else (attr,)) if isinstance(a, Dim))
    values = [*op.results, *(arg for region in op.regions for arg in region.block.args)]
    for value in values:
        if isinstance(value.type, MemRefType):
            yield from (*value.type.dims, *value.type.strides)
