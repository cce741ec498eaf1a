"""Views and maps: a view between two maps disappears, one behind a map moves to its operands.

    map(permute(x))                 -> map(x) with permuted index maps             `fold_views`
    permute(map(x))                 -> map(x) with a permuted space                `hoist_view`
    slice(map(x, y))                -> map(slice(x), slice(y))                     also of eye(M)[:K]
    map over [M, 1]                 -> reshape of a map over [M]                   `squeeze`
    reshape(map(x, s)), s a scalar  -> map(reshape(x), s)

A view that stays reads memory, where it costs nothing (`access.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Op, Value, attr, clone_region
from tesserac.ir.forms import (
    Broadcast,
    Permute,
    Renamed,
    Reshape,
    Slice,
    compute_type,
    indices,
    operand_maps,
    tensor_type,
)
from tesserac.ir.indexed import gather_source
from tesserac.ir.types import TensorType
from tesserac.schedule.model.access import Dims, can_reshape, is_view, reshape_runs, view_source
from tesserac.schedule.primitives.fuse import fuse, refusal
from tesserac.types.dims import ONE, ZERO

DimMap = tuple[int | None, ...]
Runs = list[tuple[list[int], list[int]]]


def copy_of(builder: Builder, value: Value) -> Op:
    """A map that copies, reading through the views that an index map can say."""
    ty = tensor_type(value)
    block = Block([compute_type(value)])
    Builder(block, builder.span).op("form.yield", block.args)
    copy = builder.op("form.map", (value,), (ty,), {"maps": (tuple(range(ty.rank)),)}, (block,), (value.name,))
    fold_views(copy)
    return copy


def permuted(builder: Builder, value: Value, order: tuple[int, ...]) -> Value:
    """`value` with dim i at place `order[i]`."""
    if order == tuple(range(len(order))):
        return value
    ty = tensor_type(value)
    inverse = tuple(order.index(i) for i in range(len(order)))
    result = TensorType(tuple(ty.dims[i] for i in inverse), ty.dtype, ty.policy)
    return builder.value("form.view", (value,), result, {"view": Permute(inverse)})


def is_copy(op: Op) -> bool:
    """Whether a map yields its operand as it is."""
    return len(op.operands) == 1 and op.body.terminator.operands[0] is op.body.args[0]


def fold_views(consumer: Op) -> None:
    """Makes a map read through permutations, broadcasts and unit dims by its index maps alone."""
    operands, maps = list(consumer.operands), list(operand_maps(consumer))
    for position in range(len(operands)):
        while (op := operands[position].defining_op) is not None and is_view(op):
            folded = through_view(op, maps[position])
            if folded is None:
                break
            operands[position], maps[position] = op.operands[0], folded
    consumer.set_operands(operands)
    consumer.attrs["maps"] = tuple(maps)


def through_view(op: Op, dim_map: DimMap) -> DimMap | None:
    """The index map of the view's operand, given that of its result; None for slices and real reshapes."""
    match op.attrs["view"]:
        case Permute(order):
            source: list[int | None] = [None] * len(order)
            for place, axis in zip(dim_map, order, strict=True):
                source[axis] = place
            return tuple(source)
        case Broadcast(places):
            return tuple(None if p is None else dim_map[p] for p in places)
        case Reshape():
            return _through_unit_dims(tensor_type(op.operands[0]).dims, tensor_type(op.result).dims, dim_map)
    return None


def _through_unit_dims(source: Dims, result: Dims, dim_map: DimMap) -> DimMap | None:
    if real_dims(source) != real_dims(result):
        return None
    places = iter([place for place, dim in zip(dim_map, result, strict=True) if dim != ONE])
    return tuple(None if dim == ONE else next(places) for dim in source)


def real_dims(dims: Dims) -> Dims:
    """The dims that are not the literal 1."""
    return tuple(d for d in dims if d != ONE)


