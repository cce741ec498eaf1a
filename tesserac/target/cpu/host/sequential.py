"""Loops that are compiled as one: each a function in a module of its own, which LLVM optimises.

    schedule.loop {sequential}      becomes      i32 tessera.loop.N(memory..., sizes..., scratch, status, poll)

and in its place a call. The function gives 0, or the code of a status that it has written.

    host           call i32 @tessera.loop.0(ptr %x, ptr %register, i64 %N, ...)
    tessera.loop.0   registers, statuses: copied to the stack         LLVM holds them in registers
                     scalars that are only read: copied as well
                     loop: context of a kernel, on the stack          LLVM sees through it
                           call @kernel(context, 0, programs, 0)      internal, always inlined
                     registers that others read: copied back

What the launches of an iteration hand to each other is thus forwarded by LLVM, which knows that nobody else sees the
stack of the function. No fast-math flag stands anywhere, so no bit changes. A look for signals is taken once in
`_POLL_EVERY` iterations: an iteration is short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from tessera.signature import STATUS_INTERRUPTED
from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import memory
from tesserac.target.cpu.elements.gathers import NO_BAD_INDEX
from tesserac.target.cpu.elements.registers import memory_type
from tesserac.target.cpu.host.launches import emit_blocks
from tesserac.target.cpu.host.program import HostProgram, is_register, kernel_name, register_bits
from tesserac.target.cpu.kernels import emit_kernel
from tesserac.target.emit import Function, Module
from tesserac.target.entry.status import return_status
from tesserac.target.entry.system import imported
from tesserac.target.flow import if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, Value, array, const_i64, const_int, integer
from tesserac.tile.dialect import kernel_memrefs
from tesserac.types.dims import Dim

_POLL_EVERY = 4096
_NO_POLL = 64
"""Iterations of a loop without others in it that are too few to look for signals in them. Around others there is a look
in every loop: a few short ones within each other run for days."""


class LoopModules:
    """Makes a module of each such loop, with the kernels that it launches, and gives it to `begin`: nothing in it is
    needed elsewhere, so that LLVM works on several at once, and while the rest of the program is written."""

    def __init__(self, triple: str, layout: str, begin: Callable[[Module], None]) -> None:
        self._triple, self._layout, self._begin = triple, layout, begin
        self._count = 0

    def run_apart(self, host: HostProgram, loop: Op, *, free: Callable[[], None]) -> None:
        """Writes the loop as a function, and a call of it; `free` is called before the host program ends for it."""
        name = f"tessera.loop.{self._count}"
        self._count += 1
        b, outside = host.b, _outside(host, loop)
        symbols = sorted(host.symbols)
        given = [host.slots.get(value, host.values[value]) for value in outside]
        given += [host.symbols[symbol] for symbol in symbols]
        given += [host.scratch, host.per_worker, host.status, imported(b, "pool.pool_poll")]
        types = [value.type for value in given]
        module = Module(name, self._triple, self._layout)
        function = module.function(name, I32, types, attributes=("nounwind", '"no-builtins"'), linkage="hidden")
        _Loop(host, loop, function, outside, symbols).emit()
        self._begin(module)
        code = b.call(b.module.declare(name, I32, types), given, I32)

        def leave() -> None:
            free()
            b.ret(code)

        if_return(b, b.icmp("ne", code, const_int(I32, 0)), leave)


def launched_outside_loops(func: Op) -> set[str]:
    """The names of the kernels whose code a host program needs beside that of its loops."""
    found, waiting = set[str](), [func]
    for op in waiting:
        if op.name == "tile.launch":
            found.add(kernel_name(op))
        if "sequential" not in op.attrs:
            waiting += [inner for region in op.regions for inner in region.block.ops]
    return found


def _outside(host: HostProgram, loop: Op) -> list[IRValue]:
    """What the loop takes from around it. Statuses of its launches are its own."""
    inside = {v for op in loop.walk() for v in (*op.results, *(a for r in op.regions for a in r.block.args))}
    used = dict.fromkeys(v for op in loop.walk() for v in op.operands if v not in inside)
    return [value for value in used if not _is_status(value)]


def _is_status(value: IRValue) -> bool:
    made = value.defining_op
    return made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "status"


class _Loop:
    """One loop as a function."""

    def __init__(
        self,
        host: HostProgram,
        loop: Op,
        function: Function,
        outside: Sequence[IRValue],
        symbols: Sequence[str],
    ) -> None:
        self.host, self.loop, self.function = host, loop, function
        self.b = function.builder
        taken = dict(zip(outside, function.args, strict=False))
        self.slots = {value: place for value, place in taken.items() if value in host.slots}
        self.values = {value: place for value, place in taken.items() if value not in host.slots}
        self.symbols = dict(zip(symbols, function.args[len(outside) :], strict=False))
        self.scratch, self.per_worker, self.status, self.poll = function.args[len(outside) + len(symbols) :]

    def emit(self) -> None:
        b = self.b
        held = {value: self.values[value] for value in self.values if is_register(value)}
        for value, place in list(self.values.items()):
            if value in held or self._is_only_loaded(value):
                self.values[value] = b.alloca(integer(register_bits(value)), 8)
                _copy(b, place, self.values[value], value)
        self._clear_status()
        left = b.alloca(I64, 8)
        b.store(const_i64(_POLL_EVERY), left, 8)
        runner = _InlineRunner(_Kernels(self.function.module), self.status, self.poll, left, self._stop)
        program = HostProgram(
            b, self.host.kernels, self.values, self.symbols, runner, self.scratch, self.per_worker, self._leave,
            self.host.sites, self.status, self._stop, None, self.slots, [], self.host.defined,
            self.host.kernel_sizes,
        )  # fmt: skip
        program.run_op(self.loop)
        for value, place in held.items():
            if _is_read_elsewhere(value, self.loop):
                _copy(b, self.values[value], place, value)
        b.ret(const_int(I32, 0))

    def _is_only_loaded(self, value: IRValue) -> bool:
        """Whether this is a scalar in memory that nothing in the loop writes. LLVM does not know that: it would load it
        in each iteration, and jump around what only one side of a branch loads."""
        ty = value.type
        if not isinstance(ty, MemRefType) or ty.dims or ty.dtype.is_complex:
            return False
        places = [(op, i) for op in self.loop.walk() for i, operand in enumerate(op.operands) if operand is value]
        return all(op.name == "tile.launch" and self._loads(op, i) for op, i in places)

    def _loads(self, launch: Op, position: int) -> bool:
        kernel = self.host.kernels[kernel_name(launch)]
        return all(user.name == "cpu.load" for user, _ in kernel_memrefs(kernel)[position].uses)

    def _clear_status(self) -> None:
        b = self.b
        for value in dict.fromkeys(v for op in self.loop.walk() for v in op.operands if _is_status(v)):
            count = memory(value).dims[0].evaluate({})
            words = self.values[value] = b.alloca(array(I64, count), 8)
            for number in range(count):
                b.store(const_i64(NO_BAD_INDEX), b.gep(I64, words, number), 8)

    def _leave(self, code: int, op: Op, values: Sequence[Value]) -> None:
        return_status(self.b, self.status, code, self.host.site(op), values)

    def _stop(self) -> None:
        self.b.ret(const_int(I32, STATUS_INTERRUPTED))


def _copy(b: Builder, source: Value, target: Value, register: IRValue) -> None:
    """Of a scalar that a caller gave only its element type is known to be aligned."""
    align = 8 if is_register(register) else memory_type(memory(register).dtype).bits // 8
    b.store(b.load(integer(register_bits(register)), source, align), target, align)


def _is_read_elsewhere(register: IRValue, loop: Op) -> bool:
    inside = set(loop.walk())
    return any(user not in inside for user, _ in register.uses)


class _Kernels:
    """The code of the kernels that one loop launches, which goes into it."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made: dict[str, Function] = {}

    def code(self, kernel: Op) -> Function:
        if kernel.symbol not in self._made:
            made = self._made[kernel.symbol] = emit_kernel(self._module, kernel)
            made.linkage = "internal"
            made.attributes.append("alwaysinline")
        return self._made[kernel.symbol]


