"""What a module is made of, behind its attributes: functions by name, classes of its structs, params, random stream.

Enters: a provider of compiled functions. Leaves: what `Module` shows. It is an object of its own, so that a program may
call its functions as it likes: nothing here hides one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tessera.arguments import Array
from tessera.artifact import Artifact
from tessera.dispatch import Function
from tessera.errors import NO_SUCH_FUNCTION, MissingFunctionError, failure, render
from tessera.interface import TEST_PREFIX, Kind, ModuleInterface, Specialization, StructInterface
from tessera.stream import Stream, fold_in, key_array, read_seed
from tessera.structs import StructValue, struct_class
from tessera.tracing import Wanted
from tessera.weights import Weights


class Provider(Protocol):
    """Where compiled functions come from: a source with its cache, or a bundle."""

    def interface(self) -> ModuleInterface: ...

    def function(self, interface: ModuleInterface, name: str, specialization: Specialization) -> Artifact: ...

    def trace(self, name: str, specialization: Specialization, args: Sequence[Array], wanted: Wanted) -> None: ...


class Home:
    def __init__(self, name: str, provider: Provider) -> None:
        self.name = name
        self._provider = provider
        self._interface = offers = provider.interface()
        self._by_name = {f.name: f for f in (*offers.functions, *offers.hidden)}
        self.structs = {s.name: s for s in offers.structs}
        self.weights = Weights(offers.params, lambda param: self.function(f"{param}$init")())
        self.stream = Stream()
        self._classes: dict[str, type[StructValue]] = {}
        self._short = {name.rpartition(".")[2]: name for name in reversed(self.structs)}
        self._public = [*(f.name for f in offers.functions), *self._short]

    def member(self, name: str) -> Function | type[StructValue]:
        """The function or struct of that name that the program has."""
        if name not in self._public:
            raise self._no_such(str(name))
        return self._class(self._short[name]) if name in self._short else self.function(name)

    def function(self, name: str) -> Function:
        if name not in self._by_name:
            raise self._no_such(name)
        compile_ = lambda chosen: self._provider.function(self._interface, name, chosen)  # noqa: E731
        show = lambda *call: self._provider.trace(name, *call)  # noqa: E731
        return Function(self._by_name[name], compile_, show, self)

    def shown(self) -> list[str]:
        """What the program has; of the library's structs, which are all there, those that its functions take."""
        taken = {name for f in self._interface.functions for p in f.parameters for name in _structs_in(p.kind)}
        library = {name for name, full in self._short.items() if full.count(".") > 1 and full not in taken}
        return sorted(name for name in self._public if name not in library)

    def tests(self) -> tuple[str, ...]:
        return tuple(name.removeprefix(TEST_PREFIX) for name in self._by_name if name.startswith(TEST_PREFIX))

    # ------------------------------------------------------------------------------------------------- structs

    def _class(self, name: str) -> type[StructValue]:
        if name not in self._classes:
            struct = self.structs[name]
            known = [method for method in struct.methods if f"{name}.{method}" in self._by_name]  # a bundle has none
            methods = {method: self._method(f"{name}.{method}") for method in known}
            self._classes[name] = struct_class(struct, self, methods)
        return self._classes[name]

    def struct_class(self, struct: str) -> type[StructValue]:
        return self._class(struct)

    def _method(self, name: str) -> Callable[..., object]:
        function = self.function(name)
        return lambda *args, **kwargs: function(*args, **kwargs)

    def make_struct(self, struct: str, fields: dict[str, object]) -> StructValue:
        return self._class(struct)._of_fields(fields)

    def whole(self, struct: StructInterface, sizes: tuple[object, ...], seed: object) -> StructValue:
        made = self._initialiser(struct, f"{struct.name}$new")(*sizes, key_array(self._key(seed)))
        assert isinstance(made, StructValue)
        return made

    def field(self, struct: StructInterface, field: str, sizes: tuple[object, ...], seed: object) -> object:
        position = [name for name, _ in struct.fields].index(field)
        name, key = f"{struct.name}.{field}", fold_in(self._key(seed), position)
        if f"{name}$init" in self._by_name:
            return self.function(f"{name}$init").with_key(key, *sizes)
        own = self._initialiser(struct, f"{name}$new")  # a struct that has initial values of its own
        return own(*sizes, key_array(key))

    def _initialiser(self, struct: StructInterface, name: str) -> Function:
        """What makes initial values; a bundle has none."""
        if name in self._by_name:
            return self.function(name)
        short = struct.name.rpartition(".")[2]
        note = f"give all fields, or build it with an exported function that returns a `{short}`"
        raise failure(NO_SUCH_FUNCTION, f"bundle `{self.name}` has no initial values for `{short}`", (note,))

    def _key(self, seed: object) -> int:
        return self.stream.next() if seed is None else read_seed(seed)

    # ----------------------------------------------------------------------------------------------------------

    def _no_such(self, name: str) -> MissingFunctionError:
        import difflib

        close = difflib.get_close_matches(name, self._public, n=1)
        hint = (f"did you mean `{close[0]}`?",) if close else ()
        return MissingFunctionError(
            NO_SUCH_FUNCTION, render(NO_SUCH_FUNCTION, f"module `{self.name}` has no function `{name}`", hint)
        )


def _structs_in(kind: Kind) -> Iterator[str]:
    if not isinstance(kind, str):
        yield kind.name
        for item in kind.items:
            yield from _structs_in(item)
