"""Maps an image into this process.

Enters: an `Image` and a function that gives the address behind each imported name. Leaves: the addresses of its
symbols. Code is never writable and executable at once. Images stay mapped for the life of the process: threads of
the pool and functions held by Python may be inside them at any time. See Note [Instruction caches].
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple

from tessera.errors import NO_MEMORY_FOR_CODE, WRONG_MACHINE, TesseraError, failure
from tessera.image import Image

Resolver = Callable[[str], int]

_NO_ACCESS, _FAILED = 0, ctypes.c_void_p(-1).value


class LoadedImage(NamedTuple):
    """A mapped image. `base` plus an offset of the image is an address."""

    image: Image
    base: int

    def address(self, symbol: str) -> int:
        return self.base + self.image.symbol(symbol)


def load_image(image: Image, resolve: Resolver) -> LoadedImage:
    if image.machine != machine():
        raise failure(WRONG_MACHINE, f"compiled for {image.machine}, but this machine is {machine()}")
    data = _initial_data(image, resolve)
    base = _reserve(image.size)
    _map_text(base, image.text)
    _make_writable(base, image, data(base))
    return LoadedImage(image, base)


def machine() -> str:
    """This machine, in the spelling of `Image.machine`."""
    name = platform.machine().lower()
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)


def _initial_data(image: Image, resolve: Resolver) -> Callable[[int], bytearray]:
    """The writable span as it must be before the first instruction runs, once the base is known."""
    addresses = [(offset - image.data_offset, resolve(name)) for name, offset in image.imports]

    def at(base: int) -> bytearray:
        data = bytearray(image.size - image.data_offset)
        data[: len(image.data)] = image.data
        for slot in image.slots:
            place = slot - image.data_offset
            (offset,) = struct.unpack_from("<Q", data, place)
            struct.pack_into("<Q", data, place, base + offset)
        for place, address in addresses:
            struct.pack_into("<Q", data, place, address)
        return data

    return at


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


LIBC = _libc()


def _map(address: int | None, size: int, protection: int, flags: int, file: int) -> int:
    result = LIBC.mmap(address, size, protection, mmap.MAP_PRIVATE | flags, file, 0)
    if result is None or result == _FAILED:
        raise _refused("memory for compiled code")
    assert isinstance(result, int)
    return result


def _protect(address: int, size: int, protection: int) -> None:
    if LIBC.mprotect(address, size, protection):
        raise _refused("a change of memory protection")


def _refused(what: str) -> TesseraError:
    reason = os.strerror(ctypes.get_errno())
    return failure(NO_MEMORY_FOR_CODE, f"the system refused {what}: {reason}")


def _reserve(size: int) -> int:
    return _map(None, size, _NO_ACCESS, mmap.MAP_ANONYMOUS, -1)


_MAP_FIXED = 0x10


def _map_text(base: int, text: bytes) -> None:
    """Puts code at the base, through a file in memory, or where the system has none by writing and then protecting."""
    try:
        file = os.memfd_create("tessera", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        _write_text(base, text)
        return
    with os.fdopen(file, "wb") as stream:
        stream.write(text)
        stream.flush()
        _map(base, len(text), mmap.PROT_READ | mmap.PROT_EXEC, _MAP_FIXED, file)


def _write_text(base: int, text: bytes) -> None:
    _protect(base, len(text), mmap.PROT_READ | mmap.PROT_WRITE)
    ctypes.memmove(base, text, len(text))
    if sys.platform == "darwin":
        LIBC.sys_icache_invalidate(ctypes.c_void_p(base), ctypes.c_size_t(len(text)))
    _protect(base, len(text), mmap.PROT_READ | mmap.PROT_EXEC)


def _make_writable(base: int, image: Image, data: bytearray) -> None:
    start = base + image.data_offset
    _protect(start, image.size - image.data_offset, mmap.PROT_READ | mmap.PROT_WRITE)
    ctypes.memmove(start, bytes(data), len(data))


# Note [Instruction caches]
# On AArch64 the instruction cache does not see what the data cache holds. The code is therefore written into a file
# in memory through the kernel and mapped executable from there, which is how shared libraries are loaded: the kernel
# makes the caches agree when it maps a page that was written. No user instruction writes code, hence none has to
# clean a cache. It also means that a page is never writable and executable, at any time. Without such a file the code
# is written to fresh pages, which the kernel treats the same way when they first become executable.
