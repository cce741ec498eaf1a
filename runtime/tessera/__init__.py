"""Tessera for Python: load a module, call its functions on NumPy arrays.

    m = tessera.load("mlp.tess")                 compiled on first call, cached on disk
    m = tessera.load("mlp.tessb")                a built bundle: no compiler
    m = tessera.compile("def f(x: Tensor[N, f32]): return x * 2.0")
    m = tessera.load("mlp.tess", device="cuda")  the same functions on a GPU

Importing this module costs next to nothing: NumPy and the compiler are imported when they are first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessera.errors import TesseraError
from tessera.scaled import Scaled
from tessera.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from typing import SupportsIndex

    from tessera import op as op
    from tessera.arguments import Array
    from tessera.descriptor import Representation
    from tessera.frozen_arrays import FrozenMemory
    from tessera.gpu_memory import DeviceMemory
    from tessera.module import Module
    from tessera.operator import Operator
    from tessera.streams import Event, Stream

    Key = str | os.PathLike[str]
    """The path of a public key, as PEM."""

__all__ = [
    "Event", "Operator", "Representation", "Scaled", "Stream", "TesseraError", "__version__", "barrier", "compile",
    "device_memory", "freeze", "frozen_memory", "get_num_threads", "load", "pack_i4", "release_device_memory",
    "set_device_memory_limit", "set_num_threads", "stream", "synchronize", "to_device", "to_host", "trace", "unpack_i4",
]  # fmt: skip


def load(
    path: str | os.PathLike[str],
    *,
    release: bool = False,
    debug: bool = False,
    trusted: Key | Sequence[Key] | None = None,
    device: str = "cpu",
) -> Module:
    """The module in a `.tess` source or a `.tessb` bundle. A `release` of a source makes no checks for `assert` at run
    time, a `debug` build ends a call where an operator makes inf or NaN of finite numbers, and names it; a bundle has
    what it was built with. With `trusted` a bundle must be signed by one of these keys. Its functions
    run on the `device`: "cpu", "cuda" (the first GPU) or "cuda:1"."""
    from tessera.loading import load_module

    return load_module(path, release=release, debug=debug, trusted=trusted, device=device)


def compile(text: str, *, release: bool = False, debug: bool = False, device: str = "cpu") -> Module:
    """The module that a text is the source of, as `load` gives that of a file. Its functions run on the `device`:
    "cpu", "cuda" or "cuda:1"."""
    from tessera.devices import find_device
    from tessera.interface import Source
    from tessera.loading import module_of

    return module_of("text", Source("<text>", text, release, debug), find_device(device))


def to_device(value: object, device: str = "cuda") -> object:
    """A copy on a GPU of an array, or of all arrays in structs, operators, tuples, lists and dicts. What lies there
    already stays as it is. Calls with such arrays give such arrays."""
    from tessera.device_array import to_device as placed

    return placed(value, device)


def to_host(value: object) -> object:
    """The same value with NumPy arrays in place of those on a GPU."""
    from tessera.device_array import to_host as placed

    return placed(value)


def synchronize(device: str = "cuda") -> None:
    """Waits until a GPU has done all that was started on it. A fault of a kernel is told here at the latest."""
    from tessera.gpu_memory import synchronize as wait

    wait(device)


def device_memory(device: str = "cuda") -> DeviceMemory:
    """How much memory of a GPU this process holds, and what was copied to it and back, in bytes."""
    from tessera.gpu_memory import told

    return told(device)


def set_device_memory_limit(size: int, device: str = "cuda") -> None:
    """Has this process hold at most so many bytes of a GPU's memory from now on."""
    from tessera.gpu_memory import set_limit

    set_limit(size, device)


def release_device_memory(device: str = "cuda") -> None:
    """Gives memory that is kept for later calls back to the GPU, for other processes and libraries."""
    from tessera.gpu_memory import release

    release(device)


def stream(on: object) -> AbstractContextManager[None]:
    """Inside `with tessera.stream(s):` calls of this thread run on a stream: a `tessera.Stream()`, or one of torch or
    CuPy."""
    from tessera.streams import stream as chosen

    return chosen(on)


def barrier(device: str = "cuda") -> None:
    """What any stream of a GPU is given from now on comes after all that was started on any of them."""
    from tessera.streams import barrier as ordered

    ordered(device)


def __getattr__(name: str) -> object:
    """What not every program needs, imported when it is asked for."""
    if name == "op":
        import importlib

        return importlib.import_module("tessera.op")
    if name == "Operator":
        from tessera.operator import Operator

        return Operator
    if name == "Representation":
        from tessera.descriptor import Representation

        return Representation
    if name in ("Event", "Stream"):
        from tessera import streams

        return getattr(streams, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def trace(*modes: str) -> None:
    """Makes calls show what they do, on standard error: "shapes" each operator with its shapes, dtypes, bytes and
    source line, "numerics" the first operator that makes an inf or NaN. Without a mode they show nothing."""
    from tessera.dispatch import trace as chosen

    chosen(modes)


def freeze(model: object) -> object:
    """A copy of a struct (or of arrays, tuples, lists and dicts) that nothing can change, for any number of calls. On a
    CPU the first call that multiplies by a large matrix of it packs it for the registers of the processor, and all
    calls use the pack; it is freed with the array. `frozen_memory` says how much there is."""
    from tessera.frozen import freeze as frozen

    return frozen(model)


def frozen_memory() -> FrozenMemory:
    """How many arrays are frozen on the CPU, and how many packs calls have made of them, each with their bytes."""
    from tessera.frozen_arrays import told

    return told()


def pack_i4(x: Array) -> Array:
    """An int4 array as bytes, two elements each, the low nibble first: the form of files."""
    from tessera.nibbles import pack_i4 as packed

    return packed(x)


def unpack_i4(packed: Array, count: int) -> Array:
    """`count` elements along the last dim from such bytes."""
    from tessera.nibbles import unpack_i4 as unpacked

    return unpacked(packed, count)


def set_num_threads(count: SupportsIndex) -> None:
    """Changes how many threads calls may use from now on. Results do not depend on it."""
    from tessera import threads

    threads.set_num_threads(count)


def get_num_threads() -> int:
    """How many threads a call may use: TESSERA_NUM_THREADS, or one per available core, unless set."""
    from tessera import threads

    return threads.get_num_threads()
