"""Which operations are linear in tangents, and what remains of a block once some of its results are not wanted.

Enters: operations in order, and the tangents they start from. Leaves: those that depend on them. Control flow that
forward mode has been through says in its attribute `tangents` how many of its results are tangents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tesserac.graph.autodiff.dialect import CHECKPOINT, TANGENT, TANGENTS
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.rewrite import is_pure
from tesserac.types.dims import Dim


def used_values(op: Op) -> Iterator[Value]:
    """Operands of an operation and of all inside it."""
    for inner in op.walk():
        yield from inner.operands


def linear_ops(ops: Iterable[Op], tangents: set[Value]) -> list[Op]:
    """The operations that depend on `tangents`, to which their results are added. Control flow is either linear in
    all its results, or `separate` has not seen it yet and its attribute says how many are."""
    found = []
    for op in ops:
        if op.name == TANGENT or not tangents.isdisjoint(used_values(op)):
            found.append(op)
            count = op.attrs.get(TANGENTS)
            tangents.update(op.results[-count:] if isinstance(count, int) else op.results)
    return found


def tangent_count(op: Op) -> int:
    """How many of the results of control flow are tangents; these are the last ones."""
    count = op.attrs[TANGENTS]
    assert isinstance(count, int)
    return count


def without_count(op: Op) -> dict[str, Attr]:
    return {name: attr for name, attr in op.attrs.items() if name != TANGENTS}


def loop_bounds(op: Op) -> tuple[Dim, Dim]:
    """Where a loop starts and stops."""
    bounds = []
    for value in op.operands[:2]:
        made = value.defining_op
        dim = made.attrs.get("dim") if made is not None else None
        assert isinstance(dim, Dim), "a loop over indices that no size gives"
        bounds.append(dim)
    return bounds[0], bounds[1]


def replace_results(op: Op, values: Iterable[Value]) -> None:
    """Every use of the results goes to `values`, and the operation goes."""
    for old, new in zip(op.results, values, strict=True):
        new.name = new.name or old.name
        old.replace_all_uses(new)
    op.erase()


# ------------------------------------------------------------------------------------------- what is not wanted


def erase_unused(block: Block) -> None:
    """Drops pure operations whose results nobody uses, and what control flow gives or carries for nobody."""
    for op in reversed(list(block.ops)):
        if op.opdef.terminator or not is_pure(op):
            continue
        if not any(v.uses for v in op.results):
            op.erase()
        elif op.name in _SKIPPED and not all(v.uses for v in op.results):
            _trim(op)


_SKIPPED = {"form.loop": 1, "form.while": 0, "form.cond": 0, CHECKPOINT: 0}
"""Control flow, and how many arguments its body has before what it carries."""


def _trim(op: Op) -> None:
    """The operation with only the results that are used, and what these need."""
    skip, places = _SKIPPED[op.name], _wanted(op)
    if len(places) == len(op.results):
        return
    carries = op.name in ("form.loop", "form.while")
    blocks = [region.block for region in op.regions]
    for block in blocks:
        if block is not blocks[0] or op.name != "form.while":
            block.terminator.set_operands([block.terminator.operands[place] for place in places])
        erase_unused(block)
        if carries:
            _keep_args(block, [*range(skip), *(skip + place for place in places)])
    first = len(op.operands) - len(op.results) if carries else len(op.operands)
    operands = [*op.operands[:first], *(op.operands[first + place] for place in places if carries)]
    op.regions.clear()
    kept = [op.results[place] for place in places]
    names = [v.name for v in kept]
    new = Builder.before(op).op(op.name, operands, [v.type for v in kept], op.attrs, blocks, names)
    for old, result in zip(kept, new.results, strict=True):
        old.replace_all_uses(result)
    op.erase()


def _keep_args(block: Block, places: list[int]) -> None:
    block.args = [block.args[place] for place in places]
    for index, arg in enumerate(block.args):
        arg.index = index


def _wanted(op: Op) -> list[int]:
    """Results that are used; in a loop also those that the next iteration needs to make these."""
    wanted = {place for place, v in enumerate(op.results) if v.uses}
    if op.name not in ("form.loop", "form.while"):
        return sorted(wanted)
    *tests, body = (region.block for region in op.regions)
    for test in tests:
        reached = _reached(test, test.terminator.operands)
        wanted |= {place for place, arg in enumerate(test.args) if arg in reached}
    carried, yielded = body.args[_SKIPPED[op.name] :], body.terminator.operands
    while True:
        reached = _reached(body, [yielded[place] for place in wanted])
        more = {place for place, arg in enumerate(carried) if arg in reached} - wanted
        if not more:
            return sorted(wanted)
        wanted |= more


def _reached(block: Block, values: Iterable[Value]) -> set[Value]:
    """The values that these are made of, in the block."""
    reached = set(values)
    for op in reversed(block.ops[:-1]):
        if not reached.isdisjoint(op.results):
            reached.update(used_values(op))
    return reached
