"""What the checker of a module takes over from one that has checked some of the same items before.

Enters: the earlier checker, and which of its items are there as they were. Leaves: what is known of these, as if they
had been checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from copy import copy
from typing import TYPE_CHECKING

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.module.findings import Findings, Tables
from tesserac.check.module.kept import Kept
from tesserac.check.module.scope import ModuleScope
from tesserac.diag.diagnostic import Diagnostic
from tesserac.syntax import ast
from tesserac.types.ty import Type

if TYPE_CHECKING:
    from tesserac.check.module.checker import ModuleChecker


class Inheriting(ModuleScope):
    """A module with what was found out of it."""

    types: dict[ast.Expr, Type]
    _findings: Findings
    _found: list[Diagnostic]
    _settled_constants: dict[str, typed.Expr]
    _guests: dict[str, ModuleChecker]
    _settled_items: Set[str]

    @property
    def _known(self) -> Tables:
        return self._findings.tables

    def inherit(self, earlier: ModuleChecker, changed: Set[str]) -> None:
        """Takes over what a checker of the same module with fewer items found out: nothing in those items mentions a
        name that is `changed`, so that all of it holds."""
        for name in ("_structs", "_signatures", "types"):
            getattr(self, name).update(getattr(earlier, name))
        self._known.take(earlier._known)
        self._settled_constants.update(
            (name, value) for name, value in earlier._settled_constants.items() if name not in changed
        )
        self.names.inner.update(earlier.names.inner)
        self._found += [*earlier.sink.diagnostics, *earlier._found]
        self._take_guests(earlier, Tables.copied)

    def inherit_part(self, earlier: ModuleChecker, places: Sequence[Span], said: Iterable[Diagnostic]) -> None:
        """Takes over what another checker found out of some items that both have, at these places; what is wrong with
        them is `said`. They are not looked at again."""
        kept = Kept(earlier.names, places)
        for name in ("_structs", "_signatures", "_settled_constants"):
            getattr(self, name).update(kept.of(getattr(earlier, name)))
        self.types.update(earlier.types)
        self._params = earlier._params
        self._known.take(kept.tables(earlier._known))
        self.names.inner.update(kept.of(earlier.names.inner))
        self._take_guests(earlier, kept.of_guest)
        self._settled_items = kept.names
        self._found += said

    def _take_guests(self, earlier: ModuleChecker, known: Callable[[Tables], Tables]) -> None:
        home = self._modules[self.name]
        for owner, guest in earlier._guests.items():
            self._guests[owner] = taken = copy(guest)
            taken._home, taken._modules = home, {**guest._modules, self.name: home}
            taken._findings = Findings(guest.file, known(guest._known))
