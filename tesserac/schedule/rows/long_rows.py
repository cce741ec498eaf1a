"""Rows that are few and long: a variant in which parts of a row are programs.

    schedule.launch {kind = "rows"}
becomes, where the sizes are not known,
    schedule.select() {predicates = [N >= 131072]} { schedule.launch {kind = "rows", portion = 64} } { schedule.launch }

A part is a power of two of blocks, hence an aligned subtree of the row's tree: no bit differs between the variants.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tesserac.ir.core import Op, clone_op
from tesserac.schedule.dialect import FOLDS_MOST, Predicate, launch_kind, launch_loops, launch_space
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.model.space import computing, yielded_op
from tesserac.schedule.model.uses import Passes
from tesserac.types.dims import Dim, product
from tesserac.types.extents import Bounds, largest

CUT_BLOCKS = 64
"""Blocks of a row that are one program: much more work than a second launch costs."""
LEAST_PARTS, LEAST_BLOCKS = 4, 2
"""A row of fewer parts is one program; of rows side by side, a row of fewer blocks."""
LONG_BLOCKS = 4
"""Blocks of rows side by side, at least, that a GPU cuts where only a run knows their length."""
FEW = 8
"""Rows that leave most multiprocessors of a GPU idle."""

SHORT_COLUMNS = (64, 128)
"""Elements of rows side by side up to which a GPU has variants: threads of one for a whole block go over places that
are not there. Of decoding with 8192 and 32768 keys, whose rows have 32 and 128, by ncu an instruction began in 46 and
43 % of the cycles, and memory was busy for 10."""
FEW_COLUMNS = 2
"""Programs of a multiprocessor up to which one that walks columns leaves it waiting for memory."""


def may_be_cut(launch: Op) -> bool:
    """Whether rows are only summed up, and may be so long that each is work for many."""
    *rows, fold = launch_loops(launch)
    forms, passes = computing(launch), Passes(launch)
    once = all(passes.level(op.operands[0]) == 0 for op in forms if op.name == "form.reduce")
    along = any(passes.has_fold(yielded_op(value)) for value in launch.body.terminator.operands)
    plain = all(op.name in ("form.map", "form.reduce") for op in forms)
    long = fold.size.constant is None or fold.size.constant >= LEAST_BLOCKS * _cut(launch) * fold.block
    sound = long and once and plain and not along and all(row.kind == "parallel" for row in rows)
    return sound and largest(fold.size.ceil_div(_cut(launch) * fold.block), _counted_around(launch)) is not None


def _counted_around(launch: Op) -> Bounds:
    """Where loops around a launch start and stop: parts of rows pass through memory that is taken before they run."""
    found: dict[str, list[tuple[Dim, Dim]]] = {}
    block = launch.parent
    while block is not None and block.parent is not None and (around := block.parent.parent) is not None:
        if around.name == "schedule.loop":
            ends = [made.attrs.get("dim") for value in around.operands if (made := value.defining_op) is not None]
            low, high = (end if isinstance(end, Dim) else None for end in (*ends, None, None)[:2])
            if low is not None and high is not None:
                found.setdefault(str(around.attrs["counter"]), []).append((low, high))
        block = around.parent
    return found


def has_few_rows(launch: Op) -> bool:
    """Whether programs have a row each, and rows are known to be so few that a GPU would be idle: all of a tensor is
    one. Of rows whose length is known it must be worth a second launch."""
    *rows, fold = launch_loops(launch)
    count = product([row.size for row in rows]).constant
    if launch_kind(launch) != "rows" or count is None or count > FEW or any(row.block > 1 for row in rows):
        return False
    return fold.size.constant is None or fold.size.constant >= count * LEAST_PARTS * CUT_BLOCKS * fold.block


def idles(launch: Op, machine: Machine) -> bool:
    """Whether rows side by side are known to be fewer programs than keep memory busy, and long."""
    *rows, fold = launch_loops(launch)
    few = FEW_COLUMNS * machine.cores
    programs = prod((row.size.constant or few) // row.block for row in rows)
    return _lie_beside(launch) and fold.size.constant is not None and programs < few


def may_idle(launch: Op) -> bool:
    """The same where only a run knows how many or how long they are."""
    known = all(loop.size.constant is not None for loop in launch_loops(launch))
    return launch_kind(launch) == "rows" and _lie_beside(launch) and not known


def _lie_beside(launch: Op) -> bool:
    last = len(launch_space(launch)) - 1
    return any(row.block > 1 and row.axes[-1] == last for row in launch_loops(launch)[:-1])


def _cut(launch: Op) -> int:
    """Blocks of a part. Where rows lie side by side, one block of many of them is enough work."""
    return 1 if any(row.block > 1 for row in launch_loops(launch)[:-1]) else CUT_BLOCKS


def cut_rows(launch: Op, otherwise: Op) -> None:
    """Has a launch take parts of rows where they are long, and the other one whole rows where they are not."""
    *rows, fold = launch_loops(launch)
    cut = _cut(launch)
    least = Dim.const(LEAST_BLOCKS * fold.block)
    if cut == CUT_BLOCKS:
        least = product([row.size for row in rows]) * (LEAST_PARTS * cut * fold.block)
    launch.attrs["portion"] = cut
    because(launch, f"long rows: {cut * fold.block} elements of each per program")
    select([(Predicate("at_least", fold.size, least), [launch])], [otherwise], otherwise)


def cut_columns(launch: Op, clone: Op, machine: Machine) -> None:
    """Has parts of rows be programs where a run finds that rows side by side are so few programs, and long. `clone` is
    the same launch."""
    *rows, fold = launch_loops(launch)
    enough = FEW_COLUMNS * machine.cores * prod(row.block for row in rows)
    many = Predicate("at_least", product([row.size for row in rows]), Dim.const(enough))
    long = Predicate("at_least", fold.size, Dim.const(LONG_BLOCKS * fold.block))
    whole = clone_op(launch, {})
    clone.attrs["portion"] = _cut(clone)
    because(clone, f"few and long rows: {fold.block} elements of each per program")
    select([(many, [whole]), (long, [clone])], [launch], launch)


def vary_columns(launch: Op, plain: Op, walk: Callable[[Op], None]) -> None:
    """`launch` stays for longer rows side by side; variants for those that a run finds to be short are made of `plain`,
    which nothing has decided yet."""
    size = launch_loops(launch)[-1].size
    if size.constant is not None:
        return
    short = [clone_op(plain, {}) for _ in SHORT_COLUMNS]
    for variant, most in zip(short, SHORT_COLUMNS, strict=True):
        variant.attrs[FOLDS_MOST] = most
        because(variant, f"rows of at most {most}")
    longer = [Predicate("at_least", size, Dim.const(most + 1)) for most in reversed(SHORT_COLUMNS)]
    choices = [(predicate, [op]) for predicate, op in zip(longer, (launch, *reversed(short)), strict=False)]
    select(choices, [short[0]], launch)
    for variant in short:
        walk(variant)


def cut_known_rows(launch: Op) -> None:
    """The same for rows whose length is known."""
    launch.attrs["portion"] = _cut(launch)
    because(launch, "few and long rows: parts of them are programs")
