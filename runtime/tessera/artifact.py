"""A compiled function as a file: its code, the pool that its code calls, and what a caller must know of it.

Enters: an `Artifact`, or the bytes of one. Leaves: the other. Bytes that are not an artifact of this version are a
`TesseraError`, whatever is wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tessera.container import Row, image_of, image_row, pack, unpack
from tessera.errors import UNREADABLE_ARTIFACT, TesseraError, failure
from tessera.image import Image
from tessera.returned import Returned, read_returned
from tessera.signature import Binding, Signature, Site, read_tensor
from tessera.sizes import read_size

_KIND = "function 7"
CPU_TARGET = "cpu"
"""What code is compiled for: this, or such as `cuda:sm_90a`."""


class Artifact(NamedTuple):
    signature: Signature
    code: Image
    """Holds `tessera.entry`, and `tessera.method`, the Python function over it. A dot keeps their names apart from
    those of kernels, which come from the source."""
    pool: Image
    returned: Returned
    """The shape of the result, whose values are those of the signature."""
    params: tuple[str, ...] = ()
    """The params of the module that the function reads; their leaves are its last arguments."""
    demands: tuple[str, ...] = ()
    """Symbols of the signature that must be numbers: there is no code yet, but some for each of their values."""

    def with_sites(self, sites: Iterable[Site]) -> Artifact:
        return self._replace(signature=self.signature._replace(sites=tuple(sites)))

    def to_bytes(self) -> bytes:
        images = [image_row(self.code), image_row(self.pool)]
        content = [_KIND, self.signature, *images, self.returned, self.params, self.demands]
        return pack(content, [self.code.text, self.code.data, self.pool.text, self.pool.data])


def read_artifact(data: bytes, source: str) -> Artifact:
    """The artifact in `data`; `source` names it in errors."""
    try:
        content, blobs = unpack(data)
        kind, signature, code, pool, returned, params, demands = content
        if kind != _KIND:
            raise ValueError(f"it holds {kind!r}, not a function")
        images = image_of(code, *blobs[:2]), image_of(pool, *blobs[2:])
        return Artifact(read_signature(signature), *images, read_returned(returned), tuple(params), tuple(demands))
    except (ValueError, TypeError, IndexError) as error:
        raise unreadable(source, str(error)) from None


def unreadable(source: str, reason: str) -> TesseraError:
    message = f"cannot use the compiled file `{source}`: {reason}"
    return failure(UNREADABLE_ARTIFACT, message, ("build it again from its source",))


def read_signature(row: Row) -> Signature:
    name, parameters, results, returns_tuple, symbols, bindings, sites, donated, numerics = row
    return Signature(
        name=name,
        parameters=tuple(map(read_tensor, parameters)),
        results=tuple(map(read_tensor, results)),
        returns_tuple=returns_tuple,
        symbols=tuple(symbols),
        bindings=tuple(map(_binding, bindings)),
        sites=tuple(Site(*site) for site in sites),
        donated=tuple(donated),
        numerics=numerics,
    )


def _binding(row: Row) -> Binding:
    symbol, parameter, axis, *sizes = row
    return Binding(symbol, parameter, axis, *map(read_size, sizes))
