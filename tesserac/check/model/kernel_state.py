"""What is known of a kernel while its body is checked: its blocks, and which dims of the problem they cut.

Enters: nothing; `kernels/programs.py` makes one, its tiles and loops fill it. Leaves: what the grid needs: the size of
each block, and the blocks that belong to one program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import field
from math import frexp

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import F32, DType
from tesserac.types.policy import Policy
from tesserac.types.ty import IntType, RecordType, Type

TILE_RANK = 2
"""A tile has rows and columns; the dims of a tensor before them are one program each."""
CONTEXT = "tile.context"
BLOCKS = ("m", "n", "k", "d")
"""The sizes that a context has: rows and columns of the result, the contracted dim, and a dim that is never cut."""
SETTINGS = ("warps", "stages", "vector")


@dataclass(frozen=True)
class CutDim:
    """A dim of the problem that is cut into blocks, and the place that said so."""

    size: Dim
    span: Span


@dataclass(frozen=True)
class Part:
    """Of the dim that a loop counts blocks of, what it goes over: from `start` to before `stop`, each one position, or
    one for each row of the program. None is the end of the dim."""

    start: typed.Expr | None = None
    stop: typed.Expr | None = None


@dataclass
class Kernel:
    """Blocks are symbols of sizes, of which a schedule says what they are. `limits` are dims of which only the first
    elements are valid, and how many: the length of a cache. `parts` are those of the loops around what is being
    checked, `filled` tiles that are 0 beyond the length of a cache. `counters` are indices of loops over blocks.
    `policies` are those that parameters have: what is loaded without one takes that of its dtype. `reads` are the
    blocks that are loaded, and the indices of their rows and columns: what is said of those is said of the problem.
    `said` is what the library says of calls: that they give parts of a dim, or join them. `turning` are the counters of
    the loops over blocks around what is being checked. `said_schedule` is all that its schedule says, `settings` what
    of that are numbers, `space` the values to try of what is left to tuning. `meant` are blocks that the result depends
    on, with the sizes that the schedule pins: the last block of a dim may have fewer elements, positions count whole
    ones."""

    blocks: dict[str, Dim]
    settings: dict[str, int]
    cuts: dict[Dim, CutDim] = field(default_factory=dict)
    used: dict[Dim, Span] = field(default_factory=dict)
    own: dict[Dim, Span] = field(default_factory=dict)
    counters: dict[str, Dim] = field(default_factory=dict)
    limits: dict[Dim, typed.Expr] = field(default_factory=dict)
    parts: dict[Dim, Part] = field(default_factory=dict)
    filled: set[typed.Expr] = field(default_factory=set)
    policies: dict[DType, Policy] = field(default_factory=dict)
    cache: typed.Expr | None = None
    stored: dict[str, typed.Expr] = field(default_factory=dict)
    reads: set[typed.Expr] = field(default_factory=set)
    said: dict[typed.Expr, str] = field(default_factory=dict)
    turning: list[str] = field(default_factory=list)
    said_schedule: typed.Settings = ()
    space: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    meant: dict[Dim, int] = field(default_factory=dict)
    leading: tuple[Dim, ...] = ()
    """Dims of parameters of which each index is a program."""
    miscounted: set[Span] = field(default_factory=set)
    """Counters that were taken for numbers of blocks, and told."""
    whole_is_first: bool = False
    """No load says what `T.d` is: it is the columns of the first one that takes all of them."""

    def context(self) -> RecordType:
        """The value of `tile.context()`."""
        sizes: list[tuple[str, Type]] = [(name, IntType(dim)) for name, dim in self.blocks.items()]
        settings = [(name, IntType(Dim.const(self.settings.get(name, 1)))) for name in SETTINGS]
        return RecordType(CONTEXT, (*sizes, *settings))

    @property
    def narrow(self) -> DType | None:
        """The narrow dtype with the exponents of f32 in which parameters are stored, if they are in one."""
        found = [dtype for dtype in self.policies if dtype.is_float and dtype.bits < F32.bits]
        exponents = [frexp(dtype.largest)[1] for dtype in found]
        return found[0] if exponents == [frexp(F32.largest)[1]] else None

    @contextmanager
    def over(self, counter: str, part: Part | None) -> Iterator[None]:
        """In the body of a loop over blocks."""
        around = self.parts
        self.turning.append(counter)
        self.parts = around if part is None else around | {self.counters[counter]: part}
        yield
        self.turning.pop()
        self.parts = around

    def block_name(self, block: Dim) -> str:
        """A block as a program writes it."""
        return next(f"T.{name}" for name, dim in self.blocks.items() if dim == block)

    def start(self, block: Dim) -> Dim:
        """Where the block that is being worked on begins: that of a loop around, or this program's."""
        counter = next((name for name in reversed(self.turning) if self.counters[name] == block), None)
        return self.own_start(block) if counter is None else self.counted_start(counter)

    def counted_start(self, counter: str) -> Dim:
        """Where the block begins that a loop has come to."""
        return Dim.sym(counter) * self.nominal(self.counters[counter])

    def nominal(self, block: Dim) -> Dim:
        """The size of a block that is whole: a number where the kernel means it."""
        return Dim.const(self.meant[block]) if block in self.meant else block

    def own_start(self, block: Dim) -> Dim:
        """Where this program's block begins."""
        return ZERO if block == self.blocks["d"] else Dim.sym(self.number(block)) * self.nominal(block)

    def number(self, block: Dim) -> str:
        """The symbol for which of the blocks is this program's: `P_m` of `T_m`."""
        return f"P{(block.symbol or '')[1:]}"

    def sizes(self) -> dict[str, Dim]:
        """The one schedule point that is the meaning: every block spans the dim that it cuts, and is the first."""
        sizes = {block.symbol or "": cut.size for block, cut in self.cuts.items()}
        return sizes | {self.number(block): ZERO for block in self.cuts}


def new_kernel(taken: Collection[str], settings: dict[str, int]) -> Kernel:
    """A kernel in a signature that has these names of sizes."""
    blocks: dict[str, Dim] = {}
    for name in BLOCKS:
        symbol = f"T_{name}"
        while symbol in taken or f"P{symbol[1:]}" in taken:
            symbol += "_"
        blocks[name] = Dim.sym(symbol)
    return Kernel(blocks, settings)
