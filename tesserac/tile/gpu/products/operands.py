"""Pass `operands`: what a product reads that is computed goes from registers to a stage.

    %p = gpu.map(...) : fragment<[64, 32], f32, ...>
    %y = gpu.dot(%p, %v, %acc)
  becomes, with %room = gpu.alloc() : stages<1, [64, 32], ...> at the start of the kernel,
    %q = gpu.mask(%p, %j) {dim = 1, value = 0}        what lies behind the end of the axis is no term
    gpu.warp_barrier(); gpu.put(%q, %room); gpu.warp_barrier()
    %y = gpu.dot(%room, %v, %acc)

Matrix units of narrow numbers take a left operand from registers that lies there as a result of theirs. A product with
ones is the sum of the rows: `gpu.sum_rows`. Where a warp reads what other warps wrote, all threads wait for each other.
"""

from __future__ import annotations

import math

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import AxisType
from tesserac.tile.bodies import constant_scalar, is_plus_zero
from tesserac.tile.gpu.model.matrix import FMA, MMA, MMA_LANES, MMA_REGISTERS, WGMMA, operand_layout
from tesserac.tile.gpu.model.types import FragmentType, StagesType
from tesserac.tile.gpu.model.values import fragment, matrix_unit_of
from tesserac.tile.gpu.products.gathers import copies_rows, cut_axes

Axes = tuple[Value | None, ...]
"""The axis that each dim of a block follows, where it follows one."""


def place_operands(kernel: Op) -> None:
    """Changes the kernel in place."""
    _drop_zeros(kernel)
    axes = _block_axes(kernel)
    placed: dict[tuple[Value, int], Value] = {}
    start = Builder.before(kernel.body.ops[0])
    for dot in [op for op in kernel.walk() if op.name == "gpu.dot"]:
        for position, terms in ((0, 1), (1, 0)):
            value = dot.operands[position]
            if not isinstance(value.type, FragmentType) or (position == 1 and _sums_rows(dot)):
                continue
            if (value, position) not in placed:
                axis = None if _vanishes(value) else axes.get(value, (None, None))[terms]
                held = position == 0 and _is_held(dot)
                placed[value, position] = _masked(value, axis, 1) if held else _put(start, dot, position, value, axis)
            dot.set_operand(position, placed[value, position])
        if _sums_rows(dot):
            _sum_rows(dot)


def _drop_zeros(kernel: Op) -> None:
    """A sum ends with `+ 0`, so that no zero is negative. Those of matrix units of narrow numbers never are (measured
    on an H200: products of zeros of both signs, sums that cancel, terms that underflow)."""
    for op in kernel.walk():
        for value, arg in zip(op.operands, op.body.args, strict=True) if op.name == "gpu.map" else ():
            made = _before_masks(value).defining_op
            if made is None or made.name != "gpu.dot" or matrix_unit_of(made).name == FMA:
                continue
            for user, position in list(arg.uses):
                if user.name == "scalar.add" and position == 0 and is_plus_zero(user.operands[1]):
                    user.result.replace_all_uses(arg)


def _before_masks(value: Value) -> Value:
    """What a block is inside its axes; what it is outside is never a zero that is negative."""
    made = value.defining_op
    return _before_masks(made.operands[0]) if made is not None and made.name == "gpu.mask" else value


def _sums_rows(dot: Op) -> bool:
    return isinstance(dot.operands[1].type, FragmentType) and fragment(dot.result).shape[1] == 1


def _sum_rows(dot: Op) -> None:
    left, _, acc = dot.operands
    attrs = {"unit": matrix_unit_of(dot)}
    result = Builder.before(dot).value("gpu.sum_rows", (left, acc), acc.type, attrs, hint=dot.result.name)
    dot.result.replace_all_uses(result)
    dot.erase()


def _put(start: Builder, dot: Op, position: int, value: Value, axis: Value | None) -> Value:
    """The stage into which a computed operand goes, just behind where it is computed."""
    ty = fragment(value)
    layout = operand_layout(matrix_unit_of(dot), (ty.shape[0], ty.shape[1]), ty.dtype, position)
    room = start.value("gpu.alloc", (), StagesType(1, ty.dtype, ty.policy, layout), hint="room")
    value = _masked(value, axis, 1 - position)
    b = _behind(value)
    wait = "gpu.warp_barrier" if position == 0 and _stays_in_warp(value, dot.result) else "gpu.barrier"
    b.op(wait)
    b.op("gpu.put", (value, room))
    b.op(wait)
    return room


