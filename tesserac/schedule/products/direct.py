"""Products that read memory in groups of dims: windows of an image are packed from the image itself.

    %w = form.map(view of %image) { copy } : tensor<[3, 3, C, H, W]>
    %y = form.contract(%k, form.view(%w) {reshape} : tensor<[9*C, H*W]>)
becomes
    %y = form.contract(%k, form.view(view of %image) {reshape} : tensor<[9*C, H*W]>)

Enters: forms of a block, in normal form. Leaves: the same without such copies. A reshape that merges dims which are no
run in memory has no strides; where operands are copied into panels anyway, the copying walks the dims that it merges
(`Reach.digits`). What a contraction sums, and in which order, stays the same.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import Reshape, Window, operand_maps, tensor_type
from tesserac.ir.types import TensorType
from tesserac.schedule.costs.tiles import FEWEST_ROWS
from tesserac.schedule.forms.views import is_copy, permuted
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import Digits, grouped_access, is_view, view_source
from tesserac.types.dims import ONE
from tesserac.types.dtype import BF16, F16, F32, F64
from tesserac.types.extents import constant_bound
from tesserac.types.policy import compute_dtype

PACKED_DIRECTLY = (F32, F64, BF16, F16)


def read_directly(block: Block, machine: Machine) -> None:
    """Takes out copies that only bring operands of products into the order of their dims."""
    for op in list(block.ops):
        if op.name == "form.contract" and _is_packed(op) and not _uses_tiles(op, machine):
            for position in range(2):
                _take_out_copy(op, position)


def _is_packed(contract: Op) -> bool:
    """Of a few rows, and of a sum over iterations, operands are read in other ways; but windows that overlap would be
    many times what they are windows of, if they were written out to be read once."""
    rows = constant_bound(tensor_type(contract.result).dims[-2])
    summed = any(user.name == "form.accumulate" for user, _ in contract.result.uses)
    return not summed and (rows is None or rows > FEWEST_ROWS or _has_windows(contract.operands[1]))


def _has_windows(operand: Value) -> bool:
    copy = _copy_below(operand)
    views = () if copy is None else view_source(copy.operands[0])[1]
    return any(isinstance(view.attrs["view"], Window) for view in views)


def _uses_tiles(contract: Op, machine: Machine) -> bool:
    """A matrix unit takes matrices."""
    ty = tensor_type(contract.operands[0])
    return machine.uses_tiles(ty.dtype, compute_dtype(ty.dtype, ty.policy))


def _take_out_copy(contract: Op, position: int) -> None:
    copy = _copy_below(contract.operands[position])
    if copy is None or not _is_packed_directly(copy.result):
        return
    old, view = contract.operands[position], _view_of_source(contract, position, copy)
    groups = grouped_access(view)
    taken = groups is not None and (position == 1 or _has_runs(groups[1]))
    if taken:
        contract.set_operand(position, view)
    _erase_unused(old if taken else view, copy)


def _view_of_source(contract: Op, position: int, copy: Op) -> Value:
    """What the copy reads, with the dims that the operand has."""
    builder, places = Builder.before(contract), [i for i in operand_maps(copy)[0] if i is not None]
    ordered = permuted(builder, _without_units(builder, copy), tuple(map(sorted(places).index, places)))
    return builder.value("form.view", (ordered,), contract.operands[position].type, {"view": Reshape()})


def _erase_unused(value: Value, copy: Op) -> None:
    """A chain that nobody reads, from its end to the copy or to what that reads."""
    while value is not copy.operands[0] and not value.uses and value.defining_op is not None:
        op, value = value.defining_op, value.defining_op.operands[0]
        op.erase()
        if op is copy:
            return


def _copy_below(value: Value) -> Op | None:
    """The copy that an operand reshapes, if nothing else reads it."""
    op = value.defining_op
    if op is None or not is_view(op):
        return None
    while op is not None and is_view(op) and isinstance(op.attrs["view"], Reshape) and len(op.result.uses) == 1:
        op = op.operands[0].defining_op
    if op is None or op.name != "form.map" or len(op.result.uses) != 1 or not is_copy(op) or "layout" in op.attrs:
        return None
    followed, dims = operand_maps(op)[0], tensor_type(op.operands[0]).dims
    units = all(dim == ONE for dim, i in zip(dims, followed, strict=True) if i is None)
    once = len({i for i in followed if i is not None}) == len([i for i in followed if i is not None])
    made = all(dim == ONE for i, dim in enumerate(tensor_type(op.result).dims) if i not in followed)
    return op if units and once and made else None


def _is_packed_directly(copy: Value) -> bool:
    ty = tensor_type(copy)
    return ty.dtype in PACKED_DIRECTLY and compute_dtype(ty.dtype, ty.policy) in (F32, F64)


def _has_runs(groups: tuple[Digits, ...]) -> bool:
    """Whether some neighbours of a left operand are neighbours in memory: it is packed for every block of columns."""
    return any(group[-1][1] == ONE for group in groups[-2:])


def _without_units(builder: Builder, copy: Op) -> Value:
    """What is copied, without the dims of size 1 that the copy leaves out."""
    source, ty = copy.operands[0], tensor_type(copy.operands[0])
    dims = tuple(d for d, i in zip(ty.dims, operand_maps(copy)[0], strict=True) if i is not None)
    if dims == ty.dims:
        return source
    return builder.value("form.view", (source,), TensorType(dims, ty.dtype, ty.policy), {"view": Reshape()})

