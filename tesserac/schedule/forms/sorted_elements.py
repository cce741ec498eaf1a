"""Pass `sorted_elements`: elements that are taken in their own order, which a sort may move instead of places.

    %o = form.sort(%x) {axis = 0};  %y = form.gather(%x, %o)    becomes    %y = form.sort(%x) {axis = 0, elements}

Their places are never written, nor is x read at them. Where someone else asks for the order, both stay.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.indexed import gather_source, sorted_axis
from tesserac.ir.passes import FORMS, function_pass


@function_pass(FORMS, FORMS, "sorted_elements")
def sorted_elements(func: Op) -> None:
    for sort in [op for op in func.walk() if op.name == "form.sort"]:
        takers = [user for user, _ in sort.result.uses]
        if len(takers) == 1 and _takes_in_order(takers[0], sort):
            _join(sort, takers[0])


def _takes_in_order(op: Op, sort: Op) -> bool:
    """Whether a form reads all of what is sorted, each element at the place that the order has for it."""
    if op.name != "form.gather" or op.operands[0] is not sort.operands[0] or op.operands[1:] != (sort.result,):
        return False
    along = tuple(None if dim == sorted_axis(sort) else dim for dim in range(tensor_type(sort.result).rank))
    return gather_source(op) == along and operand_maps(op) == (tuple(range(len(along))),)


def _join(sort: Op, gather: Op) -> None:
    attrs = {**{key: sort.attrs[key] for key in ("axis", "descending")}, "elements": True}
    elements = Builder.before(gather).value("form.sort", (sort.operands[0],), gather.result.type, attrs)
    gather.result.replace_all_uses(elements)
    gather.erase()
    sort.erase()