@dataclass(frozen=True)
class _InlineRunner:
    """Runs launches where they stand, on this thread."""

    runs_in_turn: ClassVar[bool] = False
    threads: ClassVar[Value] = const_i64(1)
    kernels: _Kernels
    status: Value
    look: Value
    left: Value
    """Where it is kept how many iterations there are until the next look for signals."""
    stop: Callable[[], None]

    def blocks(self, b: Builder, launch: Op, symbols: Mapping[str, Value]) -> dict[str, Value]:
        return emit_blocks(b, launch, symbols, const_i64(1))

    def code(self, kernel: Op) -> Value:
        return self.kernels.code(kernel).pointer

    def start(
        self, b: Builder, touched: Dim, code: Value, context: Value, programs: Value, symbols: Mapping[str, Value]
    ) -> None:
        b.call(code, [context, const_i64(0), programs, const_i64(0)])

    def poll(self, b: Builder, loop: Op) -> None:
        if _is_short(loop):
            return
        left = b.sub(b.load(I64, self.left, 8), const_i64(1))
        b.store(left, self.left, 8)

        def look() -> None:
            b.store(const_i64(_POLL_EVERY), self.left, 8)
            if_return(b, b.call(self.look, [self.status], I1), self.stop)

        if_then(b, b.icmp("eq", left, const_i64(0)), look)


_LOOPS = ("schedule.loop", "schedule.while")


def _inside(loop: Op) -> Iterator[Op]:
    return (op for op in loop.walk() if op is not loop)


def _is_short(loop: Op) -> bool:
    bounds = [value.defining_op.attrs.get("dim") for value in loop.operands if value.defining_op is not None]
    if loop.name != "schedule.loop" or len(bounds) != 2 or any(op.name in _LOOPS for op in _inside(loop)):
        return False
    low, high = (dim.constant if isinstance(dim, Dim) else None for dim in bounds)
    return low is not None and high is not None and high - low <= _NO_POLL
