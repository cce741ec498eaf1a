"""What a module is made of, behind its attributes: functions by name, classes of its structs, params, random stream.

Enters: a provider of compiled functions. Leaves: what `Module` shows. It is an object of its own, so that a program may
call its functions as it likes: nothing here hides one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from tessera.arguments import Array
from tessera.artifact import CPU_TARGET, Artifact
from tessera.device_array import kept
from tessera.devices import Gpu, find_device
from tessera.dispatch import Function
from tessera.errors import NO_SUCH_FUNCTION, PLACED_ELSEWHERE, MissingFunctionError, failure, render
from tessera.function import CompiledFunction, Unsized
from tessera.interface import TEST_PREFIX, Kind, ModuleInterface, Source, Specialization, StructInterface
from tessera.programs import Origin, key_for, param_elsewhere
from tessera.random_stream import Stream, fold_in, key_array, read_seed
from tessera.structs import StructValue, struct_class
from tessera.tracing import Wanted
from tessera.weights import Weights

if TYPE_CHECKING:
    from tessera.gpu_artifact import AnyArtifact, GpuArtifact
    from tessera.gpu_function import GpuFunction


class Provider(Protocol):
    """Where compiled functions come from: a source with its cache, or a bundle."""

    def interface(self) -> ModuleInterface: ...

    def target(self, wanted: Sequence[str]) -> str: ...

    def function(
        self, interface: ModuleInterface, name: str, specialization: Specialization, target: str
    ) -> AnyArtifact: ...

    def trace(self, name: str, specialization: Specialization, args: Sequence[Array], wanted: Wanted) -> None: ...

    def source(self) -> Source | None: ...


class Home:
    """A module whose functions run on one device: a GPU, or the CPU where there is none."""

    def __init__(self, name: str, provider: Provider, gpu: Gpu | None = None) -> None:
        self.name = name
        self.gpu = gpu
        self._provider = provider
        wanted = [CPU_TARGET] if gpu is None else [f"cuda:{arch}" for arch in gpu.code_arches]
        self._target = provider.target(wanted)
        self._interface = offers = provider.interface()
        self._by_name = {f.name: f for f in (*offers.functions, *offers.hidden)}
        self.structs = {s.name: s for s in offers.structs}
        self.weights = Weights(offers.params, lambda param: self.function(f"{param}$init")())
        self.stream = Stream()
        self._params: dict[str, tuple[object, object]] = {}
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
        compile_ = lambda chosen: self._compiled(name, chosen)  # noqa: E731
        show = lambda *call: self._provider.trace(name, *call)  # noqa: E731
        return Function(self._by_name[name], compile_, show, self)

    def _compiled(self, name: str, chosen: Specialization) -> CompiledFunction | GpuFunction | Unsized:
        """A function for the compile-time arguments chosen, ready to be called on the device of the module."""
        artifact = self._provider.function(self._interface, name, chosen, self._target)
        if artifact.demands:
            return Unsized(artifact)
        if isinstance(artifact, Artifact):
            return CompiledFunction(artifact)
        from tessera.gpu_function import GpuFunction

        assert self.gpu is not None
        _check_places(artifact, self.gpu)
        return GpuFunction(artifact, self.gpu)

    @cached_property
    def key(self) -> str:
        """What other programs know this one by, as long as it lives."""
        return key_for(self, has_params=bool(self._interface.params))

    @property
    def origin(self) -> Origin:
        source = self._provider.source()
        if source is None:
            note = "load the program itself: `tessera.load` of the `.tess` file"
            raise failure(NO_SUCH_FUNCTION, f"bundle `{self.name}` has no functions to compile others with", (note,))
        return Origin(source, self._interface.reads)

    def param_kind(self, name: str) -> Kind:
        elsewhere = param_elsewhere(name)
        return self.weights.kind_of(name).kind if elsewhere is None else elsewhere[0].param_kind(elsewhere[1])

    def param(self, name: str) -> object:
        """The value of a param; on a GPU it is copied there once for all calls, until params are set anew."""
        elsewhere = param_elsewhere(name)
        if elsewhere is not None:
            return elsewhere[0].param(elsewhere[1])
        value = self.weights.get(name)
        if self.gpu is None:
            return value
        known = self._params.get(name)
        if known is None or known[0] is not self.weights.current:
            self._params[name] = known = (self.weights.current, kept(value, self.gpu))
        return known[1]

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

    def field(
        self, struct: StructInterface, field: str, sizes: tuple[object, ...], before: Mapping[str, object], seed: object
    ) -> object:
        """The initial value of a field, after those before it."""
        position = [name for name, _ in struct.fields].index(field)
        name, key = f"{struct.name}.{field}", fold_in(self._key(seed), position)
        if f"{name}$init" in self._by_name:
            read = (before[other] for other in self._reads(struct, field))
            return self.function(f"{name}$init").with_key(key, *sizes, *read)
        own = self._initialiser(struct, f"{name}$new")  # a struct that has initial values of its own
        return own(*sizes, key_array(key))

    def read_by_initial_values(self, struct: StructInterface) -> frozenset[str]:
        return frozenset(other for field in struct.initial for other in self._reads(struct, field))

    def _reads(self, struct: StructInterface, field: str) -> list[str]:
        """The fields that the initial value of one is computed from; its function takes them behind the sizes."""
        function = self._by_name.get(f"{struct.name}.{field}$init")
        return [] if function is None else [parameter.name for parameter in function.parameters[len(struct.sizes) :]]

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


def _check_places(artifact: GpuArtifact, gpu: Gpu) -> None:
    """Raises where a part of a function is placed on another GPU."""
    for index in artifact.places:
        if index != gpu.index:
            find_device(f"cuda:{index}")  # one that is not there is told as such
            name = artifact.signature.name
            message = f"a part of `{name}` is placed on cuda:{index}, and the module was loaded for {gpu.name}"
            raise failure(PLACED_ELSEWHERE, message, (f'a module runs on one GPU: `device="cuda:{index}"`',))


def _structs_in(kind: Kind) -> Iterator[str]:
    if not isinstance(kind, str):
        yield kind.name
        for item in kind.items:
            yield from _structs_in(item)
