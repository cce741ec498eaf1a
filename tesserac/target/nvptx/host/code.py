"""The host program of a GPU function as machine code of the processor that starts it.

Enters: a `GpuProgram`, and a machine. Leaves: an image with the functions that `tessera.gpu_abi` describes. Launches
are prepared and started in it, loops counted, branches taken; Python is called only where a kernel has to be loaded, a
tensor map made, or something printed. Buffers are words of a table: they change hands by being exchanged there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tessera import cuda_driver, gpu_abi
from tessera.gpu_program import (
    Assert,
    Box,
    Buffer,
    CheckIndices,
    Cond,
    Condition,
    GpuProgram,
    Last,
    Launch,
    Loop,
    Print,
    Require,
    Select,
    Step,
    Steps,
    Swap,
    While,
    walk,
)
from tessera.image import Image
from tessera.signature import (
    STATUS_ASSERT,
    STATUS_BAD_INDEX,
    STATUS_GUARD,
    STATUS_INTERRUPTED,
    STATUS_OUT_OF_MEMORY,
    STATUS_TOO_LARGE,
)
from tessera.sizes import Size
from tesserac.target.compile import Machine, data_layout, emit_object
from tesserac.target.emit import Function, Module
from tesserac.target.entry.checks import negated
from tesserac.target.entry.interrupts import begin_status, emit_poll
from tesserac.target.entry.status import return_status
from tesserac.target.entry.system import HOST_ATTRIBUTES, call_imported
from tesserac.target.flow import do_while, for_loop, if_else, if_return, if_then
from tesserac.target.link import link
from tesserac.target.llvm_types import I8, I32, I64, PTR, VOID, Value, array, const_i64, const_int, zero
from tesserac.target.nvptx.host import calls as calls
from tesserac.target.nvptx.host.launches import Launcher, emit_condition, emit_size, symbols_of
from tesserac.target.nvptx.host.tensors import launch_tensors

_FIXED, _OWN = -1, -2
"""Where the address of a buffer comes from, if not from an argument: the template, or a place in the workspace."""


def host_image(program: GpuProgram, machine: Machine) -> Image:
    module = Module("tessera.host", machine.triple, data_layout(machine))
    _Host(module, program).emit()
    return link([emit_object(str(module), machine)])


class _Host:
    """Writes all functions of one host program."""

    def __init__(self, module: Module, program: GpuProgram) -> None:
        self.module, self.program = module, program
        places, (starts, words) = program.checked_places(), program.status_words()
        self.told = calls.Told(module, places, [starts[place.words] for place in places], words)
        self.numbers = {place: number for number, place in enumerate(places)}
        most = max((len(k.parameters) + len(k.symbols) for k in program.kernels), default=0)
        self.start = calls.emit_start(module, most)
        self.scratch = calls.emit_scratch(module)
        self.fetch = calls.emit_fetch(module, self.told)
        calls.emit_replay(module)
        self.poll = emit_poll(module)
        self.launchers: dict[tuple[int, ...], tuple[Function, list[str]]] = {}
        self.maps = {place: number for number, place in enumerate(program.tensor_maps())}
        self.lists = 0

    def emit(self) -> None:
        body = self.module.function("tessera.host", I32, [PTR, PTR], attributes=HOST_ATTRIBUTES, linkage="internal")
        _Body(self, body).emit()
        entry = self.module.function("tessera.entry", I32, [PTR, PTR], attributes=HOST_ATTRIBUTES)
        b = entry.builder
        args, call = entry.args
        b.store(b.load(I64, b.gep(I64, args, gpu_abi.ARGS_STREAM), 8), calls.word(b, call, gpu_abi.STREAM), 8)
        for number in (gpu_abi.LAUNCHES, gpu_abi.LOOKS, gpu_abi.FETCHED):
            b.store(const_i64(0), calls.word(b, call, number), 8)
        calls.driver(b, call, cuda_driver.PUSH, [calls.read_pointer(b, call, gpu_abi.CONTEXT)])
        if_return(b, calls.has_failed(b, call), lambda: b.ret(calls.failure_code(b, call)))
        begin_status(b, call)
        code = b.call(body, [args, call])
        calls.driver(b, call, cuda_driver.POP, [b.alloca(PTR, 8)])
        b.ret(code)

    def numbers_constant(self, numbers: Sequence[int]) -> Value:
        """A table of 32-bit numbers."""
        self.lists += 1
        content = ", ".join(f"i32 {number}" for number in numbers) or "i32 0"
        type_ = array(I32, max(len(numbers), 1))
        return self.module.variable(f"tessera.list.{self.lists}", type_, f"[{content}]", constant=True, align=4)

    def launcher(self, variants: tuple[int, ...]) -> tuple[Function, list[str]]:
        """The function that launches the variant which the sizes choose, and the symbols that it takes. Layers launch
        the same kernels, so that there is one for all of them."""
        if variants not in self.launchers:
            names = symbols_of([self.program.kernels[i] for i in variants])
            function = self.module.function(
                f"tessera.launch.{len(self.launchers)}", VOID, [PTR, PTR, PTR, *[I64] * len(names)],
                attributes=HOST_ATTRIBUTES, linkage="internal",
            )  # fmt: skip
            self.launchers[variants] = (function, names)
            Launcher(self, function, dict(zip(names, function.args[3:], strict=True)), variants).emit()
        return self.launchers[variants]


class _Body:
    """i32 tessera.host(ptr args, ptr call)"""

    def __init__(self, host: _Host, function: Function) -> None:
        self.host, self.b = host, function.builder
        self.args, self.call = function.args
        signature = host.program.signature
        first = gpu_abi.ARGS_FIRST + len(signature.parameters) + len(signature.results)
        self.symbols = {
            name: self.b.load(I64, self.b.gep(I64, self.args, place), 8)
            for place, name in enumerate(signature.symbols, first)
        }
        self.addresses = self.b.alloca(array(I64, max(len(host.program.buffers), 1)), 8)
        self.last: list[Value] = []
        """For each loop around that may end early, where it is kept that an iteration is the last."""

    def emit(self) -> None:
        b = self.b
        self._place()
        self._clear()
        self.run(self.host.program.steps)
        told = b.icmp("sgt", calls.read(b, self.call, gpu_abi.TOLD), const_i64(0))
        quiet = b.select(told, const_int(I32, gpu_abi.LEFT_TO_LOOK), const_int(I32, 0))
        b.ret(b.select(calls.has_failed(b, self.call), calls.failure_code(b, self.call), quiet))

    def _place(self) -> None:
        """Fills the table of addresses."""
        b, program = self.b, self.host.program
        table = self.host.numbers_constant([_source(program, buffer) for buffer in program.buffers])
        template = calls.read_pointer(b, self.call, gpu_abi.TEMPLATE)
        workspace = b.load(I64, b.gep(I64, self.args, gpu_abi.ARGS_WORKSPACE), 8)

        def one(number: Value, _: list[Value]) -> Sequence[Value]:
            source = b.cast("sext", b.load(I32, b.gep(I32, table, number), 4), I64)
            own = b.load(I64, b.gep(I64, template, number), 8)
            given = b.load(I64, b.gep(I64, self.args, b.maximum_int(source, const_i64(0))), 8)
            placed = b.select(b.icmp("eq", source, const_i64(_OWN)), b.add(own, workspace), own)
            chosen = b.select(b.icmp("sge", source, const_i64(0)), given, placed)
            b.store(chosen, b.gep(I64, self.addresses, number), 8)
            return ()

        for_loop(b, const_i64(0), const_i64(len(program.buffers)), const_i64(1), [], one)

    def _clear(self) -> None:
        """At first no index is bad. Without words to clear those by the call is recorded: what its runs find stays."""
        b, call, program = self.b, self.call, self.host.program
        starts, words = program.status_words()
        first = next((number for number, start in starts.items() if start == 0), None)
        if first is None or not words:
            return
        address = self._pointer(first)
        b.store(b.cast("ptrtoint", address, I64), calls.word(b, call, gpu_abi.BAD_WORDS), 8)
        clear, stream = (calls.read_pointer(b, call, place) for place in (gpu_abi.CLEAR, gpu_abi.STREAM))
        copied = [address, clear, const_i64(8 * words), stream]
        is_there = b.icmp("ne", calls.read(b, call, gpu_abi.CLEAR), const_i64(0))
        if_then(b, is_there, lambda: calls.driver(b, call, cuda_driver.COPY, copied))

    def _place_of(self, buffer: int) -> Value:
        return self.b.gep(I64, self.addresses, buffer)

    def _pointer(self, buffer: int) -> Value:
        return self.b.load(PTR, self._place_of(buffer), 8)

    def _size(self, size: Size) -> Value:
        return emit_size(self.b, size, self.symbols)

    def run(self, steps: Steps) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: Step) -> None:
        match step:
            case Launch():
                self._launch(step)
            case Swap(left, right):
                self._swap(left, right)
            case Box():
                self._box(step)
            case Last():
                self.b.store(const_int(I8, 1), self.last[-1], 1)
            case CheckIndices(_, sizes, _):
                self.host.told.note(self.b, self.call, self.host.numbers[step], list(map(self._size, sizes)))
            case Select() | Loop() | While() | Cond():
                self._control(step)
            case Assert() | Require() | Print():
                self._effect(step)

    def _control(self, step: Select | Loop | While | Cond) -> None:
        match step:
            case Select(predicates, arms):
                self._select(predicates, arms)
            case Loop():
                self._loop(step)
            case While():
                self._while(step)
            case Cond(flag, yes, no):
                if_else(self.b, self._flag(flag), lambda: self.run(yes), lambda: self.run(no))

    def _effect(self, step: Assert | Require | Print) -> None:
        match step:
            case Assert(flag, site):
                failed = negated(self.b, self._flag(flag))
                if_return(self.b, failed, lambda: return_status(self.b, self.call, STATUS_ASSERT, site, []))
            case Require():
                self._require(step)
            case Print():
                self._print(step)

    # --- steps that only start something --------------------------------------------------------------------------

    def _launch(self, step: Launch) -> None:
        if step.lengths:
            launch_tensors(self.b, self.host, step, self.call, self.addresses, self.symbols)
            return
        function, names = self.host.launcher(step.kernels)
        operands = self.host.numbers_constant(step.operands)
        self.b.call(function, [self.call, self.addresses, operands, *(self.symbols[name] for name in names)])

    def _swap(self, left: int, right: int) -> None:
        b, places = self.b, [self._place_of(left), self._place_of(right)]
        held = [b.load(I64, place, 8) for place in places]
        for value, place in zip(held, reversed(places), strict=True):
            b.store(value, place, 8)

    def _box(self, step: Box) -> None:
        b = self.b
        start = b.load(I64, self._place_of(step.source), 8)
        b.store(b.add(start, self._size(step.offset)), self._place_of(step.target), 8)

    # --- control flow ---------------------------------------------------------------------------------------------

    def _select(self, predicates: Sequence[Condition], arms: Sequence[Steps]) -> None:
        if not predicates or len(arms) == 1:
            self.run(arms[-1])
            return
        holds = emit_condition(self.b, predicates[0], self.symbols)
        if_else(self.b, holds, lambda: self.run(arms[0]), lambda: self._select(predicates[1:], arms[1:]))

    def _loop(self, step: Loop) -> None:
        low, high = self._size(step.low), self._size(step.high)

        def body(index: Value, _: list[Value]) -> Sequence[Value]:
            self.symbols[step.counter] = index
            self._poll()
            self.run(step.body)
            del self.symbols[step.counter]
            return ()

        if any(isinstance(inner, Last) for inner in walk(step.body)):
            self._loop_that_may_end(low, high, body)
        else:
            for_loop(self.b, low, high, const_i64(1), [], body)

    def _loop_that_may_end(
        self, low: Value, high: Value, body: Callable[[Value, list[Value]], Sequence[Value]]
    ) -> None:
        b = self.b
        self.last.append(b.alloca(I8, 1))

        def again(carried: list[Value]) -> tuple[Value, Sequence[Value]]:
            body(carried[0], [])
            after = b.add(carried[0], const_i64(1))
            goes_on = b.icmp("eq", b.load(I8, self.last[-1], 1), const_int(I8, 0))
            return b.binary("and", goes_on, b.icmp("slt", after, high)), [after]

        def run() -> None:
            b.store(const_int(I8, 0), self.last[-1], 1)
            do_while(b, [low], again)

        if_then(b, b.icmp("slt", low, high), run)
        self.last.pop()

    def _while(self, step: While) -> None:
        def again(_: list[Value]) -> tuple[Value, Sequence[Value]]:
            self._poll()
            self.run(step.test)
            go_on = self._flag(step.flag)
            if_then(self.b, go_on, lambda: self.run(step.body))
            return go_on, ()

        do_while(self.b, [], again)

    def _poll(self) -> None:
        stopped = self.b.call(self.host.poll, [self.call])
        if_return(self.b, stopped, lambda: self.b.ret(const_int(I32, STATUS_INTERRUPTED)))

    # --- what the host looks at -----------------------------------------------------------------------------------

    def _fetch(self, source: Value, target: Value, size: Value, free: Callable[[], None]) -> None:
        """Reads memory of the device; ends the call where something has failed before."""
        b = self.b
        code = b.call(self.host.fetch, [self.call, source, target, size])

        def leave() -> None:
            free()
            b.ret(code)

        if_return(b, b.icmp("ne", code, const_int(I32, 0)), leave)

    def _flag(self, buffer: int) -> Value:
        b, place = self.b, calls.word(self.b, self.call, gpu_abi.FLAG)
        self._fetch(self._pointer(buffer), place, const_i64(1), lambda: None)
        return b.icmp("ne", b.load(I8, place, 1), const_int(I8, 0))

    def _require(self, step: Require) -> None:
        b = self.b
        code = STATUS_TOO_LARGE if step.condition.kind == "fits" else STATUS_GUARD
        code = code if step.shown is None else STATUS_BAD_INDEX
        first = step.condition.left if step.shown is None else step.shown

        def leave() -> None:
            nothing = zero(PTR)
            self._fetch(nothing, nothing, const_i64(0), lambda: None)  # what comes first is told first
            return_status(b, self.call, code, step.site, [self._size(first), self._size(step.condition.right)])

        if_return(b, negated(b, emit_condition(b, step.condition, self.symbols)), leave)

    def _print(self, step: Print) -> None:
        """Hands the runtime the number of this place, and for each value where it lies now and its sizes."""
        b = self.b
        sizes = [self._bytes(buffer) for buffer in step.shown]
        total = reduce(b.add, sizes, const_i64(8))
        room = call_imported(b, "libc.malloc", [total], PTR)
        failed = b.icmp("eq", room, zero(PTR))
        if_return(b, failed, lambda: return_status(b, self.call, STATUS_OUT_OF_MEMORY, step.site, [total]))

        def free() -> None:
            call_imported(b, "libc.free", [room])

        words = b.alloca(array(I64, max(len(step.shown) + len(step.sizes), 1)), 8)
        start = room
        for place, (buffer, size) in enumerate(zip(step.shown, sizes, strict=True)):
            self._fetch(self._pointer(buffer), start, size, free)
            b.store(b.cast("ptrtoint", start, I64), b.gep(I64, words, place), 8)
            start = b.gep(I8, start, size)
        for place, extent in enumerate(step.sizes, len(step.shown)):
            b.store(self._size(extent), b.gep(I64, words, place), 8)
        call_imported(b, "call.print", [const_i64(step.site), words])
        free()

    def _bytes(self, buffer: int) -> Value:
        b, described = self.b, self.host.program.buffers[buffer]
        extents = [b.maximum_int(self._size(size), const_i64(0)) for size in described.sizes]
        return reduce(b.mul, extents, const_i64(described.itemsize))


def _source(program: GpuProgram, buffer: Buffer) -> int:
    """The place among the arguments where the address of a buffer stands, or where else it comes from."""
    match buffer.role:
        case "input":
            return gpu_abi.ARGS_FIRST + buffer.slot
        case "output":
            return gpu_abi.ARGS_FIRST + len(program.signature.parameters) + buffer.slot
        case "workspace" | "status":
            return _OWN
        case _:
            return _FIXED
