"""The compiled host program of a GPU function in this process.

Enters: a device and a `GpuProgram`. Leaves: `start`, which starts a call, and `replay`, which starts a recorded one.
The code calls the driver itself; it comes back here only to have a kernel loaded, a tensor map made, memory for a
launch found, or something printed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from ctypes import c_int, c_int64, c_uint64, c_void_p

from tessera import gpu_abi
from tessera.call import failed_status, restore_raised
from tessera.devices import Gpu
from tessera.errors import GPU_FAILED, failure
from tessera.gpu_launch import loaded_function, tensor_maps
from tessera.gpu_memory import Block
from tessera.gpu_program import GpuProgram
from tessera.loader import load_image, machine
from tessera.printing import CALLBACK, write_site
from tessera.signature import STATUS_INTERRUPTED, STATUS_SIZE
from tessera.threads import function_address, resolve_libc

_LOAD = ctypes.CFUNCTYPE(c_int, c_int64, c_int64)
_SCRATCH = ctypes.CFUNCTYPE(c_int, c_int64)
_MAP = ctypes.CFUNCTYPE(c_uint64, c_int64, c_void_p)
_ENTRY = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
_REPLAY = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)


class CompiledHost:
    """One for each function and device. All that it does needs the lock of the device."""

    def __init__(self, gpu: Gpu, program: GpuProgram) -> None:
        self.gpu, self.program = gpu, program
        self.what = f"`{program.signature.name}`"
        count = max(len(program.kernels), 1)
        self._functions, self._allowed = (c_uint64 * count)(), (c_int64 * count)(*[-1] * count)
        self.running: CallBlock | None = None
        self.held: dict[int, Block] = {}
        """The tensor maps that the code remembers, by their number."""
        self.mapped: list[Block] = []
        """Those that were asked for since somebody has emptied the list."""
        self.raised: BaseException | None = None
        self._maps = list(program.tensor_maps().values())
        self.status = program.status_words()
        self._callbacks = self._made_callbacks()
        loaded = load_image(program.host(machine()), self._resolve)
        self.entry = _ENTRY(loaded.address("tessera.entry"))
        self.replay = _REPLAY(loaded.address("tessera.replay"))

    def new_block(self) -> CallBlock:
        """For calls of some sizes."""
        tables = ctypes.addressof(self._functions), ctypes.addressof(self._allowed)
        return CallBlock(self, *tables)

    # --- what the code comes back for ---------------------------------------------------------------------------------

    def _made_callbacks(self) -> dict[str, ctypes._FuncPointer]:
        return {
            "load": _LOAD(self._guarded(self._load, 1)),
            "scratch": _SCRATCH(self._guarded(self._scratch, 1)),
            "map": _MAP(self._guarded(self._map, 0)),
            "print": CALLBACK(self._print),
        }

    def _guarded(self, action: Callable[..., int], refused: int) -> Callable[..., int]:
        """What is raised passes through compiled code as a number and is raised again behind it."""

        def run(*arguments: int) -> int:
            try:
                return action(*arguments)
            except BaseException as error:  # Ctrl-C too: nothing may be lost on the way
                self.raised = error
                return refused

        return run

    def _load(self, kernel: int, shared: int) -> int:
        self._functions[kernel], self._allowed[kernel] = loaded_function(self.gpu, self.program.kernels[kernel], shared)
        return 0

    def _scratch(self, size: int) -> int:
        """What is launched already has had the old memory by then."""
        assert self.running is not None
        self.running.room = None
        self.running.give_room(self.gpu.memory.allocate(size, self.running.words[gpu_abi.STREAM], self.what))
        return 0

    def _map(self, number: int, words: int) -> int:
        mapped = self._maps[number]
        sizes = len(mapped.dims) + len(mapped.strides)
        address, stream, *extents = (c_int64 * (2 + sizes)).from_address(words)
        found = tensor_maps(self.gpu).of(mapped, address, extents, stream)
        self.held[number] = found
        self.mapped.append(found)
        return found.address

    def _print(self, site: int, words: int) -> None:
        write_site(self.program.signature.sites[site], words)

    def _resolve(self, name: str) -> int:
        """What the slots of the image are to hold; the part before the first dot says where it is found."""
        space, _, rest = name.partition(".")
        if space == "driver":
            return self.gpu.driver.address(rest)
        if space == "call":
            return ctypes.cast(self._callbacks[rest], c_void_p).value or 0
        return function_address(ctypes.pythonapi, rest) if space == "python" else resolve_libc(rest)


class CallBlock:
    """What a host program is given and tells in calls of some sizes, one after another: see `gpu_abi`."""

    def __init__(self, host: CompiledHost, functions: int, allowed: int) -> None:
        self._host = host
        checks, words = len(host.program.checked_places()), host.status[1]
        self.words = (c_int64 * gpu_abi.block_words(checks, words))()
        self.at = ctypes.addressof(self.words)
        self.room: Block | None = None
        """Memory that each launch of the running call has for itself."""
        given = {
            gpu_abi.CONTEXT: host.gpu.context,
            gpu_abi.FUNCTIONS: functions,
            gpu_abi.ALLOWED: allowed,
            gpu_abi.MULTIPROCESSORS: host.gpu.multiprocessors,
        }
        for number, value in given.items():
            self.words[number] = value

    def start(self, args: int, symbols: Mapping[str, int]) -> bool:
        """Starts a call whose arguments lie at the address `args`; whether there is something left to look at."""
        self._host.running = self
        return self.is_left(self._host.entry(args, self.at), symbols)

    def is_left(self, code: int, symbols: Mapping[str, int]) -> bool:
        """Whether the code of a call says that there is something left to look at; raises what else it says."""
        if code in (0, gpu_abi.LEFT_TO_LOOK):
            return code != 0
        raise self._failure(code, symbols)

    def replay(self, graph: int, stream: int) -> None:
        if code := self._host.replay(self.at, graph, stream):
            raise self._failure(code, {})

    def give_room(self, room: Block) -> None:
        self.room = room
        self.words[gpu_abi.SCRATCH], self.words[gpu_abi.SCRATCH_BYTES] = room.address, room.size

    def take_room(self) -> int:
        """Nothing is held for launches any more; gives how much was."""
        size, self.room, self.words[gpu_abi.SCRATCH_BYTES] = self.words[gpu_abi.SCRATCH_BYTES], None, 0
        return size

    def take_told(self) -> bytes:
        """What is to be looked at behind a call; afterwards there is nothing. See `gpu_checks`."""
        if not self.words[gpu_abi.TOLD]:
            return b""
        told = bytes(memoryview(self.words).cast("B")[8 * gpu_abi.BAD_WORDS :])
        ctypes.memset(self.at + 8 * gpu_abi.BAD_WORDS, 0, len(told))
        return told

    def _failure(self, code: int, symbols: Mapping[str, int]) -> BaseException:
        """What a code stands for; the block is as before the call."""
        host, words = self._host, self.words
        at, value = words[gpu_abi.FAILED_AT], words[gpu_abi.FAILED_VALUE]
        status = bytes(memoryview(words).cast("B")[:STATUS_SIZE])
        ctypes.memset(self.at + 8 * gpu_abi.FAILED, 0, ctypes.sizeof(words) - 8 * gpu_abi.FAILED)
        raised, host.raised = host.raised, None
        if raised is not None:
            return raised
        if code == STATUS_INTERRUPTED:
            restore_raised(status)
        if code == gpu_abi.DRIVER_FAILED:
            return host.gpu.driver.error(gpu_abi.DRIVER_CALLS[at], value)
        if code == gpu_abi.TOO_MANY_PROGRAMS:
            name = host.program.kernels[at].name
            return failure(GPU_FAILED, f"kernel `{name}` would need {value} blocks of threads")
        return failed_status(host.program.signature, status, symbols)
