"""Updates in place: a tensor that is never read again gives its memory to the tensor that differs from it.

    %c = form.map(%x) {copy};  %y = form.scatter(%c, %v, %i)    ->    %y = form.scatter(%x, %v, %i), in %x's memory

Enters: a block of forms after fusion, and the values of outer blocks whose memory is the block's to overwrite (what a
loop carries). Leaves: the block without those copies, and `Updates`, which the host program obeys. The same holds for
form.assemble, whose first part is then the old tensor. An old value dies where all other operations that read it stand
before the update. One that stands behind it and reads a small part of it gets a copy of that part from before; another
is moved before the update, if it does not need what that gives.

What is put into the memory of the old tensor must not read it, in the same launch, where another element is put. So a
part that is written stands directly before the update, in a launch in which nothing else reads that part of the memory,
and one that reads other places of the old tensor, which may be places of the part, is computed first and then copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.ir.boxes import Box, never_meet
from tesserac.ir.builder import Builder
from tesserac.ir.calls import INVOKE
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import Reshape, Slice, operand_maps, tensor_type
from tesserac.ir.indexed import assembled_boxes, covers_all
from tesserac.ir.kernels import KERNEL
from tesserac.ir.rewrite import is_pure
from tesserac.schedule.forms.nested import nested_updates, work_on_part
from tesserac.schedule.forms.normal import COMPUTED, CONTROL, WRITTEN
from tesserac.schedule.forms.views import copy_of, is_copy, real_dims, squeeze
from tesserac.schedule.model.access import Access, contiguous, is_view, view_source
from tesserac.types.dims import ONE, product

FLOW = ("form.loop", "form.while", "form.cond")
HELD = (*FLOW, INVOKE)
"""Control flow and calls: their results have memory of their own before anything reads them."""


READ_LATER = "the tensor as it was is read behind the update"
OUTSIDE = "the loop does not carry the tensor, so that every iteration changes a copy of it"
RESULT = "it becomes a result, whose memory the caller gives"
VIEW = "what is changed is a view that has no memory of its own"


@dataclass(frozen=True)
class Inside:
    """A part lies at `place` in the memory of `old`, and is a part of what `whole` gives."""

    old: Value
    place: Access
    whole: Op


@dataclass(frozen=True)
class Copied:
    """Why a tensor is copied whole before a part of it is changed, or to be carried on; with the place in the program
    that is to blame, if there is one."""

    why: str
    file: str = ""
    start: int = 0
    end: int = 0


register_attribute("copied", Copied)


@dataclass
class Updates:
    """Which update takes the memory of which value, and the old tensors of the parts that are written in place."""

    replaced: dict[Op, Value] = field(default_factory=dict)
    update_of: dict[Value, Op] = field(default_factory=dict)
    parts: dict[Op, Value] = field(default_factory=dict)
    inside: dict[Op, Inside] = field(default_factory=dict)
    """Updates of a part of the tensor that another one changes."""
    copies: dict[Op, Copied] = field(default_factory=dict)
    """The maps that copy a tensor whole although only a part of it changes."""
    given: dict[Value, tuple[Op, int]] = field(default_factory=dict)
    """Arguments whose memory a result takes, with the end of the function and the position of that result."""

    def add(self, update: Op, old: Value) -> None:
        self.replaced[update] = old
        self.update_of[old] = update

    def origin(self, value: Value) -> Value:
        """The first of the values that share the memory."""
        while (made := value.defining_op) is not None and (made in self.replaced or made in self.inside):
            value = self.replaced[made] if made in self.replaced else self.inside[made].old
        return value


def plan_updates(block: Block, owned: Collection[Value], updates: Updates) -> None:
    """Finds the updates of a block that work in place, in order, and takes their copies out."""
    for op in list(block.ops):
        copy = copied_whole(op)
        if op.name in FLOW:
            _read_before(op, owned)
        if copy is None:
            _note_view(op, updates)
            continue
        refusal = _refusal(copy.operands[0], block, owned, updates, op) or _plan(op, copy, updates)
        if refusal is not None:
            updates.copies[copy] = refusal
    for op in list(block.ops):
        if op.name == "form.assemble" and op not in updates.replaced and covers_all(op):
            _squeeze_part(op.operands[0])


def _plan(update: Op, copy: Op, updates: Updates) -> Copied | None:
    """Has an update work in place, with those of its parts, if everyone else can read the old tensor before; else why
    not."""
    old = copy.operands[0]
    inner = nested_updates(update, old, contiguous(tensor_type(old).dims), updates.update_of)
    together = [*(nested.op for nested in inner), update]
    block = update.parent
    assert block is not None
    order = list(block.ops)
    _move_before(update, together[:-1])
    uses = _uses_behind(old, together[0], {copy, *(nested.taken for nested in inner)})
    large = [use[0] for use in uses if not _can_be_saved(use, update.parent) or _is_guarded(use, together[0])]
    first = _needed_first(together, large)
    if first is None:
        block.ops[:] = order  # what puts the parts back stands behind them
        span = large[0].span
        return Copied(READ_LATER, span.file, span.start, span.end)
    _move_before(together[0], first)
    _save(together[0], [use for use in uses if use[0] not in large and ancestor(use[0], update.parent) not in first])
    update.set_operand(0, old)
    copy.erase()
    for nested in reversed(inner):
        updates.inside[nested.op] = Inside(old, nested.place, nested.whole)
        work_on_part(nested)
    for op in together:
        _write_parts(op, old, updates)
    updates.add(update, old)
    return None


def _read_before(control: Op, owned: Collection[Value]) -> None:
    """Has small parts of a tensor that control flow may change in place be read before it."""
    block = control.parent
    assert block is not None
    for old in dict.fromkeys(passed_on(control)):
        if old not in owned and not is_local(old, block):
            continue
        uses = [use for use in _uses_behind(old, control, ()) if ancestor(use[0], block) is not control]
        if all(_can_be_saved(use, block) and not _is_guarded(use, control) for use in uses):
            _save(control, uses)


def passed_on(control: Op) -> Sequence[Value]:
    """The values whose memory control flow may take: what a loop begins with, and what the branches of a condition
    give on, changed or not, of what they find."""
    if control.name != "form.cond":
        return control.operands[len(control.operands) - len(control.results) :]
    ends = (region.block.terminator for region in control.regions)
    return [before_updates(value) for end in ends for value in end.operands]


def before_updates(value: Value) -> Value:
    """The value that a chain of updates began with."""
    while value.defining_op is not None and (copy := copied_whole(value.defining_op)) is not None:
        value = copy.operands[0]
    return value


def _note_view(update: Op, updates: Updates) -> None:
    """What is changed of a tensor by another order or number of its dims has no memory of its own."""
    copy = update.operands[0].defining_op if update.name in WRITTEN else None
    if update.name == "form.assemble" and not covers_all(update):
        return  # it is made of parts, and changes nothing
    if copy is not None and copy.name == "form.map" and is_copy(copy):
        updates.copies[copy] = Copied(VIEW)


def _squeeze_part(part: Value) -> None:
    if part.defining_op is not None and part.defining_op.name == "form.map":
        squeeze(part.defining_op)


# --- what may be overwritten ----------------------------------------------------------------------------------------


def copied_whole(update: Op) -> Op | None:
    """The map that copies the old tensor, and does nothing else, for an update of some of its elements."""
    copy = update.operands[0].defining_op if update.name in WRITTEN else None
    if copy is None or copy.name != "form.map" or not is_copy(copy) or len(copy.result.uses) != 1:
        return None
    ty = tensor_type(copy.result)
    if tensor_type(copy.operands[0]) != ty or operand_maps(copy)[0] != tuple(range(ty.rank)):
        return None
    if update.name == "form.assemble" and not covers_all(update):
        return None
    return None if is_view(copy.operands[0].defining_op) else copy


def _refusal(old: Value, block: Block, owned: Collection[Value], updates: Updates, update: Op) -> Copied | None:
    """Why the memory of a value is not this block's to overwrite. What has memory already cannot become a result of
    the function, whose memory the caller gives, but for the one that takes just that memory."""
    before = updates.update_of.get(old)
    if before is not None and before.parent is block:
        return Copied(READ_LATER, before.span.file, before.span.start, before.span.end)
    origin = updates.origin(old)
    first = origin.defining_op
    has_memory = origin in owned or (first is not None and first.name in HELD)
    home = updates.given.get(origin)
    if has_memory and any(use != home for use in update.result.uses if _leaves(*use)):
        return Copied(RESULT)
    return None if old in owned or is_local(old, block) else Copied(OUTSIDE)


def _leaves(user: Op, position: int) -> bool:
    """Whether a use, or one behind a view, takes the value out of the function."""
    if is_view(user):
        return any(_leaves(*use) for use in user.result.uses)
    return user.name not in _INSIDE


def is_local(value: Value, block: Block) -> bool:
    """Whether a value is computed in the block itself."""
    made = value.defining_op
    return made is not None and made.parent is block and made.name in (*COMPUTED, *WRITTEN, *HELD)


_INSIDE = frozenset((*COMPUTED, *WRITTEN, *CONTROL, KERNEL, "form.yield"))
"""Operations that read a value inside the function; any other takes it out."""


# --- who reads it later ---------------------------------------------------------------------------------------------


def readers(value: Value) -> Iterator[tuple[Op, int]]:
    """Operations that read a value, directly or through views, and as which operand. What is laid out for a product is
    read by the product: for few rows it takes the value as it is."""
    for user, position in list(value.uses):
        if is_view(user) or "layout" in user.attrs:
            yield from readers(user.result)
        else:
            yield user, position


def _uses_behind(old: Value, update: Op, copies: Collection[Op]) -> list[tuple[Op, int]]:
    """Reads of the old value that do not stand before the update; those in the update itself count."""
    block = update.parent
    assert block is not None
    number = {op: i for i, op in enumerate(block.ops)}
    found: list[tuple[Op, int]] = []
    for user, position in readers(old):
        around = ancestor(user, block)
        if user not in copies and around is not None and number[around] >= number[update]:
            found.append((user, position))
    return found


def ancestor(op: Op, block: Block | None) -> Op | None:
    """The operation of the block that `op` stands in."""
    inner: Op | None = op
    while inner is not None and inner.parent is not block:
        inner = inner.parent.parent_op if inner.parent is not None else None
    return inner


def _can_be_saved(use: tuple[Op, int], block: Block | None) -> bool:
    """Whether a later read needs so little that a copy of it from before costs less than one of everything: no part
    that only an iteration of a loop knows. What an update itself reads is walked by it anyway."""
    user, position = use
    value = user.operands[position]
    base, views = view_source(value)
    if user.name == "form.scatter":
        return position > 0
    return bool(views) and all(view.parent is block for view in views) and _is_smaller(value, base)


def _is_smaller(part: Value, whole: Value) -> bool:
    few, all_ = tensor_type(part).dims, tensor_type(whole).dims
    if product(few) == product(all_):
        return False  # the same elements by another number of dims
    sizes = product(few).constant, product(all_).constant
    if sizes[0] is not None:
        return sizes[1] is None or 2 * sizes[0] <= sizes[1]
    return len(real_dims(few)) < len(real_dims(all_))


def _is_guarded(use: tuple[Op, int], update: Op) -> bool:
    """Whether something between an update and a later view of the old tensor may end the call, so that the view may be
    one of places that are not there."""
    user, position = use
    block, views = update.parent, view_source(user.operands[position])[1]
    assert block is not None
    numbers = [block.ops.index(view) for view in views if view.parent is block]
    between = block.ops[block.ops.index(update) : max(numbers, default=0)]
    return not all(is_pure(op) for op in between)


def _needed_first(together: Sequence[Op], readers_behind: Sequence[Op]) -> list[Op] | None:
    """The operations that stand behind an update and may stand before it, so that all these readers do; None where one
    needs what the update gives, or does more than compute."""
    block = together[0].parent
    if not readers_behind:
        return []
    assert block is not None
    wanted = {around for user in readers_behind if (around := ancestor(user, block)) is not None}
    found: list[Op] = []
    for op in reversed(block.ops[block.ops.index(together[0]) :]):
        if (op in wanted and op in together) or ((found or op in wanted) and not is_pure(op)):
            return None  # nothing is read before what makes sure that it is there
        if op in wanted:
            found.append(op)
            wanted |= {made for inner in op.walk() for v in inner.operands if (made := v.defining_op) is not None}
    return found[::-1]


def _move_before(update: Op, ops: Sequence[Op]) -> None:
    block = update.parent
    assert block is not None
    for op in ops:
        op.detach()
        block.insert(block.ops.index(update), op)


# --- in place -------------------------------------------------------------------------------------------------------


def _save(update: Op, uses: Sequence[tuple[Op, int]]) -> None:
    """Has later reads read copies from before the update."""
    for user, position in uses:
        saved = copy_of(Builder.before(update), user.operands[position])
        user.set_operand(position, saved.result)
        squeeze(saved)


def _write_parts(update: Op, old: Value, updates: Updates) -> None:
    """Has the parts of an update be written where they belong."""
    if update.name != "form.assemble":
        return
    for position, box in enumerate(assembled_boxes(update)):
        made = view_source(update.operands[position])[0].defining_op
        if position and made not in updates.inside:
            written = _part(update, position, None if update in updates.inside else box, old, updates)
            updates.parts[written] = old


def _part(update: Op, position: int, box: Slice | None, old: Value, updates: Updates) -> Op:
    """The map that writes a part, directly before the update: the one there is, or a copy of what it gives where it
    reads memory that is overwritten before, or other places of the old tensor."""
    base, views = view_source(update.operands[position])
    part, block = base.defining_op, update.parent
    assert part is not None and block is not None, "the normal form computes every part"
    read = [(view_source(v)[0], v, m) for v, m in zip(part.operands, operand_maps(part), strict=True)]
    stale = any(source in updates.update_of for source, _, _ in read)
    written = None if box is None else Box(box, tensor_type(update.operands[position]).dims)
    own = [(v, m) for source, v, m in read if source is old]
    elsewhere = not all(_is_same_place(v, m, box, part) or _is_apart(v, written, old) for v, m in own)
    if stale or elsewhere or part in updates.parts or len(base.uses) != 1:
        copied = copy_of(Builder.before(update), update.operands[position])
        update.set_operand(position, copied.result)
        squeeze(copied)
        return copied
    for op in (part, *views):
        op.detach()
        block.insert(block.place(update), op)
    return part


def _is_apart(value: Value, written: Box | None, old: Value) -> bool:
    """Whether a value is read from a part of the old tensor of which nothing is written."""
    read = box_in(value, old)
    return read is not None and written is not None and never_meet(read, written, tensor_type(old).dims)


def box_in(value: Value, memory: Value) -> Box | None:
    """The part of a memory that a value shows, where it is a box of it."""
    base, views = view_source(value)
    place = views[0].attrs["view"] if views else None
    return Box(place, tensor_type(views[0].result).dims) if base is memory and isinstance(place, Slice) else None


def _is_same_place(value: Value, dim_map: tuple[int | None, ...], box: Slice | None, part: Op) -> bool:
    """Whether a map that writes a box of the old tensor reads it there, element by element, whatever dims of size 1 it
    leaves out; one that is put into a part of it has no box of its own."""
    _, views = view_source(value)
    dims, read = tensor_type(part.result).dims, tensor_type(value).dims
    named = tuple(axis for axis, size in zip(dim_map, read, strict=True) if axis is not None or size != ONE)
    if not views or views[0].attrs["view"] != box or named != tuple(range(len(dims))):
        return False
    renamed = all(isinstance(view.attrs["view"], Reshape) for view in views[1:])
    return renamed and real_dims(tensor_type(views[0].result).dims) == real_dims(dims)
