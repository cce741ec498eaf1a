"""What a module's checker has begun and not finished: a fault leaves none of it behind.

A module of the library outlives the programs that use it. An instance that stayed open would never let its module be
free: whatever waits for that, as rules of derivatives do, would be missing in every later program of the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.check.model import typed
from tesserac.check.module.findings import Tables
from tesserac.diag.sink import Sink


@dataclass(eq=False)
class UnderWay:
    """`instances` are how many are open by name, `waiting` what waits until none is; `asked` has the derivatives that
    inner functions ask for."""

    instances: Counter[str] = field(default_factory=Counter)
    waiting: list[Callable[[Sink], None]] = field(default_factory=list)
    asked: list[typed.Derivative] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    rechecks: int = 0

    @property
    def is_free(self) -> bool:
        return not self.instances.total()

    @contextmanager
    def instance(self, name: str) -> Iterator[None]:
        self.instances[name] += 1
        try:
            yield
        finally:
            self.instances[name] -= 1

    @contextmanager
    def asking(self) -> Iterator[list[typed.Derivative]]:
        """While a body is checked; gives what its inner functions ask for."""
        around, self.asked = self.asked, []
        try:
            yield self.asked
        finally:
            self.asked = around

    @contextmanager
    def constant(self, name: str) -> Iterator[None]:
        self.constants.append(name)
        try:
            yield
        finally:
            self.constants.pop()

    @contextmanager
    def recheck(self) -> Iterator[None]:
        self.rechecks += 1
        try:
            yield
        finally:
            self.rechecks -= 1

    @contextmanager
    def or_nothing(self, tables: Callable[[], Iterable[Tables]]) -> Iterator[Callable[[], None]]:
        """What is found inside is found as a whole. After a fault it is forgotten with what still waits: an instance
        whose rules were never looked at is not one to keep. Its code stays, since others may call it. Gives what
        forgets it, for one whose rules turn out to be wrong."""
        waiting, known = len(self.waiting), {table: len(table.instances) for table in tables()}

        def forget() -> None:
            del self.waiting[waiting:]
            for table in tables():
                table.forget_after(known.get(table, 0))

        try:
            yield forget
        except BaseException:
            forget()
            raise
