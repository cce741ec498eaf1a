"""Memory of a GPU: allocated once, then used again.

Enters: sizes, and the streams that memory is used on. Leaves: a `Block`, which gives its memory back when nothing
refers to it any more. What was freed is kept for the next call that asks for as much, up to a bound. See Note [Whose
turn it is].
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tessera.cuda_driver import OUT_OF_MEMORY, DriverError
from tessera.errors import GPU_OUT_OF_MEMORY, NO_SUCH_DEVICE, WRONG_ARGUMENTS, TesseraError, failure, kind_of

if TYPE_CHECKING:
    from tessera.devices import Gpu

_UNIT = 512
"""Bytes; an empty array gets them too, so that every address is one."""
ANY = 0
"""The stream of memory that no other stream has to wait for."""
_STEPS = 8
"""Sizes to which requests are rounded up, between one power of two and the next: an eighth is lost at most."""
CACHED_PART = 4
"""Of the memory of a device, at most one part in so many is kept for later calls."""


class DeviceMemory(NamedTuple):
    """Bytes, as `tessera.device_memory()` tells them. `in_use` is held by arrays, params and calls, `cached` is kept
    for later calls, `peak` the most that was in use. `limit` is how much this process may hold, `free` and `total` are
    the device's. `copied_in` and `copied_out` count what went from the host and back since the start."""

    device: str
    in_use: int
    cached: int
    peak: int
    blocks: int
    limit: int
    free: int
    total: int
    copied_in: int
    copied_out: int


class Block:
    """Memory of a device. `stream` is where it is written and given back, `others` where else it was used."""

    __slots__ = ("_dropped", "address", "is_shared", "others", "size", "stream")

    def __init__(self, dropped: deque[_Freed], address: int, size: int, stream: int) -> None:
        self.address = address
        self.size = size
        self.stream = stream
        self.others = _NOWHERE
        self.is_shared = False
        """Whether another library knows the address."""
        self._dropped = dropped

    def used_on(self, stream: int) -> None:
        if stream != self.stream:
            self.others = self.others | {stream}

    def __del__(self) -> None:
        """Only says so: this may run anywhere, also while memory is given out."""
        self._dropped.append((self.address, self.size, self.stream, self.others))


_Freed: TypeAlias = tuple[int, int, int, frozenset[int]]
"""Address, size, stream and other streams of a block that was let go."""
_NOWHERE: frozenset[int] = frozenset()


