"""Local names while a body is checked.

Enters: bindings as statements make them. Leaves: what a name is bound to at this point of the flow, or why it has
no value. Branches and loops take a `snapshot` and merge afterwards.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.types.ty import Type


@dataclass(frozen=True)
class Binding:
    """A name with its type. `value` is what it was assigned, for tracing sizes back; a parameter has none. One that a
    loop carries `starts` with that value: in the iterations it is another."""

    name: str
    type: Type
    span: Span
    value: typed.Expr | None
    starts: bool = False

    @property
    def is_value(self) -> bool:
        """Whether the name stands for what it was assigned."""
        return self.value is not None and not self.starts


@dataclass(frozen=True)
class Pinned:
    """A name that a loop carries: its type must stay, since every iteration starts with it. `dead` is in how many
    branches that are not taken the loop stands, `path` in which iterations of those around it that are written out."""

    binding: Binding
    loop: Span
    dead: int
    path: tuple[int, ...]


FLAG = "stop$"
"""How the names of flags start that a `break` raises; no name of a program does."""

RESULT, RETURNED = "result$", "returned$"
"""How the names start under which a loop leaves what it returns, and whether it has."""

HIDDEN = "value$"
"""How the names start under which values wait for their places."""


@dataclass(frozen=True)
class Lost:
    """A name that has a value only after `span`. Where that is in a loop which may run no iteration, `loop` is where it
    starts, and `initial` what the name could be before it, as it is written; empty where that is not known."""

    span: Span
    loop: Span | None = None
    initial: str = ""


class Scope:
    """Names of one function, at one point of its flow."""

    def __init__(self) -> None:
        self.bindings: dict[str, Binding] = {}
        self.half_bound: dict[str, Lost] = {}
        self.pinned: dict[str, Pinned] = {}

    def bind(self, binding: Binding) -> None:
        self.bindings[binding.name] = binding
        self.half_bound.pop(binding.name, None)

    def lose(self, name: str, lost: Lost) -> None:
        """After a branch or a loop that alone assigns it, a name has no value."""
        self.bindings.pop(name, None)
        self.half_bound[name] = lost

    def snapshot(self) -> Scope:
        other = Scope()
        other.bindings = dict(self.bindings)
        other.half_bound = dict(self.half_bound)
        other.pinned = dict(self.pinned)
        return other
