"""What `tessera.load` gives: a module whose attributes are its functions, compiled when they are first called, and its
structs, as classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tessera.arguments import match_arguments
from tessera.artifact import Artifact
from tessera.errors import NO_SUCH_FUNCTION, MissingFunctionError, render
from tessera.function import CompiledFunction, Unsized
from tessera.interface import (
    TEST_PREFIX,
    FunctionInterface,
    Missing,
    ModuleInterface,
    Parameter,
    Specialization,
    Static,
    StructInterface,
    is_declared,
    with_sizes,
)
from tessera.outputs import OUT
from tessera.returned import assemble, is_flat
from tessera.safetensors import read_safetensors
from tessera.stream import STREAM, Stream, fold_in, key_array, read_seed
from tessera.structs import StructValue, struct_class
from tessera.values import Flattening
from tessera.weights import Weights

MANY_SPECIALIZATIONS = 8


class TesseraWarning(UserWarning):
    """Something works, but not as its author would want it."""


class Provider(Protocol):
    """Where compiled functions come from: a source with its cache, or a bundle."""

    def interface(self) -> ModuleInterface: ...

    def function(self, interface: ModuleInterface, name: str, specialization: Specialization) -> Artifact: ...


class Module:
    def __init__(self, name: str, provider: Provider) -> None:
        self._name = name
        self._provider = provider
        self._interface = offers = provider.interface()
        self._by_name = {f.name: f for f in (*offers.functions, *offers.hidden)}
        self.structs = {s.name: s for s in offers.structs}
        self.weights = Weights(offers.params, lambda param: self._function(f"{param}$init")())
        self.stream = Stream()
        self._classes: dict[str, type[StructValue]] = {}
        self._short = {name.rpartition(".")[2]: name for name in reversed(self.structs)}
        self._public = [*(f.name for f in offers.functions), *self._short]

    def __getattr__(self, name: str) -> Function | type[StructValue]:
        """Called for what is not there yet; it then stays as an attribute."""
        if name.startswith("__") or name not in self._public:
            raise self._no_such(name)
        found = self._class(self._short[name]) if name in self._short else self._function(name)
        setattr(self, name, found)
        return found

    def _function(self, name: str) -> Function:
        if name not in self._by_name:
            raise self._no_such(name)
        compile_ = lambda chosen: self._provider.function(self._interface, name, chosen)  # noqa: E731
        return Function(self._by_name[name], compile_, self)

    # ------------------------------------------------------------------------------------------------- structs

    def _class(self, name: str) -> type[StructValue]:
        if name not in self._classes:
            struct = self.structs[name]
            known = [method for method in struct.methods if f"{name}.{method}" in self._by_name]  # a bundle has none
            methods = {method: self._method(f"{name}.{method}") for method in known}
            self._classes[name] = struct_class(struct, self, methods)
        return self._classes[name]

    def _method(self, name: str) -> Callable[..., object]:
        function = self._function(name)
        return lambda *args, **kwargs: function(*args, **kwargs)

    def make_struct(self, struct: str, fields: dict[str, object]) -> StructValue:
        return self._class(struct).of_fields(fields)

    def whole(self, struct: StructInterface, sizes: tuple[object, ...], seed: object) -> StructValue:
        made = self._function(f"{struct.name}$new")(*sizes, key_array(self._key(seed)))
        assert isinstance(made, StructValue)
        return made

    def field(self, struct: StructInterface, field: str, sizes: tuple[object, ...], seed: object) -> object:
        position = [name for name, _ in struct.fields].index(field)
        return self._function(f"{struct.name}.{field}$init").with_key(fold_in(self._key(seed), position), *sizes)

    def _key(self, seed: object) -> int:
        return self.stream.next() if seed is None else read_seed(seed)

    def seed(self, seed: int) -> None:
        """Starts the module's random stream anew; without it, a module starts at 0."""
        self.stream.restart(seed)

    # --------------------------------------------------------------------------------------------------- tests

    @property
    def tests(self) -> tuple[str, ...]:
        """The titles of the module's test blocks."""
        return tuple(name.removeprefix(TEST_PREFIX) for name in self._by_name if name.startswith(TEST_PREFIX))

    def run_test(self, title: str) -> None:
        """Runs a test block. Raises TesseraError where an assertion of it does not hold."""
        self._function(f"{TEST_PREFIX}{title}")()

    # -------------------------------------------------------------------------------------------------- params

    @property
    def params(self) -> dict[str, object]:
        """The params that have a value. Assigning a dict sets them, and forgets what was set before."""
        return self.weights.values()

    @params.setter
    def params(self, values: Mapping[str, object]) -> None:
        self.weights.set(values)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Sets the params from a `.safetensors` file; `model.w` there is the field `w` of the param `model`."""
        nested: dict[str, object] = {}
        for name, array in read_safetensors(os.fspath(path)).items():
            *folders, last = name.split(".")
            place = nested
            for folder in folders:
                inner = place.setdefault(folder, {})
                place = inner if isinstance(inner, dict) else {}
            place[last] = array
        self.weights.set(nested)

    # ----------------------------------------------------------------------------------------------------------

    def _no_such(self, name: str) -> MissingFunctionError:
        import difflib

        close = difflib.get_close_matches(name, self._public, n=1)
        hint = (f"did you mean `{close[0]}`?",) if close else ()
        return MissingFunctionError(
            NO_SUCH_FUNCTION, render(NO_SUCH_FUNCTION, f"module `{self._name}` has no function `{name}`", hint)
        )

    def __dir__(self) -> list[str]:
        """What the program has; structs of the library are there too, but not listed."""
        library = {name for name, full in self._short.items() if full.count(".") > 1}
        return sorted(name for name in self._public if name not in library)

    def __repr__(self) -> str:
        return f"<tessera module {self._name}>"


class Home(Protocol):
    """What functions need of the module they belong to."""

    structs: dict[str, StructInterface]
    weights: Weights
    stream: Stream

    def make_struct(self, struct: str, fields: dict[str, object]) -> StructValue: ...


class Function:
    """A function of a module. Calling it compiles it if need be.

    `__call__` is an attribute of each object: once a function without compile-time parameters is compiled, it is the
    C function in the image, and nothing of Python stands before it.
    """

    __slots__ = ("__call__", "_compile", "_compiled", "_home", "interface")

    def __init__(
        self,
        interface: FunctionInterface,
        compile_: Callable[[Specialization], Artifact],
        home: Home,
    ) -> None:
        self.interface = interface
        self._compile = compile_
        self._home = home
        self._compiled: dict[str, CompiledFunction | Unsized] = {}
        direct = all(_is_plain(p) for p in interface.parameters)
        self.__call__: Callable[..., object] = self._compile_and_call if direct else self._dispatch

    @property
    def __name__(self) -> str:
        return self.interface.name

    def _compile_and_call(self, *args: object, **kwargs: object) -> object:
        compiled = self._specialized(())
        if isinstance(compiled, Unsized):
            self.__call__ = self._dispatch
            return self._dispatch(*args, **kwargs)
        plain = is_flat(compiled.returned) and not compiled.params
        self.__call__ = compiled.fast if plain else self._dispatch
        return self.__call__(*args, **kwargs)

    def _dispatch(self, *args: object, **kwargs: object) -> object:
        return self._run(args, kwargs, None)

    def with_key(self, key: int, *args: object) -> object:
        """The result for these arguments, where random numbers come from `key`."""
        return self._run(args, {}, key)

    def _run(self, args: Sequence[object], kwargs: dict[str, object], key: int | None) -> object:
        structs, weights = self._home.structs, self._home.weights
        out = kwargs.pop(OUT, None) if all(p.name != OUT for p in self.interface.parameters) else None
        taken = Flattening(self.interface.name, structs)
        chosen = []
        values = _matched(self.interface, args, kwargs)
        for parameter, value in zip(self.interface.parameters, values, strict=True):
            choice = taken.add(parameter.name, parameter.kind, value)
            if not is_declared(parameter.kind, structs):
                chosen.append((parameter.name, choice))
        compiled = self._specialized(tuple(chosen))
        for name in compiled.params:
            if name == STREAM:
                taken.leaves.append(key_array(self._home.stream.next() if key is None else key))
            else:
                taken.add(name, weights.kind_of(name).kind, weights.get(name))
        if isinstance(compiled, Unsized):
            compiled = self._sized(tuple(chosen), compiled, taken.leaves)
        if out is not None:
            return compiled(*taken.leaves, out=out)
        result = compiled.fast(*taken.leaves)
        if is_flat(compiled.returned):
            return result
        assert isinstance(result, tuple)
        return assemble(compiled.returned, iter(result), lambda: compiled.sizes(taken.leaves), self._home.make_struct)

    def _sized(self, chosen: Specialization, unsized: Unsized, leaves: Sequence[object]) -> CompiledFunction:
        """The code for the sizes of a call, where it is made for each of them."""
        found = self._specialized(with_sizes(chosen, unsized.demanded(leaves)))
        assert isinstance(found, CompiledFunction), "sizes that are numbers are demanded no more"
        return found

    def _specialized(self, specialization: Specialization) -> CompiledFunction | Unsized:
        key = repr(specialization)  # by text, since 1, 1.0 and True are equal but not the same argument
        found = self._compiled.get(key)
        if found is None:
            artifact = self._compile(specialization)
            found = Unsized(artifact) if artifact.demands else CompiledFunction(artifact)
            self._compiled[key] = found
            if len(self._compiled) == MANY_SPECIALIZATIONS + 1:
                self._warn()
        return found

    def _warn(self) -> None:
        text = f"`{self.interface.name}` is compiled for the {len(self._compiled)}th set of compile-time arguments"
        warnings.warn(f"warning[W0901]: {text}", TesseraWarning, stacklevel=5)

    def __repr__(self) -> str:
        return f"<tessera function {self.interface.name}>"


def _is_plain(parameter: Parameter) -> bool:
    positional = not parameter.keyword_only and isinstance(parameter.default, Missing)
    return positional and parameter.kind in ("tensor", "float")


def _matched(interface: FunctionInterface, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
    names = [p.name for p in interface.parameters]
    positional = [p.name for p in interface.parameters if not p.keyword_only]
    defaults: dict[str, Static] = {
        p.name: p.default for p in interface.parameters if not isinstance(p.default, Missing)
    }
    return match_arguments(interface.name, names, positional, defaults, args, kwargs)
