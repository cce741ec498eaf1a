"""Products whose right operand may be frozen: it is packed once, and every call reads the pack.

    schedule.launch(%b, %panels) {kind = "pack"};  schedule.launch(%a, %panels, %c) {kind = "contract"}
becomes, where %b is an argument or a constant of the code,
    schedule.kept(%b, %kept) { schedule.launch(%b, %kept) {kind = "pack"} }
                             { schedule.launch(%a, %kept, %c) {kind = "contract"} }
                             { what is done otherwise, with its variants }

Whether memory is frozen is known when a call is made, not before: an argument may be a weight in one call and an
activation in the next. All three ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Value, clone_op
from tesserac.ir.types import element
from tesserac.schedule.dialect import KEPT, Predicate, launch_ins, launch_outs, launch_space, memory
from tesserac.schedule.forms.views import is_copy
from tesserac.schedule.model.cuts import CUT, cut_of
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.model.space import Reach, computing, read_reach
from tesserac.types.dims import Dim, product

PARTS = ("schedule.box", "schedule.parts")
SMALLEST = 16384
"""Elements of an operand that is worth keeping: less is packed in a few microseconds."""
READ_AS_IT_LIES = 3
"""Rows up to which a matrix is read once, as it lies, in the time that memory takes: a pack would only cost memory."""


def may_be_frozen(memory: Value, function: Block, dims: Sequence[Dim]) -> bool:
    """Whether memory of a function is there before a call and after it, and large: an argument, or a constant of the
    code, or a part of one."""
    elements = product(dims).constant
    while (made := memory.defining_op) is not None and made.name in PARTS:
        memory = made.operands[0]
    constant = made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "constant"
    return (constant or memory.owner is function) and (elements is None or elements >= SMALLEST)


def can_be_kept(pack: Op) -> bool:
    """Whether a launch that packs copies one large matrix that may be frozen."""
    source, copies = launch_ins(pack), is_copy(computing(pack)[0]) and _plain(pack)
    return copies and len(source) == 1 and may_be_frozen(source[0], _host(pack).body, launch_space(pack))


def _plain(pack: Op) -> bool:
    reach = read_reach(pack, computing(pack)[0], 0)
    return reach is not None and not (reach.panels or reach.computed or reach.digits)


def keep_pack(pack: Op, product_launch: Op, otherwise: list[Op], few: int, *, lies: bool) -> None:
    """Puts the variants `otherwise` beside one that reads a pack which is kept, to where the last of them stands: what
    the product writes may be a part of memory that is named after the pack. With at most `few` rows it is cut by
    columns, so that no two programs read the same of it. With fewest there is none if the matrix `lies` so that they
    read it at once."""
    (source,), (panels,) = launch_ins(pack), launch_outs(pack)
    kept = _buffer(pack, panels)
    filling, using, other = Block(), Block(), Block()
    least = Predicate("at_least", launch_space(product_launch)[-3], Dim.const(READ_AS_IT_LIES + 1 if lies else 0))
    attrs: dict[str, Attr] = {"layout": _layout(pack), "sizes": _sizes(pack), "where": least}
    Builder.before(otherwise[-1]).op(KEPT, (source, kept), (), attrs, (filling, using, other))
    filling.append(clone_op(pack, {panels: kept}))
    because(filling.ops[0], "once, where it is frozen")
    many = using.append(clone_op(product_launch, {panels: kept}))
    because(many, "the right operand is frozen: every call reads the same pack")
    for op in otherwise:
        op.detach()
        other.append(op)
    for block in (filling, using, other):
        Builder(block).op("schedule.end")
    _cut_few_rows(many, few)


def _cut_few_rows(many: Op, few: int) -> None:
    rows, cut = launch_space(many)[-3], cut_of(many)
    if cut is None or (rows.constant is not None and rows.constant > few):
        return
    by_columns = replace(cut, rows_first=False, turns=1)  # each block of columns packs all rows
    if rows.constant is not None:
        many.attrs[CUT] = by_columns
        return
    lower = clone_op(many, {})
    lower.attrs[CUT] = by_columns
    select([(Predicate("at_least", rows, Dim.const(few + 1)), [many])], [lower], many)


def _layout(pack: Op) -> str:
    """How it lies, and what of: a pack of the same matrix for another product may differ in that."""
    source, packed = memory(launch_ins(pack)[0]), memory(launch_outs(pack)[0])
    return f"{source.dtype} as {element(packed.dtype, packed.policy)} in {packed.layout}"


def _sizes(pack: Op) -> tuple[Dim, ...]:
    """All that says which elements of the source are where."""
    reach: Reach | None = read_reach(pack, computing(pack)[0], 0)
    assert reach is not None
    return (reach.offset, *launch_space(pack), *reach.strides)


def _buffer(pack: Op, panels: Value) -> Value:
    """What stands for the memory that is kept, beside the other buffers."""
    host = _host(pack)
    buffer = Op(OPDEFS["schedule.buffer"], (), (panels.type,), {"role": "kept", "slot": 0}, (), pack.span, ("kept",))
    first = next(i for i, op in enumerate(host.body.ops) if op.name not in ("schedule.guard", "schedule.buffer"))
    return host.body.insert(first, buffer).result


def _host(op: Op) -> Op:
    while op.name != "schedule.func":
        assert op.parent is not None and op.parent.parent_op is not None
        op = op.parent.parent_op
    return op
