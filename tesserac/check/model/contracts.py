"""What a function promises and demands beside its code: guards, params, promises, requests, devices, tile programs.

Enters: nothing. Leaves: parts of a `TypedFunction`; read as `typed.Guard` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.ops.registry import GuardKind
from tesserac.types.dims import Dim
from tesserac.types.ty import Type


@dataclass(frozen=True)
class Form:
    """What a function computes where its first argument, a matrix, has this structure: the symbol of the function that
    does, and what each of that one's symbols is at the call; sizes of the parts have names of their own."""

    structure: str
    function: str
    dims: tuple[tuple[str, Dim], ...]


@dataclass(frozen=True)
class Guard:
    """One check of sizes on entry, as in the IR: left equals right, left (at least 1) divides right, or left is at
    least right. `reason` says why it is not decided while compiling; `origin` is the guard of a function called here
    that made this one, `code` the expression that needs it, `said` what an assertion says where it does not hold."""

    kind: GuardKind
    left: Dim
    right: Dim
    span: Span
    reason: str
    origin: Guard | None = None
    code: str = ""
    said: str = ""

    def of_sizes(self, sizes: Mapping[str, Dim]) -> Guard:
        """The rule of sizes that a caller has."""
        return replace(self, left=self.left.substitute(sizes), right=self.right.substitute(sizes))

    @property
    def rule(self) -> str:
        """As a user would write it."""
        return rule_text(self.kind, self.left, self.right)

    @property
    def text(self) -> str:
        """The rule, and what an assertion says of it."""
        return f"{self.rule} ({self.said})" if self.said else self.rule


def rule_text(kind: str, left: Dim, right: Dim) -> str:
    if kind == "divides":
        return f"{right.as_factor()} % {left.as_factor()} == 0"
    if kind == "in_range":
        return f"0 <= {left} < {right}" if left.constant is None else f"{left} < {right}"
    return f"{left} {'==' if kind == 'equal' else '>='} {right}"


def balanced(left: Dim, right: Dim) -> tuple[Dim, Dim]:
    """The sides of `left >= right` without anything taken away: `N >= 3` for `N - 3 >= 0`."""
    gap = (left - right).terms
    return Dim(tuple(term for term in gap if term[1] > 0)), -Dim(tuple(term for term in gap if term[1] < 0))


@dataclass(frozen=True)
class Promise:
    """What is promised of a result: proven while compiling, or checked by every call of a debug build."""

    text: str
    is_proven: bool


@dataclass(frozen=True)
class Param:
    """A parameter. One of a static type is already part of the function and takes no argument at run time."""

    name: str
    type: Type
    span: Span


@dataclass(frozen=True)
class Across:
    """An axis of a mesh, the number of its devices, and whether all of them have the same result."""

    axis: str
    devices: Dim
    agreed: bool


@dataclass(frozen=True)
class Request:
    """What a function asks of where or how it runs. It must run on `device` if it names one; one that `is_needed` has
    no target yet that honours it; any other is a hint that is not taken. `why` is the reason of that."""

    text: str
    span: Span
    why: str
    device: str = ""
    is_needed: bool = False
    number: int | None = None
    """Of the device, where it is said."""


Settings = tuple[tuple[str, int | str], ...]
"""Of a schedule, by name: numbers as such, all else as it is written."""


@dataclass(frozen=True)
class Cut:
    """A dim of size `over` that is cut into blocks of size `block`, a symbol that a schedule gives a number."""

    block: Dim
    over: Dim


@dataclass(frozen=True)
class Program:
    """What a kernel does in one program: the function `symbol`, whose sizes of blocks are symbols. There is a program
    for every index of the `leading` dims and every block of the dims that the grid cuts: `own` are those, `blocks` all
    that are cut, each with the symbol that numbers its blocks; `fixed` are symbols that no schedule chooses.
    `schedule` is what the kernel's own says, `space` the values to try of what it leaves to tuning, `pinned` the sizes
    of the blocks that it means, `cache` where it says that what tuning finds is kept, `said_at` where the schedule
    stands."""

    symbol: str
    leading: tuple[Dim, ...]
    blocks: tuple[Cut, ...]
    own: tuple[Dim, ...]
    numbers: tuple[str, ...]
    fixed: tuple[tuple[str, Dim], ...]
    schedule: Settings
    space: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    pinned: tuple[tuple[str, int], ...] = ()
    cache: str = ""
    said_at: Span | None = None


@dataclass(frozen=True)
class Alternative:
    """A kernel that implements a function: `symbol` is a function of the same parameters that calls it; empty, and
    `why` says why, where it does not take them. Only for a `target`, if that is said; `within` is how far it may be
    from the function, None where both have the same bits."""

    kernel: str
    symbol: str
    target: str
    within: float | None
    why: str
