"""Several compiled functions in one file: what `tesserac build` writes and `tessera.load` reads without a compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessera.artifact import Artifact, read_artifact, unreadable
from tessera.container import pack, unpack
from tessera.errors import NO_SUCH_FUNCTION, WRONG_MACHINE, failure
from tessera.interface import ModuleInterface, Specialization, read_interface
from tessera.processor import instructions

if TYPE_CHECKING:
    from tessera.arguments import Array
    from tessera.tracing import Wanted

_KIND = "bundle 2"


@dataclass(frozen=True)
class Bundle:
    """Functions compiled ahead of time; each is there for the compile-time arguments it was built with."""

    name: str
    offers: ModuleInterface
    functions: Mapping[tuple[str, Specialization], Artifact]
    needs: tuple[str, ...] = ()
    """The sets of instructions that its code may use."""

    def to_bytes(self) -> bytes:
        keys = [_key(*key) for key in self.functions]
        blobs = [self.offers.to_bytes(), *(artifact.to_bytes() for artifact in self.functions.values())]
        return pack([_KIND, self.name, keys, self.needs], blobs)


class BundleReader:
    """Serves the functions of a bundle; each is read from its bytes when first asked for."""

    def __init__(self, data: bytes, path: str) -> None:
        self._path = path
        try:
            (kind, *rest), blobs = unpack(data)
            if kind != _KIND:
                raise ValueError(f"it holds {kind!r}, not a bundle of this version")
            self.name, keys, needs = rest
            self._offers = read_interface(blobs[0])
            self._functions = dict(zip(keys, blobs[1:], strict=True))
        except (ValueError, TypeError, IndexError) as error:
            raise unreadable(path, str(error)) from None
        _refuse_missing(path, needs)

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


def _refuse_missing(path: str, needs: Sequence[str]) -> None:
    """Before any of the code runs: a processor ends a process that meets an instruction it lacks."""
    here = instructions()
    missing = [] if here is None else [name for name in needs if name not in here]
    if missing:
        message = f"`{path}` was compiled for a processor with {', '.join(missing)}, which this one lacks"
        raise failure(WRONG_MACHINE, message, ("build it with --target x86-64-v3 or aarch64 for all of a family",))


def _key(name: str, specialization: Specialization) -> str:
    return f"{name} {specialization!r}"
