"""Which stream a call runs on: the one on which the caller's library works.

Enters: a device, and the arrays of a call. Leaves: the handle of a stream. Torch and CuPy have a current stream; where
neither is there it is the default stream of the device, with which all streams of the usual kind keep step. Nothing is
imported: a library that the process does not have cannot have made an array.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tessera.devices import Gpu

DEFAULT = 0
"""The driver's handle of a device's default stream."""
LIBRARIES = ("torch", "cupy")


def current(gpu: Gpu) -> int:
    """The stream of a call whose arrays no other library has made."""
    chosen = chosen_stream(gpu) if _chosen.is_used else None
    if chosen is not None:
        return chosen
    if _raw:
        return _raw[0](gpu.index)
    return library_stream(gpu, "torch") or DEFAULT if "torch" in sys.modules else DEFAULT


_raw: list[Callable[[int], int]] = []
"""What tells torch's current stream on a device, once torch uses GPUs."""


class _Chosen(threading.local):
    """The streams that this thread has chosen, the last one counts; `is_used` where any thread ever has."""

    is_used = False

    def __init__(self) -> None:
        self.streams: list[tuple[int, int]] = []


_chosen = _Chosen()


def chosen_stream(gpu: Gpu) -> int | None:
    """The stream that was chosen for a device."""
    return next((stream for index, stream in reversed(_chosen.streams) if index == gpu.index), None)


@contextmanager
def choose(gpu: Gpu, stream: int) -> Iterator[None]:
    """Inside, on this thread, calls run on a stream."""
    _Chosen.is_used = True
    _chosen.streams.append((gpu.index, stream))
    try:
        yield
    finally:
        _chosen.streams.pop()


def call_stream(gpu: Gpu, values: Iterable[object]) -> int:
    """The current stream of the library that made one of these; else torch's, where the process uses it."""
    chosen = chosen_stream(gpu) if _chosen.is_used else None
    if chosen is None and any(library in sys.modules for library in LIBRARIES):
        for value in values:
            stream = library_stream(gpu, type(value).__module__.partition(".")[0])
            if stream is not None:
                return stream
    return current(gpu)


def library_stream(gpu: Gpu, library: str) -> int | None:
    """The current stream of a library on a device; None where it has none."""
    if _raw and library == "torch":
        return _raw[0](gpu.index)
    module = sys.modules.get(library) if library in LIBRARIES else None
    if module is None:
        return None
    if library == "torch":
        if not module.cuda.is_initialized():
            return None
        current = getattr(module._C, "_cuda_getCurrentRawStream", None)  # what `current_stream` wraps in an object
        if current is not None:
            _raw[:] = [current]
        return int(current(gpu.index) if current else module.cuda.current_stream(gpu.index).cuda_stream)
    if module.cuda.runtime.getDevice() != gpu.index:
        return None
    return int(module.cuda.get_current_stream().ptr)


_PROTOCOL_DEFAULT, NOBODY = 1, -1
"""How protocols name the default stream, and that nobody has to wait."""


def to_protocol(stream: int) -> int:
    """A stream as DLPack and the array interface name it, where 0 is no name."""
    return stream or _PROTOCOL_DEFAULT


def from_protocol(stream: int | None) -> int | None:
    """A stream that they name; None where nobody has to wait. What is not named is the default stream."""
    if stream == NOBODY:
        return None
    return DEFAULT if stream in (None, DEFAULT, _PROTOCOL_DEFAULT) else stream
