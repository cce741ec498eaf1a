"""Kernels for a GPU, run on this machine: each of a block's threads is a thread here, and barriers are the system's.

Enters: a `GpuProgram` and NumPy arrays. Leaves: its results as a device would compute them. A kernel's LLVM text is
compiled for this processor, with the few intrinsics of a GPU written out. Kernels with matrix units are not for it.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from tessera.dtypes import numpy_dtype
from tessera.gpu_effects import NO_BAD_INDEX, check_words, checked_symbols, failed, print_values, require
from tessera.gpu_program import (
    NO_PROGRAM,
    Argument,
    Assert,
    Box,
    Buffer,
    CheckIndices,
    Cond,
    GpuProgram,
    Kernel,
    Last,
    Launch,
    Loop,
    Print,
    Require,
    Select,
    Steps,
    Swap,
    TensorMap,
    While,
    table_firsts,
)
from tessera.signature import STATUS_ASSERT
from tesserac.ir.core import Op
from tesserac.schedule.dialect import LENGTH
from tesserac.target.compile import data_layout, host_machine
from tesserac.target.nvptx.kernel import emit_kernel
from tests.support.cpu_kernels import new_machine
from tests.support.gpu_intrinsics import HELPERS

GUARD = 64
"""Bytes behind every buffer that must stay untouched."""
POISON = 0xA5
NAN = 0xFF
"""What shared memory is filled with: what is read there before it was written is NaN, and shows."""
SHARED_BYTES = 256 * 1024


class CannotEmulate(Exception):
    """The kernel uses a unit that is not written out here."""


# --- a kernel ---------------------------------------------------------------------------------------------------------

_SHUFFLE = re.compile(r"call (\w+) @llvm\.nvvm\.shfl\.sync\.bfly\.(\w+)\(i32 -1, \w+ (\S+), i32 (\S+), i32 31\)")
_COPY = re.compile(
    r"call void @llvm\.nvvm\.cp\.async\.c[ag]\.shared\.global\.(\d+)(\.s)?\(ptr (\S+), ptr (\S+?)(?:, i32 (\S+))?\)"
)


_PROGRAM_BARRIER = re.compile(
    r'call void asm sideeffect "[^"]*bar\.sync 1, (\d+);[^"]*", "r,~\{memory\}"\((i32 \S+)\) \S+'
)


def translated(text: str) -> str:
    """The LLVM text of a kernel for this machine. The kernel takes its thread and its block as two more arguments."""
    machine = host_machine()
    text = re.sub(r'target triple = ".*"', f'target triple = "{machine.triple}"', text)
    text = re.sub(r'target datalayout = ".*"', f'target datalayout = "{data_layout(machine)}"', text)
    text = re.sub(r"ptr addrspace\(\d\)", "ptr", text)
    text = re.sub(r" byval\(.*?\) align 8", "", text)
    text = text.replace(" addrspace(3) ", " ").replace("ptx_kernel ", "")
    text = re.sub(r'"nvvm\.\w+"="[^"]*" ?', "", text)
    text = re.sub(r"(define void @[\w$.]+\()(.*)\)", r"\1\2, i32 %emu_tid, i32 %emu_block)", text)
    text = text.replace("(, i32 %emu_tid", "(i32 %emu_tid")
    text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()", "add i32 %emu_tid, 0")
    text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()", "add i32 %emu_block, 0")
    text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()", "add i32 0, 0")
    barrier = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
    text = text.replace(barrier, "call void @emu_barrier(i32 %emu_tid)")
    warp_barrier = "call void @llvm.nvvm.bar.warp.sync(i32 -1)"
    text = text.replace(warp_barrier, "call void @emu_warp_barrier(i32 %emu_tid)")
    text = _SHUFFLE.sub(_shuffle, text)
    text = text.replace("@llvm.nvvm.vote.ballot.sync(i32 -1, ", "@emu_ballot(i32 %emu_tid, ")
    # Each thread asks for itself: what the answer skips changes nothing where it is false.
    text = re.sub(r"call i1 @llvm\.nvvm\.vote\.any\.sync\(i32 -1, i1 (\S+)\)", r"or i1 \1, false", text)
    text = text.replace("call float @llvm.nvvm.d2f.rz(", "call float @emu_to_zero(")
    text = text.replace("call float @llvm.nvvm.ex2.approx.ftz.f(", "call float @exp2f(")
    text = text.replace("call float @llvm.nvvm.rcp.approx.ftz.f(", "call float @emu_reciprocal(")
    text = text.replace("call <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(", "call <2 x bfloat> @emu_narrow(")
    text = _COPY.sub(_copy, text)
    # What keeps branches of loads apart: an address that is another value, and an instruction that is none.
    text = re.sub(r'call ptr asm "mov\.b64 \$0, \$1;", "=l,l"\(ptr (\S+)\)', r"getelementptr i8, ptr \1, i64 0", text)
    text = re.sub(r'call i32 asm sideeffect "mov\.b32 \$0, \$1;", "=r,r"\(i32 (\S+)\)', r"add i32 \1, 0", text)
    text = re.sub(r'call i32 asm "mov\.b32 \$0, \$1; // places \d+", "=r,r"\(i32 (\S+)\)', r"add i32 \1, 0", text)
    text = re.sub(r'call i64 asm sideeffect "mov\.b64 \$0, \$1;", "=l,l"\(i64 (\S+)\)', r"add i64 \1, 0", text)
    text = re.sub(r'.*call void asm sideeffect "", ""\(\)\n', "", text)
    text = re.sub(r'.*call void asm sideeffect "prefetch[^"]*", "l"\(.*\n', "", text)
    text = re.sub(r'.*call void asm sideeffect "[^"]*griddepcontrol[^"]*", "~\{memory\}"\(\)\n', "", text)
    text = _PROGRAM_BARRIER.sub(r"call void @emu_program_barrier(\2)", text)
    text = re.sub(r".*call void @llvm\.nvvm\.cp\.async\.(commit|wait).*\n", "", text)
    text = re.sub(r"declare .*@llvm\.nvvm\..*\n", "", text)
    helpers = HELPERS if "@llvm.fabs.f64" in text else HELPERS + "declare double @llvm.fabs.f64(double)\n"
    if unknown := re.search(r"@llvm\.nvvm\.[\w.]+|asm ", text):
        raise CannotEmulate(unknown[0])
    return text + helpers


def _shuffle(found: re.Match[str]) -> str:
    kind, _, value, lane = found.groups()
    name = "emu_shuffle" if kind == "i32" else "emu_shuffle_float"
    return f"call {kind} @{name}(i32 %emu_tid, {kind} {value}, i32 {lane})"


def _copy(found: re.Match[str]) -> str:
    size, _, to, source, present = found.groups()
    return f"call void @emu_copy(ptr {to}, ptr {source}, i32 {size}, i32 {present or size})"


class _System:
    """The memory that all emulated blocks share in turn, and the system's barriers."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None)
        self.rooms = {name: ctypes.create_string_buffer(size) for name, size in self._sizes().items()}
        starts = {name: (ctypes.addressof(room) + 4095) & -4096 for name, room in self.rooms.items()}
        self.starts = starts
        for name, address in starts.items():
            llvm.add_symbol(name, address)

    @staticmethod
    def _sizes() -> dict[str, int]:
        rooms = {"shared_memory": SHARED_BYTES, "emu_cta": 64, "emu_warps": 64 * 32, "emu_programs": 64 * 32}
        rooms["emu_slots"] = 4 * 1024
        return {name: size + 4096 for name, size in rooms.items()}

    def prepare(self, threads: int, program: int) -> None:
        """Barriers for so many threads, and for those of each program; shared memory holds what nobody wrote."""
        self.poison()
        places = [(self.starts["emu_cta"], threads)]
        places += [(self.starts["emu_warps"] + 64 * warp, 32) for warp in range(threads // 32)]
        places += [(self.starts["emu_programs"] + 64 * number, program) for number in range(threads // program)]
        for address, count in places:
            self.libc.pthread_barrier_init(ctypes.c_void_p(address), None, count)

    def poison(self) -> None:
        """What a block wrote is not there for the next one."""
        ctypes.memset(self.starts["shared_memory"], NAN, SHARED_BYTES)


@cache
def system() -> _System:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return _System()


class Compiled:
    """One kernel in memory."""

    def __init__(self, name: str, text: str) -> None:
        system()
        beside = _PROGRAM_BARRIER.search(text)
        self.program = int(beside[1]) if beside else 0
        module = llvm.parse_assembly(translated(text))
        module.verify()
        self.engine = llvm.create_mcjit_compiler(module, new_machine(1))
        self.engine.finalize_object()
        self.address = self.engine.get_function_address(name)

    def run(self, threads: int, blocks: int, words: Sequence[int]) -> None:
        kinds = [ctypes.c_int64] * len(words) + [ctypes.c_int32] * 2
        function = ctypes.CFUNCTYPE(None, *kinds)(self.address)
        place = system()
        place.prepare(threads, self.program or threads)
        ends = threading.Barrier(threads, place.poison)

        def thread(number: int) -> None:
            for block in range(blocks):
                function(*words, number, block)
                ends.wait()

        running = [threading.Thread(target=thread, args=(number,)) for number in range(threads)]
        for one in running:
            one.start()
        for one in running:
            one.join()


# --- a program --------------------------------------------------------------------------------------------------------


class Emulated:
    """A program and its kernels; each is compiled when it is first launched."""

    def __init__(self, program: GpuProgram, kernels: Sequence[Op]) -> None:
        self.program = program
        self.texts = {text.name: text.llvm for text in map(emit_kernel, kernels)}
        self.compiled: dict[str, Compiled] = {}

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return _Run(self, arrays).results()

    def kernel(self, kernel: Kernel) -> Compiled:
        if kernel.name not in self.compiled:
            self.compiled[kernel.name] = Compiled(kernel.name, self.texts[kernel.name])
        return self.compiled[kernel.name]


class _Run:
    def __init__(self, whole: Emulated, arrays: Sequence[np.ndarray]) -> None:
        self.whole, self.program = whole, whole.program
        self.symbols = dict(checked_symbols(self.program, [array.shape for array in arrays]))
        self.kept: list[np.ndarray] = []
        self.slots: dict[int, int] = {}
        self.memory = [self.place(buffer, arrays) for buffer in self.program.buffers]
        self.told: list[tuple[CheckIndices, tuple[int, ...]]] = []
        self.last = False
        self.run(self.program.steps)
        self.check_told()

    def results(self) -> tuple[np.ndarray, ...]:
        for room in self.kept:
            assert (room[-GUARD:] == POISON).all(), "a kernel wrote behind the end of a buffer"
        found = {b.slot: (b, self.memory[i]) for i, b in enumerate(self.program.buffers) if b.role == "output"}
        return tuple(self.array(*found[slot]) for slot in sorted(found))

    def array(self, buffer: Buffer, address: int) -> np.ndarray:
        shape = [size.evaluate(self.symbols) for size in buffer.sizes]
        dtype = numpy_dtype(buffer.dtype)
        data = ctypes.string_at(address, int(np.prod(shape)) * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(shape)

    def allocate(self, size: int) -> int:
        room = np.full(size + GUARD + 64, POISON, np.uint8)
        start = -room.ctypes.data % 64
        room = room[start : start + size + GUARD]
        self.kept.append(room)
        return room.ctypes.data

    def bytes(self, buffer: Buffer) -> int:
        return buffer.bytes_at(self.symbols)

    def place(self, buffer: Buffer, arrays: Sequence[np.ndarray]) -> int:
        if buffer.role == "workspace":
            sharing = [b for b in self.program.buffers if (b.role, b.slot) == (buffer.role, buffer.slot)]
            if buffer.slot not in self.slots:
                self.slots[buffer.slot] = self.allocate(max(map(self.bytes, sharing)))
            return self.slots[buffer.slot]
        if buffer.role == "box":
            return 0
        held = {
            "input": lambda: np.ascontiguousarray(arrays[buffer.slot]).tobytes(),
            "constant": lambda: self.program.tables[buffer.slot],
            "status": lambda: NO_BAD_INDEX.to_bytes(8, "little", signed=True) * (self.bytes(buffer) // 8),
            "output": lambda: b"\xff" * self.bytes(buffer),
        }[buffer.role]()
        address = self.allocate(len(held))
        ctypes.memmove(address, held, len(held))
        return address

    # --- steps --------------------------------------------------------------------------------------------------------

    def run(self, steps: Steps) -> None:
        for step in steps:
            match step:
                case Launch():
                    self.launch(step)
                case Select(predicates, arms):
                    held = (arm for p, arm in zip(predicates, arms, strict=False) if p.holds(self.symbols))
                    self.run(next(held, arms[-1]))
                case Loop():
                    self.loop(step)
                case While(test, flag, body):
                    self.run(test)
                    while self.flag(flag):
                        self.run(body)
                        self.run(test)
                case Cond(flag, yes, no):
                    self.run(yes if self.flag(flag) else no)
                case _:
                    self.other(step)

    def other(self, step: Swap | Box | Last | CheckIndices | Assert | Print | Require) -> None:
        match step:
            case Swap(left, right):
                self.memory[left], self.memory[right] = self.memory[right], self.memory[left]
            case Box(target, source, offset):
                self.memory[target] = self.memory[source] + offset.evaluate(self.symbols)
            case Last():
                self.last = True
            case CheckIndices(_, sizes, _):
                self.told.append((step, tuple(size.evaluate(self.symbols) for size in sizes)))
            case Require():
                require(self.program.signature, step, self.symbols)
            case Assert(flag, site):
                if not self.flag(flag):
                    raise failed(self.program.signature, STATUS_ASSERT, site, (), self.symbols)
            case Print(site, shown, sizes):
                data = [bytearray(self.read(i, self.bytes(self.program.buffers[i]))) for i in shown]
                print_values(self.program.signature.sites[site], data, [s.evaluate(self.symbols) for s in sizes])

    def loop(self, step: Loop) -> None:
        for count in range(step.low.evaluate(self.symbols), step.high.evaluate(self.symbols)):
            self.symbols[step.counter] = count
            self.run(step.body)
            if self.last:
                self.last = False
                break
        self.symbols.pop(step.counter, None)

    def read(self, buffer: int, size: int) -> bytes:
        return ctypes.string_at(self.memory[buffer], size)

    def flag(self, buffer: int) -> bool:
        self.check_told()
        return self.read(buffer, 1) != b"\0"

    def check_told(self) -> None:
        waiting, self.told = self.told, []
        for step, sizes in waiting:
            words = bytearray(self.read(step.words, 8 * len(sizes)))
            check_words(self.program.signature, step, words, sizes, self.symbols)

    def launch(self, step: Launch) -> None:
        kernels = (self.program.kernels[i] for i in step.kernels)
        kernel = next(k for k in kernels if all(c.holds(self.symbols) for c in k.conditions))
        if step.lengths:
            self.launch_tensors(step, kernel)
            return
        words: list[int] = []
        for parameter in kernel.parameters:
            if isinstance(parameter, TensorMap):
                raise CannotEmulate("tensor copies")
            if isinstance(parameter, Argument):
                words.append(self.memory[step.operands[parameter.operand]])
            else:
                words.append(self.allocate(parameter.bytes.evaluate(self.symbols)))
        words += [self.symbols[name] for name in kernel.symbols]
        blocks = kernel.programs.evaluate(self.symbols)
        assert kernel.shared.evaluate(self.symbols) <= SHARED_BYTES
        if blocks > 0:
            self.whole.kernel(kernel).run(kernel.threads, blocks, words)

    def launch_tensors(self, step: Launch, kernel: Kernel) -> None:
        """One parameter: the first program of each tensor, then a row for each of memory and sizes."""
        firsts, rows, total, many = [], [], 0, len(step.operands) // len(step.lengths)
        for number, length in enumerate(step.lengths):
            own = {**self.symbols, LENGTH: length.evaluate(self.symbols)}
            rows += [self.memory[operand] for operand in step.operands[number * many : (number + 1) * many]]
            rows += [own[name] for name in kernel.symbols]
            firsts.append(total)
            total += kernel.programs.evaluate(own)
        firsts += [NO_PROGRAM] * (table_firsts(len(firsts)) - len(firsts))
        table = np.array([*firsts, *rows], np.int64)
        if total > 0:
            self.whole.kernel(kernel).run(kernel.threads, total, [table.ctypes.data])
