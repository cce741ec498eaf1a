"""Decides what runs together: which maps are recomputed inside their readers, and which forms make up one launch.

Enters: a block of forms in normal form. Leaves: groups in the order in which they run, each a launch to be.

A form joins the group of its latest producer, if that group can take it; so a group never depends on a later one.
    map       takes maps and gathers that see its values element by element
    rows      begins with a reduction; takes maps over its rows, with or without the folded axes, and reductions over
              the same axes: softmax and layernorm are one launch
    contract  begins with a contraction; takes the maps over its result
    pack      one map that lays an operand of a contraction out; alone
    scatter   one form that replaces elements of memory; alone
    scan      running folds along an axis; alone
    sort      the order of elements along an axis; alone
    runs      folds of runs of elements that the run names; alone
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import contract_dims, indices, operand_maps, tensor_type
from tesserac.ir.indexed import gather_source
from tesserac.schedule.access import Dims, is_view, view_source
from tesserac.schedule.cost import body_work, recompute_pays
from tesserac.schedule.machine import Machine
from tesserac.schedule.normal import COMPUTED, CONTROL, WRITTEN
from tesserac.schedule.primitives.fuse import fuse, refusal
from tesserac.types.dims import ONE

Place = tuple[int, ...]

MAX_BODY = 256
"""Operations of one fused body; beyond that its values no longer stay in registers."""
MAX_GROUP = 64
ALONE = ("pack", "scatter", "scan", "sort", "runs")
"""Kinds of groups that take nothing."""


@dataclass
class Group:
    """The forms of one launch, with the axis of the common space that each dim of each result follows."""

    kind: str
    space: Dims
    folded: Place
    ops: list[Op]
    places: dict[Op, Place]
    reasons: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, op: Op) -> Group:
        """The group that one form begins."""
        if op.name == "form.contract":
            sizes = contract_dims(op)
            space, out = tuple(sizes[i] for i in range(len(sizes))), indices(op, "out")
            return cls("contract", space, _without(len(space), out), [op], {op: out})
        if op.name == "form.reduce":
            space, axes = tensor_type(op.operands[0]).dims, indices(op, "axes")
            return cls("rows", space, axes, [op], {op: _without(len(space), axes)})
        if op.name in ("form.scan", "form.sort"):
            space, axis = tensor_type(op.result).dims, op.attrs["axis"]
            assert isinstance(axis, int)
            return cls(op.name.removeprefix("form."), space, (axis,), [op], {op: tuple(range(len(space)))})
        if op.name == "form.scatter":
            space, followed = tensor_type(op.operands[1]).dims, _followed(op)
            return cls("scatter", space, _without(len(space), followed), [op], {op: followed})
        space, kind = tensor_type(op.result).dims, "pack" if "layout" in op.attrs else "map"
        kind = "runs" if op.name == "form.runs" else kind
        return cls(kind, space, (), [op], {op: tuple(range(len(space)))})

    @property
    def rows(self) -> frozenset[int]:
        return frozenset(range(len(self.space))) - set(self.folded)

    @property
    def units(self) -> frozenset[int]:
        return frozenset(i for i, d in enumerate(self.space) if d == ONE)


def fuse_maps(block: Block, machine: Machine) -> dict[Op, list[str]]:
    """Inlines maps into the maps that read them, where that is cheaper than memory. Returns why, per reader."""
    reasons: dict[Op, list[str]] = {}
    for producer in list(block.ops):
        if producer.name != "form.map":
            continue
        consumers = _reading_maps(producer)
        kept_anyway = any(user not in consumers for user, _ in producer.result.uses)
        if not consumers or not recompute_pays(producer, consumers, kept_anyway, machine):
            continue
        for consumer in consumers:
            fuse(consumer, producer)
            why = f"computes %{producer.result.name or 'map'} itself ({body_work(producer)} operations)"
            reasons.setdefault(consumer, []).extend([*reasons.get(producer, []), why])
        if not producer.result.uses:
            producer.erase()
    return reasons


def _reading_maps(producer: Op) -> list[Op]:
    """The maps of the same block that may take the producer in."""
    users = list(dict.fromkeys(user for user, _ in producer.result.uses))
    size = len(producer.body.ops)
    return [
        user
        for user in users
        if user.name == "form.map"
        and user.parent is producer.parent
        and len(user.body.ops) + size <= MAX_BODY
        and refusal(user, producer) is None
    ]


def plan(block: Block, reasons: dict[Op, list[str]], apart: Collection[Op]) -> list[Group | Op]:
    """The computing forms of a block as launches to be, and its control flow, in the order in which they run. Those
    that stand `apart` share their launch with nothing."""
    steps: list[Group | Op] = []
    grouping = _Grouping(apart)
    for op in block.ops:
        if op.name in COMPUTED:
            group = grouping.take(op)
            group.reasons.extend(reasons.get(op, []))
        elif op.name == "form.assemble":
            grouping.assemble(op)
        elif op.name == "form.scatter":
            grouping.begin(op)
        elif op.name in CONTROL:
            steps.extend([*grouping.groups, op])
            grouping = _Grouping(apart)  # what follows may depend on it, hence joins nothing that ran before
    return [*steps, *grouping.groups]


class _Grouping:
    def __init__(self, apart: Collection[Op]) -> None:
        self.apart = apart
        self.groups: list[Group] = []
        self.number: dict[Op | None, int] = {}

    def take(self, op: Op) -> Group:
        if "layout" in op.attrs or op in self.apart:
            return self.begin(op)
        earliest = self._behind_earlier_parts(op)
        for candidate in self._candidates(op):
            group = self.groups[candidate]
            if self._is_open(group) and candidate >= earliest and self._join(group, op, candidate):
                self.number[op] = candidate
                return group
        return self.begin(op)

    def _is_open(self, group: Group) -> bool:
        return group.kind not in ALONE and group.ops[0] not in self.apart

    def assemble(self, op: Op) -> None:
        """It is there when its last part is. The first may be older than this block."""
        self.number[op] = max(self.number.get(_made(v), -1) for v in op.operands)

    def _behind_earlier_parts(self, op: Op) -> int:
        """The first group that may write `op`, if it is a part of an assembled tensor: parts are written in order."""
        for user, position in _uses_below_views(op.result):
            if user.name == "form.assemble" and position:
                return 1 + self.number.get(_made(user.operands[position - 1]), -1)
        return 0

    def begin(self, op: Op) -> Group:
        self.number[op] = len(self.groups)
        self.groups.append(Group.of(op))
        return self.groups[-1]

    def _candidates(self, op: Op) -> list[int]:
        """The latest producer's group; without producers the last group, if it reads the same memory. What was
        assembled of older parts alone is in no group."""
        producers = [view_source(v)[0].defining_op for v in op.operands]
        numbers = [number for p in producers if (number := self.number.get(p, -1)) >= 0]
        if numbers:
            return [max(numbers)]
        if not self.groups or self.groups[-1].kind == "contract":
            return []
        shared = any(_reads(self.groups[-1], v) for v in op.operands)
        return [len(self.groups) - 1] if shared else []

    def _join(self, group: Group, op: Op, number: int) -> bool:
        if len(group.ops) >= MAX_GROUP or any(self._seen_through_view(v, number) for v in op.operands):
            return False
        if op.name == "form.gather" and self.number.get(_made(op.operands[0])) == number:
            return False  # it reads its table anywhere, hence also what other programs compute
        match op.name:
            case "form.map":
                return _join_map(group, op)
            case "form.gather":
                return group.kind != "contract" and _join_map(group, op)
            case "form.reduce":
                return _join_reduce(group, op)
        return False

    def _seen_through_view(self, value: Value, number: int) -> bool:
        """A view of a value of the group, or what it writes in parts, has elements that another program computes."""
        base, views = view_source(value)
        made = base.defining_op
        elsewhere = bool(views) or (made is not None and made.name in WRITTEN)
        return elsewhere and made is not None and self.number.get(made) == number


def _followed(scatter: Op) -> Place:
    """The dims of the new elements that the changed tensor follows."""
    return tuple(place for place in gather_source(scatter) if place is not None)


def _made(value: Value) -> Op | None:
    """What computes a value, below views."""
    return view_source(value)[0].defining_op


def _uses_below_views(value: Value) -> list[tuple[Op, int]]:
    """Who reads a value, directly or through views."""
    found: list[tuple[Op, int]] = []
    for user, position in value.uses:
        found.extend(_uses_below_views(user.result) if is_view(user) else [(user, position)])
    return found


def _reads(group: Group, value: Value) -> bool:
    return any(value in op.operands for op in group.ops)


def _without(rank: int, axes: Place) -> Place:
    return tuple(i for i in range(rank) if i not in axes)


def _join_reduce(group: Group, op: Op) -> bool:
    """A reduction joins maps over its operand's space, which become rows, or rows folded over the same axes."""
    operand, axes = op.operands[0].defining_op, indices(op, "axes")
    space = tensor_type(op.operands[0]).dims
    whole = tuple(range(len(space)))
    if operand in group.places and group.places[operand] != whole:
        return False
    fits = group.space == space and (group.kind == "map" or (group.kind == "rows" and group.folded == axes))
    if not fits or not all(_covers(group, group.places[inner], axes) for inner in group.ops):
        return False
    group.kind, group.folded = "rows", axes
    group.ops.append(op)
    group.places[op] = _without(len(space), axes)
    return True


