"""Loops and branches that change one place of a tensor carry what is there, and put it back behind.

    form.loop(%lo, %hi, %c) { ^(%k, %a): %e = cut(%a, P); ... %b = insert(%a, %v, P); form.yield(%b) }
becomes
    %p = cut(%c, P);  %q = form.loop(%lo, %hi, %p) { ^(%k, %e): ... form.yield(%v) };  insert(%c, %q, P)

Enters: a loop, and what is known around it. Leaves: the same function, in place. Places that a loop that never runs, or
a branch that is not taken, would not have read must be inside. Bits do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.loops.places import Bounds, Place, place_of
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import SIZED, tensor_type
from tesserac.ir.rewrite import is_pure
from tesserac.ops.calculus import Writer
from tesserac.types.dims import ONE

CUT, INSERT = "graph.cut", "graph.insert"
MOST_PLACES = 8
"""Places of one tensor that are carried each by itself."""


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
    """The loop with every tensor narrowed of which it changes a few places; the loop itself where there is none."""
    narrowed = [_carried_places(loop, number, around) for number in range(len(loop.results))]
    if not any(narrowed):
        return loop
    builder, body, end = Builder.before(loop), loop.body, loop.body.terminator
    write, old = writer(builder, {}), list(end.operands)
    inits, ends, wholes = list[Value](), list[Value](), list[tuple[int, Place | None]]()
    args = [body.args[0]]
    for number, places in enumerate(narrowed):
        arg, init = body.args[1 + number], loop.operands[2 + number]
        if not places:
            inits.append(init)
            ends.append(old[number])
            args.append(arg)
            wholes.append((number, None))
            continue
        given = [cut(write, init, place) for place in places]
        own = [Value(value.type, body, 0, arg.name) for value in given]
        last = _carry_places(loop, number, dict(zip(places, own, strict=True)))
        inits += given
        args += own
        ends += [last[place] for place in places]
        wholes += [(number, place) for place in places]
    end.set_operands(ends)
    _drop_unused(body)
    for index, arg in enumerate(args):
        arg.index = index
    body.args = args
    loop.regions = []
    names = [loop.results[number].name for number, _ in wholes]
    made = builder.op(loop.name, (*loop.operands[:2], *inits), [v.type for v in inits], loop.attrs, (body,), names)
    new = dict[int, Value]()
    for result, (number, place) in zip(made.results, wholes, strict=True):
        whole = new.get(number, loop.operands[2 + number])
        new[number] = result if place is None else put(write, whole, result, place)
    for number, result in enumerate(loop.results):
        result.replace_all_uses(new[number])
    loop.erase()
    return made


def _carried_places(loop: Op, number: int, around: Bounds) -> list[Place]:
    """The places of a carried tensor that all iterations change, where nothing else of it does; what is read besides
    stays as it was before the loop."""
    body = loop.body
    arg, end = body.args[1 + number], body.terminator
    chain = chain_to(end.operands[number], arg)
    if chain is None or not chain.inserts or not chain.is_private(end):
        return []
    whole = tensor_type(arg).dims
    written = list(dict.fromkeys(place_of(made) for made in chain.inserts))
    places = [place for place in written if place is not None]
    inside = [str(op.attrs["counter"]) for op in loop.walk() if "counter" in op.attrs]
    small = all(place.sizes != whole and not any(map(place.mentions, inside)) for place in places)
    if len(places) < len(written) or len(places) > MOST_PLACES or not small:
        return []
    within = all(around.holds(place, whole) for place in places)
    pairs = [(one, other) for at, one in enumerate(places) for other in places[at + 1 :]]
    apart = all(around.apart(one, other) for one, other in pairs)
    return places if within and apart and all(_reads_apart(op, places, loop, around) for op in chain.reads) else []


def _reads_apart(op: Op, places: Sequence[Place], loop: Op, around: Bounds) -> bool:
    """Whether a cut reads one of the places, or nothing of them."""
    place, here = place_of(op), bounds_at(op, loop, around)
    return place is not None and (place in places or all(here.apart(place, own) for own in places))


def bounds_at(op: Op, loop: Op, around: Bounds) -> Bounds:
    """What is known where an operation inside a loop stands."""
    outer = list[Op]()
    block = op.parent
    while block is not None and (owner := block.parent_op) is not None:
        outer += [owner] if owner.name == "form.loop" else []
        if owner is loop:
            break
        block = owner.parent
    for one in reversed(outer):
        around = around.inside(one)
    return around


def _carry_places(loop: Op, number: int, args: Mapping[Place, Value]) -> dict[Place, Value]:
    """Has cuts of the places read the arguments, and what updates make of them; gives what they are in the end. Other
    cuts read the tensor as it was before the loop."""
    body, here = loop.body, dict(args)
    chain = chain_to(body.terminator.operands[number], body.args[1 + number])
    assert chain is not None
    for version, made in zip(chain.versions, [None, *chain.inserts], strict=True):
        if made is not None:
            place = place_of(made)
            assert place is not None
            here[place] = made.operands[1]
        for op in [op for op, _ in version.uses if op.name == CUT]:
            place = place_of(op)
            if place in here:
                op.result.replace_all_uses(here[place])
                op.erase()
            else:
                op.set_operand(0, loop.operands[2 + number])
    return here


def _drop_unused(body: Block) -> None:
    for op in reversed(list(body.ops)):
        if not op.opdef.terminator and is_pure(op) and not any(v.uses for v in op.results):
            op.erase()


# ---------------------------------------------------------------------------------------------- branches


def narrow_branches(body: Block, around: Bounds) -> bool:
    """Branches inside others first. Says whether there were any."""
    changed = False
    for op in list(body.ops):
        if op.name == "form.cond" and SIZED not in op.attrs:
            for region in op.regions:
                changed |= narrow_branches(region.block, around)
            changed |= _narrow_branch(op, around)
    return changed


def _narrow_branch(op: Op, around: Bounds) -> bool:
    blocks = [region.block for region in op.regions]
    found = [_branch_place(op, number, around) or _branch_sum(op, number) for number in range(len(op.results))]
    if not any(found):
        return False
    for block in blocks:
        write = writer(Builder.before(block.terminator), {})
        for number, change in enumerate(found):
            if change is not None:
                block.terminator.set_operand(number, change.of(write, block.terminator.operands[number]))
    behind = Builder.before(op)
    op.regions = []
    types = [value.type for value in blocks[0].terminator.operands]
    made = behind.op(op.name, op.operands, types, op.attrs, blocks, [v.name for v in op.results])
    for old, new, change in zip(op.results, made.results, found, strict=True):
        old.replace_all_uses(new if change is None else change.made(writer(behind, {}), new))
    op.erase()
    for block in blocks:
        _drop_unused(block)
    return True


@dataclass(frozen=True)
class _Update:
    """Branches that change a tensor at one place, or leave it as it is."""

    base: Value
    place: Place

    def of(self, write: Writer, end: Value) -> Value:
        made = end.defining_op
        return cut(write, end, self.place) if end is self.base or made is None else made.operands[1]

    def made(self, write: Writer, new: Value) -> Value:
        return put(write, self.base, new, self.place)


@dataclass(frozen=True)
class _Sum:
    """Branches that add to a number, or leave it as it is."""

    base: Value

    def of(self, write: Writer, end: Value) -> Value:
        if end is self.base:
            return write.zeros(tensor_type(end))
        made = end.defining_op
        assert made is not None
        term = next(v for v in made.operands if v is not self.base)
        return write("neg", term) if made.name == "graph.sub" else term

    def made(self, write: Writer, new: Value) -> Value:
        return write("add", self.base, new)


def _branch_place(op: Op, number: int, around: Bounds) -> _Update | None:
    """The tensor of which both branches give a version, and the place where they differ from it."""
    ends = [region.block.terminator.operands[number] for region in op.regions]
    bases = [_base(end, region.block) for end, region in zip(ends, op.regions, strict=True)]
    if bases[0] is not bases[1] or ends[0] is ends[1]:
        return None
    chains = [chain for end in ends if (chain := chain_to(end, bases[0])) is not None]
    place = only_place([made for chain in chains for made in chain.inserts])
    if place is None or set(place.sizes) != {ONE}:
        return None  # what is large would be copied where the branch leaves it as it is
    return _Update(bases[0], place) if around.holds(place, tensor_type(bases[0]).dims) else None


def _branch_sum(op: Op, number: int) -> _Sum | None:
    """The number that one branch adds to, and the other one gives."""
    ends = [region.block.terminator.operands[number] for region in op.regions]
    blocks = [region.block for region in op.regions]
    for end, base, block in zip(ends, reversed(ends), blocks, strict=True):
        made = end.defining_op
        if made is None or made.parent is not block or made.name not in ("graph.add", "graph.sub"):
            continue
        position = next((i for i, v in enumerate(made.operands) if v is base), None)
        alone = made.operands[0] is not made.operands[1] and len(end.uses) == 1
        if position is not None and (position == 0 or made.name == "graph.add") and alone and end.type == base.type:
            return (
                _Sum(base)
                if set(tensor_type(end).dims) <= {ONE} and made.operands[1 - position].type == end.type
                else None
            )
    return None


def _base(value: Value, block: Block) -> Value:
    """What the updates of a branch begin with."""
    while (made := value.defining_op) is not None and made.name == INSERT and made.parent is block:
        value = made.operands[0]
    return value
