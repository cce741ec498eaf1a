"""Which functions of a program a command works on.

A function can be compiled ahead of time if every compile-time parameter has a default: then nothing about it waits for
a call. Where only parts of arguments may be absent (`variants.py`), it is compiled for each set that it works with.
With `@export` anywhere, only what is exported is meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import product
from pathlib import Path

from tessera.interface import (
    Choice,
    Computed,
    FunctionInterface,
    Missing,
    ModuleInterface,
    Parameter,
    Specialization,
    is_declared,
)
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.check.instances.checking import is_export
from tesserac.check.model.typed import TypedFunction
from tesserac.commands.outcome import UsageMistake
from tesserac.commands.variants import Given, given_by, variants
from tesserac.diag.diagnostic import Diagnostic
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import NO_SIZES, PROGRAM, Session, Sizes


@dataclass(frozen=True)
class Selected:
    """A function with the compile-time arguments it is compiled for."""

    interface: FunctionInterface
    function: TypedFunction
    chosen: Specialization


@dataclass(frozen=True)
class Selection:
    """`waiting` are functions that only a call completes, each with the parameters that it waits for. `exported`: they
    are all that the program offers, so none of them is there for the others only."""

    functions: tuple[Selected, ...]
    waiting: tuple[tuple[str, tuple[str, ...]], ...]
    exported: bool = True


def read(session: Session, path: str | Path) -> SourceFile:
    """The file as text. Raises ProgramError where it cannot be read."""
    source = session.read(path)
    if isinstance(source, Diagnostic):
        raise ProgramError((source,))
    return source


def select_all(session: Session, source: SourceFile, numbers: Sizes = NO_SIZES) -> Selection:
    """All functions that can be compiled now; `numbers` are values of `int` parameters. Raises ProgramError."""
    chooser = _Chooser(session, source, numbers)
    chosen = {interface.name: chooser.compiled(interface) for interface in chooser.offers.functions}
    exported = [name for name in chosen if chooser.is_exported(name)]
    named = exported or list(chosen)
    waiting = tuple((name, chooser.missing(name)) for name in named if not chosen[name])
    return Selection(tuple(one for name in named for one in chosen[name]), waiting, bool(exported))


def select_one(session: Session, source: SourceFile, name: str, numbers: Sizes = NO_SIZES) -> Selected:
    """A function by name. Raises ProgramError, or UsageMistake where there is none or a call must complete it."""
    chooser = _Chooser(session, source, numbers)
    interface = next((f for f in chooser.offers.functions if f.name == name), None)
    if interface is None:
        raise UsageMistake(_no_function(source, name, chooser.offers))
    chosen = chooser.compiled(interface)
    if not chosen:
        raise UsageMistake(f"`{name}` is compiled for each call: {waits_for(chooser.missing(name))}")
    return chosen[0]


def waits_for(missing: Iterable[str]) -> str:
    return f"it waits for {', '.join(f'`{parameter}`' for parameter in missing)}"


class _Chooser:
    """The functions of a program, each with the compile-time arguments for which it can be compiled now."""

    def __init__(self, session: Session, source: SourceFile, numbers: Sizes = NO_SIZES) -> None:
        self._session = session
        self._source = source
        self._numbers = numbers
        self.offers = session.interface(source)
        self._structs = {struct.name: struct for struct in self.offers.structs}

    def is_exported(self, name: str) -> bool:
        checker = self._session.check(self._source).result.checker
        return any(is_export(decorator.expression) for decorator in checker.own_signature(name).node.decorators)

    def missing(self, name: str) -> tuple[str, ...]:
        """The parameters that must be known before the function can be compiled."""
        interface = next(f for f in self.offers.functions if f.name == name)
        return tuple(p.name for p in interface.parameters if self._is_open(p))

    def compiled(self, interface: FunctionInterface) -> tuple[Selected, ...]:
        """A function for each set of arguments that nothing but the absence of parts tells apart."""
        if not any(map(self._is_open, interface.parameters)):
            return (self._selected(interface, {}),)
        waiting = [p for p in interface.parameters if self._is_open(p)]
        choices = [variants(p.kind, self._structs, self._given) for p in waiting]
        names = [p.name for p in waiting]
        tried = [dict(zip(names, one, strict=True)) for one in product(*choices)]
        if len(tried) == 1:
            return (self._selected(interface, tried[0]),)
        return tuple(one for choice in tried if (one := self._fitting(interface, choice)) is not None)

    @cached_property
    def _given(self) -> Given:
        """What functions that wait for nothing return."""
        ready = [f for f in self.offers.functions if not any(map(self._is_open, f.parameters))]
        return given_by((self._selected(f, {}).function.result for f in ready), PROGRAM)

    def _is_open(self, parameter: Parameter) -> bool:
        if self._is_said(parameter):
            return False
        return not is_declared(parameter.kind, self._structs) and isinstance(parameter.default, Missing | Computed)

    def _is_said(self, parameter: Parameter) -> bool:
        return parameter.kind == "int" and parameter.name in self._numbers

    def _fitting(self, interface: FunctionInterface, choices: Mapping[str, Choice]) -> Selected | None:
        """The function for arguments that lack some parts; None where it cannot do without them."""
        try:
            return self._selected(interface, choices)
        except ProgramError:
            return None

    def _selected(self, interface: FunctionInterface, choices: Mapping[str, Choice]) -> Selected:
        static = [p for p in interface.parameters if not is_declared(p.kind, self._structs)]
        said = {p.name: self._numbers[p.name] for p in static if self._is_said(p)}
        chosen = tuple((p.name, choices.get(p.name, said.get(p.name, p.default))) for p in static)
        known = tuple((name, value) for name, value in chosen if not isinstance(value, Missing | Computed))
        return Selected(interface, self._session.function(self._source, interface.name, known), known)


def default_makers(session: Session, source: SourceFile, selected: Iterable[Selected]) -> list[Selected]:
    """The functions that make the defaults of these, where those are tensors."""
    chooser = _Chooser(session, source)
    defaults = [p.default for one in selected for p in one.interface.parameters]
    names = {default.function for default in defaults if isinstance(default, Computed)}
    return [one for hidden in chooser.offers.hidden if hidden.name in names for one in chooser.compiled(hidden)]


def _no_function(source: SourceFile, name: str, offers: ModuleInterface) -> str:
    names = [f.name for f in offers.functions]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        hint = f"did you mean `{close[0]}`?"
    else:
        hint = f"it has {', '.join(f'`{known}`' for known in names)}" if names else "it has no functions"
    return f"`{source.path}` has no function `{name}`; {hint}"
