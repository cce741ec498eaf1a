"""What is read of a tensor before a loop changes it, and used in the loop or behind it, is copied before the loop.

    %t = form.view(%x) {one element};  %y = form.loop(%lo, %hi, %x) { ... %t ... }
becomes
    %t = form.map(form.view(%x) {one element});  %y = form.loop(%lo, %hi, %x) { ... %t ... }

Enters: a function of forms. Leaves: the same function, in place. The loop may then change the tensor where it lies, of
which a copy would be needed otherwise: of all of it, for the sake of an element or a row. Only parts with fewer dims
of a size that is not known are worth it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import FORMS, function_pass
from tesserac.schedule.forms.updates import ancestor
from tesserac.schedule.forms.views import copy_of
from tesserac.schedule.model.access import is_view

LOOPS = ("form.loop", "form.while")


@function_pass(FORMS, FORMS, "hold_parts")
def hold_parts(func: Op) -> None:
    for loop in [op for op in func.walk() if op.name in LOOPS]:
        for init in dict.fromkeys(loop.operands[len(loop.operands) - len(loop.results) :]):
            for part in list(_small_parts(init, init)):
                _hold(part, loop)


def _small_parts(value: Value, whole: Value) -> Iterator[Value]:
    """Views of a tensor that are much smaller than it is, the first on each way."""
    for op in [user for user, _ in value.uses if is_view(user) and user.operands[0] is value]:
        if _rank(op.result) < _rank(whole):
            yield op.result
        else:
            yield from _small_parts(op.result, whole)


def _rank(value: Value) -> int:
    """How many dims have a size that is not known."""
    return sum(dim.constant is None for dim in tensor_type(value).dims)


def _hold(part: Value, loop: Op) -> None:
    """Copies a part that stands before a loop, if it is read in the loop or behind it."""
    made, block = part.defining_op, loop.parent
    assert made is not None and block is not None
    if made.parent is not block or block.place(made) > block.place(loop):
        return
    readers = [ancestor(user, block) for user, _ in _seen(part)]
    if any(user is not None and block.place(user) >= block.place(loop) for user in readers):
        after = block.ops[block.place(made) + 1]
        copy = copy_of(Builder.before(after), part)
        for user, position in list(part.uses):
            if user is not copy:
                user.set_operand(position, copy.result)


def _seen(value: Value) -> Iterator[tuple[Op, int]]:
    """The readers of a value, and of all views of it."""
    for user, position in value.uses:
        yield user, position
        if is_view(user):
            yield from _seen(user.result)
