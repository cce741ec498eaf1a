"""What a module's checker has found out of its functions, by name and types.

A file of its own because a library on disk has it late: a program asks for what is known of a few files.
"""

from __future__ import annotations

from dataclasses import field, replace

from tesserac.base.dataclass import dataclass
from tesserac.base.late import Late
from tesserac.check.declarations.decorators import Decorations
from tesserac.check.model import typed
from tesserac.check.state.rules import Instance
from tesserac.types.ty import Type


class RuleMisfit(Exception):
    """A rule of a derivative does not take what a call of its function has."""


def as_promised(instance: Instance, symbol: str) -> typed.TypedFunction:
    """The function of a rule that was promised before it was checked."""
    if instance.function is None:
        said = next((problem.title for problem in instance.diagnostics), "it has no instance for these types")
        raise RuleMisfit(f"`{symbol}` does not fit: {said}")
    return instance.function


@dataclass(eq=False)
class Tables:
    """`instances` by name and types of parameters, None for one under way; `by_symbol` has their code; `decorated` is
    what decorators say, `representatives` the types with which a definition alone is checked; `promised` are rules of
    derivatives by symbol, whose name and types say what to check once somebody asks for them."""

    instances: dict[tuple[str, tuple[Type, ...]], Instance | None] = field(default_factory=dict)
    by_symbol: dict[str, typed.TypedFunction] = field(default_factory=dict)
    decorated: dict[str, Decorations] = field(default_factory=dict)
    representatives: dict[str, tuple[tuple[Type, ...], ...]] = field(default_factory=dict)
    promised: dict[str, tuple[str, tuple[Type, ...]]] = field(default_factory=dict)

    def take(self, earlier: Tables) -> None:
        """Adds what is known of the same functions; not those under way."""
        self.by_symbol.update(earlier.by_symbol)
        self.decorated.update(earlier.decorated)
        self.representatives.update(earlier.representatives)
        self.promised.update(earlier.promised)
        self.instances.update((key, known) for key, known in earlier.instances.items() if known is not None)

    def forget_after(self, count: int) -> None:
        """Keeps as many instances as were known first."""
        for key in list(self.instances)[count:]:
            del self.instances[key]

    def copied(self) -> Tables:
        own = {name: dict(getattr(self, name)) for name in ("instances", "by_symbol", "promised")}
        return replace(self, **own)

    def of_guest(self) -> Tables:
        """What a guest knows to begin with: its instances are its own."""
        return replace(self, instances={}, by_symbol={}, promised={})


@dataclass(eq=False)
class Findings(Late):
    """What is known of the functions of a file."""

    file: str
    tables: Tables
