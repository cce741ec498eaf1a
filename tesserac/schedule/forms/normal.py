"""The normal form in which fusion decides: few views, every view readable from memory, every result computed.

Enters: a `func.func` of forms as the Graph left it. Leaves: the same function, in place, where
- maps and reductions have no unit dims, views between maps are gone (`views.py`), and the others have strides
  (`access.py`), by a copy where needed;
- integers are cast to the accumulation type before a reduction, scan or contraction, as a map that fusion may take,
  but for those that the machine multiplies as they are;
- a contraction is a matrix product with leading indices, a reduction folds one axis (`canonical.py`);
- every part of an assembled tensor, and what a scatter changes, is a map that nothing else reads; what is assembled for
  a part of another alone is put there part by part (`parts.py`);
- every returned value is computed in this function, or is a reshape of such a one: results never alias inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tesserac.ir.boxes import Box, never_meet
from tesserac.ir.builder import Builder
from tesserac.ir.calls import INVOKE
from tesserac.ir.core import Block, Op, Value, attr, clone_op
from tesserac.ir.effects import EFFECTS
from tesserac.ir.forms import Broadcast, tensor_type
from tesserac.ir.indexed import assembled_boxes, covers_all
from tesserac.ir.kernels import KERNEL
from tesserac.ir.lines import LINES
from tesserac.ir.passes import FORMS, Pass, function_pass
from tesserac.ir.rewrite import is_pure
from tesserac.ops.lowering import fill
from tesserac.schedule.forms.canonical import matrix_product, single_fold
from tesserac.schedule.forms.dense_terms import takes_bytes
from tesserac.schedule.forms.gathered import gather_below_map
from tesserac.schedule.forms.map_parts import compute_by_parts
from tesserac.schedule.forms.parts import merge_behind, put_part_by_part
from tesserac.schedule.forms.views import (
    copy_of,
    fold_views,
    hoist_view,
    respace,
    respace_reduce,
    squeeze,
    squeeze_gather,
)
from tesserac.schedule.forms.widening import widen_integers
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import access_through, keeps_memory, view_source
from tesserac.types.dtype import DType

_FOLDS = ("form.reduce", "form.scan", "form.sort", "form.runs", "form.contract", "form.accumulate")
COMPUTED = ("form.map", "form.gather", LINES, *_FOLDS)
WRITTEN_ONCE = (KERNEL, LINES)
"""Forms that write each of their results to one memory: what else is to hold it is a copy."""
WRITTEN = ("form.assemble", "form.scatter")
"""Forms whose memory is written by several launches: their parts first."""
CONTROL = ("form.loop", "form.while", "form.cond", INVOKE, *EFFECTS)


def normal_pass(machine: Machine) -> Pass:
    """For a machine, which may multiply narrow integers as they are."""

    @function_pass(FORMS, FORMS, "normalise")
    def normalise(func: Op) -> None:
        _normalise_block(func.body, machine)
        _own_results(func.body.terminator)
        _drop_dead(func.body)

    return normalise


def _normalise_block(block: Block, machine: Machine) -> None:
    for op in [op for op in block.ops if op.name == "form.assemble"]:
        put_part_by_part(op)
    for op in [op for op in block.ops if op.name == "form.assemble"]:
        merge_behind(op)
    compute_by_parts(block)
    for op in list(block.ops):
        if op.parent is None:  # a view that moved with an equal one before it
            continue
        if op.name == "form.contract":
            _normalise_contract(op, machine)
        elif op.name in _RULES:
            _RULES[op.name](op)
        for region in op.regions if op.name in CONTROL else ():
            _normalise_block(region.block, machine)


def _normalise_empty(op: Op) -> None:
    """Memory that no loop begins with holds zeros."""
    if any(user.name not in ("form.loop", "form.while") for user, _ in op.result.uses):
        op.result.replace_all_uses(fill(Builder.before(op), tensor_type(op.result), 0))


def _normalise_reduce(op: Op) -> None:
    widen_integers(op)
    squeeze(op)
    _normalise_views(single_fold(op))
    respace_reduce(op)


def _normalise_contract(op: Op, machine: Machine) -> None:
    left, right = (tensor_type(value).dtype for value in op.operands)
    in_bytes = machine.multiplies_bytes and takes_bytes(op)
    if left != right or not (in_bytes or machine.uses_tiles(left, attr(op, "accum", DType))):
        widen_integers(op)
    _normalise_views(matrix_product(op))


def _normalise_assemble(op: Op) -> None:
    """The tensor that is changed keeps its unit dims until it is known whether that happens in place (`updates.py`)."""
    for position in range(len(op.operands)):
        if _is_written_in_place(op, position):
            continue
        copy = _copy_part(op, position)
        if position or not covers_all(op):
            squeeze(copy)


def _is_written_in_place(op: Op, position: int) -> bool:
    """Whether a part is lines that only this tensor reads, and no other part is written where they are."""
    value, made = op.operands[position], op.operands[position].defining_op
    if made is None or made.name != LINES or made.parent is not op.parent or len(value.uses) > 1:
        return False
    boxes = [Box(s, tensor_type(v).dims) for s, v in zip(assembled_boxes(op), op.operands, strict=True)]
    others = [*boxes[:position], *boxes[position + 1 :]]
    return all(never_meet(boxes[position], other, tensor_type(op.result).dims) for other in others)


def _normalise_scatter(op: Op) -> None:
    _copy_part(op, 0)
    _read_once(op, 1)


def _read_once(op: Op, position: int) -> None:
    """An operand that has one number at all its places, such as ones that are counted, is written once."""
    value = op.operands[position]
    made, type_ = value.defining_op, tensor_type(value)
    if made is None or made.name != "form.map" or any(tensor_type(given).dims for given in made.operands):
        return
    if not type_.dims or any(inner.name == "scalar.index" for inner in made.body.ops):
        return
    builder = Builder.before(op)
    one = clone_op(made, {})
    one.result.type = replace(type_, dims=())
    builder.add(one)
    whole = builder.value("form.view", (one.result,), type_, {"view": Broadcast(())})
    op.set_operand(position, whole)


def _copy_part(op: Op, position: int) -> Op:
    """A part is a map of its own, which writes the part where it belongs; fusion may put its producer into it."""
    copy = copy_of(Builder.before(op), op.operands[position])
    op.set_operand(position, copy.result)
    return copy


def _normalise_map(op: Op) -> None:
    fold_views(op)
    squeeze(op)
    respace(op)


def _normalise_gather(op: Op) -> None:
    squeeze_gather(op)
    gather_below_map(op)


def _normalise_views(views: list[Op]) -> None:
    for view in views:
        if view.parent is not None:
            _normalise_view(view)


def _normalise_view(view: Op) -> None:
    if not _is_result(view) and (hoisted := hoist_view(view)) is not None:
        squeeze(hoisted)
        return
    base, views = view_source(view.result)
    if access_through(views, base) is None:
        copy = copy_of(Builder.before(view), view.operands[0])
        view.set_operand(0, copy.result)


def _is_result(view: Op) -> bool:
    """Whether a view only names the dims of a result otherwise: whoever computes that writes it as it is."""
    ends = [user for user, _ in view.result.uses]
    return keeps_memory(view) and bool(ends) and all(user.name == "func.return" for user in ends)


def _own_results(terminator: Op) -> None:
    """Copies what is returned but not computed here; what several launches write stands in one place only."""
    once: set[Value] = set()
    taken: set[Value] = set()
    given = [value for value in terminator.operands if _is_branch(value)]
    for holder, position in _places_of_results(terminator):
        value = holder.operands[position]
        written = _is_written(value) and value not in taken
        written = written or (holder is terminator and given.count(value) == 1)
        taken.add(value)
        if not _is_owned(value, once) and not written:
            copy = copy_of(Builder.before(holder), value)
            holder.set_operand(position, copy.result)
            squeeze(copy)


def _places_of_results(terminator: Op) -> list[tuple[Op, int]]:
    """Who holds each result: the end of the function, or, of complex numbers, what puts their parts together."""
    makers = [value.defining_op for value in terminator.operands]
    return [
        (maker, 0) if maker is not None and maker.name == "form.complex" else (terminator, position)
        for position, maker in enumerate(makers)
    ]


def _is_written(value: Value) -> bool:
    return value.defining_op is not None and value.defining_op.name in WRITTEN


def _is_branch(value: Value) -> bool:
    """Whether branches give a value, which then write it where it is wanted. Where results take the memory of arguments
    that is decided later."""
    made = value.defining_op
    func = made.parent.parent_op if made is not None and made.parent is not None else None
    return made is not None and made.name == "form.cond" and func is not None and "donated" not in func.attrs


def _is_owned(value: Value, once: set[Value]) -> bool:
    """Whether a value is computed where it is wanted. Of what is written once, `once` are those seen."""
    base, views = view_source(value)
    name = base.defining_op.name if base.defining_op is not None else ""
    kept = all(keeps_memory(view) for view in views)
    if name in WRITTEN_ONCE:
        first = kept and base not in once
        once.add(base)
        return first
    return name in COMPUTED and kept


def _drop_dead(block: Block) -> None:
    for op in reversed(block.ops[:-1]):
        for region in op.regions if op.name in CONTROL else ():
            _drop_dead(region.block)
        if not any(v.uses for v in op.results) and is_pure(op):
            op.erase()


_RULES: dict[str, Callable[[Op], None]] = {
    "form.map": _normalise_map,
    "form.view": _normalise_view,
    "form.empty": _normalise_empty,
    "form.reduce": _normalise_reduce,
    "form.scan": widen_integers,
    "form.gather": _normalise_gather,
    "form.scatter": _normalise_scatter,
    "form.assemble": _normalise_assemble,
}
