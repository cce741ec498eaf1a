"""Decides which forms make up one launch.

Enters: a block of forms after fusion, and which updates of it work in place. Leaves: groups in the order in which they
run, each a launch to be.

A form joins the group of its latest producer, if that group can take it; so a group never depends on a later one. One
that is written in place may join a later group instead: see Note [Parts in company].
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.boxes import Box, never_meet
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import indices, tensor_type
from tesserac.ir.indexed import assembled_boxes
from tesserac.ir.kernels import KERNEL
from tesserac.ir.lines import LINES
from tesserac.schedule.costs.cost import MAX_WORK, apart_pays, form_work
from tesserac.schedule.forms.normal import COMPUTED, CONTROL, WRITTEN
from tesserac.schedule.forms.updates import Updates, box_in
from tesserac.schedule.fusion.group import ALONE, Group, join_accumulate, join_map, join_reduce, join_scan, join_scatter
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import is_view, view_source
from tesserac.types.dims import product

MAX_GROUP = 64
SHORT_MAP = 8
"""Operations on an element that take less time than to write and read it."""


def plan(block: Block, reasons: dict[Op, list[str]], updates: Updates, machine: Machine) -> list[Group | Op]:
    """The computing forms of a block as launches to be, and its control flow, in the order in which they run."""
    steps: list[Group | Op] = []
    grouping = _Grouping(updates, machine)
    for op in block.ops:
        if op.name in COMPUTED:
            group = grouping.take(op)
            group.reasons.extend(reasons.get(op, []))
        elif op.name == "form.assemble":
            grouping.assemble(op)
        elif op.name == "form.scatter":
            grouping.scatter(op)
        elif op.name == KERNEL:
            grouping.begin(op)
        elif op.name in CONTROL:
            steps.extend([*grouping.groups, op])
            grouping = _Grouping(updates, machine)  # what follows may depend on it, hence joins nothing that ran before
    return [*steps, *grouping.groups]


class _Grouping:
    def __init__(self, updates: Updates, machine: Machine) -> None:
        self.updates, self.machine = updates, machine
        self.groups: list[Group] = []
        self.number: dict[Op | None, int] = {}
        self.overwritten: list[set[Value]] = []
        """Per group the memory, as the first value in it, of which it writes a part in place."""
        self.last_read: dict[Value, int] = {}
        """Per memory the last group that reads it."""

    def take(self, op: Op) -> Group:
        if "layout" in op.attrs or op.name == LINES:
            return self.begin(op)
        earliest = self._earliest(op)
        for number in self._candidates(op):
            if number >= earliest and self._is_open(number, op) and self._join(self.groups[number], op, number):
                return self._enter(op, number)
        return self.begin(op)

    def begin(self, op: Op) -> Group:
        self.groups.append(Group.of(op))
        self.overwritten.append(set())
        return self._enter(op, len(self.groups) - 1)

    def scatter(self, op: Op) -> Group:
        """It joins what computes its rows, which then waits until what it changes is there."""
        number = self.number.get(_made(op.operands[1]), -1)
        is_open = number >= 0 and self._is_open(number, op) and self._may_wait(number)
        if not is_open or self._reads_elsewhere(number, op):
            return self.begin(op)
        if not join_scatter(self.groups[number], op):
            return self.begin(op)
        self._move_to_end(number)
        return self._enter(op, len(self.groups) - 1)

    def _may_wait(self, number: int) -> bool:
        """Whether all later groups are maps that need nothing of a group and write over nothing."""
        own = self.groups[number].places
        later = self.groups[number + 1 :]
        read = [v for group in later for op in group.ops for v in op.operands]
        apart = not any(self.overwritten[number:]) and all(_made(v) not in own for v in read)
        return apart and all(group.kind == "map" for group in later)

    def _reads_elsewhere(self, number: int, scatter: Op) -> bool:
        """Whether a group reads of the memory that a scatter changes what another of its programs may change."""
        memory = self._memory(scatter.operands[0])
        readers = [op for op in self.groups[number].ops if any(self._memory(v) is memory for v in op.operands)]
        return not all(_is_same_place(op, scatter) for op in readers)

    def _move_to_end(self, number: int) -> None:
        order = [*(n for n in range(len(self.groups)) if n != number), number]
        place = {old: new for new, old in enumerate(order)}
        self.groups = [self.groups[n] for n in order]
        self.overwritten = [self.overwritten[n] for n in order]
        self.number = {op: place.get(n, n) for op, n in self.number.items()}
        self.last_read = {memory: place[n] for memory, n in self.last_read.items()}

    def assemble(self, op: Op) -> None:
        """It is there when its last part is. The first may be older than this block."""
        self.number[op] = max(self.number.get(_made(v), -1) for v in op.operands)

    def _enter(self, op: Op, number: int) -> Group:
        self.number[op] = number
        for memory in self._memories(op):
            self.last_read[memory] = max(number, self.last_read.get(memory, number))
        if op in self.updates.parts:
            self.overwritten[number].add(self.updates.origin(self.updates.parts[op]))
            if len(self.groups[number].ops) > 1:
                self.groups[number].reasons.append("writes a part in place on the way")
        return self.groups[number]

    def _memories(self, op: Op) -> list[Value]:
        """The memory that a form reads."""
        return [self._memory(v) for v in op.operands]

    def _memory(self, value: Value) -> Value:
        return self.updates.origin(view_source(value)[0])

    # ---------------------------------------------------------------------------------------- which group, and when

    def _earliest(self, op: Op) -> int:
        """The first group that may write `op`, if it is a part of an assembled tensor: behind the parts that it lies
        over, and, in place, behind all that read the memory as it was."""
        behind = [-1]
        for user, position in _uses_below_views(op.result):
            if user.name == "form.assemble":
                behind.extend(self._behind(user, place, position) for place in range(position))
        old = self.updates.parts.get(op)
        if old is not None:
            behind.append(self._behind_readers(op, self.updates.origin(old)))
        return 1 + max(behind)

    def _behind_readers(self, op: Op, memory: Value) -> int:
        """The last group before a part of this memory may be written in place: the last one that reads it, or the one
        before that where all that it reads is proved to lie elsewhere."""
        number, part = self.last_read.get(memory, -1), self._part_box(op, memory)
        if number < 0 or part is None:
            return number
        read = [v for form in self.groups[number].ops for v in form.operands if self._memory(v) is memory]
        boxes = [box_in(v, memory) for v in read]
        dims = tensor_type(memory).dims
        return number - all(box is not None and never_meet(box, part, dims) for box in boxes)

    def _part_box(self, op: Op, memory: Value) -> Box | None:
        """Where a part that is written in place lies in its memory."""
        (user, position), *others = _uses_below_views(op.result)
        if others or self.updates.replaced.get(user) is not memory:
            return None
        return Box(assembled_boxes(user)[position], tensor_type(user.operands[position]).dims)

    def _behind(self, assemble: Op, before: int, position: int) -> int:
        """The last group before the one at `position` may be written: that of an earlier part, or the one before it
        where the two never meet."""
        number = self.number.get(_made(assemble.operands[before]), -1)
        boxes = [Box(s, tensor_type(v).dims) for s, v in zip(assembled_boxes(assemble), assemble.operands, strict=True)]
        return number - never_meet(boxes[before], boxes[position], tensor_type(assemble.result).dims)

    def _candidates(self, op: Op) -> Sequence[int]:
        """The latest producer's group, then the last one, if it reads the same memory. What was assembled of older
        parts alone is in no group. What is written in place may also go with any later map."""
        numbers = [number for v in op.operands if (number := self.number.get(_made(v), -1)) >= 0]
        latest = max(numbers, default=-1)
        if op in self.updates.parts:
            later = range(latest + 1, len(self.groups))
            return [*([latest] if numbers else []), *(n for n in later if self.groups[n].kind == "map")]
        last = len(self.groups) - 1
        beside = last > latest and self.groups[last].kind != "contract"
        shared = beside and (any(_reads(self.groups[last], v) for v in op.operands) or _meets(self.groups[last], op))
        return [*([latest] if numbers else []), *([last] if shared else [])]

    def _is_open(self, number: int, op: Op) -> bool:
        """Whether a group takes anything, and writes nothing in place that `op` would read."""
        group = self.groups[number]
        closed = group.kind in ALONE or group.ops[-1].name == "form.scatter"
        closed |= group.kind == "runs" and not self.machine.warps
        return not closed and self.overwritten[number].isdisjoint(self._memories(op))

    def _join(self, group: Group, op: Op, number: int) -> bool:
        if op.name == "form.accumulate":
            return join_accumulate(group, op)
        work = form_work(op)
        if len(group.ops) >= MAX_GROUP or (work and group.work() + work > MAX_WORK):
            return False
        if any(self._seen_through_view(v, number) for v in op.operands):
            return False
        if op.name == "form.gather" and self.number.get(_made(op.operands[0])) == number:
            return False  # it reads its table anywhere, hence also what other programs compute
        match op.name:
            case "form.map":
                return self._may_follow(group, op) and join_map(group, op)
            case "form.gather":
                return group.kind not in ("contract", "scan") and join_map(group, op)
            case "form.reduce":
                return self._may_fold(group, op) and join_reduce(group, op)
            case "form.scan":
                return self._may_scan(group, op) and join_scan(group, op)
        return False

    def _may_follow(self, group: Group, op: Op) -> bool:
        """Whether a map had better be part of a launch: see Note [Company on a GPU]."""
        first, *others = group.ops
        if group.kind == "scan":
            return self._may_scan(group, op)
        if group.kind == "contract":
            return not apart_pays(first, [*others, op], self.machine)
        beside = all(_made(v) not in group.places for v in op.operands)
        return not (beside and self.machine.warps and group.kind == "rows" and _folds_columns(group.folded, group))

    def _may_fold(self, group: Group, op: Op) -> bool:
        if not self.machine.warps or group.kind != "map" or not _folds_columns(indices(op, "axes"), group):
            return True
        users = [user for inner in group.ops for user, _ in inner.result.uses if user is not op]
        return all(user.name == "form.map" for user in users)

    def _may_scan(self, group: Group, op: Op) -> bool:
        """Whether maps had better be on the way of a running fold: a row is walked by one core of a CPU, so where rows
        may be few the maps are short."""
        axis = next(form for form in (*group.ops, op) if form.name == "form.scan").attrs["axis"]
        rows = product(dim for number, dim in enumerate(group.space) if number != axis).constant
        short = sum(form_work(form) for form in (*group.ops, op)) <= SHORT_MAP
        return not self.machine.warps and (short or rows is None or rows >= self.machine.cores)

    def _seen_through_view(self, value: Value, number: int) -> bool:
        """A view of a value of the group, or what it writes in parts, has elements that another program computes."""
        base, views = view_source(value)
        made = base.defining_op
        elsewhere = bool(views) or (made is not None and made.name in WRITTEN)
        return elsewhere and made is not None and self.number.get(made) == number


def _meets(group: Group, gather: Op) -> bool:
    """Whether what is gathered is read beside what a fold of runs gives."""
    if group.kind != "runs" or gather.name != "form.gather":
        return False
    return any(user.name == "form.map" and any(_made(v) in group.places for v in user.operands)
               for user, _ in gather.result.uses)  # fmt: skip


def _is_same_place(op: Op, scatter: Op) -> bool:
    """Whether each element reads where it is scattered to."""
    same = op.name == "form.gather" and op.operands[1:] == scatter.operands[2:]
    return same and (op.attrs["source"], op.attrs["maps"]) == (scatter.attrs["source"], scatter.attrs["maps"])


def _folds_columns(axes: Sequence[int], group: Group) -> bool:
    return bool(axes) and len(group.space) - 1 not in axes


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
    base = view_source(value)[0]
    return any(view_source(v)[0] is base for op in group.ops for v in op.operands)


# Note [Parts in company]
# A row that a loop pushes onto a stack is a part of the stack, written in place. Alone it would be a launch that copies
# a few numbers; a launch that walks the same space anyway writes it on the way, from registers where it has computed
# it. The order of all that touches the memory of the stack must stay: such a part goes into no group before one that
# reads the memory as it was, and into that one only where all that it reads is proved to lie elsewhere (`ir/boxes.py`),
# as of z[k + 4] = f(z[k]); nothing that reads it joins the group later; and of two parts the later may go over the
# earlier, so that they share a launch only where they are proved never to meet: then the parts of concat([a, b]) that
# walk the same space are one launch.

# Note [Company on a GPU]
# Maps behind a product in a matrix unit are computed by the few warps that have its sums, while the unit waits; much
# work, or much that they read and write, is faster in a launch of its own (`apart_pays`). A sum along columns is cut
# into parts that are programs, where nothing but sums leaves the launch: maps whose elements are written are then
# launches of their own, which walk memory as it lies, and the sum reads what they wrote.