def squeeze(op: Op) -> None:
    """Takes the unit dims out of the space of a map or a reduction; a reshape gives them back to its readers."""
    source = tensor_type(op.operands[0] if op.name == "form.reduce" else op.result).dims
    axes = indices(op, "axes") if op.name == "form.reduce" else ()
    if ONE not in source or (axes and all(source[a] == ONE for a in axes)):
        return
    builder, ty = Builder.before(op), tensor_type(op.result)
    old_dims = ty.dims
    number = {axis: i for i, axis in enumerate(a for a, d in enumerate(source) if d != ONE)}
    if op.name == "form.reduce":
        op.set_operand(0, _view_of(builder, op.operands[0], real_dims(source), Reshape()))
        op.attrs["axes"] = tuple(number[a] for a in axes if a in number)
    else:
        op.attrs["maps"] = tuple(tuple(_renumbered(m, number)) for m in operand_maps(op))
        _renumber_positions(op, number)
    op.result.type = TensorType(real_dims(ty.dims), ty.dtype, ty.policy)
    if op.result.type.dims != old_dims:
        _give_back(op, ty)


def squeeze_gather(op: Op) -> None:
    """The same for a gather: unit dims of its result go, and those of its table that follow them."""
    ty, table = tensor_type(op.result), op.operands[0]
    number = {axis: i for i, axis in enumerate(a for a, d in enumerate(ty.dims) if d != ONE)}
    if len(number) == ty.rank:
        return
    kept = [
        (dim, place)
        for dim, place in zip(tensor_type(table).dims, gather_source(op), strict=True)
        if place is None or place in number
    ]
    op.set_operand(0, _view_of(Builder.before(op), table, tuple(dim for dim, _ in kept), Reshape()))
    op.attrs["source"] = tuple(_renumbered(tuple(place for _, place in kept), number))
    op.attrs["maps"] = tuple(tuple(_renumbered(m, number)) for m in operand_maps(op))
    op.result.type = TensorType(real_dims(ty.dims), ty.dtype, ty.policy)
    _give_back(op, ty)


def _renumbered(dim_map: DimMap, number: dict[int, int]) -> Iterator[int | None]:
    return (None if place is None else number.get(place) for place in dim_map)


def _renumber_positions(op: Op, number: dict[int, int]) -> None:
    for inner in list(op.body.ops):
        axis = inner.attrs.get("axis")
        if inner.name == "scalar.index" and isinstance(axis, int):
            replaced = Builder.before(inner)
            name, attrs = ("scalar.index", {"axis": number[axis]}) if axis in number else _ORIGIN
            inner.result.replace_all_uses(replaced.value(name, (), inner.result.type, attrs))
            inner.erase()


_ORIGIN: tuple[str, dict[str, int]] = ("scalar.constant", {"value": 0})


def _give_back(op: Op, ty: TensorType) -> None:
    """Behind `op`, a view of its result with all dims of `ty`, for everyone who reads it."""
    assert op.parent is not None
    uses = list(op.result.uses)
    view = Op(OPDEFS["form.view"], (op.result,), (ty,), {"view": Reshape()}, (), op.span, (op.result.name,))
    op.parent.insert(op.parent.place(op) + 1, view)
    for user, position in uses:
        user.set_operand(position, view.result)


def hoist_view(view: Op) -> Op | None:
    """A map that computes what `view` shows of the map it reads, if nothing else reads that map but views that show the
    same, which it replaces too. It never moves into a loop."""
    producer = view.operands[0].defining_op
    if producer is None or producer.name != "form.map":
        return None
    equals = _equal_views(view, producer)
    hoisted = _moved_over(equals[0], producer) if equals else None
    if hoisted is None:
        return None
    for equal in equals:
        equal.result.replace_all_uses(hoisted.result)
        equal.erase()
    if not producer.result.uses:
        producer.erase()
    _hoist_operands(hoisted)
    return hoisted


def _equal_views(view: Op, producer: Op) -> list[Op]:
    """All that read a map, the first of them first; none if one of them is in a loop, or shows another thing of it than
    `view`."""
    block, shown = producer.parent, (view.attrs.get("view"), view.result.type)
    users = list(dict.fromkeys(user for user, _ in producer.result.uses))
    for user in users:
        if user.parent is not block or not is_view(user) or (user.attrs["view"], user.result.type) != shown:
            return []
    assert block is not None
    return sorted(users, key=block.place) if len(users) > 1 else users


def _moved_over(view: Op, producer: Op) -> Op | None:
    source, result = _shapes(view)
    if real_dims(source) == real_dims(result) and not isinstance(view.attrs["view"], Permute | Slice):
        return None  # only unit dims come or go: every reader folds it
    match view.attrs["view"]:
        case Slice() as cut:
            return sliced_map(view, producer, cut)
        case Renamed():
            return _renamed_map(view, producer)
        case Reshape():
            return None if _reads_gathered(producer, set()) else _reshaped_map(view, producer)
    copy = copy_of(Builder.before(view), view.result)
    if copy.operands[0].owner is not producer or refusal(copy, producer) is not None:
        copy.erase()
        return None
    fuse(copy, producer)
    return copy


