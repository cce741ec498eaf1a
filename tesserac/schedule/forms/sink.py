"""Views of what a loop carries move behind the updates of them, where they meet the views that undo them.

    %q = form.view(%carried) {reshape};  %r = form.assemble(%q, %row);  form.yield(form.view(%r) {reshape})
becomes
    %r = form.assemble(%carried, form.view(%row) {reshape});  form.yield(%r)

Enters: a function of forms. Leaves: the same function, in place, without views that change nothing, and without the
copies that an update of a view needs: a tensor is changed in place where it lies (`updates.py`), and a view of it lies
nowhere. Only what a loop carries is worth it; elsewhere one copy is as good as another.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Permute, Renamed, Reshape, Slice, operand_maps, tensor_type
from tesserac.ir.indexed import assembled_boxes, covers_all, gather_source
from tesserac.ir.passes import FORMS, function_pass
from tesserac.ir.types import TensorType
from tesserac.schedule.model.access import Dims, is_view, keeps_memory, reshape_runs
from tesserac.types.dims import ONE, ZERO, Dim, product

LOOPS = ("form.loop", "form.while")
UPDATES = ("form.assemble", "form.scatter")
Box = tuple[list[Dim], list[int], list[Dim]]
"""Starts, steps and sizes, one of each per dim."""


@function_pass(FORMS, FORMS, "sink_views")
def sink_views(func: Op) -> None:
    for op in [inner for inner in func.walk() if inner.name == "form.view" or inner.name in UPDATES]:
        if op.name == "form.view":
            _simplify(op)
        elif (same := _same_as(op)) is not None:
            op.result.replace_all_uses(same)
            op.erase()
        elif _is_carried(op.operands[0]):
            _sink(op)


# --- views that change nothing --------------------------------------------------------------------------------------


def _simplify(view: Op) -> None:
    """A view of a view of one kind is one, and one that shows what is there is none."""
    below = view.operands[0].defining_op
    if below is not None and is_view(below):
        match below.attrs["view"], view.attrs["view"]:
            case Reshape() as first_kind, Reshape() as second_kind if first_kind == second_kind:
                view.set_operand(0, below.operands[0])
            case Permute(first), Permute(second):
                view.attrs["view"] = Permute(tuple(first[axis] for axis in second))
                view.set_operand(0, below.operands[0])
    if _shows_all(view):
        view.result.replace_all_uses(view.operands[0])
        view.erase()


def _shows_all(view: Op) -> bool:
    source, result = tensor_type(view.operands[0]), tensor_type(view.result)
    match view.attrs["view"]:
        case Permute(order):
            return order == tuple(range(len(order)))
        case Reshape():
            return source == result
        case Slice(starts, steps):
            return source == result and set(starts) <= {ZERO} and set(steps) <= {1}
    return False


def _same_as(update: Op) -> Value | None:
    """What an update gives that puts back what stands there, or replaces everything."""
    if update.name != "form.assemble" or len(update.operands) != 2 or not covers_all(update):
        return None
    (old, part), box = update.operands, assembled_boxes(update)[1]
    if part.type == update.result.type and set(box.starts) <= {ZERO} and set(box.steps) <= {1}:
        return part
    view = part.defining_op
    back = view is not None and is_view(view) and view.operands[0] is old and view.attrs["view"] == box
    return old if back else None


# --- updates of views -----------------------------------------------------------------------------------------------


def _is_carried(value: Value) -> bool:
    """Whether a value is, below views and updates, what a loop carries."""
    seen = False
    while (made := value.defining_op) is not None and (is_view(made) or made.name in UPDATES):
        seen = seen or is_view(made)
        value = made.operands[0]
    block = value.owner if made is None else None
    around = getattr(block, "parent_op", None)
    return seen and around is not None and around.name in LOOPS


def _sink(update: Op) -> None:
    """Has an update change what a view shows, and the view show what that gives."""
    while (view := update.operands[0].defining_op) is not None and is_view(view):
        builder, shown = Builder.before(update), update.operands[0]
        make = _assembled if update.name == "form.assemble" else _scattered
        changed = make(builder, update, view)
        if changed is None:
            return
        ty, attrs = update.result.type, dict(view.attrs)
        back = builder.op("form.view", (changed.result,), (ty,), attrs, (), (update.result.name,))
        update.result.replace_all_uses(back.result)
        update.erase()
        if not shown.uses:
            view.erase()
        update = changed


def _assembled(builder: Builder, update: Op, view: Op) -> Op | None:
    if not covers_all(update) or len(update.operands) != 2:
        return None
    box, part = assembled_boxes(update)[1], update.operands[1]
    given: Box = (list(box.starts), list(box.steps), list(tensor_type(part).dims))
    found = _box_below(view, given)
    if found is None:
        return None
    starts, steps, sizes = found
    inner = _shown_below(builder, part, view, tuple(sizes))
    source = tensor_type(view.operands[0])
    boxes = (Slice((ZERO,) * source.rank, (1,) * source.rank), Slice(tuple(starts), tuple(steps)))
    names = (update.result.name,)
    return builder.op("form.assemble", (view.operands[0], inner), (source,), {"boxes": boxes}, (), names)


def _shown_below(builder: Builder, part: Value, view: Op, dims: Dims) -> Value:
    """A part as it is where the view does not show it."""
    ty, kind = tensor_type(part), view.attrs["view"]
    back = Permute(_inverse(kind.order)) if isinstance(kind, Permute) else Reshape()
    return builder.value("form.view", (part,), TensorType(dims, ty.dtype, ty.policy), {"view": back})


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(axis) for axis in range(len(order)))


def _box_below(view: Op, box: Box) -> Box | None:
    """The box of the operand of a view that is `box` of its result."""
    kind, source = view.attrs["view"], tensor_type(view.operands[0]).dims
    if isinstance(kind, Permute):
        inverse = _inverse(kind.order)
        return [box[0][i] for i in inverse], [box[1][i] for i in inverse], [box[2][i] for i in inverse]
    if isinstance(kind, Renamed):
        return box
    if not keeps_memory(view):
        return None
    result = tensor_type(view.result).dims
    runs = reshape_runs(source, result)
    found: Box = [ZERO] * len(source), [1] * len(source), list(source)
    for taken, given in runs or ():
        if not _run_below(box, found, (taken, given), result):
            return None
    return None if runs is None else found


def _run_below(box: Box, found: Box, run: tuple[list[int], list[int]], result: Dims) -> bool:
    """Neighbouring dims that make others: all of them, or one for one, or blocks of the one that was split."""
    taken, given = run
    full = all(box[0][i] == ZERO and box[1][i] == 1 and box[2][i] == result[i] for i in given[len(taken) == 1 :])
    first = given[0]
    if len(taken) > 1:
        return full
    if not full or (len(given) > 1 and box[1][first] != 1 and box[2][first] != ONE):
        return False
    rest = product([result[i] for i in given[1:]])
    found[0][taken[0]], found[2][taken[0]] = box[0][first] * rest, box[2][first] * rest
    found[1][taken[0]] = box[1][first] if len(given) == 1 else 1
    return True


def _scattered(builder: Builder, update: Op, view: Op) -> Op | None:
    """The dims of what is changed, and the indices that name them, in the order that the operand of the view has."""
    followed, maps, source = gather_source(update), operand_maps(update), view.operands[0]
    below = _dims_below(view, followed)
    if below is None:
        return None
    named = [dim for dim, place in enumerate(followed) if place is None]
    order = [named.index(dim) for dim in below if dim in named]
    new = update.operands[1]
    rank, units = tensor_type(new).rank, below.count(None)
    if units:
        ty = tensor_type(new)
        wide = TensorType((*ty.dims, *(ONE,) * units), ty.dtype, ty.policy)
        new = builder.value("form.view", (new,), wide, {"view": Reshape()})
    free = iter(range(rank, rank + units))
    places = tuple(next(free) if dim is None else followed[dim] for dim in below)
    attrs = {**update.attrs, "source": places, "maps": tuple(maps[number] for number in order)}
    operands = (source, new, *(update.operands[2 + number] for number in order))
    return builder.op("form.scatter", operands, (source.type,), attrs, (), (update.result.name,))


def _dims_below(view: Op, followed: Sequence[int | None]) -> list[int | None] | None:
    """For each dim of the operand of a view the dim of its result that it is; none for a unit that the view leaves out.
    A unit dim that an index names stays, since the index may be wrong."""
    kind = view.attrs["view"]
    if isinstance(kind, Permute):
        return list(_inverse(kind.order))
    if isinstance(kind, Renamed):
        return list(range(len(followed)))
    source, result = tensor_type(view.operands[0]).dims, tensor_type(view.result).dims
    named_unit = any(dim == ONE and place is None for dim, place in zip(result, followed, strict=True))
    left = [i for i, dim in enumerate(result) if dim != ONE]
    if named_unit or not keeps_memory(view) or [result[i] for i in left] != [dim for dim in source if dim != ONE]:
        return None
    real = iter(left)
    return [None if dim == ONE else next(real) for dim in source]
