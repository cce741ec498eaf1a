"""A gather of a few elements of a map reads what the map reads, so that the map need not be in memory.

    gather(map(x), i)  ->  map(gather(x, i))

Enters: a gather in normal form. Leaves: the same, or a map behind one that reads below it. Each element that is
gathered is then computed by itself, so that this is done only where they are fewer than those of the table.
"""

from __future__ import annotations

from collections import Counter

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value, clone_region
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.types import TensorType
from tesserac.schedule.forms.views import uses_position
from tesserac.schedule.model.access import access_through, view_source


def gather_below_map(op: Op) -> None:
    made = view_source(op.operands[0])[0].defining_op
    if made is None or not _is_plain(made) or not _is_part(op) or not _lies_below(made, op.operands[0]):
        return
    builder, ty, source = Builder.before(op), tensor_type(op.result), tensor_type(made.operands[0])
    operands = (_seen_as(builder, made.operands[0], op.operands[0]), *op.operands[1:])
    below = TensorType(ty.dims, source.dtype, source.policy)
    found = builder.value(op.name, operands, below, dict(op.attrs), hint=op.result.name)
    body = clone_region(made.regions[0], {}).block
    attrs = {"maps": (tuple(range(ty.rank)),)}
    computed = builder.op(made.name, (found,), (ty,), attrs, (body,), (op.result.name,))
    op.result.replace_all_uses(computed.result)
    op.erase()


def _is_plain(made: Op) -> bool:
    """Whether each element of a map is computed from the one at its place alone."""
    if made.name != "form.map" or len(made.operands) != 1 or uses_position(made) or "layout" in made.attrs:
        return False
    return operand_maps(made)[0] == tuple(range(tensor_type(made.result).rank))


def _is_part(gather: Op) -> bool:
    """Whether all dims of what is gathered are dims of the table, which has more."""
    taken, table = (Counter(tensor_type(v).dims) for v in (gather.result, gather.operands[0]))
    return taken < table


def _lies_below(made: Op, shown: Value) -> bool:
    """Whether what a map reads has strides through the views of its result: the map may be the copy that one needs."""
    base, views = view_source(made.operands[0])
    return access_through([*views, *view_source(shown)[1]], base) is not None


def _seen_as(builder: Builder, value: Value, shown: Value) -> Value:
    """A value through the views that show another one."""
    for view in view_source(shown)[1]:
        own, seen = tensor_type(value), tensor_type(view.result)
        value = builder.value("form.view", (value,), TensorType(seen.dims, own.dtype, own.policy), dict(view.attrs))
    return value