def _reads_gathered(op: Op, seen: set[Op]) -> bool:
    """Whether maps compute something of gathered elements, which go with them only in the space of the gather."""
    seen.add(op)
    made = [value.defining_op for value in op.operands if value.defining_op is not None]
    return any(
        inner.name == "form.gather" or (inner.name == "form.map" and inner not in seen and _reads_gathered(inner, seen))
        for inner in made
    )


def _shapes(view: Op) -> tuple[Dims, Dims]:
    return tensor_type(view.operands[0]).dims, tensor_type(view.result).dims


def uses_position(producer: Op) -> bool:
    return bool(_positions(producer))


def _positions(op: Op) -> set[int]:
    """The axes of which the body of a map asks where it is."""
    return {attr(inner, "axis", int) for inner in op.body.ops if inner.name == "scalar.index"}


def _rebuilt(view: Op, producer: Op, operands: Sequence[Value], maps: Sequence[DimMap]) -> Op:
    region = clone_region(producer.regions[0], {})
    builder = Builder.before(view)
    ty = view.result.type
    attrs = {"maps": tuple(maps)}
    rebuilt = builder.op("form.map", operands, (ty,), attrs, (region.block,), (view.result.name,))
    fold_views(rebuilt)
    return rebuilt


def sliced_map(view: Op, producer: Op, cut: Slice) -> Op | None:
    """A map of what `view` cuts out of the result of another; a map that asks where it is must be where it was."""
    if any((cut.starts[axis], cut.steps[axis]) != (ZERO, 1) for axis in _positions(producer)):
        return None
    result, builder = tensor_type(view.result).dims, Builder.before(view)
    operands: list[Value] = []
    for value, dim_map in zip(producer.operands, operand_maps(producer), strict=True):
        ty = tensor_type(value)
        dims = tuple(ONE if p is None else result[p] for p in dim_map)
        starts = tuple(ZERO if p is None else cut.starts[p] for p in dim_map)
        steps = tuple(1 if p is None else cut.steps[p] for p in dim_map)
        operands.append(_view_of(builder, value, dims, Slice(starts, steps)))
        assert ty.rank == len(dims)
    return _rebuilt(view, producer, operands, operand_maps(producer))


def _renamed_map(view: Op, producer: Op) -> Op:
    result, builder = tensor_type(view.result).dims, Builder.before(view)
    operands: list[Value] = []
    for value, dim_map in zip(producer.operands, operand_maps(producer), strict=True):
        own = tensor_type(value).dims
        dims = tuple(dim if p is None else result[p] for p, dim in zip(dim_map, own, strict=True))
        operands.append(_view_of(builder, value, dims, Renamed()))
    return _rebuilt(view, producer, operands, operand_maps(producer))


def _view_of(builder: Builder, value: Value, dims: Dims, view: Slice | Reshape) -> Value:
    ty, source = tensor_type(value), value.defining_op
    cuts = isinstance(view, Slice) and not (set(view.starts) <= {ZERO} and set(view.steps) <= {1})
    if dims == ty.dims and not cuts:
        return value
    same_kind = source is not None and is_view(source) and source.attrs["view"] == view
    if same_kind and isinstance(view, Reshape):
        assert source is not None
        return _view_of(builder, source.operands[0], dims, view)  # a reshape of a reshape is one
    type_ = TensorType(dims, ty.dtype, ty.policy)
    return builder.value("form.view", (value,), type_, {"view": view}, hint=value.name)


def _reshaped_map(view: Op, producer: Op) -> Op | None:
    """Each operand must follow whole runs of the reshape, in order, or none of a run."""
    source, result = _shapes(view)
    runs = reshape_runs(source, result)
    number = _kept_dims(runs or [])
    if runs is None or not _positions(producer) <= number.keys():
        return None
    moved = _reshaped_operands(view, producer, result, runs)
    if moved is None:
        return None
    rebuilt = _rebuilt(view, producer, *moved)
    _renumber_positions(rebuilt, number)
    return rebuilt


