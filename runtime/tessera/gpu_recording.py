"""Calls on a stream that somebody records, as `torch.cuda.graph` does: their launches become part of the graph.

Enters: a stream, and arrays. Leaves: who owns the memory of a call, and an order among streams in which nothing waits
inside of a recording. See Note [What a graph keeps].
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tessera.cuda_streams import DEFAULT
from tessera.errors import NOT_RECORDED, failure

if TYPE_CHECKING:
    import numpy as np

    from tessera.arguments import AnyArray
    from tessera.device_array import DeviceArray
    from tessera.devices import Gpu
    from tessera.gpu_checks import Check, RecordedCheck
    from tessera.gpu_program import GpuProgram

_LIBC = ctypes.CDLL(None)
_SEMAPHORE_BYTES = 32
_NAMED = 2
"""Handles up to here are names of the default streams of whatever context is current."""


class Recording:
    """One stream in one recording. `owner` stands in the place of a stream where memory and arrays name theirs."""

    def __init__(self, gpu: Gpu, owner: int, stream: int) -> None:
        self.gpu, self.owner, self.stream = gpu, owner, stream
        self.number, graph = gpu.driver.recording(stream)
        self.kept: list[object] = []
        """What its runs read."""
        self.checks: list[RecordedCheck] = []
        _LIBC.calloc.restype = ctypes.c_void_p
        self._ended = ctypes.c_void_p(_LIBC.calloc(1, _SEMAPHORE_BYTES))
        _LIBC.sem_init(self._ended, 0, 0)
        post = ctypes.cast(_LIBC.sem_post, ctypes.c_void_p).value
        gpu.driver.call_at_end(graph, post or 0, self._ended.value or 0)

    def is_open(self) -> bool:
        """Whether the recording goes on. Needs the context."""
        driver = self.gpu.driver
        return driver.is_recorded(self.stream) and driver.recording(self.stream)[0] == self.number

    def has_ended(self) -> bool:
        """Whether the graph is no more."""
        value = ctypes.c_int()
        _LIBC.sem_getvalue(self._ended, ctypes.byref(value))
        if value.value > 0:
            _LIBC.free(self._ended)
        return value.value > 0

    def input(self, array: AnyArray, what: str) -> DeviceArray:
        """An argument as the runs read it."""
        from tessera.device_array import DeviceArray

        if not isinstance(array, DeviceArray):
            return self.constant(array, what)
        self.reads(array)
        return array

    def result(self, size: int, shape: tuple[int, ...], dtype: np.dtype[np.generic], what: str) -> DeviceArray:
        """An array that the runs write; `size` is rounded."""
        from tessera.device_array import DeviceArray

        block = self.gpu.memory.take_kept(size, self.owner, what)
        return DeviceArray(self.gpu, block.address, shape, dtype, block, self.owner)

    def writes(self, target: DeviceArray, output: DeviceArray) -> None:
        """From now on the runs write an array; `output` is where they have its content, if not in the array itself."""
        self.reads(target)
        if output is not target:
            self.gpu.driver.copy(target.address, output.address, output.nbytes, self.stream)
        target.check = output.check
        target.written_on(self.owner)

    def check_of(self, arrays: Iterable[DeviceArray]) -> Check | None:
        """What results of a call with these arguments carry: what was under way before is waited for."""
        from tessera.gpu_checks import last_check

        found = last_check(array for array in arrays if array.check is None or not array.check.is_recorded)
        if found is not None:
            self.gpu.checks.settle(found)
        return next((array.check for array in arrays if array.check is not None and array.check.is_recorded), None)

    def constant(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], what: str) -> DeviceArray:
        """An array of the host as it is now, for all runs. Needs lock and context."""
        from tessera.device_array import DeviceArray
        from tessera.gpu_memory import rounded_size

        block = self.gpu.memory.take_kept(rounded_size(array.nbytes), self.owner, what)
        self.kept.append(block)  # what other calls write there would be there in the second run
        if array.nbytes:
            beside = self.gpu.recording
            self.gpu.driver.copy_in(block.address, array.ctypes.data, array.nbytes, beside)
            self.gpu.driver.wait(beside)
            self.gpu.memory.copied_in += array.nbytes
        return DeviceArray(self.gpu, block.address, array.shape, array.dtype, block, self.owner)

    def reads(self, array: DeviceArray) -> None:
        """From now on the runs read an array. What other libraries have they keep themselves."""
        from tessera.gpu_memory import Block

        if array.stream not in (self.owner, self.stream):
            self.gpu.recordings.order(array.stream, self.stream)
        if isinstance(array.owner, Block) and array.owner.stream != self.owner:
            self.kept.append(array.owner)


class Recordings:
    """Those of one device whose graphs are there. All methods need the lock of the device."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._known: dict[int, Recording] = {}
        self._made = 0

    def is_recorded(self, stream: int) -> bool:
        """The default stream never is, so that the usual call does not ask the driver."""
        if stream <= DEFAULT:
            return False
        known = self._gpu.driver.is_known_recorded(stream) if stream > _NAMED else None
        if known is not None:
            return known
        with self._gpu.entered() as driver:
            return driver.is_recorded(stream)

    def owner(self, stream: int) -> int:
        """Whose memory is that of work on a stream: the stream itself, or a graph."""
        if not self.is_recorded(stream):
            return stream
        with self._gpu.entered():
            return self.of(stream).owner

    def of(self, stream: int) -> Recording:
        """The recording that a stream is part of. Needs the context."""
        number = self._gpu.driver.recording(stream)[0]
        for known in self._known.values():
            if (known.number, known.stream) == (number, stream):
                return known
        self.forget_ended()
        self._made += 1
        made = self._known[-self._made] = Recording(self._gpu, -self._made, stream)
        return made

    def is_kept(self, owner: int) -> bool:
        return owner in self._known

    @contextmanager
    def beside(self, stream: int) -> Iterator[None]:
        """Inside, what is not part of a graph is allowed though a stream is recorded."""
        if not self.is_recorded(stream):
            yield
            return
        memory = self._gpu.memory
        with self._gpu.entered() as driver, driver.relaxed():
            before, memory.is_recording = memory.is_recording, True
            try:
                yield
            finally:
                memory.is_recording = before

    def order(self, earlier: int, later: int) -> None:
        """What is started on the stream `later` comes after all that was started on `earlier`, which may be an owner.
        Needs the context."""
        driver, before = self._gpu.driver, self._known.get(earlier)
        if self.is_recorded(later):
            self._order_recorded(before, earlier, later)
        elif earlier < DEFAULT:
            self.readable(earlier)
        else:
            driver.order(earlier, later)

    def _order_recorded(self, before: Recording | None, earlier: int, later: int) -> None:
        """Streams of one recording have events; what another graph writes comes when that one runs."""
        if before is not None and before.is_open() and before.number == self.of(later).number:
            if before.stream != later:
                self._gpu.driver.order(before.stream, later)
        elif earlier >= DEFAULT and earlier != later:
            with self.beside(later):
                self._gpu.driver.wait(earlier)

    def readable(self, stream: int) -> int:
        """A stream to read an array on that says to be of `stream`; waits where a graph has written it, which may have
        run anywhere. Raises TesseraError while it is recorded: then there is nothing to read. Needs the context."""
        if stream >= DEFAULT:
            return stream
        recording = self._known.get(stream)
        if recording is not None and recording.is_open():
            note = "the values are there once the graph has run"
            raise failure(NOT_RECORDED, "a value of a call that is being recorded into a graph cannot be read", (note,))
        self._gpu.driver.synchronize()
        return DEFAULT

    def started_on(self, stream: int) -> int:
        """The stream on which another library finds an array."""
        recording = self._known.get(stream)
        if recording is not None and recording.is_open():
            return recording.stream
        return self.readable(stream)

    def forget_ended(self) -> None:
        for owner, recording in list(self._known.items()):
            if recording.has_ended():
                del self._known[owner]
                self._gpu.checks.forget(recording.checks)
                self._gpu.memory.give_up(owner)