def _covers(group: Group, place: Place, folded: Place) -> bool:
    """A value of a row group has all axes of the space, or all but the folded ones; unit axes do not count."""
    axes = frozenset(range(len(group.space)))
    present = set(place) | group.units
    return present == axes or present == (axes - set(folded)) | group.units


def _join_map(group: Group, op: Op) -> bool:
    place = _place_map(group, op)
    if place is None:
        return False
    if group.kind == "contract":
        if set(place) | group.units != group.rows | group.units:
            return False
    elif not _covers(group, place, group.folded):
        return False
    group.ops.append(op)
    group.places[op] = place
    return True


def _place_map(group: Group, op: Op) -> Place | None:
    """The axis of the space for each dim of a map's result, so that it meets the group's values element by element."""
    dims = tensor_type(op.result).dims
    place: list[int | None] = [None] * len(dims)
    followed = op.operands[1:] if op.name == "form.gather" else op.operands
    for value, dim_map in zip(followed, operand_maps(op), strict=True):
        made = value.defining_op
        if made not in group.places:
            continue
        for axis, target in zip(group.places[made], dim_map, strict=True):
            if target is None and group.space[axis] == ONE:
                continue
            if target is None or place[target] not in (None, axis):
                return None
            place[target] = axis
    return _complete(group, dims, place)


def _complete(group: Group, dims: Dims, place: list[int | None]) -> Place | None:
    """Dims that no value of the group fixes follow a free axis of the same size, a folded one only as the last resort:
    what follows it is computed in one more pass."""
    free = [a for a in range(len(group.space)) if a not in place and (group.kind != "contract" or a in group.rows)]
    free.sort(key=lambda a: a in group.folded)
    done: list[int] = []
    for dim, axis in zip(dims, place, strict=True):
        found = axis if axis is not None else next((a for a in free if group.space[a] == dim), None)
        if found is None:
            return None
        done.append(found)
        free = [a for a in free if a != found]
    return tuple(done) if len(set(done)) == len(done) else None
