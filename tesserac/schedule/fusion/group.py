"""The forms of one launch to be: which kind it is, the space it walks, and what may still join it.

Enters: forms in normal form, one after the other. Leaves: a `Group`, in which every value meets the others element by
element.

    map       takes maps and gathers that see its values element by element
    rows      begins with a reduction; takes maps over its rows, with or without the folded axes, and reductions over
              the same axes: softmax and layernorm are one launch
    contract  begins with a contraction; takes the sum over its first index, and the maps over its result
    pack      one map that lays an operand of a contraction out; alone
    scatter   one form that replaces elements of memory; alone
    scan      running folds along an axis; on a CPU with the maps over the same elements before and behind it
    sort      the order of elements along an axis; alone
    folds     folds of rows into places that integers say; alone
    runs      folds of runs of elements that the run names; on a GPU with the maps and gathers over the same elements
              behind it, and what scatters them
    lines     one form that computes on whole short lines; alone
    program   a tile program; alone
"""

from __future__ import annotations

from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.forms import contract_dims, indices, operand_maps, tensor_type
from tesserac.ir.indexed import IN_RUNS, gather_source, is_ordered_fold
from tesserac.ir.kernels import KERNEL, program_space
from tesserac.ir.lines import LINES, lines_space
from tesserac.schedule.costs.cost import form_work
from tesserac.schedule.model.access import Dims
from tesserac.types.dims import ONE

Place = tuple[int, ...]

ALONE = ("pack", "scatter", "sort", "folds", "lines", "program")
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
        if op.name == KERNEL:
            return cls("program", program_space(op), (), [op], {op: ()})
        if op.name == "form.reduce":
            space, axes = tensor_type(op.operands[0]).dims, indices(op, "axes")
            return cls("rows", space, axes, [op], {op: _without(len(space), axes)})
        if op.name in ("form.scan", "form.sort"):
            space, axis = tensor_type(op.result).dims, op.attrs["axis"]
            assert isinstance(axis, int)
            return cls(op.name.removeprefix("form."), space, (axis,), [op], {op: tuple(range(len(space)))})
        if op.name == "form.scatter":
            space, followed = tensor_type(op.operands[1]).dims, _followed(op)
            kind = "folds" if is_ordered_fold(op) else "scatter"
            ordered = () if IN_RUNS in op.attrs else _without(len(space), followed)
            return cls(kind, space, ordered, [op], {op: followed})
        if op.name == LINES:
            space = lines_space(op)
            return cls("lines", space, (), [op], {op: tuple(range(len(space)))})
        assert op.name != "form.accumulate", "it joins the contraction before it"
        space, kind = tensor_type(op.result).dims, "pack" if "layout" in op.attrs else "map"
        kind = "runs" if op.name == "form.runs" else kind
        return cls(kind, space, (), [op], {op: tuple(range(len(space)))})

    def work(self) -> int:
        """The work of one element, through all forms."""
        return sum(map(form_work, self.ops))

    @property
    def rows(self) -> frozenset[int]:
        return frozenset(range(len(self.space))) - set(self.folded)

    @property
    def units(self) -> frozenset[int]:
        return frozenset(i for i, d in enumerate(self.space) if d == ONE)


def join_accumulate(group: Group, op: Op) -> bool:
    """A sum over the first index of a contraction: a program takes its block through all of them, in order."""
    made = op.operands[1].defining_op
    if group.kind != "contract" or group.ops != [made]:
        return False
    iterations, *place = group.places[group.ops[0]]
    group.folded = (iterations, *group.folded)
    group.ops.append(op)
    group.places[op] = tuple(place)
    return True


def join_reduce(group: Group, op: Op) -> bool:
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


def join_scan(group: Group, op: Op) -> bool:
    """A running fold joins the maps that compute what it folds."""
    space, axis = tensor_type(op.result).dims, op.attrs["axis"]
    whole = tuple(range(len(space)))
    fits = group.kind == "map" and group.space == space and op.operands[0].defining_op in group.places
    if not fits or any(inner.name != "form.map" or group.places[inner] != whole for inner in group.ops):
        return False
    assert isinstance(axis, int)
    group.kind, group.folded = "scan", (axis,)
    group.ops.append(op)
    group.places[op] = whole
    return True


def _covers(group: Group, place: Place, folded: Place) -> bool:
    """A value of a row group has all axes of the space, or all but the folded ones; unit axes do not count."""
    axes = frozenset(range(len(group.space)))
    present = set(place) | group.units
    return present == axes or present == (axes - set(folded)) | group.units


def join_scatter(group: Group, op: Op) -> bool:
    """A scatter of runs joins what computes its rows, one program a row."""
    made, whole = op.operands[1].defining_op, tuple(range(len(group.space)))
    if IN_RUNS not in op.attrs or group.kind != "runs" or made is None or group.places.get(made) != whole:
        return False
    group.ops.append(op)
    group.places[op] = _followed(op)
    return True


def join_map(group: Group, op: Op) -> bool:
    place = _place_map(group, op)
    if place is None:
        return False
    if group.kind == "contract":
        if set(place) | group.units != group.rows | group.units:
            return False
    elif group.kind == "scan":
        if place != tuple(range(len(group.space))):
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


def _followed(scatter: Op) -> Place:
    """The dims of the new elements that the changed tensor follows."""
    return tuple(place for place in gather_source(scatter) if place is not None)


def _without(rank: int, axes: Place) -> Place:
    return tuple(i for i in range(rank) if i not in axes)
