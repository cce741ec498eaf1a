"""Copies between the memory of the host and a device, through memory that the device reads by itself.

Enters: addresses and sizes. Leaves: work on a stream. Memory of NumPy's can move at any time, so that the driver would
wait for all earlier work before it reads it. A ring of chunks that are pinned takes it instead: the host fills one
while the device reads those before, and nobody waits for a stream.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tessera.devices import Gpu

CHUNK, CHUNKS = 1 << 21, 6
"""Bytes of one chunk, and how many there are: two megabytes take a processor as long as a few launches."""
SMALL = 1 << 15
"""Bytes that are read without a chunk: then the copy costs less than the way around."""


class Staging:
    """The chunks of one device, made when they are first needed. All methods need its lock and its context."""

    def __init__(self, gpu: Gpu) -> None:
        self._driver = gpu.driver
        self._free: deque[int] = deque()
        self._busy: deque[tuple[int, int]] = deque()
        """Chunks that the device still reads, and the event behind which it does not."""
        self._made = 0

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        """From memory of the host, which may change again at once."""
        for start in range(0, size, CHUNK):
            part, chunk = min(CHUNK, size - start), self._chunk()
            ctypes.memmove(chunk, source + start, part)
            self._driver.copy_in(target + start, chunk, part, stream)
            self._busy.append((chunk, self._driver.recorded(stream)))

    def copy_out(self, target: int, source: int, size: int, stream: int) -> None:
        """To memory of the host, which then holds it: chunks are emptied while the next ones are filled."""
        if size <= SMALL:
            self._driver.copy_out(target, source, size, stream)
            self._driver.wait(stream)
            return
        under_way: deque[tuple[int, int, int, int]] = deque()
        for start in range(0, size, CHUNK):
            if len(under_way) == CHUNKS // 2:
                self._empty(*under_way.popleft())
            part, chunk = min(CHUNK, size - start), self._chunk()
            self._driver.copy_out(chunk, source + start, part, stream)
            under_way.append((target + start, chunk, part, self._driver.recorded(stream)))
        while under_way:
            self._empty(*under_way.popleft())

    def _empty(self, target: int, chunk: int, size: int, event: int) -> None:
        self._passed(event)
        ctypes.memmove(target, chunk, size)
        self._free.append(chunk)

    def _passed(self, event: int) -> None:
        self._driver.finish(event)
        self._driver.forget_event(event)

    def _chunk(self) -> int:
        """One that nothing reads: a free one, a new one, or the one that was given out first."""
        if self._free:
            return self._free.popleft()
        if self._busy and (self._made >= CHUNKS or self._driver.has_passed(self._busy[0][1])):
            chunk, event = self._busy.popleft()
            self._passed(event)
            return chunk
        self._made += 1
        return self._driver.allocate_pinned(CHUNK)
