"""What `tessera.load` gives: a module whose attributes are its functions, compiled when they are first called."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tessera.arguments import match_arguments
from tessera.artifact import Artifact
from tessera.errors import NO_SUCH_FUNCTION, WRONG_KIND, MissingFunctionError, failure, render
from tessera.function import CompiledFunction
from tessera.interface import (
    ArrayKind,
    Choice,
    FunctionInterface,
    Missing,
    ModuleInterface,
    Parameter,
    Specialization,
    Static,
)

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
        self._interface = provider.interface()
        self._by_name = {f.name: f for f in self._interface.functions}

    def __getattr__(self, name: str) -> Function:
        """Called for what is not there yet; the function then stays as an attribute."""
        if name.startswith("__") or name not in self._by_name:
            raise self._no_such(name)
        function = Function(self._by_name[name], lambda s: self._provider.function(self._interface, name, s))
        setattr(self, name, function)
        return function

    def _no_such(self, name: str) -> MissingFunctionError:
        import difflib

        close = difflib.get_close_matches(name, self._by_name, n=1)
        hint = (f"did you mean `{close[0]}`?",) if close else ()
        return MissingFunctionError(
            NO_SUCH_FUNCTION, render(NO_SUCH_FUNCTION, f"module `{self._name}` has no function `{name}`", hint)
        )

    def __dir__(self) -> list[str]:
        return sorted(self._by_name)

    def __repr__(self) -> str:
        return f"<tessera module {self._name}>"


class Function:
    """A function of a module. Calling it compiles it if need be.

    `__call__` is an attribute of each object: once a function without compile-time parameters is compiled, it is the
    C function in the image, and nothing of Python stands before it.
    """

    __slots__ = ("__call__", "_compile", "_compiled", "interface")

    def __init__(self, interface: FunctionInterface, compile_: Callable[[Specialization], Artifact]) -> None:
        self.interface = interface
        self._compile = compile_
        self._compiled: dict[str, CompiledFunction] = {}
        direct = all(_is_plain(p) for p in interface.parameters)
        self.__call__: Callable[..., object] = self._compile_and_call if direct else self._dispatch

    @property
    def __name__(self) -> str:
        return self.interface.name

    def _compile_and_call(self, *args: object, **kwargs: object) -> object:
        self.__call__ = self._specialized(()).fast
        return self.__call__(*args, **kwargs)

    def _dispatch(self, *args: object, **kwargs: object) -> object:
        parameters = self.interface.parameters
        values = _matched(self.interface, args, kwargs)
        pairs = list(zip(parameters, values, strict=True))
        choices = tuple((p.name, self._choice(p, v)) for p, v in pairs if p.kind != "tensor")
        return self._specialized(choices).fast(*(v for p, v in pairs if p.kind != "static"))

    def _specialized(self, specialization: Specialization) -> CompiledFunction:
        key = repr(specialization)  # by text, since 1, 1.0 and True are equal but not the same argument
        found = self._compiled.get(key)
        if found is None:
            found = CompiledFunction(self._compile(specialization))
            self._compiled[key] = found
            if len(self._compiled) == MANY_SPECIALIZATIONS + 1:
                self._warn()
        return found

    def _warn(self) -> None:
        text = f"`{self.interface.name}` is compiled for the {len(self._compiled)}th set of compile-time arguments"
        warnings.warn(f"warning[W0901]: {text}", TesseraWarning, stacklevel=5)

    def _choice(self, parameter: Parameter, value: object) -> Choice:
        if parameter.kind == "generic":
            return _array_kind(self.interface.name, parameter, value)
        if value is None or isinstance(value, int | float | str):
            return value
        message = f"argument `{parameter.name}` of `{self.interface.name}` must be a number, a string, a bool or None"
        raise failure(WRONG_KIND, f"{message}, not a {type(value).__name__}")

    def __repr__(self) -> str:
        return f"<tessera function {self.interface.name}>"


def _is_plain(parameter: Parameter) -> bool:
    return parameter.kind == "tensor" and not parameter.keyword_only and isinstance(parameter.default, Missing)


def _matched(interface: FunctionInterface, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
    names = [p.name for p in interface.parameters]
    positional = [p.name for p in interface.parameters if not p.keyword_only]
    defaults: dict[str, Static] = {
        p.name: p.default for p in interface.parameters if not isinstance(p.default, Missing)
    }
    return match_arguments(interface.name, names, positional, defaults, args, kwargs)


def _array_kind(function: str, parameter: Parameter, value: object) -> ArrayKind:
    import numpy as np

    if not isinstance(value, np.ndarray | np.generic):
        raise failure(WRONG_KIND, f"argument `{parameter.name}` of `{function}` must be an array")
    return ArrayKind(value.dtype.name, value.ndim)