def _masked(value: Value, axis: Value | None, terms: int) -> Value:
    """The operand with zeros for terms behind the end of their axis."""
    if axis is None:
        return value
    return _behind(value).value("gpu.mask", (value, axis), value.type, {"dim": terms, "value": 0})


def _vanishes(value: Value) -> bool:
    """Whether a computed operand is 0 behind the end of its axis anyway: it is a map of a block with -inf there."""
    op = value.defining_op
    if op is None or op.name != "gpu.map":
        return False
    known = [_constant_beyond(v) for v in op.operands]
    values: dict[Value, float | None] = dict(zip(op.body.args, known, strict=True))
    for inner in op.body.ops[:-1]:
        number, args = constant_scalar(inner.result), [values[v] for v in inner.operands]
        values[inner.result] = _at_ends(inner, args) if number is None else number
    return values[op.body.terminator.operands[0]] == 0.0


def _constant_beyond(value: Value) -> float | None:
    """What a block has behind the end of the axis of its terms, if that is known."""
    op = value.defining_op
    masked = op is not None and op.name == "gpu.mask" and op.attrs["dim"] == 1
    filled = op.attrs["value"] if op is not None and masked else None
    return filled if isinstance(filled, float) else None


def _at_ends(op: Op, args: list[float | None]) -> float | None:
    """The value of a scalar operation where some of its operands are known to be -inf or 0."""
    match op.name, args:
        case "scalar.exp_lifted" | "scalar.exp_term", [float(x), _] if x == -math.inf:
            return 0.0
        case "scalar.exp", [float(x)] if x == -math.inf:
            return 0.0
        case "scalar.mul", [float(x), float(factor)] if x == -math.inf and factor > 0:
            return x
        case "scalar.ldexp" | "scalar.round" | "scalar.cast", [float(x), *_] if x == 0.0:
            return 0.0
        case "scalar.eq", [float(x), float(y)]:
            return float(x == y)
        case "scalar.select", [flag, yes, no] if flag is not None or yes == no:
            return yes if flag else no
    return None


def _is_held(dot: Op) -> bool:
    """Whether the unit takes the left operand as it lies in registers."""
    layout = fragment(dot.operands[0]).layout
    as_result = layout.registers[: len(MMA_REGISTERS)] == MMA_REGISTERS and layout.lanes == MMA_LANES
    return matrix_unit_of(dot).name in (MMA, WGMMA) and as_result and _stays_in_warp(dot.operands[0], dot.result)


def _stays_in_warp(left: Value, result: Value) -> bool:
    """Whether a warp reads only rows that it wrote."""
    mine, wanted = fragment(left).layout.warps, fragment(result).layout.warps
    return mine == wanted and all(bit is not None and bit[0] == 0 for bit in mine)


def _behind(value: Value) -> Builder:
    made = value.defining_op
    if made is None:
        block = value.owner
        assert not isinstance(block, Op)
        return Builder.before(block.ops[0])
    assert made.parent is not None
    return Builder.before(made.parent.ops[made.parent.place(made) + 1])


# -------------------------------------------------------------------------------------------- which axis a dim follows


def _block_axes(kernel: Op) -> dict[Value, Axes]:
    """For every block, the axes of its dims: loads say them, and they travel with what is computed from those."""
    found: dict[Value, Axes] = {}
    for op in kernel.walk():
        axes = _axes(op, found)
        if axes is not None:
            found[op.result] = axes
    return found


def _axes(op: Op, found: dict[Value, Axes]) -> Axes | None:
    match op.name:
        case "gpu.stage" if copies_rows(op):
            axes = cut_axes(op)
            return axes.get(0), axes.get(1)
        case "gpu.load" | "gpu.stage":
            return tuple(at for at in op.operands[1:] if isinstance(at.type, AxisType))
        case "gpu.iota":
            return op.operands
        case "gpu.dot":
            left, right = (found.get(v, (None, None)) for v in op.operands[:2])
            return left[0], right[1]
        case "gpu.cast" | "gpu.convert" | "gpu.mask":
            return found.get(op.operands[0])
        case "gpu.map":
            return _mapped(op, found)
    return None


def _mapped(op: Op, found: dict[Value, Axes]) -> Axes:
    axes: list[Value | None] = [None] * len(fragment(op.result).shape)
    for value, places in zip(op.operands, operand_maps(op), strict=True):
        for place, axis in zip(places, found.get(value, ()), strict=False):
            if place is not None and axis is not None:
                axes[place] = axis
    return tuple(axes)
