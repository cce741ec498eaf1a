"""Maps of whole tensors, element by element, and what they are for a tensor of any shape.

Enters: a `schedule.launch`. Leaves: whether it is such a map, and the same launch over a tensor of one dim, whose
length is the symbol `tensor.length`. What the body reads and computes stands there in the order in which its results
come to need it: so two launches that do the same look the same, in whatever order they were fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, Value, clone_op
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.types import TensorType
from tesserac.schedule.dialect import (
    LENGTH,
    STEPS,
    Loop,
    launch_ins,
    launch_kind,
    launch_loops,
    launch_outs,
    launch_space,
    memory,
)
from tesserac.types.dims import Dim

Walked = tuple[bool | None, ...]
"""For each input whether it has one element for each of the results, or one for all; None where there is no telling,
since there is one result."""


def is_flat(op: Op) -> bool:
    """Whether a launch is a map of whole tensors in the order in which they lie in memory."""
    if op.name != "schedule.launch" or launch_kind(op) != "map":
        return False
    if "copied" in op.attrs or STEPS in op.attrs:
        return False
    rank, loops = len(launch_space(op)), launch_loops(op)
    one_run = len(loops) == (1 if rank else 0) and all(loop.kind == "parallel" for loop in loops)
    whole = all(memory(v).contiguous and memory(v).layout == "strided" for v in op.operands)
    return one_run and whole and bool(launch_ins(op)) and all(_is_pointwise(form, rank) for form in op.body.ops[:-1])


def _is_pointwise(form: Op, rank: int) -> bool:
    if form.name != "form.map" or tensor_type(form.result).rank != rank:
        return False
    if any(inner.name == "scalar.index" or inner.regions for inner in form.body.ops):
        return False
    own, maps = tuple(range(rank)), zip(operand_maps(form), form.operands, strict=True)
    return all(tuple(places) in (own, ()) and tensor_type(value).rank == len(places) for places, value in maps)


class FlatLaunch:
    """A launch that is flat. Its inputs have the order in which its results come to need them."""

    def __init__(self, op: Op) -> None:
        self.op = op

    @cached_property
    def _needed(self) -> tuple[list[Value], list[Op]]:
        return in_order(self.op.body, _operands_in_order)

    def ins(self) -> list[Value]:
        return [launch_ins(self.op)[arg.index] for arg in self._needed[0]]

    def operands(self) -> list[Value]:
        return [*self.ins(), *launch_outs(self.op)]

    def walked(self) -> Walked:
        one = not launch_space(self.op)
        return tuple(None if one else tensor_type(arg).rank > 0 for arg in self._needed[0])

    def over_one(self, walked: Walked) -> Op:
        """The launch over one tensor, without memory."""
        (args, forms), length = self._needed, (Dim.sym(LENGTH),)
        dims = [() if along is False else length for along in walked]
        block = Block([_with_dims(arg, d) for arg, d in zip(args, dims, strict=True)], [arg.name for arg in args])
        mapping = dict(zip(args, block.args, strict=True))
        for form in forms:
            block.append(_flat_map(form, mapping, _with_dims(form.result, length)))
        yielded = [mapping[v] for v in self.op.body.terminator.operands]
        block.append(Op(OPDEFS["form.yield"], yielded, ()))
        attrs: dict[str, Attr] = {
            **self.op.attrs,
            "space": length,
            "places": ((0,),) * len(forms),
            "loops": (Loop((0,), length[0], 1, "parallel"),),
        }
        return Op(self.op.opdef, (), (), attrs, [Region(block)], self.op.span)


def in_order(block: Block, operands: Callable[[Op], Sequence[Value]]) -> tuple[list[Value], list[Op]]:
    """The arguments and operations of a block as what it yields comes to need them; arguments that nothing needs are
    the last."""
    args, ops = dict[Value, None](), dict[Op, None]()
    waiting: list[Value | Op] = [*reversed(block.terminator.operands)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Op):
            ops[item] = None  # all that it reads is there
        elif (made := item.defining_op) is None:
            args[item] = None
        elif made not in ops:
            waiting += [made, *reversed(operands(made))]
    args.update(dict.fromkeys(block.args))
    return list(args), list(ops)


def _operands_in_order(form: Op) -> list[Value]:
    args, _ = in_order(form.body, lambda op: op.operands)
    return [form.operands[arg.index] for arg in args]


def _flat_map(form: Op, mapping: dict[Value, Value], result: TensorType) -> Op:
    args, ops = in_order(form.body, lambda op: op.operands)
    operands = [mapping[form.operands[arg.index]] for arg in args]
    block = Block([arg.type for arg in args], [arg.name for arg in args])
    inside = dict(zip(args, block.args, strict=True))
    for op in (*ops, form.body.terminator):
        block.append(clone_op(op, inside))
    maps = tuple((0,) * tensor_type(value).rank for value in operands)
    attrs = {**form.attrs, "maps": maps}
    made = Op(form.opdef, operands, (result,), attrs, [Region(block)], form.span, [form.result.name])
    mapping[form.result] = made.result
    return made


def _with_dims(value: Value, dims: tuple[Dim, ...]) -> TensorType:
    return replace(tensor_type(value), dims=dims)
