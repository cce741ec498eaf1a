"""What `tessera.load` gives: a module whose attributes are its functions, compiled when they are first called, and its
structs, as classes.

`params`, `load` and `seed` are the module's own. A function of the program that is called so is `m["load"]`; every
other name is the program's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

from tessera.devices import Gpu
from tessera.dispatch import Function
from tessera.errors import WRONG_ARGUMENTS, TesseraWarning, failure, not_pickled, path_of
from tessera.frozen import frozen_in_place
from tessera.home import Home, Provider
from tessera.interface import TEST_PREFIX
from tessera.safetensors import read_safetensors
from tessera.structs import StructValue
from tessera.weights import nested

__all__ = ["Function", "Module", "Provider", "TesseraWarning", "run_test", "tests_of"]


class Module:
    _home: Home

    def __init__(self, name: str, provider: Provider, gpu: Gpu | None = None) -> None:
        vars(self)["_home"] = Home(name, provider, gpu)

    def __getattr__(self, name: str) -> Function | type[StructValue]:
        """Called for what is not there yet; it then stays as an attribute."""
        if name == "_home" or name.startswith("__"):  # of an object half made, or of no program
            raise AttributeError(name)
        found = self._home.member(name)
        vars(self)[name] = found
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if name != "params":
            note = "of a module only `params` is assigned"
            raise failure(WRONG_ARGUMENTS, f"`{name}` of module `{self._home.name}` cannot be set", (note,))
        super().__setattr__(name, value)

    def __getitem__(self, name: str) -> Function | type[StructValue]:
        """The program's function or struct of that name, also where the module has an attribute of its own there."""
        return self._home.member(name)

    def seed(self, seed: int) -> None:
        """Starts the module's random stream anew; without it, a module starts at 0."""
        self._home.stream.restart(seed)

    @property
    def params(self) -> dict[str, object]:
        """The params that have a value. Assigning a dict sets them, and forgets what was set before."""
        return self._home.weights.values()

    @params.setter
    def params(self, values: Mapping[str, object]) -> None:
        self._home.weights.set(values)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Sets the params from a `.safetensors` file; `model.w` there is the field `w` of the param `model`,
        `layers.0.w` that of the first item of the list `layers`. They are frozen: `m.params` has them read-only."""
        arrays = {name: frozen_in_place(array) for name, array in read_safetensors(path_of(path)).items()}
        self._home.weights.set(nested(arrays))

    def __reduce__(self) -> NoReturn:
        raise not_pickled(f"module `{self._home.name}`")

    def __dir__(self) -> list[str]:
        return self._home.shown()

    def __repr__(self) -> str:
        gpu = self._home.gpu
        return f"<tessera module {self._home.name}{'' if gpu is None else f' on {gpu.name}'}>"


def tests_of(module: Module) -> tuple[str, ...]:
    """The titles of a module's test blocks."""
    return module._home.tests()


def run_test(module: Module, title: str) -> None:
    """Runs a test block. Raises TesseraError where an assertion of it does not hold."""
    module._home.function(f"{TEST_PREFIX}{title}")()
