"""Functions of programs as values of Python's: what an operator is made of that functions give.

    A = m.made(d)                 op.implicit(lambda v: d * v, ...): its function, with the `d` that it captured
    A @ x, other.solve(A, x)      compiled in another program, which finds the function by the module that it is of

A program is known by a key as long as something of it lives. Where another program speaks of its module `layers`, that
is called `layers$KEY`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakValueDictionary

from tessera.cache import cache_key

if TYPE_CHECKING:
    from tessera.interface import Kind, Source, StructInterface

Reads = tuple[tuple[str, str], ...]

MAIN = "main"
"""The module of a program that it starts with."""
BUILT_IN = "built in"
"""The module of what the language itself has; with the library's, whose names have this before, it is everyone's."""
_LIBRARY = "stdlib."
_OF = "$"
_DIGITS = 16


class Program(Protocol):
    """A module that was loaded, as far as others need it to call its functions."""

    @property
    def structs(self) -> dict[str, StructInterface]: ...

    @property
    def key(self) -> str: ...
    @property
    def origin(self) -> Origin: ...
    def param(self, name: str) -> object: ...
    def param_kind(self, name: str) -> Kind: ...


class Origin(NamedTuple):
    """What a program is compiled from: its text, and the files that it imports, with their digests."""

    source: Source
    reads: Reads

    def key(self) -> str:
        return cache_key([repr(self)])[:_DIGITS]


class FunctionValue(NamedTuple):
    """A function, or what a transform made of one: `form` says which, `items` are what it captured."""

    program: Program
    form: tuple[object, ...]
    items: tuple[object, ...]

    def __repr__(self) -> str:
        named = self.form[2] if self.form[0] == FUNCTION else self.form[1]
        return f"<tessera function {str(named).partition(_OF)[0]}>"

    def text(self) -> str:
        return json.dumps([self.program.key, *self.form], separators=(",", ":"))


FUNCTION, TRANSFORM = "function", "transform"
"""What forms start with. Then come the module, the name and the names of what is captured, or the name of the transform
and its settings, as text."""

_KNOWN: WeakValueDictionary[str, Program] = WeakValueDictionary()


def key_for(program: Program, *, has_params: bool) -> str:
    """The key of a program. What is loaded twice has one, unless each has params of its own."""
    key = program.origin.key()
    others = 0
    while has_params and f"{key}{others or ''}" in _KNOWN:
        others += 1
    return f"{key}{others or ''}"


def known_program(key: str) -> Program:
    """One that lives, as it does while a call has a function of it."""
    return _KNOWN[key]


def remember_program(program: Program) -> None:
    """From now on this one is meant by its key."""
    _KNOWN[program.key] = program


def function_of(own: Program, form: Sequence[object], items: Sequence[object]) -> FunctionValue:
    """A function as compiled code of `own` gives it, in the names of the program that it is of."""
    kind, module, *rest = form
    module, _, key = str(module).partition(_OF) if kind == FUNCTION else (str(module), "", "")
    return FunctionValue(known_program(key) if key else own, (kind, module, *rest), tuple(items))


def name_elsewhere(module: str, key: str) -> str:
    """What a module of a program is called by another one."""
    return module if module == BUILT_IN or module.startswith(_LIBRARY) else module + suffix(key)


def suffix(key: str) -> str:
    return _OF + key


def param_elsewhere(name: str) -> tuple[Program, str] | None:
    """The program that a param is of, and its name there; None for one of the module's own."""
    module, of, rest = name.partition(_OF)
    if not of:
        return None
    key, _, own = rest.partition(".")
    return known_program(key), own if module == MAIN else f"{module}.{own}"
