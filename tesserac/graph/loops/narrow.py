"""Loops and branches that change one place of a tensor carry what is there, and put it back behind.

    form.loop(%lo, %hi, %c) { ^(%k, %a): %e = cut(%a, P); ... %b = insert(%a, %v, P); form.yield(%b) }
becomes
    %p = cut(%c, P);  %q = form.loop(%lo, %hi, %p) { ^(%k, %e): ... form.yield(%v) };  insert(%c, %q, P)

Enters: a loop, and what is known around it. Leaves: the same function, in place. Places that a loop that never runs, or
a branch that is not taken, would not have read must be inside. Bits do not change.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.loops.places import Bounds, Place, place_of
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import SIZED, tensor_type
from tesserac.ops.calculus import Writer

CUT, INSERT = "graph.cut", "graph.insert"


@dataclass(frozen=True)
class Chain:
    """What updates make of a tensor, one after the other: the tensor itself first."""

    versions: list[Value]
    inserts: list[Op]

    @property
    def reads(self) -> list[Op]:
        return [op for value in self.versions for op, _ in value.uses if op.name == CUT]

    def is_private(self, last: Op) -> bool:
        """Whether nobody but cuts, the next update and the end of the body sees what is made of the tensor."""
        for number, value in enumerate(self.versions):
            allowed = self.inserts[number] if number < len(self.inserts) else last
            others = [(op, i) for op, i in value.uses if op.name != CUT]
            if others != [(allowed, others[0][1])] if len(others) == 1 else others:
                return False
        return True


def cut(write: Writer, value: Value, place: Place) -> Value:
    return write("cut", value, starts=place.starts, sizes=place.sizes, steps=(1,) * len(place.starts))


def put(write: Writer, whole: Value, new: Value, place: Place) -> Value:
    return write("insert", whole, new, starts=place.starts, steps=(1,) * len(place.starts))


def chain_to(value: Value, first: Value) -> Chain | None:
    """The updates that lead from one value to another, in one block."""
    versions, inserts = [value], list[Op]()
    while versions[0] is not first:
        made = versions[0].defining_op
        if made is None or made.name != INSERT or made.parent is None:
            return None
        inserts.insert(0, made)
        versions.insert(0, made.operands[0])
    return Chain(versions, inserts)


def only_place(ops: Sequence[Op]) -> Place | None:
    """The one place that some cuts and updates are of."""
    places = {place_of(op) for op in ops}
    return places.pop() if len(places) == 1 else None


# ---------------------------------------------------------------------------------------------- loops


def narrow_carried(loop: Op, around: Bounds) -> Op:
    """The loop with every tensor narrowed of which it changes one place; the loop itself where there is none."""
    narrowed = [_carried_place(loop, number, around) for number in range(len(loop.results))]
    if not any(narrowed):
        return loop
    write, builder = writer(Builder.before(loop), {}), Builder.before(loop)
    inits = list(loop.operands[2:])
    for number, place in enumerate(narrowed):
        if place is not None:
            inits[number] = cut(write, inits[number], place)
            _carry_place(loop, number, place)
    body = loop.body
    loop.regions = []
    types, names = [v.type for v in inits], [v.name for v in loop.results]
    made = builder.op(loop.name, (*loop.operands[:2], *inits), types, loop.attrs, (body,), names)
    for old, new, init, place in zip(loop.results, made.results, loop.operands[2:], narrowed, strict=True):
        whole = new if place is None else put(write, init, new, place)
        old.replace_all_uses(whole)
    loop.erase()
    return made


def _carried_place(loop: Op, number: int, around: Bounds) -> Place | None:
    body = loop.body
    arg, end = body.args[1 + number], body.terminator
    chain = chain_to(end.operands[number], arg)
    if chain is None or not chain.inserts or not chain.is_private(end):
        return None
    place = only_place([*chain.inserts, *chain.reads])
    whole = tensor_type(arg).dims
    if place is None or place.sizes == whole or not around.holds(place, whole):
        return None
    inside = [str(op.attrs["counter"]) for op in loop.walk() if "counter" in op.attrs]
    return None if any(map(place.mentions, inside)) else place


def _carry_place(loop: Op, number: int, place: Place) -> None:
    """The body with what is at the place as its argument."""
    body = loop.body
    arg = body.args[1 + number]
    chain = chain_to(body.terminator.operands[number], arg)
    assert chain is not None
    for version, made in zip(chain.versions, [None, *chain.inserts], strict=True):
        here = arg if made is None else made.operands[1]
        for op in [op for op, _ in version.uses if op.name == CUT]:
            op.result.replace_all_uses(here)
            op.erase()
    body.terminator.set_operand(number, chain.inserts[-1].operands[1])
    for made in reversed(chain.inserts):
        made.erase()
    arg.type = type(tensor_type(arg))(place.sizes, tensor_type(arg).dtype, tensor_type(arg).policy)


# ---------------------------------------------------------------------------------------------- branches


def narrow_branches(body: Block, around: Bounds) -> None:
    """Branches inside others first."""
    for op in list(body.ops):
        if op.name == "form.cond" and SIZED not in op.attrs:
            for region in op.regions:
                narrow_branches(region.block, around)
            _narrow_branch(op, around)


def _narrow_branch(op: Op, around: Bounds) -> None:
    blocks = [region.block for region in op.regions]
    found = [_branch_place(op, number, around) for number in range(len(op.results))]
    if not any(found):
        return
    for block in blocks:
        end = block.terminator
        write = writer(Builder.before(end), {})
        for number, pair in enumerate(found):
            if pair is not None:
                base, place = pair
                made = end.operands[number].defining_op
                same = end.operands[number] is base
                end.set_operand(number, cut(write, base, place) if same or made is None else made.operands[1])
    behind = Builder.before(op)
    op.regions = []
    types = [blocks[0].terminator.operands[i].type for i in range(len(op.results))]
    made = behind.op(op.name, op.operands, types, op.attrs, blocks, [v.name for v in op.results])
    write = writer(behind, {})
    for old, new, pair in zip(op.results, made.results, found, strict=True):
        old.replace_all_uses(new if pair is None else put(write, pair[0], new, pair[1]))
    op.erase()
    for block in blocks:
        for inner in reversed(list(block.ops)):
            if inner.name == INSERT and not inner.result.uses:
                inner.erase()


def _branch_place(op: Op, number: int, around: Bounds) -> tuple[Value, Place] | None:
    """The tensor of which both branches give a version, and the place where they differ from it."""
    ends = [region.block.terminator.operands[number] for region in op.regions]
    bases = [_base(end, region.block) for end, region in zip(ends, op.regions, strict=True)]
    if bases[0] is not bases[1] or ends[0] is ends[1]:
        return None
    chains = [chain for end in ends if (chain := chain_to(end, bases[0])) is not None]
    place = only_place([made for chain in chains for made in chain.inserts])
    if place is None or place.sizes == tensor_type(bases[0]).dims:
        return None
    return (bases[0], place) if around.holds(place, tensor_type(bases[0]).dims) else None


def _base(value: Value, block: Block) -> Value:
    """What the updates of a branch begin with."""
    while (made := value.defining_op) is not None and made.name == INSERT and made.parent is block:
        value = made.operands[0]
    return value
