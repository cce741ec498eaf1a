"""Several compiled functions in one file: what `tesserac build` writes and `tessera.load` reads without a compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessera.artifact import CPU_TARGET, unreadable
from tessera.container import pack, unpack
from tessera.errors import NO_SUCH_FUNCTION, NOT_BUILT_FOR, WRONG_MACHINE, failure
from tessera.interface import ModuleInterface, Specialization, read_interface
from tessera.processor import instructions
from tessera.store import read_for

if TYPE_CHECKING:
    from tessera.arguments import Array
    from tessera.gpu_artifact import AnyArtifact
    from tessera.tracing import Wanted

_KIND = "bundle 4"


@dataclass(frozen=True)
class Bundle:
    """Functions compiled ahead of time; each is there for the compile-time arguments it was built with, once for each
    of the targets."""

    name: str
    offers: ModuleInterface
    functions: Mapping[tuple[str, Specialization, str], AnyArtifact]
    targets: tuple[str, ...] = (CPU_TARGET,)
    needs: tuple[str, ...] = ()
    """The sets of instructions that its code for a CPU may use."""
    schedules: str = ""
    """What tuning had found of what it holds, as the compiler keeps it."""

    def to_bytes(self) -> bytes:
        keys = [_key(*key) for key in self.functions]
        blobs = [self.offers.to_bytes(), *(artifact.to_bytes() for artifact in self.functions.values())]
        return pack([_KIND, self.name, keys, self.targets, self.needs, self.schedules], blobs)


class BundleReader:
    """Serves the functions of a bundle; each is read from its bytes when first asked for."""

    def __init__(self, data: bytes, path: str) -> None:
        self._path = path
        try:
            (kind, *rest), blobs = unpack(data)
            if kind != _KIND:
                raise ValueError(f"it holds {kind!r}, not a bundle of this version")
            self.name, keys, self.targets, self._needs, self.schedules = rest
            self._offers = read_interface(blobs[0])
            self._functions = dict(zip(keys, blobs[1:], strict=True))
        except (ValueError, TypeError, IndexError) as error:
            raise unreadable(path, str(error)) from None

    def source(self) -> None:
        """A bundle has none."""

    def interface(self) -> ModuleInterface:
        return self._offers

    def target(self, wanted: Sequence[str]) -> str:
        """The target whose code is taken, of those that would do, best first. Raises TesseraError where the bundle has
        none of them, or this processor cannot run it."""
        found = next((target for target in wanted if target in self.targets), None)
        if found is None:
            note = f"build it again: `tesserac build --target {','.join([*self.targets, wanted[0]])}`"
            message = f"`{self._path}` was built for {', '.join(self.targets)}, not for {wanted[0]}"
            raise failure(NOT_BUILT_FOR, message, (note,))
        if found == CPU_TARGET:
            _refuse_missing(self._path, self._needs)
        return found

    def function(
        self, interface: ModuleInterface, name: str, specialization: Specialization, target: str
    ) -> AnyArtifact:
        data = self._functions.get(_key(name, specialization, target))
        if data is None:
            chosen = ", ".join(f"{parameter} = {value}" for parameter, value in specialization)
            message = f"`{self._path}` was not built with `{name}` for {chosen}"
            raise failure(
                NO_SUCH_FUNCTION, message, ("build it with these compile-time arguments, or load the source",)
            )
        return read_for(target, data, self._path)

    def trace(self, name: str, specialization: Specialization, args: Sequence[Array], wanted: Wanted) -> None:
        """A bundle has no operators left."""
        wanted.say(f"{name}: a bundle shows no operators; load the source `{self._path}` was built from\n")


def _refuse_missing(path: str, needs: Sequence[str]) -> None:
    """Before any of the code runs: a processor ends a process that meets an instruction it lacks."""
    here = instructions()
    missing = [] if here is None else [name for name in needs if name not in here]
    if missing:
        message = f"`{path}` was compiled for a processor with {', '.join(missing)}, which this one lacks"
        note = "build it with --target cpu:x86-64-v3 or cpu:aarch64 for all of a family"
        raise failure(WRONG_MACHINE, message, (note,))


def _key(name: str, specialization: Specialization, target: str) -> str:
    return f"{target} {name} {specialization!r}"