class Memory:
    """That of one device. All methods need its lock."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._dropped: deque[_Freed] = deque()
        self._free: dict[tuple[int, int], list[int]] = {}
        self._in_use = self._cached = self._peak = self._blocks = 0
        with gpu.entered() as driver:
            self._total = driver.memory_info()[1]
        self.limit = self._total
        self.is_recording = False
        """Whether a stream is recorded: then nothing may wait, and no event of another stream may come to it."""
        self.copied_in = self.copied_out = 0

    def allocate(self, size: int, stream: int, what: str) -> Block:
        """Memory to use on a stream; `what` needs it, for a message."""
        owner = self._gpu.recordings.owner(stream)
        return (self.take if owner >= 0 else self.take_kept)(rounded_size(size), owner, what)

    def take(self, rounded: int, stream: int, what: str) -> Block:
        """The same for a size that is rounded already. See Note [The lowest first]."""
        kept = self._free.get((stream, rounded))
        if self._dropped:
            if len(self._dropped) == 1:
                address, size, on, others = self._dropped[0]
                if size == rounded and on == stream and not others and not (kept and kept[0] < address):
                    self._dropped.popleft()
                    return Block(self._dropped, address, rounded, stream)
            self.collect()
            kept = self._free.get((stream, rounded))
        if kept:
            address = heappop(kept)
            self._cached -= rounded
        else:
            address = self._new(rounded, what)
        self._in_use += rounded
        self._blocks += 1
        self._peak = max(self._peak, self._in_use)
        return Block(self._dropped, address, rounded, stream)

    def take_kept(self, rounded: int, owner: int, what: str) -> Block:
        """Memory that the runs of a recorded graph use: nobody else has it as long as the graph is there."""
        for _ in range(len(self._dropped)):
            freed = self._dropped.popleft()
            if freed[2] == owner:
                self._take_back(freed)
            else:
                self._dropped.append(freed)
        kept = self._free.get((owner, rounded))
        if kept:
            return Block(self._dropped, heappop(kept), rounded, owner)
        address = self._new(rounded, what)
        self._in_use += rounded
        self._blocks += 1
        self._peak = max(self._peak, self._in_use)
        return Block(self._dropped, address, rounded, owner)

    def give_up(self, owner: int) -> None:
        """A graph is no more: what its runs have used is free for all."""
        for key in [key for key in self._free if key[0] == owner]:
            for address in self._free.pop(key):
                self._freed(address, abs(key[1]), ANY)

    def _new(self, size: int, what: str) -> int:
        if self._in_use + self._cached + size > self.limit:
            self.trim(0)
        if self._in_use + size > self.limit:
            raise self._exhausted(size, what)
        made = self._asked(size)
        if made is None:
            self.trim(0)
            made = self._asked(size)
        if made is None:
            raise self._exhausted(size, what)
        return made

    def _asked(self, size: int) -> int | None:
        """Memory from the device; None where it has none."""
        self._gpu.enter()
        try:
            with self._gpu.driver.relaxed():
                return self._gpu.driver.allocate(size)
        except DriverError as error:
            if error.status != OUT_OF_MEMORY:
                raise
            return None
        finally:
            self._gpu.driver.pop()

    def _exhausted(self, size: int, what: str) -> TesseraError:
        told = self.told()
        others = told.total - told.free - told.in_use - told.cached
        notes = [f"{_shown(told.in_use)} in {told.blocks} blocks are held by arrays, params and calls of this process"]
        if told.limit < told.total:
            notes.append(f"this process may hold {_shown(told.limit)} (`tessera.set_device_memory_limit`)")
        notes.append(
            f"of {_shown(told.total)} on {told.device} {_shown(told.free)} are free,"
            f" {_shown(max(0, others))} are held by other libraries and processes"
        )
        message = f"{told.device} has no memory for {size} bytes that {what} needs"
        return failure(GPU_OUT_OF_MEMORY, message, tuple(notes))

    def told(self) -> DeviceMemory:
        self._gpu.recordings.forget_ended()
        self.collect()
        with self._gpu.entered() as driver:
            free, total = driver.memory_info()
        return DeviceMemory(
            self._gpu.name, self._in_use, self._cached, self._peak, self._blocks, self.limit, free, total,
            self.copied_in, self.copied_out,
        )  # fmt: skip

    def collect(self) -> None:
        """Takes back what is no longer referred to."""
        for _ in range(len(self._dropped)):
            freed = self._dropped.popleft()
            if self.is_recording and freed[3]:
                self._dropped.append(freed)
            else:
                self._take_back(freed)

    def _take_back(self, freed: _Freed) -> None:
        address, size, stream, others = freed
        if stream < 0 and self._gpu.recordings.is_kept(stream):
            kept = self._free.setdefault((stream, -size if others else size), [])  # no request is of less than nothing
            heappush(kept, address)
            return
        stream = max(stream, ANY)
        for other in others:
            self._wait_for(other, stream)
        self._freed(address, size, stream)
        if self._cached > self._total // CACHED_PART:
            self.trim(self._total // CACHED_PART)

    def _freed(self, address: int, size: int, stream: int) -> None:
        self._in_use -= size
        self._blocks -= 1
        self._cached += size
        heappush(self._free.setdefault((stream, size), []), address)

    def _wait_for(self, other: int, own: int) -> None:
        self._gpu.enter()
        try:
            self._gpu.driver.order(other, own)
        except DriverError:  # its owner has destroyed the stream, perhaps while something still ran on it
            self._gpu.driver.synchronize()
        finally:
            self._gpu.driver.pop()

    def trim(self, keep: int) -> None:
        """Gives cached memory back to the device until at most `keep` bytes are left; the largest blocks go first."""
        self._gpu.recordings.forget_ended()
        if self._cached <= keep or self.is_recording:
            return
        with self._gpu.entered() as driver:
            driver.synchronize()
            for key in sorted([key for key in self._free if key[0] >= 0], key=lambda key: -key[1]):
                addresses = self._free[key]
                while addresses and self._cached > keep:
                    driver.free(addresses.pop())
                    self._cached -= key[1]
                if not addresses:
                    del self._free[key]


def synchronize(device: object) -> None:
    gpu = _gpu(device)
    with gpu.lock, gpu.entered() as driver:
        driver.synchronize()
        gpu.checks.look()


def told(device: object) -> DeviceMemory:
    gpu = _gpu(device)
    with gpu.lock, gpu.entered():
        return gpu.memory.told()


def set_limit(size: object, device: object) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise failure(WRONG_ARGUMENTS, f"a limit is a number of bytes, not {kind_of(size)}")
    gpu = _gpu(device)
    with gpu.lock, gpu.entered():
        gpu.memory.limit = size


def release(device: object) -> None:
    gpu = _gpu(device)
    with gpu.lock, gpu.entered():
        gpu.memory.collect()
        gpu.memory.trim(0)


def _gpu(device: object) -> Gpu:
    from tessera.devices import CPU, find_device

    found = find_device(device)
    if found is None:
        note = 'a GPU is "cuda" or "cuda:1"'
        raise failure(NO_SUCH_DEVICE, f"`{CPU}` has no memory of a GPU", (note,))
    return found


def rounded_size(size: int) -> int:
    """As much or a little more, so that requests of nearly one size share blocks."""
    units = max(1, -(-size // _UNIT))
    step = max(1, (1 << (units - 1).bit_length()) // (2 * _STEPS))
    return -(-units // step) * step * _UNIT


def _shown(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


# Note [The lowest first]
# Of free blocks of one size the one with the lowest address is given out. So a loop that allocates and frees in the
# same way each time soon has the same addresses in every second iteration, whatever came before: a call that repeats
# its addresses is replayed as a graph. A block that was just let go is the lowest one if no lower one is free; then
# nothing has to be counted.
#
# Note [Whose turn it is]
# Work on one stream happens in the order in which it was started, so memory that is freed may be given out again at
# once, as long as its next user is on the same stream. That is why free blocks are kept by stream. A block that was
# also used on other streams goes back behind an event of each. Between streams memory moves only through the device
# itself: `trim` synchronises, frees and lets the next request allocate.
