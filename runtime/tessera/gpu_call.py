"""Calls of a GPU program with some sizes: prepared once, then run with any arrays of these sizes.

Enters: a device, a program, sizes; then addresses and a stream. Leaves: work on the stream. All memory but inputs and
outputs is one block of workspace, which the call takes and gives back. Calls that repeat, addresses included, are
replayed as a graph. See Note [Graphs].
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tessera.cuda_driver import DriverError
from tessera.devices import Gpu
from tessera.gpu_effects import NO_BAD_INDEX
from tessera.gpu_launch import State, aligned
from tessera.gpu_memory import Block
from tessera.gpu_program import CheckIndices, GpuProgram
from tessera.gpu_steps import Preparation

FEWEST_REPLAYED, MOST_REPLAYED = 2, 4096
"""Launches: a graph of one costs what the launch costs, one of very many takes long to make."""
MOST_GRAPHS = 8


class PreparedCall:
    """A program at some sizes on one device. `run` needs the lock and the context of the device."""

    def __init__(self, gpu: Gpu, program: GpuProgram, symbols: Mapping[str, int]) -> None:
        self.gpu = gpu
        self.program = program
        self._what = f"`{program.signature.name}`"
        self._made = Preparation(gpu, program, symbols)
        self._actions = self._made.actions(program.steps, self._made.symbols)
        self._places, self.workspace = self._laid_out()
        self._fixed = self._fixed_addresses()
        numbers = list(enumerate(program.buffers))
        self._inputs = [(number, b.slot) for number, b in numbers if b.role == "input"]
        self._outputs = [(number, b.slot) for number, b in numbers if b.role == "output"]
        numbered = enumerate(program.buffers)
        self._cleared = [(number, self._made.bytes_of(b)) for number, b in numbered if b.role == "status"]
        launches = self._actions.launches
        self._graphs: _Graphs | None = None
        if launches is not None and FEWEST_REPLAYED <= launches <= MOST_REPLAYED:
            self._graphs = _Graphs(gpu)

    def _laid_out(self) -> tuple[list[tuple[int, int]], int]:
        """Where in the workspace buffers lie, and its size. Those that share a slot share the memory."""
        sizes: dict[tuple[str, int], int] = {}
        own = [(n, b) for n, b in enumerate(self.program.buffers) if b.role in ("workspace", "status")]
        keys = {number: (b.role, b.slot if b.role == "workspace" else number) for number, b in own}
        for number, buffer in own:
            sizes[keys[number]] = max(sizes.get(keys[number], 0), self._made.bytes_of(buffer))
        starts, total = {}, 0
        for key, size in sizes.items():
            starts[key] = total
            total += aligned(size)
        return [(number, starts[keys[number]]) for number, _ in own], total

    def run(self, inputs: Sequence[int], outputs: Sequence[int], stream: int) -> None:
        """Starts everything; waits only where the program has something to look at."""
        memory = self.gpu.memory
        room = memory.allocate(self.workspace, stream, self._what) if self.workspace else None
        state = State(self.gpu, self._addresses(inputs, outputs, room), stream, self._what)
        if self._graphs is None:
            self._start(state)
        else:
            self._graphs.run(self._start, state)
        if state.told:
            self._made.look(state)

    def _addresses(self, inputs: Sequence[int], outputs: Sequence[int], room: Block | None) -> list[int]:
        found = self._fixed.copy()
        for number, slot in self._inputs:
            found[number] = inputs[slot]
        for number, slot in self._outputs:
            found[number] = outputs[slot]
        if room is not None:
            for number, start in self._places:
                found[number] = room.address + start
        return found

    def _fixed_addresses(self) -> list[int]:
        """Those of tables; 0 where each call has another, or a step gives it."""
        tables, buffers = self.program.tables, self.program.buffers
        return [table(self.gpu, tables[b.slot]) if b.role == "constant" else 0 for b in buffers]

    def _start(self, state: State) -> None:
        for number, size in self._cleared:
            if size:
                clear = table(self.gpu, NO_BAD_INDEX.to_bytes(8, "little", signed=True) * (size // 8))
                self.gpu.driver.copy(state.addresses[number], clear, size, state.stream)
        self._actions(state)


class _Graph(NamedTuple):
    """`held` is memory that the launches read beside the buffers; `told` is what the host looks at after each run."""

    executable: int
    held: tuple[Block, ...]
    told: tuple[tuple[CheckIndices, tuple[int, ...]], ...]


class _Graphs:
    """The graphs of one prepared call, by the addresses of its buffers; None for addresses that were met once."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._known: OrderedDict[tuple[int, ...], _Graph | None] = OrderedDict()
        self._scratch = 0
        self._is_possible = True

    def run(self, start: Callable[[State], None], state: State) -> None:
        """Does what `start` does: by replaying it, where it was done with the same addresses twice before."""
        key = tuple(state.addresses)
        if not self._is_possible or key not in self._known:
            start(state)
            self._scratch = max(self._scratch, state.room.size if state.room is not None else 0)
            self._remember(key, None)
            return
        graph = self._known[key] or self._recorded(start, state)
        if graph is None:
            start(state)
            return
        self._remember(key, graph)
        self._gpu.driver.replay(graph.executable, state.stream)
        state.told = list(graph.told)

    def _recorded(self, start: Callable[[State], None], state: State) -> _Graph | None:
        """None where the driver does not record it; then it is not tried again."""
        driver, stream = self._gpu.driver, self._gpu.recording
        copy = State(self._gpu, list(state.addresses), stream, state.what)
        if self._scratch:
            copy.need(self._scratch)
        try:
            with driver.captured(stream) as made:
                start(copy)
        except DriverError:
            self._is_possible = False
            return None
        held = [*copy.held, *([copy.room] if copy.room is not None else [])]
        return _Graph(made[0], tuple(held), tuple(copy.told))

    def _remember(self, key: tuple[int, ...], graph: _Graph | None) -> None:
        self._known[key] = graph
        self._known.move_to_end(key)
        if len(self._known) > MOST_GRAPHS:
            _, forgotten = self._known.popitem(last=False)
            if forgotten is not None:
                self._gpu.driver.forget_graph(forgotten.executable)


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
