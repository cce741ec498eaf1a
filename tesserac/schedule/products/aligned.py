"""Products whose operands have rows of any length: a copy with aligned rows first, and then the product.

    schedule.launch(%a, %b, %c) {kind = "contract"}
becomes
    %w = schedule.buffer() : memref<[M * row]>            row = ceil_div(K, 8) * 8, or 0 where K is a multiple of 8
    schedule.launch(%a, schedule.box(%w) : memref<[M, K], strides = [row, 1]>) {kind = "map"}
    schedule.launch(schedule.box(%w) : memref<[M, row]>, ..., %c) {kind = "contract"} { ^(%t): product of %t[:, :K] }

Units that copy blocks of a matrix want rows to begin at multiples of 16 bytes. One pass over an operand costs little
beside a product that reads it many times; element by element the product itself would wait for memory. Where sizes are
not known a predicate chooses, and small products read their operands as they lie. Those of 8-bit numbers never do: the
unit that would take them then adds otherwise, and no size but that of the terms may show in the bits.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Op, Value, clone_op
from tesserac.ir.forms import Reshape, Slice, tensor_type
from tesserac.ir.types import MemRefType, TensorType
from tesserac.schedule.dialect import Predicate, launch_kind, launch_places, launch_space, memory
from tesserac.schedule.forms.views import copy_of
from tesserac.schedule.fusion.group import Group
from tesserac.schedule.host.program import undecided
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import Access, contiguous, view_access, view_source
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.model.space import computing
from tesserac.schedule.products.contract import has_dense_terms
from tesserac.schedule.products.shifted import WHOLE_DIGITS
from tesserac.types.dims import ZERO, Dim, product

ROW_BYTES = 16
LONG_RUNS = "long_runs"
"""The attribute of a map whose runs in memory are long where it matters how they are walked."""
LEAST_WORK = 1 << 24
"""Multiply-adds that take longer than two more launches."""


def align_products(host: Op, machine: Machine) -> None:
    """Changes a host program for units that copy blocks."""
    sizes = {name for arg in host.body.args for dim in memory(arg).dims for name in dim.symbols()}
    for launch in [op for op in host.walk() if op.name == "schedule.launch" and launch_kind(op) == "contract"]:
        if WHOLE_DIGITS in launch.attrs:
            continue
        _take_as_matrices(launch)
        by_bytes = machine.multiplies_bytes and has_dense_terms(launch)
        loose, work = loose_operands(launch, 8 if by_bytes else 16), product(launch_space(launch))
        least = 1 if by_bytes else LEAST_WORK
        everywhere = all(tensor_dims(launch, number) <= sizes for number in loose)
        if loose and everywhere and (work.constant is None or work.constant >= least):
            _align(host, launch, loose, work, least)


def _take_as_matrices(launch: Op) -> None:
    """Has a product take what it only reshapes as it is then: its rows are those of the matrix."""
    for value in list(computing(launch)[0].operands):
        base, views = view_source(value)
        plain = bool(views) and all(isinstance(view.attrs["view"], Reshape) for view in views)
        if not plain or base.owner is not launch.body or not memory(launch.operands[base.index]).contiguous:
            continue
        if any(len(inner.uses) != 1 for inner in (base, *(view.result for view in views))):
            continue
        ty, mem = tensor_type(value), launch.operands[base.index]
        matrix = MemRefType(ty.dims, ty.dtype, ty.policy)
        box = Builder.before(launch).value("schedule.box", (mem,), matrix, {"offset": ZERO}, hint=mem.name)
        launch.set_operand(base.index, box)
        kept = [place for op, place in zip(launch.body.ops, launch_places(launch), strict=False) if op not in views]
        launch.attrs["places"] = tuple(kept)
        base.type = ty
        value.replace_all_uses(base)
        for view in reversed(views):
            view.erase()


def _align(host: Op, launch: Op, loose: list[int], work: Dim, least: int) -> None:
    some = sum((padding(tensor_type(launch.body.args[number])) for number in loose), ZERO).min(1)
    copies, aligned = _Copies(host, launch, some).of(loose)
    if some.constant is not None and work.constant is not None:
        launch.erase()
        return
    as_they_lie = Predicate("at_least", Dim.const(least - 1), work.min(least) * some)
    select([(as_they_lie, [launch])], [*copies, aligned], launch)


def tensor_dims(launch: Op, number: int) -> frozenset[str]:
    """The symbols in the sizes of an operand."""
    return product(tensor_type(launch.body.args[number]).dims).symbols()


def loose_operands(launch: Op, bits: int) -> list[int]:
    """Operands of numbers of so many bits that the product reads, whose rows are not known to be multiples of 16 bytes,
    and that can be read where their rows lie apart."""
    found: list[int] = []
    for value in computing(launch)[0].operands:
        base, _ = view_source(value)
        ty = tensor_type(base)
        if base.owner is launch.body and ty.dtype.bits == bits and ty.dims and padding(ty) != ZERO:
            found.append(base.index)
    return sorted(number for number in set(found) if _may_lie_apart(launch, launch.body.args[number]))


def _may_lie_apart(launch: Op, operand: Value) -> bool:
    """Whether all that is read of an operand has strides in an aligned copy too: dims that are merged are one run."""
    ty = tensor_type(operand)
    for value in (value for op in computing(launch) for value in op.operands):
        base, views = view_source(value)
        access: Access | None = contiguous((*ty.dims[:-1], _rounded(ty)))
        for view in views if base is operand else ():
            access = view_access(view, access) if access is not None else None
        if access is None:
            return False
    return True


def padding(ty: TensorType) -> Dim:
    """Elements between the rows of an aligned copy."""
    return _rounded(ty) - ty.dims[-1]


def _rounded(ty: TensorType) -> Dim:
    unit = ROW_BYTES * 8 // ty.dtype.bits
    return ty.dims[-1].ceil_div(unit) * unit


class _Copies:
    """Copies of operands of a launch, and the launch that reads them. They have memory where `some` is 1, not 0."""

    def __init__(self, host: Op, launch: Op, some: Dim) -> None:
        self.host, self.launch, self.some = host, launch, some
        self.b = Builder.before(launch)

    def of(self, operands: list[int]) -> tuple[list[Op], Op]:
        """All of them stand before the launch, which stays."""
        made, rooms = list[Op](), dict[int, Value]()
        for number in operands:
            boxes, copy = self.copied(number)
            made += [*boxes, copy]
            rooms[number] = boxes[0].result
        launch = self.launch
        memories = [rooms.get(number, value) for number, value in enumerate(launch.operands)]
        attrs = {**launch.attrs, "places": (*[()] * len(rooms), *launch_places(launch))}
        aligned = self.b.op("schedule.launch", memories, (), attrs, (self.reading(rooms),))
        because(aligned, "operands are copied first, so that their rows are aligned")
        return made, aligned

    def copied(self, number: int) -> tuple[list[Op], Op]:
        """The copy as a whole, and without what lies between its rows; the launch that writes it."""
        source, ty = self.launch.operands[number], tensor_type(self.launch.body.args[number])
        whole = MemRefType((*ty.dims[:-1], _rounded(ty)), ty.dtype, ty.policy)
        room = self.workspace(whole)
        rows = MemRefType(ty.dims, ty.dtype, ty.policy, whole.strides)
        offset, parts = {"offset": ZERO}, (whole, rows)
        boxes = [self.b.op("schedule.box", (room,), (part,), offset, names=("rows",)) for part in parts]
        body = Block([ty], [source.name])
        copy = copy_of(Builder(body, self.launch.span), body.args[0])
        Builder(body, self.launch.span).op("form.yield", (copy.result,))
        group = Group.of(copy)
        attrs = {**undecided(group, 1), "places": (group.places[copy],), LONG_RUNS: True}
        return boxes, self.b.op("schedule.launch", (source, boxes[1].result), (), attrs, (body,))

    def workspace(self, whole: MemRefType) -> Value:
        """Memory for a copy, declared beside the other buffers."""
        ty = MemRefType((product(whole.dims) * self.some,), whole.dtype, whole.policy)
        attrs = {"role": "workspace", "slot": 0}  # slots are dealt out later
        buffer = Op(OPDEFS["schedule.buffer"], (), (ty,), attrs, (), self.launch.span, ("rows",))
        declared = ("schedule.guard", "schedule.buffer")
        first = next(i for i, op in enumerate(self.host.body.ops) if op.name not in declared)
        return self.host.body.insert(first, buffer).result

    def reading(self, rooms: dict[int, Value]) -> Block:
        """The body of the launch, which takes a part of each row of a copy for what it read before."""
        args = self.launch.body.args
        types = {number: tensor_type(args[number]) for number in rooms}
        copies = {n: TensorType(memory(rooms[n]).dims, ty.dtype, ty.policy) for n, ty in types.items()}
        body = Block([copies.get(n, v.type) for n, v in enumerate(args)], [v.name for v in args])
        known = dict(zip(args, body.args, strict=True))
        for number, ty in types.items():
            view = Slice((ZERO,) * ty.rank, (1,) * ty.rank)
            part = Builder(body, self.launch.span).value("form.view", (body.args[number],), ty, {"view": view})
            known[args[number]] = part
        for op in self.launch.body.ops:
            body.append(clone_op(op, known))
        return body
