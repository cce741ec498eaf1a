"""Calls of a GPU program with some sizes: prepared once, then run with any arrays of these sizes.

Enters: a compiled host program, sizes; then addresses and a stream. Leaves: work on the stream. All memory but inputs
and outputs is one block of workspace, which the call takes and gives back. Calls that repeat, addresses included, are
replayed as a graph. See Note [Graphs].
"""

from __future__ import annotations

import ctypes
import struct
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tessera import gpu_abi
from tessera.cuda_driver import DriverError
from tessera.devices import Gpu
from tessera.gpu_checks import Check, RecordedCheck
from tessera.gpu_effects import NO_BAD_INDEX
from tessera.gpu_host import CompiledHost
from tessera.gpu_memory import Block, rounded_size
from tessera.gpu_recording import Recording

FEWEST_REPLAYED, MOST_REPLAYED = 2, 4096
"""Launches: a graph of one costs what the launch costs, one of very many takes long to make."""
MOST_GRAPHS = 8
ALIGNMENT = 256
"""Bytes, of what lies beside other things in a workspace."""


class PreparedCall:
    """A program at some sizes on one device. `run` needs the lock of the device."""

    def __init__(self, host: CompiledHost, symbols: Mapping[str, int]) -> None:
        """Needs the lock and the context of the device."""
        self.host, self.symbols = host, symbols
        self.block = host.new_block()
        signature = host.program.signature
        given = gpu_abi.ARGS_FIRST + len(signature.parameters) + len(signature.results)
        self._given, values = struct.Struct(f"<{given}q"), [symbols[name] for name in signature.symbols]
        self.arguments = bytearray(8 * (given + len(values)))
        struct.pack_into(f"<{len(values)}q", self.arguments, self._given.size, *values)
        self.args = ctypes.addressof((ctypes.c_char * len(self.arguments)).from_buffer(self.arguments))
        self._template, self.workspace = self._laid_out()
        self._room_size = rounded_size(self.workspace) if self.workspace else 0
        self.block.words[gpu_abi.TEMPLATE] = ctypes.addressof(self._template)
        words = host.status[1]
        cleared = NO_BAD_INDEX.to_bytes(8, "little", signed=True) * words
        self.block.words[gpu_abi.CLEAR] = table(host.gpu, cleared) if words else 0
        self._is_watched = host.program.looks()
        self.scratch = 0
        """The most bytes that each launch of a call had for itself."""
        self._graphs: _Graphs | None = None if self._is_watched else _Graphs(self)

    def _laid_out(self) -> tuple[ctypes.Array[ctypes.c_int64], int]:
        """The template of addresses, and the size of the workspace. Buffers that share a slot share the memory; the
        words of bad indices lie side by side."""
        program, sizes = self.host.program, dict[int, int]()
        for buffer in program.buffers:
            if buffer.role == "workspace":
                sizes[buffer.slot] = max(sizes.get(buffer.slot, 0), buffer.bytes_at(self.symbols))
        starts, total = dict[int, int](), 0
        for slot, size in sizes.items():
            starts[slot] = total
            total += -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        words, count = self.host.status
        places = (ctypes.c_int64 * max(len(program.buffers), 1))()
        for number, buffer in enumerate(program.buffers):
            if buffer.role == "constant":
                places[number] = table(self.host.gpu, program.tables[buffer.slot])
            elif buffer.role == "status":
                places[number] = total + 8 * words[number]
            elif buffer.role == "workspace":
                places[number] = starts[buffer.slot]
        return places, total + 8 * count

    def run(self, addresses: Sequence[int], stream: int) -> Check | None:
        """Starts everything; waits only where the program has to look in between. `addresses` are those of the inputs,
        then of the outputs. Gives what is to be looked at behind it."""
        if self._room_size:
            room = self.host.gpu.memory.take(self._room_size, stream, self.host.what)
            self._given.pack_into(self.arguments, 0, stream, room.address, *addresses)
        else:
            self._given.pack_into(self.arguments, 0, stream, 0, *addresses)
        if self._graphs is None:
            return self.start(stream)
        return self._graphs.run(bytes(self.arguments[8 : self._given.size]), stream)

    def start(self, stream: int) -> Check | None:
        """Starts what `run` has put in place, launch by launch."""
        host, block = self.host, self.block
        host.running = block
        code = host.entry(self.args, block.at)
        if code or self._is_watched or block.room is not None:
            return self.finish(code, stream)
        return None

    def finish(self, code: int, stream: int) -> Check | None:
        """What comes after a call that has to be looked after."""
        block = self.block
        try:
            is_left = block.is_left(code, self.symbols)
            self.host.gpu.memory.copied_out += block.words[gpu_abi.FETCHED]
        finally:
            self.scratch = max(self.scratch, block.take_room())
        return self.watched(block.take_told(), stream) if is_left else None

    def watched(self, told: bytes, stream: int) -> Check:
        """The check of a call that was started."""
        return self.host.gpu.checks.add(self.host, self.symbols, told, stream)

    def join(self, addresses: Sequence[int], recording: Recording) -> Check | None:
        """As `run`, where the launches become part of a graph of the caller's. Needs the context."""
        host, block, memory = self.host, self.block, self.host.gpu.memory
        room = memory.take_kept(self._room_size, recording.owner, host.what) if self._room_size else None
        self._given.pack_into(self.arguments, 0, recording.stream, room.address if room else 0, *addresses)
        cleared, block.words[gpu_abi.CLEAR] = block.words[gpu_abi.CLEAR], 0
        host.mapped.clear()
        recording.kept += host.held.values()
        try:
            is_left = block.start(self.args, self.symbols)
        finally:
            block.words[gpu_abi.CLEAR] = cleared
            block.take_room()
        recording.kept += host.mapped
        if not is_left:
            return None
        check = RecordedCheck(recording, host, self.symbols, block.take_told())
        return host.gpu.checks.add_recorded(check, cleared)

    def record(self, stream: int) -> None:
        """As `start`, while a stream is recorded."""
        struct.pack_into("<q", self.arguments, 0, stream)
        self.block.start(self.args, self.symbols)

    def launched(self) -> int:
        """How many launches the last call had."""
        return self.block.words[gpu_abi.LAUNCHES]

    def forget_graphs(self) -> None:
        self._graphs = None


