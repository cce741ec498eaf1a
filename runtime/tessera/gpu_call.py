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
from tessera.gpu_effects import NO_BAD_INDEX
from tessera.gpu_host import CompiledHost
from tessera.gpu_memory import Block, rounded_size

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
        words = host.program.status_words()[1]
        cleared = NO_BAD_INDEX.to_bytes(8, "little", signed=True) * words
        self.block.words[gpu_abi.CLEAR] = table(host.gpu, cleared) if words else 0
        self._is_watched = host.program.looks()
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
        words, count = program.status_words()
        places = (ctypes.c_int64 * max(len(program.buffers), 1))()
        for number, buffer in enumerate(program.buffers):
            if buffer.role == "constant":
                places[number] = table(self.host.gpu, program.tables[buffer.slot])
            elif buffer.role == "status":
                places[number] = total + 8 * words[number]
            elif buffer.role == "workspace":
                places[number] = starts[buffer.slot]
        return places, total + 8 * count

    def run(self, addresses: Sequence[int], stream: int) -> None:
        """Starts everything; waits only where the program has something to look at. `addresses` are those of the
        inputs, then of the outputs."""
        if self._room_size:
            room = self.host.gpu.memory.take(self._room_size, stream, self.host.what)
            self._given.pack_into(self.arguments, 0, stream, room.address, *addresses)
        else:
            self._given.pack_into(self.arguments, 0, stream, 0, *addresses)
        if self._graphs is None:
            self.start()
        else:
            self._graphs.run(bytes(self.arguments[8 : self._given.size]), stream)

    def start(self) -> None:
        """Starts what `run` has put in place, launch by launch, and looks where there is something to look at."""
        host, block = self.host, self.block
        host.running = block
        code = host.entry(self.args, block.at)
        if code or self._is_watched or block.room is not None:
            self.finish(code)

    def finish(self, code: int) -> int:
        """What comes after a call that has to be looked after; gives the bytes that each launch had for itself."""
        block = self.block
        try:
            left = block.is_left(code, self.symbols)
            self.count()
            if left:
                block.look(self.symbols)
                self.count()
        finally:
            held = block.take_room()
        return held

    def count(self) -> None:
        self.host.gpu.memory.copied_out += self.block.words[gpu_abi.FETCHED]
        self.block.words[gpu_abi.FETCHED] = 0

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
        self._scratch = 0

    def run(self, key: bytes, stream: int) -> None:
        """Does what the prepared call does: by replaying it, where it was done with the same addresses twice before."""
        last, graph = self._last
        if key != last:
            if key not in self._known:
                self._run_first(key)
                return
            graph = self._known[key] or self._recorded(stream)
            if graph is None:
                self._prepared.forget_graphs()  # the driver does not record it, so that it is not tried again
                self._prepared.start()
                return
            self._remember(key, graph)
        assert graph is not None
        block = self._prepared.block
        block.replay(graph.executable, stream)
        if graph.told:
            block.tell(graph.told, stream)
            self._prepared.finish(gpu_abi.LEFT_TO_LOOK)

    def _run_first(self, key: bytes) -> None:
        prepared = self._prepared
        prepared.host.running = prepared.block
        code = prepared.host.entry(prepared.args, prepared.block.at)
        if not FEWEST_REPLAYED <= prepared.launched() <= MOST_REPLAYED:
            prepared.forget_graphs()
        self._scratch = max(self._scratch, prepared.finish(code))
        self._remember(key, None)

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
        told = block.told() if block.words[gpu_abi.TOLD] else b""
        return _Graph(made[0], (*held, *host.mapped, *room), told)

    def _room(self, stream: int) -> tuple[Block, ...]:
        """Memory for launches, which a recorded call cannot ask for."""
        host, block = self._prepared.host, self._prepared.block
        if not self._scratch:
            return ()
        block.give_room(host.gpu.memory.allocate(self._scratch, stream, host.what))
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
            gpu.driver.copy_in(found.address, ctypes.addressof(room), len(data), 0)
            gpu.driver.wait(0)
    return found.address


# Note [Graphs]
# A call with the sizes and the addresses of an earlier one does exactly what that did. The allocator gives a steady
# loop the same memory again and again, so that addresses repeat: the launches of such a call are recorded once, on a
# stream of our own, and from then on started as one. Nothing is allocated or looked at inside: what the host has to see
# comes before or behind it, and programs that look in between are not recorded. Calls on new memory each time are
# launched one by one. The driver runs one executable at a time, so that two streams may replay the same one.
