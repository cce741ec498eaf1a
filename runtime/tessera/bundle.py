"""Several compiled functions in one file: what `tesserac build` writes and `tessera.load` reads without a compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessera.artifact import Artifact, read_artifact, unreadable
from tessera.container import pack, unpack
from tessera.errors import NO_SUCH_FUNCTION, failure
from tessera.interface import ModuleInterface, Specialization, read_interface

if TYPE_CHECKING:
    from tessera.arguments import Array
    from tessera.tracing import Wanted

_KIND = "bundle 1"


@dataclass(frozen=True)
class Bundle:
    """Functions compiled ahead of time; each is there for the compile-time arguments it was built with."""

    name: str
    offers: ModuleInterface
    functions: Mapping[tuple[str, Specialization], Artifact]

    def to_bytes(self) -> bytes:
        keys = [_key(*key) for key in self.functions]
        blobs = [self.offers.to_bytes(), *(artifact.to_bytes() for artifact in self.functions.values())]
        return pack([_KIND, self.name, keys], blobs)


class BundleReader:
    """Serves the functions of a bundle; each is read from its bytes when first asked for."""

    def __init__(self, data: bytes, path: str) -> None:
        self._path = path
        try:
            (kind, self.name, keys), blobs = unpack(data)
            if kind != _KIND:
                raise ValueError(f"it holds {kind!r}, not a bundle")
            self._offers = read_interface(blobs[0])
            self._functions = dict(zip(keys, blobs[1:], strict=True))
        except (ValueError, TypeError, IndexError) as error:
            raise unreadable(path, str(error)) from None

    def interface(self) -> ModuleInterface:
        return self._offers

    def function(self, interface: ModuleInterface, name: str, specialization: Specialization) -> Artifact:
        data = self._functions.get(_key(name, specialization))
        if data is None:
            chosen = ", ".join(f"{parameter} = {value}" for parameter, value in specialization)
            message = f"`{self._path}` was not built with `{name}` for {chosen}"
            raise failure(
                NO_SUCH_FUNCTION, message, ("build it with these compile-time arguments, or load the source",)
            )
        return read_artifact(data, self._path)

    def trace(self, name: str, specialization: Specialization, args: Sequence[Array], wanted: Wanted) -> None:
        """A bundle has no operators left."""
        wanted.say(f"{name}: a bundle shows no operators; load the source `{self._path}` was built from\n")


def _key(name: str, specialization: Specialization) -> str:
    return f"{name} {specialization!r}"