class _Graph(NamedTuple):
    """`held` is memory that the launches read beside the buffers; `told` is what the host looks at after each run."""

    executable: int
    held: tuple[Block, ...]
    told: bytes


class _Graphs:
    """The graphs of one prepared call, by the addresses of its buffers; None for addresses that were met once."""

    def __init__(self, prepared: PreparedCall) -> None:
        self._prepared = prepared
        self._gpu = prepared.host.gpu
        self._known: OrderedDict[bytes, _Graph | None] = OrderedDict()
        self._last: tuple[bytes, _Graph | None] = (b"", None)

    def run(self, key: bytes, stream: int) -> Check | None:
        """Does what the prepared call does: by replaying it, where it was done with the same addresses twice before."""
        last, graph = self._last
        if key != last:
            if key not in self._known:
                return self._run_first(key, stream)
            graph = self._known[key] or self._recorded(stream)
            if graph is None:
                self._prepared.forget_graphs()  # the driver does not record it, so that it is not tried again
                return self._prepared.start(stream)
            self._remember(key, graph)
        assert graph is not None
        self._prepared.block.replay(graph.executable, stream)
        return self._prepared.watched(graph.told, stream) if graph.told else None

    def _run_first(self, key: bytes, stream: int) -> Check | None:
        prepared = self._prepared
        prepared.host.running = prepared.block
        code = prepared.host.entry(prepared.args, prepared.block.at)
        if not FEWEST_REPLAYED <= prepared.launched() <= MOST_REPLAYED:
            prepared.forget_graphs()
        check = prepared.finish(code, stream)
        self._remember(key, None)
        return check

    def _recorded(self, stream: int) -> _Graph | None:
        """None where the driver does not record it."""
        host, own, block = self._prepared.host, self._gpu.recording, self._prepared.block
        host.mapped.clear()
        held, room = list(host.held.values()), self._room(own)
        self._gpu.enter()
        try:
            with self._gpu.driver.captured(own) as made:
                self._prepared.record(own)
        except DriverError:
            return None
        finally:
            self._gpu.driver.pop()
            block.take_room()
            struct.pack_into("<q", self._prepared.arguments, 0, stream)
        return _Graph(made[0], (*held, *host.mapped, *room), block.take_told())

    def _room(self, stream: int) -> tuple[Block, ...]:
        """Memory for launches, which a recorded call cannot ask for."""
        host, block, scratch = self._prepared.host, self._prepared.block, self._prepared.scratch
        if not scratch:
            return ()
        block.give_room(host.gpu.memory.allocate(scratch, stream, host.what))
        assert block.room is not None
        return (block.room,)

    def _remember(self, key: bytes, graph: _Graph | None) -> None:
        self._known[key] = graph
        self._known.move_to_end(key)
        self._last = (key, graph) if graph is not None else (b"", None)
        if len(self._known) > MOST_GRAPHS:
            _, forgotten = self._known.popitem(last=False)
            if forgotten is not None:
                with self._gpu.entered() as driver:
                    driver.forget_graph(forgotten.executable)


_tables: dict[tuple[int, bytes], Block] = {}


def table(gpu: Gpu, data: bytes) -> int:
    """Constants on a device, there until the process ends."""
    key = (id(gpu), data)
    found = _tables.get(key)
    if found is None:
        found = _tables[key] = gpu.memory.allocate(len(data), 0, "a table of constants")
        if data:
            room = ctypes.create_string_buffer(data, len(data))
            gpu.driver.copy_in(found.address, ctypes.addressof(room), len(data), gpu.recording)
            gpu.driver.wait(gpu.recording)
    return found.address


# Note [Graphs]
# A call with the sizes and the addresses of an earlier one does exactly what that did. The allocator gives a steady
# loop the same memory again and again, so that addresses repeat: the launches of such a call are recorded once, on a
# stream of our own, and from then on started as one. Nothing is allocated or looked at inside: what the host has to see
# comes before or behind it, and programs that look in between are not recorded. Calls on new memory each time are
# launched one by one, and so are those that a caller records, since no graph is launched into another. The driver runs
# one executable at a time, so that two streams may replay the same one.
