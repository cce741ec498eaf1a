"""The host program while it grows: buffers, launches, and where each tensor value lives.

Enters: groups of forms (`fuse.py`). Leaves: `schedule.launch` operations that walk their space one element at a time;
`auto.py` decides how they walk it, `memory.py` which buffers share memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.base.source import Span
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Value, clone_op
from tesserac.ir.forms import tensor_type
from tesserac.ir.indexed import assembled_boxes
from tesserac.ir.interleaved import parts_type
from tesserac.ir.types import MemRefType, TensorType
from tesserac.schedule.dialect import Loop, Units, memory
from tesserac.schedule.forms.normal import WRITTEN_ONCE
from tesserac.schedule.forms.updates import Copied, Updates
from tesserac.schedule.forms.views import copy_of
from tesserac.schedule.fusion.group import Group
from tesserac.schedule.host.frozen_operands import may_be_frozen
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import is_view, view_source
from tesserac.types.dims import ZERO, Dim

FIRST = ("schedule.guard", "schedule.buffer")
_ENDS = ("func.return", "form.complex")
"""What takes a value out of the function: it reads no memory."""

Out = tuple[Value, Value]
"""A value, perhaps a reshape of a computed one, and the memory it is written to."""


def memory_of(ty: TensorType, layout: str = "strided") -> MemRefType:
    return MemRefType(ty.dims, ty.dtype, ty.policy, layout=layout)


class HostProgram:
    """The program while it grows. `memory` tells where each tensor value lives, once it is written."""

    def __init__(self, block: Block, machine: Machine, span: Span) -> None:
        self.builder = Builder(block, span)
        self.machine = machine
        self.memory: dict[Value, Value] = {}
        self.results: dict[int, Value] = {}
        self.wanted: dict[Op, list[Out]] = {}
        self.placed: set[Value] = set()
        """Values that are written where they are carried on, and need no other memory for that."""
        self.ends: set[Block] = set()
        """Branches that an iteration goes to when no later one changes anything."""
        self.updates = Updates()
        self._top = block
        self._slots = 0
        self._first = 0
        """So many operations of the function are declarations, and stand together."""

    def buffer(self, ty: MemRefType, role: str, slot: int, hint: str) -> Value:
        """Memory of the call; buffers stand together before the first launch."""
        attrs = {"role": role, "slot": slot}
        op = Op(OPDEFS["schedule.buffer"], (), (ty,), attrs, (), self.builder.span, (hint,))
        while self._first < len(self._top.ops) and self._top.ops[self._first].name in FIRST:
            self._first += 1
        return self._top.insert(self._first, op).result

    def table(self, op: Op) -> Value:
        """Memory that the code brings along."""
        made = self.buffer(memory_of(tensor_type(op.result)), "constant", 0, op.result.name or "table")
        assert made.defining_op is not None
        made.defining_op.attrs["table"] = op.attrs["table"]
        return made

    def may_be_frozen(self, mem: Value, dims: Sequence[Dim]) -> bool:
        """Whether memory, of which so much is read, may be frozen in a call."""
        return may_be_frozen(mem, self._top, dims)

    def workspace(self, ty: TensorType, hint: str, layout: str = "strided") -> Value:
        self._slots += 1
        return self.buffer(memory_of(ty, layout), "workspace", self._slots - 1, hint)

    def take_results(self, terminator: Op) -> None:
        """One output per returned value; a form that computes several of them writes each."""
        for position, value in enumerate(terminator.operands):
            out = self.buffer(memory_of(tensor_type(value)), "output", position, value.name)
            self.results[position] = out
            if value.defining_op is not None and value.defining_op.name == "form.complex":
                value = value.defining_op.operands[0]
                out = self.parts(out, tensor_type(value))
            base, _ = view_source(value)
            assert base.defining_op is not None
            self.wanted.setdefault(base.defining_op, []).append((value, out))

    def place(self, made: Op, value: Value, mem: Value) -> None:
        """Has a value that a block yields be written to this memory."""
        self.wanted.setdefault(made, []).append((value, mem))
        self.memory[value] = mem
        self.placed.add(value)

    def share(self, position: int, argument: Value, terminator: Op) -> None:
        """Has a result take the memory of an argument."""
        made = self.results[position].defining_op
        assert made is not None
        made.attrs["of"] = argument.index
        self.updates.given[argument] = (terminator, position)

    def parts(self, numbers: Value, ty: TensorType) -> Value:
        """The memory of complex numbers, seen as their parts."""
        return self.builder.value("schedule.parts", (numbers,), memory_of(ty), hint=numbers.name)

    def launch(self, group: Group) -> Op:
        outs = [out for op in group.ops for out in self._outs(group, op)]
        ins = list(dict.fromkeys(base for op in group.ops for base in self._inputs(group, op)))
        block = Block([v.type for v in ins], [v.name for v in ins])
        mapping = dict(zip(ins, block.args, strict=True))
        places = self._fill(block, group, mapping, [value for value, _ in outs])
        memories = [*(self.memory[v] for v in ins), *(mem for _, mem in outs)]
        with self.builder.spanned(group.ops[-1].span):
            launch = self.builder.op("schedule.launch", memories, (), undecided(group, len(outs)), (block,))
        launch.attrs["places"] = tuple(places)
        for op in group.ops:
            if op in self.updates.copies:
                launch.attrs["copied"] = self.updates.copies[op]
        return launch

    def _inputs(self, group: Group, op: Op) -> list[Value]:
        bases = [view_source(v)[0] for v in op.operands]
        return [b for b in bases if b.defining_op is None or b.defining_op not in group.places]

    def _outs(self, group: Group, op: Op) -> list[Out]:
        """Where a value is written: to the results that are it, else to workspace if another launch reads it."""
        if op.name == "form.scatter":
            return [(op.result, self._written(op))]
        if op.name in WRITTEN_ONCE:
            return self._outs_once(group, op)
        if (update := self.updates.update_of.get(op.result)) is not None:
            self.memory[op.result] = self._written(update)
        return self._outs_of(group, op, op.result)

    def _outs_of(self, group: Group, op: Op, result: Value) -> list[Out]:
        outs = [(value, mem) for value, mem in self.wanted.get(op, []) if view_source(value)[0] is result]
        for value, mem in outs:
            if value is result:
                self.memory.setdefault(value, mem)
        if result not in self.memory and self._read_elsewhere(group, result):
            layout = op.attrs.get("layout", "strided")
            assert isinstance(layout, str)
            mem = self.workspace(tensor_type(result), result.name, layout)
            self.memory[result] = mem
            outs = [(result, mem), *outs]
        return [*outs, *self._boxes(result)]

    def _outs_once(self, group: Group, op: Op) -> list[Out]:
        """Each result of a form that writes it once; what else is to hold one is a copy."""
        outs: list[Out] = []
        for result in op.results:
            self._read_as_returned(group, op, result)
            found = self._outs_of(group, op, result)
            outs.append(found[0] if found else (result, self.workspace(tensor_type(result), result.name)))
            self.memory.setdefault(result, outs[-1][1])
        return outs

    def _read_as_returned(self, group: Group, op: Op, result: Value) -> None:
        """What is returned of such a form, seen through a view, is where others read it too."""
        seen = [(value, mem) for value, mem in self.wanted.get(op, []) if view_source(value)[0] is result]
        if seen and all(value is not result for value, _ in seen) and self._read_elsewhere(group, result):
            ty, mem = memory_of(tensor_type(result)), seen[0][1]
            self.memory[result] = self.builder.value("schedule.box", (mem,), ty, {"offset": ZERO}, hint=mem.name)

    def _read_elsewhere(self, group: Group, value: Value) -> bool:
        for user, position in value.uses:
            if is_view(user):
                if self._read_elsewhere(group, user.result):
                    return True
            elif user.name == "form.yield" and value in self.placed:
                continue
            elif user not in group.places and user.name not in _ENDS and not _writes(user, position):
                return True
        return False

    def _boxes(self, value: Value) -> list[Out]:
        """Where a value is a part of what several launches write."""
        found: list[Out] = []
        for user, position in value.uses:
            if is_view(user):
                found.extend(self._boxes(user.result))
            elif _writes(user, position):
                found.append((value, self._box(user, position)))
        return found

    def _box(self, assembled: Op, position: int) -> Value:
        """The memory of one part, inside that of the whole."""
        whole = self._written(assembled)
        if assembled.name == "form.scatter":
            return self.memory.setdefault(assembled.operands[0], whole)
        mem, box = memory(whole), assembled_boxes(assembled)[position]
        part = tensor_type(assembled.operands[position]).dims
        strides = tuple(stride * step for stride, step in zip(mem.strides, box.steps, strict=True))
        offset = sum((start * stride for start, stride in zip(box.starts, mem.strides, strict=True)), ZERO)
        ty = MemRefType(part, mem.dtype, mem.policy, strides)
        if offset == ZERO and ty == mem:
            return whole
        return self.builder.value("schedule.box", (whole,), ty, {"offset": offset}, hint=whole.name)

    def _written(self, op: Op) -> Value:
        """Memory for what several launches write."""
        if op.result not in self.memory:
            self.memory[op.result] = self._chosen(op)
        return self.memory[op.result]

    def _chosen(self, op: Op) -> Value:
        """That of the value it replaces, or of what replaces it later; else the result that it is, or workspace."""
        if op in self.updates.inside:
            return self._inside(op)
        old, later = self.updates.replaced.get(op), self.updates.update_of.get(op.result)
        if old is not None and old in self.memory:
            return self.memory[old]
        if later is not None:
            return self._written(later)
        given = [mem for value, mem in self.wanted.get(op, []) if value is op.result]
        return given[0] if given else self.workspace(tensor_type(op.result), op.result.name)

    def _inside(self, op: Op) -> Value:
        """The memory of a part that is changed in the memory of the whole tensor, which is then there."""
        inside, ty = self.updates.inside[op], tensor_type(op.result)
        whole = self.memory[inside.old]
        type_ = MemRefType(ty.dims, ty.dtype, ty.policy, inside.place.strides)
        self._written(inside.whole)
        return self.builder.value("schedule.box", (whole,), type_, {"offset": inside.place.offset}, hint=whole.name)

    def _fill(
        self, block: Block, group: Group, mapping: dict[Value, Value], yielded: Sequence[Value]
    ) -> list[tuple[int, ...]]:
        """The body of a launch: the views that its forms read through, the forms, and what it yields."""
        places: list[tuple[int, ...]] = []

        def add(op: Op, place: tuple[int, ...]) -> None:
            block.append(clone_op(op, mapping))
            places.append(place)

        def add_views(value: Value) -> None:
            for view in view_source(value)[1]:
                if view.result not in mapping:
                    add(view, ())

        for op in group.ops:
            for value in op.operands:
                add_views(value)
            add(op, group.places[op])
        for value in yielded:
            add_views(value)
        Builder(block).op("form.yield", [mapping[v] for v in yielded])
        return places

    def workspace_like(self, mem: Value) -> Value:
        ty = memory(mem)
        return self.workspace(TensorType(ty.dims, ty.dtype, ty.policy), mem.name)

    def copy_memory(self, source: Value, target: Value) -> None:
        """Writes all of one memory to another."""
        ty = memory(source)
        tensor = TensorType(ty.dims, ty.dtype, ty.policy)
        if ty.dtype.is_complex:
            tensor = parts_type(tensor)
            source, target = (self.parts(numbers, tensor) for numbers in (source, target))
        outside = Block([tensor], [source.name])
        self.memory[outside.args[0]] = source
        copied = copy_of(Builder(outside, self.builder.span), outside.args[0])
        self.wanted[copied] = [(copied.result, target)]
        self.launch(Group.of(copied))

    def copy(self, value: Value, mem: Value, before: Op, why: str) -> Value:
        """Writes a value, seen through its views, to other memory; returns the copy."""
        copied = copy_of(Builder.before(before), value)
        self.updates.copies[copied] = Copied(why)
        self.wanted[copied] = [(copied.result, mem)]
        self.launch(Group.of(copied))
        return copied.result


def _writes(user: Op, position: int) -> bool:
    """Whether an operand is a part of what the user's memory is written with, rather than read by it."""
    return user.name == "form.assemble" or (user.name == "form.scatter" and position == 0)


def undecided(group: Group, outs: int) -> Mapping[str, Attr]:
    """A launch that walks its space element by element."""
    kinds = {axis: "fold" if group.kind in ("rows", "scan", "sort", "folds") else "serial" for axis in group.folded}
    loops = tuple(Loop((a,), size, 1, kinds.get(a, "parallel")) for a, size in enumerate(group.space))
    return {
        "kind": group.kind,
        "outs": outs,
        "space": group.space,
        "loops": loops,
        "keep": (),
        "stages": (),
        "units": Units(1, "uniform"),
        "reason": "; ".join(dict.fromkeys(group.reasons)),
    }
