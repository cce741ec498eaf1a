"""Bad indices that kernels tell of, looked at behind a call that has returned long before.

Enters: the words of a call in which its kernels tell, while the call is under way. Leaves: a `Check`, which its results
carry; a check that fails is the `TesseraError` that the CPU's code would give. See Note [Nothing is lost].
"""

from __future__ import annotations

import atexit
import ctypes
import struct
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn, TypeVar

from tessera import gpu_abi
from tessera.errors import TesseraError
from tessera.gpu_effects import NO_BAD_INDEX, check_words

if TYPE_CHECKING:
    from tessera.device_array import DeviceArray
    from tessera.devices import Gpu
    from tessera.gpu_host import CompiledHost
    from tessera.gpu_recording import Recording

MOST_UNDER_WAY = 64
"""Calls whose words were not looked at; the next one waits for the first of them."""
_PINNED_BYTES = 1 << 14

Array = TypeVar("Array")


class Check:
    """Whether all indices of a call were in range, and those of the calls whose results it read."""

    __slots__ = ("_checks", "_event", "_host", "_room", "_size", "_symbols", "_told", "before", "error", "number")

    def __init__(self, checks: Checks, host: CompiledHost, symbols: Mapping[str, int], told: bytes) -> None:
        self._checks, self._host, self._symbols, self._told = checks, host, symbols, told
        self._size = 8 * host.status[1]
        self._room = self._event = 0
        self.number = checks.count
        self.before: Check | None = None
        """The last one under way among those of the arguments."""
        self.error: TesseraError | None = None

    is_recorded = False
    """Whether there may be more to see each time."""

    def begin(self, event: int, room: int, stream: int) -> None:
        """Has the words copied to memory of the host, behind all that the call has started. Needs the context."""
        self._event, self._room = event, room
        driver = self._checks.gpu.driver
        (words,) = struct.unpack_from("<q", self._told)
        driver.copy_out(room, words, self._size, stream)
        driver.record(event, stream)
        self._checks.gpu.memory.copied_out += self._size

    def has_passed(self) -> bool:
        return self._checks.gpu.driver.has_passed(self._event)

    def finish(self) -> None:
        """Waits for the words, and reads them. Whether an earlier check has failed is known by then."""
        self._checks.gpu.driver.finish(self._event)
        before, self.before = self.before, None
        if before is not None and before.has_failed():
            self.error = before.error
        else:
            self._read()
        self._checks.take_back(self._event, self._room, self._size)

    def has_failed(self) -> bool:
        return self.error is not None

    def _read(self) -> None:
        words = ctypes.string_at(self._room, self._size)
        if words == _NONE * (self._size // 8):
            return
        signature, places = self._host.program.signature, self._host.program.checked_places()
        starts = self._host.status[0]
        told = struct.unpack(f"<{len(self._told) // 8}q", self._told)
        first = gpu_abi.BAD_WORDS
        for number in told[gpu_abi.ORDER - first :][: told[gpu_abi.TOLD - first]]:
            place = places[number]
            begin, sizes_at = 8 * starts[place.words], gpu_abi.sizes_at(len(places)) + number * gpu_abi.MOST_INDICES
            sizes = told[sizes_at - first :][: len(place.sizes)]
            try:
                found = bytearray(words[begin : begin + 8 * len(sizes)])
                check_words(signature, place, found, sizes, self._symbols)
            except TesseraError as error:
                self.error = error
                self._checks.untold.append(error)
                return


class RecordedCheck(Check):
    """That of a call which became part of a graph. Each run has the words copied to memory of the host, and no run
    clears them: a graph that has met a bad index is wrong from then on."""

    __slots__ = ("recording",)
    is_recorded = True

    def __init__(self, recording: Recording, host: CompiledHost, symbols: Mapping[str, int], told: bytes) -> None:
        super().__init__(recording.gpu.checks, host, symbols, told)
        self.recording = recording

    def place(self, room: int, cleared: int) -> None:
        """Clears the words, by those that lie at `cleared`, and has every run copy them. Needs the context."""
        self._room = room
        gpu = self.recording.gpu
        (words,) = struct.unpack_from("<q", self._told)
        ctypes.memmove(room, _NONE * (self._size // 8), self._size)
        gpu.driver.copy(words, cleared, self._size, gpu.recording)
        gpu.driver.wait(gpu.recording)
        gpu.driver.copy_out(room, words, self._size, self.recording.stream)

    @property
    def size(self) -> int:
        return self._size

    def has_failed(self) -> bool:
        """By the runs that are over."""
        if self.error is None and self.before is not None and self.before.has_failed():
            self.error = self.before.error
        if self.error is None and self._room:
            self._read()
        return self.error is not None

    def has_graph_failed(self) -> bool:
        """Whether any call of the same graph has: its results may go from one to the next."""
        failed = next((check for check in self.recording.checks if check.has_failed()), None)
        if failed is not None:
            self.error = failed.error
        return failed is not None

    def give_back(self) -> None:
        """There are no more runs."""
        self.has_failed()
        self._checks.give_room(self._room, self._size)
        self._room = 0


_NONE = NO_BAD_INDEX.to_bytes(8, "little", signed=True)


class Checks:
    """Those of one device. All methods need its lock."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.count = 0
        self.under_way: deque[Check] = deque()
        self.untold: list[TesseraError] = []
        """What nobody was told of yet."""
        self.recorded: list[RecordedCheck] = []
        """Those of graphs that have met no bad index."""
        self._rooms: dict[int, list[int]] = {}
        atexit.register(self.leave)

    def add(self, host: CompiledHost, symbols: Mapping[str, int], told: bytes, stream: int) -> Check:
        """A check for a call that was started on a stream."""
        if len(self.under_way) >= MOST_UNDER_WAY:
            with self.gpu.entered():
                self.under_way.popleft().finish()
        self.count += 1
        check = Check(self, host, symbols, told)
        with self.gpu.entered() as driver:
            event = self.gpu.idle_events.popleft() if self.gpu.idle_events else driver.make_event()
            check.begin(event, self._room(8 * host.status[1]), stream)
        self.under_way.append(check)
        return check

    def add_recorded(self, check: RecordedCheck, cleared: int) -> Check:
        """A check of a call that was recorded is to be looked at; `cleared` is where words lie to clear its own by.
        Needs the context."""
        check.place(self._room(check.size), cleared)
        self.recorded.append(check)
        check.recording.checks.append(check)
        return check

    def forget(self, checks: Iterable[RecordedCheck]) -> None:
        """Their graph is no more."""
        gone = set(checks)
        for check in gone:
            check.give_back()
        self.recorded = [check for check in self.recorded if check not in gone]

    def _find_failed(self) -> None:
        self.recorded = [check for check in self.recorded if not check.has_failed()]

    def _room(self, size: int) -> int:
        """Memory of the host that the device writes by itself."""
        free = self._rooms.setdefault(size, [])
        if not free:
            many = max(1, _PINNED_BYTES // size)
            start = self.gpu.driver.allocate_pinned(many * size)
            free += [start + place * size for place in range(many)]
        return free.pop()

    def take_back(self, event: int, room: int, size: int) -> None:
        self.gpu.idle_events.append(event)
        self.give_room(room, size)

    def give_room(self, room: int, size: int) -> None:
        self._rooms[size].append(room)

    def look(self) -> None:
        """Raises what the calls that are done by now have failed with, if nobody was told. Does not wait."""
        if self.under_way:
            with self.gpu.entered():
                while self.under_way and self.under_way[0].has_passed():
                    self.under_way.popleft().finish()
        if self.recorded:
            self._find_failed()
        if self.untold:
            self._raise(self.untold[0])

    def settle(self, check: Check) -> None:
        """Waits for one, and raises what it has failed with. While it is recorded there is nothing to wait for."""
        if isinstance(check, RecordedCheck):
            with self.gpu.entered() as driver:
                if not check.recording.is_open():
                    driver.synchronize()
                    check.has_graph_failed()
        elif self.under_way and self.under_way[0].number <= check.number:
            with self.gpu.entered():
                while self.under_way and self.under_way[0].number <= check.number:
                    self.under_way.popleft().finish()
        if check.error is not None:
            self._raise(check.error)

    def settle_all(self) -> None:
        if self.under_way:
            self.settle(self.under_way[-1])
        self.look()

    def _raise(self, error: TesseraError) -> NoReturn:
        self.untold = [other for other in self.untold if other is not error]
        raise TesseraError(error.code, error.text, error.spans)  # a new one, since it may be raised many times

    def leave(self) -> None:
        """At the end of the process what nobody has looked at is told by Python."""
        if not self.gpu.broken:
            with self.gpu.lock:
                self.settle_all()


def last_check(arrays: Iterable[DeviceArray | Array]) -> Check | None:
    """The last check under way of those that arrays carry; raises where one has failed. Needs the lock."""
    last: Check | None = None
    for array in arrays:
        check: Check | None = getattr(array, "check", None)
        if check is None:
            continue
        if check.error is not None and not check.is_recorded:
            check._checks.settle(check)
        if last is None or check.number > last.number:
            last = check
    return last


# Note [Nothing is lost]
# A kernel that meets a bad index reads zeros in its place and leaves a word. A call that waited for its words would
# leave the device idle until the host has started the next one, so that it does not: the words are copied to memory of
# the host behind its last launch, with an event behind that, and the call returns. Its results carry the check, and so
# do the results of calls that read those. Whoever wants to see a value that carries one (a copy for the host, another
# library) waits for it and is told, each time. What failed and nobody was told of is told once by the next call of the
# device, by `synchronize`, or at the end of the process. The host reads checks in the order of their calls, so that a
# check needs to know only of the last one among its arguments, which was read before it.