def refuse(what: str, program: GpuProgram, arrays: Sequence[AnyArray], targets: Sequence[AnyArray | None]) -> None:
    """Raises TesseraError for a call that cannot be part of a graph."""
    from tessera.device_array import DeviceArray

    why = f"a call of {what} cannot be recorded into a graph: "
    if program.looks():
        note = "a `while`, an `if` on a computed value, `print` and `assert` need values before the graph has run"
        raise failure(NOT_RECORDED, why + "the host looks at its values", (note,))
    is_resident = any(isinstance(array, DeviceArray) for array in arrays)
    if not is_resident or not all(target is None or isinstance(target, DeviceArray) for target in targets):
        note = "give it arrays of the device: `tessera.to_device(x)`, tensors of torch"
        raise failure(NOT_RECORDED, why + "its results lie on the host", (note,))


# Note [What a graph keeps]
# A graph runs long after its recording, again and again, with the addresses that it was recorded with. So all memory
# that a recorded call takes belongs to the graph: results, workspaces, tensor maps. Within one recording it is given
# out again as on any stream; nobody else has it until the driver says that the graph and all that was made of it is
# gone. What runs only read (arrays of ours, params) is kept alive as long. The driver says so by calling a function,
# which may be at any time and from any thread, also when Python has ended: it is `sem_post`, and the semaphore is asked
# when somebody needs memory.
#
# Inside of a recording the driver forbids to wait for the stream, to launch another graph into it, to read an event of
# another stream, and unless a thread says that it knows (`relaxed`) to allocate. So a recorded call is never replayed
# from a graph of its own; what it reads from other streams is waited for by the host while it is recorded; tensor maps
# and numbers of the host are copied beside it. Runs are ordered by whoever starts them: reading a result waits for the
# device.