def _kept_dims(runs: Runs) -> dict[int, int]:
    """The dims that a reshape leaves as they are, and where they are afterwards."""
    return {taken[0]: given[0] for taken, given in runs if len(taken) == len(given) == 1}


def _reshaped_operands(before: Op, op: Op, space: Dims, runs: Runs) -> tuple[list[Value], list[DimMap]] | None:
    """The operands of a map as its new space wants them, and their index maps; None if one would need a copy."""
    plans = [_operand_plan(dim_map, runs) for dim_map in operand_maps(op)]
    maps = [plan for plan in plans if plan is not None]
    shapes = [tuple(space[i] for i in plan) for plan in maps]
    if len(maps) != len(plans) or not all(map(can_reshape, op.operands, shapes)):
        return None
    builder = Builder.before(before)
    views = [_view_of(builder, v, dims, Reshape()) for v, dims in zip(op.operands, shapes, strict=True)]
    return views, list(maps)


def respace(op: Op) -> None:
    """A map over a reshaped matrix product, or over such a map, becomes one over the product itself, so that it can
    follow it directly.

    map(reshape(c), bias) over [B, S, E]  ->  reshape(map(c, bias)) over [B*S, E]
    """
    ty = tensor_type(op.result)
    whole = tuple(range(ty.rank))
    pairs = zip(op.operands, operand_maps(op), strict=True)
    found = next((v for v, dims in pairs if _is_reshaped(v) and tuple(p for p in dims if p is not None) == whole), None)
    if found is None or found.defining_op is None:
        return
    source = tensor_type(found.defining_op.operands[0]).dims
    runs = reshape_runs(ty.dims, source) or []
    number = _kept_dims(runs)
    moved = _reshaped_operands(op, op, source, runs) if _positions(op) <= number.keys() and runs else None
    if moved is None:
        return
    _renumber_positions(op, number)
    op.set_operands(moved[0])
    op.attrs["maps"] = tuple(moved[1])
    op.result.type = TensorType(source, ty.dtype, ty.policy)
    _give_back(op, ty)
    _hoist_operands(op)
    squeeze(op)


def _hoist_operands(op: Op) -> None:
    """Moves the views that a map reads over the maps that made what they show."""
    for value in dict.fromkeys(op.operands):
        view = value.defining_op
        if view is not None and view.parent is not None and is_view(view):  # it may have gone with one before
            hoist_view(view)
    fold_views(op)


def respace_reduce(op: Op) -> None:
    """The same for a reduction along a dim that the reshape leaves as it is: the sequences that are folded stay, and
    maps of the product and of its sums have one space, so that they can be one launch.

    reduce(reshape(c)) over the last of [B, S, E]  ->  reshape(reduce(c)) over the last of [B*S, E]
    """
    base, views = view_source(op.operands[0])
    if all(isinstance(v.attrs["view"], Reshape) for v in views) and base.type == op.operands[0].type:
        op.set_operand(0, base)  # reshapes that undo each other
    view = op.operands[0].defining_op
    if view is None or not _is_reshaped(op.operands[0]):
        return
    (source, result), (axis,), ty = _shapes(view), indices(op, "axes"), tensor_type(op.result)
    kept = next((taken for taken, given in reshape_runs(source, result) or () if given == [axis]), [])
    if len(kept) != 1 or ONE in source or ONE in result:
        return
    op.set_operand(0, view.operands[0])
    op.attrs["axes"] = tuple(kept)
    op.result.type = TensorType((*source[: kept[0]], *source[kept[0] + 1 :]), ty.dtype, ty.policy)
    _give_back(op, ty)


def _is_reshaped(value: Value) -> bool:
    view = value.defining_op
    if view is None or not is_view(view) or not isinstance(view.attrs["view"], Reshape):
        return False
    made = view.operands[0].defining_op
    return made is not None and made.name in ("form.contract", "form.map", "form.reduce")


def _operand_plan(dim_map: DimMap, runs: Runs) -> tuple[int, ...] | None:
    """The result dims that an operand has after the reshape; None if it follows a part of a run."""
    followed = [p for p in dim_map if p is not None]
    plan: list[int] = []
    for taken, given in runs:
        part = [p for p in followed if p in taken]
        if part and part != taken:
            return None
        plan.extend(given if part else ())
    covered = [i for taken, _ in runs for i in taken]
    in_order = followed == sorted(followed) and all(p in covered for p in followed)
    return tuple(plan) if in_order else None
