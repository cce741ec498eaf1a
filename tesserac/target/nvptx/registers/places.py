"""Masks by place: where a mask keeps a whole block, nothing of it is computed.

Enters: a map that compares places, as a causal mask does. Leaves: its comparisons, and whether all hold everywhere
in the block of a warp. A place grows with the register that holds it, so that the ends of what a thread has answer for
all of it.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import ScalarType
from tesserac.target.llvm_types import I1, I32, Value, const_int
from tesserac.target.nvptx.context import Context
from tesserac.tile.gpu.model.layout import Layout
from tesserac.tile.gpu.model.values import fragment

_LAST, _FIRST = -1, 0
_COMPARISONS = {
    "scalar.le": ("sle", _LAST, _FIRST),
    "scalar.lt": ("slt", _LAST, _FIRST),
    "scalar.ge": ("sge", _FIRST, _LAST),
    "scalar.gt": ("sgt", _FIRST, _LAST),
}
"""The instruction, and at which ends of its operands a comparison is least likely to hold."""


@dataclass(frozen=True)
class Mask:
    """Comparisons of places in the body of a map, and whether they fail anywhere in what a warp has."""

    comparisons: frozenset[IRValue]
    fails: Value


def mask_of(ctx: Context, op: Op) -> Mask | None:
    """The mask that a map applies, if it compares places."""
    sources = dict(zip(op.body.args, op.operands, strict=True))
    found = [o for o in op.body.ops if o.name in _COMPARISONS and all(is_place(sources.get(v)) for v in o.operands)]
    if not found:
        return None
    b, fails = ctx.b, const_int(I1, 0)
    for comparison in found:
        predicate, *ends = _COMPARISONS[comparison.name]
        left, right = (_end(ctx, sources[v], end) for v, end in zip(comparison.operands, ends, strict=True))
        holds = b.icmp(predicate, left, right)
        fails = b.binary("or", fails, b.binary("xor", holds, const_int(I1, 1)))
    anywhere = b.intrinsic("llvm.nvvm.vote.any.sync", I1, [const_int(I32, -1), fails])
    return Mask(frozenset(o.result for o in found), anywhere)


def is_place(value: IRValue | None) -> bool:
    """Whether a block holds places along one axis, perhaps moved."""
    made = None if value is None else value.defining_op
    if made is None or made.name == "gpu.iota":
        return made is not None
    if made.name != "gpu.map" or len(made.operands) != 1 or not is_place(made.operands[0]):
        return False
    return all(_keeps_order(op, made.body.args[0]) for op in made.body.ops[:-1])


def _keeps_order(op: Op, place: IRValue) -> bool:
    if op.name in ("scalar.constant", "scalar.dim"):
        return True
    ty = op.result.type
    whole = isinstance(ty, ScalarType) and ty.dtype.kind == "i"
    moved = (
        op.name == "scalar.cast" or op.name == "scalar.add" or (op.name == "scalar.sub" and op.operands[1] is not place)
    )
    return whole and moved and op.operands[1:] != op.operands[:1]


def _end(ctx: Context, value: IRValue, end: int) -> Value:
    return ctx.fragments[value][_by_place(fragment(value).layout)[end]]


def _by_place(layout: Layout) -> list[int]:
    """Registers in the order of the places that they hold."""
    return sorted(range(layout.count), key=lambda register: sum(layout.offsets[register].values()))
