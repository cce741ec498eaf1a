"""A function of a module as Python sees it: which compilation a call means, and the call itself.

Enters: a function's interface, a way to compile it, and the module it belongs to. Leaves: an object to call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol, TypeAlias
from weakref import ReferenceType, ref

from tessera import tracing
from tessera.arguments import Array, match_arguments, placed_arrays_of
from tessera.device_array import DeviceArray
from tessera.donation import consuming, taken_structs
from tessera.errors import TesseraWarning, not_pickled
from tessera.function import CompiledFunction, Unsized
from tessera.interface import (
    Computed,
    FunctionInterface,
    Kind,
    Missing,
    Specialization,
    Static,
    StructInterface,
    is_declared,
    with_sizes,
)
from tessera.programs import FUNCTION, MAIN, FunctionValue, Origin
from tessera.random_stream import STREAM, Stream, key_array
from tessera.reading import UNUSUAL, Read, Reader, Reading
from tessera.returned import assemble
from tessera.signature import OUT
from tessera.structs import StructValue
from tessera.tracing import Transcript, Wanted
from tessera.values import Flattening, holds_operator

if TYPE_CHECKING:
    import inspect

    from tessera.devices import Gpu
    from tessera.futures import CallFuture
    from tessera.gpu_function import GpuFunction

Compiled: TypeAlias = "CompiledFunction | GpuFunction"

MANY_SPECIALIZATIONS = 8
MANY_KEYS = 64
"""Keys of calls for which the compilation is remembered."""


class Surroundings(Protocol):
    """What functions need of the module they belong to."""

    structs: dict[str, StructInterface]
    stream: Stream
    gpu: Gpu | None

    def make_struct(self, struct: str, fields: dict[str, object]) -> StructValue: ...

    def struct_class(self, struct: str) -> type[StructValue]: ...

    def function(self, name: str) -> Function: ...

    def param(self, name: str) -> object: ...

    def param_kind(self, name: str) -> Kind: ...

    @property
    def key(self) -> str: ...

    @property
    def origin(self) -> Origin: ...


Show = Callable[[Specialization, Sequence[Array], Wanted], None]
"""Shows what a call with these arguments does."""


class _Way(NamedTuple):
    """A compilation that calls were found to mean; `direct` where it takes the leaves of arguments, and gives what the
    function returns, as they are."""

    compiled: Compiled
    direct: Callable[..., object] | None


def _way_to(compiled: Compiled) -> _Way:
    is_direct = compiled.returns_flat and not compiled.params
    return _Way(compiled, compiled.fast if is_direct else None)


class Function:
    # A function of a module; its `__doc__` is that of the program. Calling it compiles it if need be.
    #
    # `__call__` is an attribute of each object: once a function without compile-time parameters is compiled, it is the
    # C function in the image, and nothing of Python stands before it.

    __slots__ = (
        "__call__", "__weakref__", "_compile", "_compiled", "_home", "_known", "_param_reads", "_read", "_show",
        "_takes_out", "interface",
    )  # fmt: skip

    def __init__(
        self,
        interface: FunctionInterface,
        compile_: Callable[[Specialization], Compiled | Unsized],
        show: Show,
        home: Surroundings,
    ) -> None:
        self.interface = interface
        self._compile = compile_
        self._show = show
        self._home = home
        self._compiled: dict[str, Compiled | Unsized] = {}
        self._known: dict[tuple[object, ...], _Way] = {}
        self._param_reads: dict[str, Read] = {}
        self._takes_out = all(p.name != OUT for p in interface.parameters)
        self._read: Reader
        self.__call__: Callable[..., object] = self._dispatch
        self.start()
        _remember(self)

    def start(self) -> None:
        """Forgets the short way into compiled code, which shows nothing; a call finds it again."""
        self.__call__ = self._dispatch if tracing.wanted() else self._first

    @property
    def __name__(self) -> str:
        return self.interface.name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.interface.doc or None

    @property
    def __signature__(self) -> inspect.Signature:
        from tessera.shown import python_signature  # which imports what a program that only calls has no use for

        return python_signature(self.interface)

    def __reduce__(self) -> NoReturn:
        raise not_pickled(f"function `{self.interface.name}`")

    def __copy__(self) -> Function:
        """Itself, as with a function of Python."""
        return self

    def __deepcopy__(self, memo: object) -> Function:
        return self

    def _first(self, *args: object, **kwargs: object) -> object:
        """The first call finds the shortest way for those that follow."""
        self._read = reader = Reader(self.interface, self._home)
        self.__call__ = quick = self._quick()
        if reader.is_plain:
            compiled = self._specialized(())
            if not isinstance(compiled, Unsized) and not compiled.params and compiled.returns_flat:
                self.__call__ = compiled.before(quick)
        return self.__call__(*args, **kwargs)

    def _quick(self) -> Callable[..., object]:
        """The way of a call whose compilation was found before: it needs the leaves of its arguments alone. A closure,
        since every name that is looked up in an object costs as much as reading an argument."""
        reader, known = self._read, self._known
        reads, count, complete = reader.reads, reader.count, reader.complete

        def call(*args: object, **kwargs: object) -> object:
            out, given = None, args
            leaves: list[object] = []
            key: list[object] = []
            try:
                if kwargs or len(args) != count:
                    out = kwargs.pop(OUT, None) if self._takes_out else None
                    given = complete(args, kwargs)
                for read, value in zip(reads, given, strict=True):
                    read(value, leaves, key)
            except UNUSUAL:
                return self._run(args, kwargs, out)
            way = known.get(tuple(key))
            if way is None:
                return self._run(args, kwargs, out, known_as=tuple(key))
            if way.direct is not None and out is None:
                return way.direct(*leaves)
            return self._by_way(way.compiled, leaves, args, kwargs, out)

        return call

    def _by_way(
        self,
        compiled: Compiled,
        leaves: list[object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        out: object | None,
    ) -> object:
        if not self._add_params(compiled, leaves):
            return self._run(args, kwargs, out)
        return self._finished(compiled, leaves) if out is None else compiled.into(leaves, out)

    def _add_params(self, compiled: Compiled, leaves: list[object]) -> bool:
        """Adds what the module itself gives; False where a param is not as it usually is."""
        place = None
        for name in compiled.params:
            if name == STREAM:
                place = len(leaves)
                leaves.append(None)
            elif not self._add_param(name, leaves):
                return False
        if place is not None:  # no number is drawn for a call that is not made here
            leaves[place] = key_array(self._home.stream.next())
        return True

    def _add_param(self, name: str, leaves: list[object]) -> bool:
        value = self._home.param(name)
        if name not in self._param_reads:
            self._param_reads[name] = Reading(self._home, by_shapes=False).of(self._home.param_kind(name))
        try:
            self._param_reads[name](value, leaves, [])
        except UNUSUAL:
            return False
        return True

    def _dispatch(self, *args: object, **kwargs: object) -> object:
        out = kwargs.pop(OUT, None) if self._takes_out else None
        return self._run(args, kwargs, out)

    def call_async(self, *args: object, **kwargs: object) -> CallFuture:
        """The same call, made beside what the caller goes on with: a future of its result. The arguments are not to be
        changed until then; futures of earlier calls may stand for their results."""
        from tessera.futures import call_async

        return call_async(self.__call__, self._home.gpu, args, kwargs)

    def with_key(self, key: int, *args: object) -> object:
        """The result for these arguments, where random numbers come from `key`."""
        return self._run(args, {}, None, key)

    def _run(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        out: object | None,
        key: int | None = None,
        known_as: tuple[object, ...] | None = None,
    ) -> object:
        """The long way, which knows what is wrong. `key` is that of random numbers; `known_as` is what later calls of
        the same compilation are known by."""
        structs = self._home.structs
        chosen = []
        values = [self._made(value) for value in _matched(self.interface, args, kwargs)]
        taken = Flattening(self.interface.name, structs, is_exact=any(map(holds_operator, values)))
        for parameter, value in zip(self.interface.parameters, values, strict=True):
            choice = taken.add(parameter.name, parameter.kind, value)
            if not is_declared(parameter.kind, structs):
                chosen.append((parameter.name, choice))
        chosen += taken.related()
        compiled = self._specialized(tuple(chosen))
        for name in compiled.params:
            if name == STREAM:
                taken.leaves.append(key_array(self._home.stream.next() if key is None else key))
            else:
                taken.add(name, self._home.param_kind(name), self._home.param(name))
        if isinstance(compiled, Unsized):
            compiled = self._sized(tuple(chosen), compiled, taken.leaves)
            if known_as is not None and not self._read.by_shapes:
                known_as = None
                self._read = Reader(self.interface, self._home, by_shapes=True)
                self.__call__ = self._quick()
        if known_as is not None and len(self._known) < MANY_KEYS and not compiled.signature.donated:
            self._known[known_as] = _way_to(compiled)
        if not (modes := tracing.wanted()):
            return self._computed(compiled, taken.leaves, values, out)
        transcript = Transcript()
        with transcript.shown():
            wanted = Wanted(modes, transcript.say, transcript.printed)
            arrays = placed_arrays_of(compiled.signature, taken.leaves, {})
            on_host = [array.numpy() if isinstance(array, DeviceArray) else array for array in arrays]
            self._show(tuple(chosen), on_host, wanted)
            return self._computed(compiled, taken.leaves, values, out)

    def _made(self, value: object) -> object:
        """An argument; a default that is a tensor is computed for the call."""
        if isinstance(value, Function):
            return FunctionValue(value._home, (FUNCTION, MAIN, value.interface.name), ())
        return self._home.function(value.function)() if isinstance(value, Computed) else value

    def _computed(
        self, compiled: Compiled, leaves: Sequence[object], values: Sequence[object], out: object | None
    ) -> object:
        """What compiled code gives."""
        if out is not None:
            return compiled.into(leaves, out)
        if not compiled.signature.donated:
            return self._finished(compiled, leaves)
        names = [p.name for p in self.interface.parameters]
        given = taken_structs(compiled.signature, dict(zip(names, values, strict=True)))
        return consuming(compiled.signature.name, given, lambda: self._finished(compiled, leaves))

    def _finished(self, compiled: Compiled, leaves: Sequence[object]) -> object:
        """Runs compiled code and puts its result together."""
        result = compiled.fast(*leaves)
        if compiled.returns_flat:
            return result
        assert isinstance(result, tuple)
        return assemble(compiled.returned, iter(result), lambda: compiled.sizes(leaves), self._home)

    def _sized(self, chosen: Specialization, unsized: Unsized, leaves: Sequence[object]) -> Compiled:
        """The code for the sizes of a call, where it is made for each of them."""
        found = self._specialized(with_sizes(chosen, unsized.demanded(leaves)))
        assert not isinstance(found, Unsized), "sizes that are numbers are demanded no more"
        return found

    def _specialized(self, specialization: Specialization) -> Compiled | Unsized:
        key = repr(specialization)  # by text, since 1, 1.0 and True are equal but not the same argument
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(specialization)
            if len(self._compiled) == MANY_SPECIALIZATIONS + 1:
                self._warn()
        return found

    def _warn(self) -> None:
        text = f"`{self.interface.name}` is compiled for the {len(self._compiled)}th set of compile-time arguments"
        warnings.warn(f"warning[W0901]: {text}", TesseraWarning, stacklevel=5)

    def __repr__(self) -> str:
        return f"<tessera function {self.interface.name}>"


_FUNCTIONS: list[ReferenceType[Function]] = []
"""Those that live, and some that do not: what a weak set does when one dies could swallow a Ctrl-C."""


def _remember(function: Function) -> None:
    if len(_FUNCTIONS) & (len(_FUNCTIONS) + 1) == 0:  # each time that there are twice as many
        _FUNCTIONS[:] = [known for known in _FUNCTIONS if known() is not None]
    _FUNCTIONS.append(ref(function))


def trace(modes: tuple[str, ...]) -> None:
    """From now on calls show these; nothing where there are none."""
    tracing.choose(modes)
    for known in list(_FUNCTIONS):
        function = known()
        if function is not None:
            function.start()


def _matched(interface: FunctionInterface, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
    names = [p.name for p in interface.parameters]
    positional = [p.name for p in interface.parameters if not p.keyword_only]
    defaults: dict[str, Static | Computed] = {
        p.name: p.default for p in interface.parameters if not isinstance(p.default, Missing)
    }
    return match_arguments(interface.name, names, positional, defaults, args, kwargs)
