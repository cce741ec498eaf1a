"""Products with windows of images, on machines that copy blocks: no window is ever written out.

    schedule.launch(%y, %p) {kind = "map"}          %p[n, i, j, c, h, w] = %y[n, c, h + i, w + j]
    schedule.launch(%k, %p, %o) {kind = "contract"}
becomes
    schedule.launch(%y, %t) {kind = "map"}          %t[n, h, w, c] = %y[n, c, h, w]
    schedule.launch(%k, %t, %r) {kind = "contract"} %r[n, o, q] = product of %k with %t[n, i, q : , :][j, c], in rows
    schedule.launch(%r, %o) {kind = "map"}          the columns that are a window's

With channels side by side, a window that moves by one pixel moves by one row of memory: all pixels of an image are one
run, whether a window begins there or not. So a block of columns is a block of rows of memory, which units that copy
blocks read as they lie, once for each row of the window; columns of the product between the last window of a line and
the first of the next are computed and left out. Terms keep their order, hence results their bits. What would have gone
into the image, its frame and its copy, goes where channels lie side by side at once.

A block of terms must not cross a row of a window: where only a run knows, a predicate chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Op, Value, clone_op
from tesserac.ir.forms import Permute, Reshape, Slice, Window, tensor_type
from tesserac.ir.types import MemRefType, TensorType, row_major
from tesserac.schedule.dialect import (
    Predicate,
    launch_ins,
    launch_kind,
    launch_loops,
    launch_outs,
    launch_places,
    launch_space,
    memory,
)
from tesserac.schedule.forms.views import copy_of
from tesserac.schedule.fusion.group import Group
from tesserac.schedule.host.program import undecided
from tesserac.schedule.model.access import view_source
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.model.space import computing
from tesserac.schedule.products.windowed import Windows, moved_offset, windows_of, writers_of
from tesserac.types.dims import ONE, ZERO, Dim, product

WHOLE_DIGITS = "whole_digits"
"""The attribute of a product in which no block of terms crosses the end of the last dim that they are merged of: a
number that divides that dim, and that is divided by the terms of a block."""
VECTOR_BYTES = 16


def shift_windows(host: Op) -> None:
    """Changes a host program for units that copy blocks."""
    known = {name for arg in host.body.args for dim in memory(arg).dims for name in dim.symbols()}
    for launch in [op for op in host.walk() if op.name == "schedule.launch" and launch_kind(op) == "contract"]:
        found = windows_of(launch)
        if found is None or not _sizes_known(found, known) or found.rest.constant not in (None, 0):
            continue
        _Shifted(host, found).build()


def _sizes_known(found: Windows, known: set[str]) -> bool:
    dims = (*found.leads, found.channels, *found.sizes, *launch_space(found.product))
    return product(dims).symbols() <= known




class _Shifted:
    """The launches that take the place of a product with windows."""

    def __init__(self, host: Op, found: Windows) -> None:
        self.host, self.found = host, found
        self.ty = tensor_type(computing(found.copy)[0].result)
        self.some = ONE - found.rest.min(1)
        self.b = Builder.before(found.product)
        assert found.product.parent is not None
        self.existing = set(found.product.parent.ops)
        self.lines = _lines(found)
        self.rows = self.workspace((*found.leads, *self.lines, found.channels), self.ty)
        self.out = launch_outs(found.product)[0]
        self.wide = self.result()

    def result(self) -> Value:
        """Where the product goes: to where it went, if no column is left out."""
        found, out = self.found, memory(self.out)
        dims = (*launch_space(found.product)[:-2], found.counts[0], *self.lines[1:])
        if len(self.lines) == 1:
            return self.box(self.out, dims)
        return self.workspace(dims, TensorType((), out.dtype, out.policy))

    def workspace(self, dims: tuple[Dim, ...], ty: TensorType) -> Value:
        """Memory where blocks of terms end with rows of windows, seen with these dims."""
        return self.box(_buffer(self.host, product(dims) * self.some, ty, self.b), dims)

    def box(self, mem: Value, dims: tuple[Dim, ...], strides: tuple[Dim, ...] = (), offset: Dim = ZERO) -> Value:
        ty = memory(mem)
        whole = MemRefType(dims, ty.dtype, ty.policy, strides or row_major(dims))
        return self.b.value("schedule.box", (mem,), whole, {"offset": offset}, hint="rows")

    def build(self) -> None:
        found, writers = self.found, writers_of(self.found)
        self.rows_written(writers)
        because(self.shifted_product(), "windows are read where they lie, channels side by side")
        if len(self.lines) > 1:
            self.cropped()
        before = [*writers, found.copy, found.product]
        memories = [found.copy.operands[-1], *((found.image,) if writers else ())]
        if found.rest.constant == 0:
            for op in reversed(before):
                op.erase()
            for mem in memories:
                assert mem.defining_op is not None
                mem.defining_op.erase()
            return
        place = found.product.parent
        assert place is not None
        made = [op for op in place.ops if op not in self.existing and op.name != "schedule.buffer"]
        mark = self.b.op("schedule.end")
        for mem in memories:
            before = self.only_otherwise(mem, before)
        select([(Predicate("at_least", ZERO, found.rest), made)], before, mark)
        mark.erase()

    # -- what the image holds

    def rows_written(self, writers: Sequence[Op]) -> None:
        if not writers:
            self.copied_image()
            return
        known = dict[Value, Value]()
        for op in writers:
            if op.name == "schedule.box":
                known[op.result] = self.moved_box(op)
            elif launch_outs(op)[0] is self.found.image:
                self.filled(op)
            else:
                self.b.op("schedule.launch", [known.get(v, v) for v in op.operands], (), op.attrs, (self.body_of(op),))

    def filled(self, op: Op) -> None:
        """What fills the whole image fills all rows."""
        rows, (form,) = memory(self.rows), computing(op)
        body, known = Block(), dict[Value, Value]()
        made = clone_op(form, known)
        made.result.type = TensorType(rows.dims, rows.dtype, rows.policy)
        body.append(made)
        Builder(body, op.span).op("form.yield", (made.result,))
        group = Group.of(made)
        attrs = {**undecided(group, 1), "places": (group.places[made],)}
        self.b.op("schedule.launch", (self.rows,), (), attrs, (body,))

    def moved_box(self, op: Op) -> Value:
        """A part of the image, where channels are neighbours."""
        part, found = memory(op.result), self.found
        dims, new = (*found.leads, found.channels, *found.sizes), self.image_strides()
        moved = dict(zip(row_major(dims), new, strict=True))
        strides = tuple(moved[stride] for stride in part.strides)
        return self.box(self.rows, part.dims, strides, moved_offset(op, found, moved))

    def body_of(self, op: Op) -> Block:
        block = Block([v.type for v in op.body.args], [v.name for v in op.body.args])
        known = dict(zip(op.body.args, block.args, strict=True))
        for inner in op.body.ops:
            block.append(clone_op(inner, known))
        return block

    def image_strides(self) -> tuple[Dim, ...]:
        """Those of the dims of the image in the rows."""
        order, strides = self.order(), memory(self.rows).strides
        return tuple(strides[order.index(place)] for place in range(len(order)))

    def order(self) -> tuple[int, ...]:
        """Channels last."""
        leads, count = len(self.found.leads), len(self.found.sizes)
        return (*range(leads), *range(leads + 1, leads + 1 + count), leads)

    def copied_image(self) -> None:
        found, ty = self.found, self.ty
        dims = (*found.leads, found.channels, *found.sizes)
        image = memory(found.image)
        body = Block([TensorType(image.dims, image.dtype, image.policy)], [found.image.name])
        inner = Builder(body, found.product.span)
        value = body.args[0]
        if image.dims != dims:
            value = inner.value("form.view", (value,), TensorType(dims, ty.dtype, ty.policy), {"view": Reshape()})
        turned = TensorType(tuple(dims[i] for i in self.order()), ty.dtype, ty.policy)
        value = inner.value("form.view", (value,), turned, {"view": Permute(self.order())})
        target = self.box(self.rows, turned.dims, memory(self.rows).strides)
        self.launch_copy(body, copy_of(inner, value), found.image, target)

    def launch_copy(self, body: Block, copy: Op, source: Value, target: Value) -> None:
        inner, group, ty = Builder(body, copy.span), Group.of(copy), memory(target)
        value = copy.result
        if tensor_type(value).dims != ty.dims:
            whole = TensorType(ty.dims, ty.dtype, ty.policy)
            value = inner.value("form.view", (value,), whole, {"view": Reshape()})
        inner.op("form.yield", (value,))
        places = tuple(group.places.get(op, ()) for op in body.ops[:-1])
        attrs = {**undecided(group, 1), "places": places}
        self.b.op("schedule.launch", (source, target), (), attrs, (body,))

    # -- the product

    def shifted_product(self) -> Op:
        """The launch of the product, with a column for each pixel from the first window's to the last one's."""
        found, launch = self.found, self.found.product
        rows = memory(self.rows)
        args = launch.body.args
        types = [v.type for v in args]
        types[found.number] = TensorType(rows.dims, rows.dtype, rows.policy)
        body = Block(types, [v.name for v in args])
        known = dict(zip(args, body.args, strict=True))
        windows, columns = self.windows(Builder(body, launch.span), body.args[found.number])
        contract = computing(launch)[0]
        known[contract.operands[1]] = windows
        for op in [op for op in launch.body.ops[:-1] if op.name != "form.view" or self.is_read(op)]:
            made = clone_op(op, known)
            self.widen(op, made, columns)
            body.append(made)
        value = view_source(launch.body.terminator.operands[0])[0]
        Builder(body, launch.span).op("form.yield", (known[value],))
        return self.launch_product(body, columns)

    def is_read(self, view: Op) -> bool:
        """Whether a view is one of an operand that stays."""
        base = view_source(view.result)[0]
        return base.owner is self.found.product.body and base.index != self.found.number

    def widen(self, op: Op, made: Op, columns: Dim) -> None:
        if op.name != "form.view":
            ty = tensor_type(op.result)
            made.result.type = TensorType((*ty.dims[:-1], columns), ty.dtype, ty.policy)

    def windows(self, b: Builder, value: Value) -> tuple[Value, Dim]:
        """All windows of the rows, as the right operand: [leads, terms, columns]."""
        found, place = self.found, len(self.found.leads)
        for axis, (window, dilation) in enumerate(zip(found.windows, found.dilations, strict=True)):
            dims = tensor_type(value).dims
            if axis:
                joined = (*dims[:place], dims[place] * dims[place + 1], *dims[place + 2 :])
                value = self.view(b, value, joined, Reshape())
                dims = joined
            count = dims[place] - (window - 1) * dilation
            value = self.view(b, value, (*dims[:place], count, *dims[place + 1 :], window), Window(place, 1, dilation))
        dims, last = tensor_type(value).dims, len(tensor_type(value).dims)
        order = (*range(place), *range(place + 2, last), place + 1, place)
        value = self.view(b, value, tuple(dims[i] for i in order), Permute(order))
        terms = product([*found.windows, found.channels])
        return self.view(b, value, (*found.leads, terms, dims[place]), Reshape()), dims[place]

    def view(self, b: Builder, value: Value, dims: tuple[Dim, ...], view: Reshape | Window | Permute | Slice) -> Value:
        ty = self.ty if tensor_type(value).dtype == self.ty.dtype else tensor_type(value)
        return b.value("form.view", (value,), TensorType(dims, ty.dtype, ty.policy), {"view": view})

    def launch_product(self, body: Block, columns: Dim) -> Op:
        launch, found = self.found.product, self.found
        space, loops = list(launch_space(launch)), list(launch_loops(launch))
        space[-2] = columns
        loops[-2] = replace(loops[-2], size=columns)
        lines = memory(self.wide).strides
        strides = (*lines[: len(space) - 2], ONE)
        out = self.box(self.wide, (*space[:-2], columns), strides)
        old = dict(zip(launch.body.ops, launch_places(launch), strict=False))
        forms = iter(old[op] for op in computing(launch))
        places = tuple(() if op.name == "form.view" else next(forms) for op in body.ops[:-1])
        attrs = {**launch.attrs, "space": tuple(space), "loops": tuple(loops), "places": places}
        attrs[WHOLE_DIGITS] = found.whole_terms
        ins = [self.rows if i == found.number else v for i, v in enumerate(launch_ins(launch))]
        return self.b.op("schedule.launch", (*ins, out), (), attrs, (body,))

    def cropped(self) -> None:
        """Copies the columns that are windows to where the product was to write."""
        found, wide = self.found, memory(self.wide)
        body = Block([TensorType(wide.dims, wide.dtype, wide.policy)], ["rows"])
        inner = Builder(body, found.product.span)
        dims = (*launch_space(found.product)[:-2], *found.counts)
        cut = Slice((ZERO,) * len(dims), (1,) * len(dims))
        part = inner.value("form.view", body.args, TensorType(dims, wide.dtype, wide.policy), {"view": cut})
        self.launch_copy(body, copy_of(inner, part), self.wide, self.out)

    # -- memory of what is not taken

    def only_otherwise(self, mem: Value, ops: list[Op]) -> list[Op]:
        """Has memory of the other way only where that is taken."""
        made = mem.defining_op
        assert made is not None
        ty = memory(mem)
        kind = TensorType((), ty.dtype, ty.policy)
        flat = _buffer(self.host, product(ty.dims) * self.found.rest.min(1), kind, self.b)
        whole = Builder.before(ops[0]).op("schedule.box", (flat,), (ty,), {"offset": ZERO}, names=(mem.name,))
        for user, position in list(mem.uses):
            user.set_operand(position, flat if user.name == "schedule.box" else whole.result)
        made.erase()
        return [whole, *ops]


def _lines(found: Windows) -> tuple[Dim, ...]:
    """The sizes of the image, with lines that begin where vectors do."""
    unit = VECTOR_BYTES // memory(found.image).dtype.bytes
    *outer, last = found.sizes
    return (*outer, last.ceil_div(unit) * unit) if outer else found.sizes


def _buffer(host: Op, size: Dim, ty: TensorType, b: Builder) -> Value:
    """Workspace, declared beside the other buffers; slots are dealt out later."""
    attrs = {"role": "workspace", "slot": 0}
    mem = MemRefType((size,), ty.dtype, ty.policy)
    buffer = Op(OPDEFS["schedule.buffer"], (), (mem,), attrs, (), b.span, ("rows",))
    first = next(i for i, op in enumerate(host.body.ops) if op.name not in ("schedule.guard", "schedule.buffer"))
    return host.body.insert(first, buffer).result
