"""The parts that the state of a body has: what is declared, what is known of sizes, devices, control flow, effects.

Enters: nothing; a `Body` has one of each, and rules fill them. Leaves: the same. Who checks on trial puts each back.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.specs import DimSpec, FunctionSpec, Storage, TypeSpec
from tesserac.check.state.evaluation import Frame
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import DType
from tesserac.types.ty import RecordType, Type


@dataclass(frozen=True)
class WherePlace:
    """Where a `where` fact can be added to the signature; `text` is what to insert, around `{fact}`."""

    span: Span
    text: str


class Declared:
    """What the signature says, and where it says it."""

    def __init__(self) -> None:
        self.dim_spans: dict[str, list[Span]] = {}
        self.parameter_dims: dict[str, tuple[DimSpec, ...]] = {}
        self.parameter_elements: dict[str, Span] = {}
        self.element_spans: list[Span] = []
        self.where_at: WherePlace | None = None
        self.result_spec: TypeSpec | None = None
        self.result_storage: Storage | None = None
        self.leading: tuple[Dim, ...] = ()
        self.function_specs: dict[str, FunctionSpec] = {}


class Sizes:
    """The names of sizes, and the checks on entry that they need; what follows from facts is in `Facts`. Of
    `static_symbols`, which are ints, only a call gives the values; `untold_symbols` no argument tells."""

    def __init__(self) -> None:
        self.symbols: dict[str, Dim] = {}
        self.own_symbols: frozenset[str] = frozenset()
        self.static_symbols: frozenset[str] = frozenset()
        self.untold_symbols: frozenset[str] = frozenset()
        self.has_open = False
        self.guards: dict[tuple[str, Dim, Dim], typed.Guard] = {}
        self.checked = 0
        self.told: set[frozenset[Dim | DType]] = set()

    def first_telling(self, left: Dim | DType, right: Dim | DType) -> bool:
        """Whether these two sizes or dtypes are reported as different for the first time: one misnamed dim, or one
        wrong dtype, is one message."""
        pair = frozenset((left, right))
        first = pair not in self.told
        self.told.add(pair)
        return first

    def drop_weaker(self, gap: Dim) -> None:
        """A bound makes the same one with a lower number needless."""
        for key, guard in list(self.guards.items()):
            if guard.kind != "at_least" or guard.left.symbols() | guard.right.symbols() != gap.symbols():
                continue
            more = (guard.left - guard.right - gap).constant
            if more is not None and more > 0:
                del self.guards[key]


@dataclass(frozen=True)
class Communication:
    """How many devices an axis has across which a body communicates, and where it does."""

    devices: Dim
    span: Span


@dataclass(frozen=True)
class Meeting:
    """A place to which all devices along an axis have to come, and what is called there."""

    axis: str
    name: str
    span: Span


class Devices:
    """The axes and the mesh that are known, and what communicates across them. `uniform` says of functions, by axis,
    whether what they give is the same on all devices."""

    def __init__(self) -> None:
        self.axes: dict[str, Dim] = {}
        self.mesh: RecordType | None = None
        self.collectives: dict[str, Communication] = {}
        self.meetings: list[Meeting] = []
        self.uniform: dict[str, dict[str, bool]] = {}


class Rises:
    """What loops were found to need: the types that names start with, by the way that leads to the loop, the loop and
    the name; and the loops that have to be checked again. Kept when a trial is taken back."""

    def __init__(self) -> None:
        self.starts: dict[tuple[tuple[int, ...], Span, str], Type] = {}
        self.again: set[Span] = set()


@dataclass(frozen=True)
class Counter:
    """The name that counts the iterations of a loop over a range of sizes, and where its bounds are written."""

    name: str
    start: Dim
    stop: Dim
    step: int
    bounds: tuple[Span, ...]

    @property
    def from_zero(self) -> bool:
        """Whether it is the number of its iteration."""
        return self.start == ZERO and self.step == 1


class Flow:
    """Where in its control flow a body is: `dead` is in how many branches that are not taken, `branches` in how many
    that the run decides, `path` in which iterations of loops that are written out; `counter` counts the innermost
    loop, if that is one over a range of sizes."""

    def __init__(self) -> None:
        self.returns: list[typed.Expr] = []
        self.loops = 0
        self.counter: Counter | None = None
        self.flags: list[str] = []
        self.path: tuple[int, ...] = ()
        self.rises = Rises()
        self.dead = 0
        self.branches = 0
        self.memory: typed.LoopMemory | None = None
        self.frame = Frame()
        self.named = 0
        self.changed: set[str] = set()
        """Names whose type a loop would change: of what they are behind it nothing is known."""


class Doing:
    """What a body does besides computing: its effects, the params that it reads, the mode of its numerics. `acts` and
    `draws` are said of the expression under check."""

    def __init__(self) -> None:
        self.effects: dict[str, Span] = {}
        self.reads: dict[str, typed.Param] = {}
        self.told: dict[str, set[str]] = {}
        """Of params that are read for nothing but sizes: which sizes."""
        self.acts = False
        self.draws = False
        self.asserts = False
        """Whether the statement under check has called a function that asserts."""
        self.numerics = ""
