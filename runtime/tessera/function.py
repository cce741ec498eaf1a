"""A compiled function as a Python callable.

Enters: an artifact. Leaves: an object whose call goes straight into the image: a C function that reads the arrays,
allocates the results and runs the entry. What it does not handle comes back to `CompiledFunction.__call__`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tessera.arguments import Array, arrays_of, placed_arrays_of
from tessera.artifact import Artifact
from tessera.call import Entry, bind_symbols, call, failed_status
from tessera.dtypes import numpy_dtype
from tessera.loader import LoadedImage, load_image
from tessera.numpy_abi import api_function, layout_holds
from tessera.outputs import flat_outputs
from tessera.printing import CALLBACK, write_site
from tessera.returned import as_they_come, is_flat
from tessera.signature import OUT
from tessera.threads import function_address, load_pool, resolve_libc

if TYPE_CHECKING:
    from tessera.gpu_artifact import AnyArtifact


class Unsized:
    """A function without code: it is compiled for each value of some sizes, which a call's arguments give."""

    def __init__(self, artifact: AnyArtifact) -> None:
        self.signature = artifact.signature
        self.params = artifact.params
        self._demands = artifact.demands

    def demanded(self, leaves: Sequence[object]) -> dict[str, int]:
        """The sizes that code is made for, in a call with these arguments."""
        shapes = [array.shape for array in placed_arrays_of(self.signature, leaves, {})]
        sizes = bind_symbols(self.signature, shapes)
        return {name: sizes[name] for name in self._demands}


class CompiledFunction:
    """`fast` is what users call; calling the object itself takes the careful way. The image holds the addresses of
    `_failed` and `_printed`, so this object must live as long as `fast`: it is the `self` of that C function."""

    def __init__(self, artifact: Artifact) -> None:
        self.signature = artifact.signature
        self.returned = artifact.returned
        self.returns_flat = is_flat(artifact.returned)
        self._flat = as_they_come(len(artifact.signature.results), several=artifact.signature.returns_tuple)
        self.params = artifact.params
        self._takes_out = artifact.signature.takes_out(artifact.params)
        self._failed = self._raise_status
        self._printed = CALLBACK(self._print)
        loaded = load_image(artifact.code, _Resolver(load_pool(artifact.pool), self._failed, self._printed))
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        guards, run = (prototype(loaded.address(f"tessera.{name}")) for name in ("guards", "entry"))
        self._entry = Entry(guards, run)
        self._loaded = loaded
        self._fast = _c_function(loaded, self) if layout_holds() else None

    @property
    def fast(self) -> Callable[..., object]:
        return self._fast or self.__call__

    def before(self, unusual: Callable[..., object]) -> Callable[..., object]:
        """As `fast`, but what it does not handle goes to `unusual`."""
        return unusual if self._fast is None else _c_function(self._loaded, unusual)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Brings the arguments into the form that `fast` takes and calls it, or says why that cannot be. Arguments
        that have this form already were refused by `fast` for another reason: then Python does the whole call. `out`
        has one array per result."""
        given = kwargs.pop(OUT, None) if self._takes_out else None
        arrays = arrays_of(self.signature, args, kwargs)
        if given is not None:
            call(self.signature, self._entry, arrays, flat_outputs(self.signature.name, self._flat, given))
            return given
        changed = bool(kwargs) or any(array is not value for array, value in zip(arrays, args, strict=True))
        if changed and self._fast is not None:
            return self._fast(*arrays)
        return call(self.signature, self._entry, arrays)

    def into(self, leaves: Sequence[object], out: object) -> object:
        """The results in memory of the caller's, which is made as what the function returns is."""
        if self.returns_flat:
            return self.fast(*leaves, out=out)
        parts = flat_outputs(self.signature.name, self.returned, out)
        self.fast(*leaves, out=tuple(parts) if self.signature.returns_tuple else parts[0])
        return out

    def _print(self, site: int, words: int) -> None:
        """Called by the image at a `print`."""
        write_site(self.signature.sites[site], words)

    def sizes(self, leaves: Sequence[object]) -> dict[str, int]:
        """What the symbols of the signature are in a call with these arguments."""
        return bind_symbols(self.signature, [array.shape for array in arrays_of(self.signature, leaves, {})])

    def _raise_status(self, status: bytes, *arrays: Array) -> None:
        """Called by the image when an entry that it ran has failed."""
        shapes = [getattr(array, "shape", ()) for array in arrays]  # a number of Python's has none
        raise failed_status(self.signature, status, bind_symbols(self.signature, shapes))


class _Resolver:
    """Finds what the slots of a code image are to hold; the part before the first dot says where."""

    def __init__(self, pool: LoadedImage, failed: object, printed: ctypes._FuncPointer) -> None:
        self._pool = pool
        self._failed = failed
        self._printed = printed

    def __call__(self, name: str) -> int:
        space, _, rest = name.partition(".")
        return _SPACES[space](self, rest)

    def python(self, name: str) -> int:
        return function_address(ctypes.pythonapi, name)

    def numpy(self, name: str) -> int:
        import numpy as np

        return id(np.ndarray) if name == "ndarray" else api_function(int(name))

    def dtype(self, name: str) -> int:
        return id(numpy_dtype(name))

    def scalar(self, name: str) -> int:
        return id(numpy_dtype(name).type)

    def pool(self, name: str) -> int:
        return self._pool.address(name)

    def call(self, name: str) -> int:
        if name == OUT:
            return id(OUT)
        if name == "print":
            address = ctypes.cast(self._printed, ctypes.c_void_p).value
            assert address is not None
            return address
        assert name == "failed"
        return id(self._failed)

    def libc(self, name: str) -> int:
        return resolve_libc(name)


_SPACES: dict[str, Callable[[_Resolver, str], int]] = {
    "python": _Resolver.python,
    "numpy": _Resolver.numpy,
    "dtype": _Resolver.dtype,
    "scalar": _Resolver.scalar,
    "pool": _Resolver.pool,
    "call": _Resolver.call,
    "libc": _Resolver.libc,
}


def _c_function(loaded: LoadedImage, self: Callable[..., object]) -> Callable[..., object]:
    """A Python function object over the method definition that stands in the image."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., object] = make(loaded.address("tessera.method"), self, None)
    return made
