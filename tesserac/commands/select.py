"""Which functions of a program a command works on.

A function can be compiled ahead of time if every compile-time parameter has a default: then nothing about it waits for
a call. With `@export` anywhere, only what is exported is meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from tessera.interface import Computed, FunctionInterface, Missing, ModuleInterface, Specialization, is_declared
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.check.typed import TypedFunction
from tesserac.commands.outcome import UsageMistake
from tesserac.diag.diagnostic import Diagnostic
from tesserac.session import ProgramError, Session


@dataclass(frozen=True)
class Selected:
    """A function with the compile-time arguments it is compiled for."""

    interface: FunctionInterface
    function: TypedFunction
    chosen: Specialization


@dataclass(frozen=True)
class Selection:
    """`waiting` are functions that only a call completes, each with the parameters that it waits for."""

    functions: tuple[Selected, ...]
    waiting: tuple[tuple[str, tuple[str, ...]], ...]


def read(session: Session, path: str | Path) -> SourceFile:
    """The file as text. Raises ProgramError where it cannot be read."""
    source = session.read(path)
    if isinstance(source, Diagnostic):
        raise ProgramError((source,))
    return source


def select_all(session: Session, source: SourceFile) -> Selection:
    """All functions that can be compiled now. Raises ProgramError."""
    ready: list[Selected] = []
    waiting: list[tuple[str, tuple[str, ...]]] = []
    offers = session.interface(source)
    for interface in offers.functions:
        if missing := open_parameters(offers, interface):
            waiting.append((interface.name, missing))
        else:
            ready.append(_selected(session, source, offers, interface))
    exported = [s for s in ready if s.function.exported]
    return Selection(tuple(exported or ready), () if exported else tuple(waiting))


def select_one(session: Session, source: SourceFile, name: str) -> Selected:
    """A function by name. Raises ProgramError, or UsageMistake where there is none or a call must complete it."""
    offers = session.interface(source)
    interface = next((f for f in offers.functions if f.name == name), None)
    if interface is None:
        raise UsageMistake(_no_function(source, name, offers))
    if missing := open_parameters(offers, interface):
        raise UsageMistake(f"`{name}` is compiled for each call: {waits_for(missing)}")
    return _selected(session, source, offers, interface)


def waits_for(missing: Iterable[str]) -> str:
    return f"it waits for {', '.join(f'`{parameter}`' for parameter in missing)}"


def open_parameters(offers: ModuleInterface, interface: FunctionInterface) -> tuple[str, ...]:
    """The parameters that must be known before the function can be compiled."""
    structs = {struct.name: struct for struct in offers.structs}
    return tuple(
        p.name
        for p in interface.parameters
        if not is_declared(p.kind, structs) and isinstance(p.default, Missing | Computed)
    )


def _selected(
    session: Session, source: SourceFile, offers: ModuleInterface, interface: FunctionInterface
) -> Selected:
    structs = {struct.name: struct for struct in offers.structs}
    static = [p for p in interface.parameters if not is_declared(p.kind, structs)]
    chosen = tuple((p.name, p.default) for p in static if not isinstance(p.default, Missing | Computed))
    return Selected(interface, session.function(source, interface.name, chosen), chosen)


def default_makers(session: Session, source: SourceFile, selected: Iterable[Selected]) -> list[Selected]:
    """The functions that make the defaults of these, where those are tensors."""
    offers = session.interface(source)
    defaults = [p.default for one in selected for p in one.interface.parameters]
    names = {default.function for default in defaults if isinstance(default, Computed)}
    return [_selected(session, source, offers, hidden) for hidden in offers.hidden if hidden.name in names]


def _no_function(source: SourceFile, name: str, offers: ModuleInterface) -> str:
    names = [f.name for f in offers.functions]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        hint = f"did you mean `{close[0]}`?"
    else:
        hint = f"it has {', '.join(f'`{known}`' for known in names)}" if names else "it has no functions"
    return f"`{source.path}` has no function `{name}`; {hint}"
