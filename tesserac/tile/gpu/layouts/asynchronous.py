"""Which kernels a producer can feed: tensor copies bring whole blocks, and warp groups multiply them as they lie.

Enters: a `tile.kernel`. Leaves: whether `roles` takes it. Each of its products must have 64 rows for every warp group
and a right operand from memory, in panels of 128 bytes. Tensor copies fill with zeros what lies outside of a memory
and know nothing of other ends: see Note [Ends of blocks]. Rows at computed places are copied by threads of the
producer.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value, attr
from tesserac.ir.types import AxisType
from tesserac.tile.dialect import ENDS, Stage, memref_type, tile_type
from tesserac.tile.gpu.layouts.row_copies import is_staged_gather, staged_rows
from tesserac.tile.gpu.model.matrix import MAX_WGMMA_COLUMNS, WARPGROUP
from tesserac.tile.gpu.model.shared import PANEL_BYTES
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import BF16, F16, F32

MAX_RANK = 5
GROUP_ROWS = 64


def is_narrow(dot: Op) -> bool:
    """Whether matrix units of narrow numbers take a product."""
    half = tile_type(dot.operands[0]).dtype in (BF16, F16) and tile_type(dot.result).dtype == F32
    return half or takes_terms(dot)


def takes_terms(dot: Op) -> bool:
    """Whether a schedule has laid out both operands of a product for matrix units of 8-bit numbers."""
    stages = [v.defining_op.attrs.get("stage") for v in dot.operands[:2] if v.defining_op is not None]
    return len(stages) == 2 and all(isinstance(stage, Stage) and stage.layout == "terms" for stage in stages)


def sums_rows(dot: Op) -> bool:
    """Whether a product is one with ones: the sums of the rows of its left operand, in the order of a chain."""
    ones, columns = dot.operands[1].defining_op, tile_type(dot.result).shape[1]
    return ones is not None and ones.name == "tile.full" and ones.attrs["value"] == 1 and columns == 1


def takes_roles(kernel: Op, warps: int) -> bool:
    """Whether a producer can feed the products of a kernel that so many warps compute."""
    dots = [op for op in kernel.walk() if op.name == "tile.dot"]
    loads = [v.defining_op for dot in dots for v in dot.operands[:2] if _is_copied(v)]
    moving = any(load is not None and load.parent is not kernel.body for load in loads)
    fed = all(load is not None and (_has_panels(load) if is_staged_gather(load) else _is_fed(load)) for load in loads)
    return moving and fed and all(_is_group_product(dot, warps // WARPGROUP) for dot in dots)


def _is_group_product(dot: Op, groups: int) -> bool:
    rows, columns = tile_type(dot.result).shape
    left, right = dot.operands[:2]
    if not is_narrow(dot) or rows != GROUP_ROWS * groups or sums_rows(dot):
        return is_narrow(dot) and rows == GROUP_ROWS * groups
    return _is_copied(right) and 8 <= columns <= MAX_WGMMA_COLUMNS and _terms_end(left, right)


def _is_copied(operand: Value) -> bool:
    return _is_loaded(operand) or is_staged_gather(operand.defining_op)


def _is_loaded(operand: Value) -> bool:
    return operand.defining_op is not None and operand.defining_op.name == "tile.load"


def _has_panels(gather: Op) -> bool:
    """Whether rows that threads copy fill panels."""
    rows, ty = staged_rows(gather), tile_type(gather.result)
    wide = ty.shape[rows.column] * ty.dtype.bytes
    return wide % PANEL_BYTES == 0 or (wide == PANEL_BYTES // 2 and _has_columns_along(gather, rows.along))


def _is_fed(load: Op) -> bool:
    """Whether tensor copies bring a block as products want it: along two dims, one of which is dense; what is not meant
    of it, if any, is whole rows of its stage, which are set to zero there."""
    if not _ends_by_rows(load):
        return False
    mem, at = memref_type(load.operands[0]), load.operands[1:]
    moving = [(stride, v) for stride, v in zip(mem.strides, at, strict=True) if isinstance(v.type, AxisType)]
    dense = [v for stride, v in moving if stride == ONE]
    if len(moving) != 2 or len(dense) != 1 or mem.strides.count(ONE) != 1 or len(mem.dims) > MAX_RANK:
        return False
    (along,) = (v.type.block for v in dense if isinstance(v.type, AxisType))
    half = along * mem.dtype.bytes == PANEL_BYTES // 2 and _has_columns_along(load, dense[0])
    return along * mem.dtype.bytes % PANEL_BYTES == 0 or half


def _has_columns_along(load: Op, axis: Value) -> bool:
    """Whether a block is the right operand of products, and this axis its columns: half a panel of those will do."""
    if is_staged_gather(load):
        columns = staged_rows(load).column == 1
    else:
        columns = [v for v in load.operands[1:] if isinstance(v.type, AxisType)][-1] is axis
    return columns and all(op.name == "tile.dot" and place == 1 for op, place in load.result.uses)


def _ends_by_rows(load: Op) -> bool:
    """Whether what is not meant of a block, if any, is whole rows of its stage, which are set to zero there."""
    dim = load.attrs.get(ENDS)
    mem, at = memref_type(load.operands[0]), load.operands[1:]
    strides = [stride for stride, v in zip(mem.strides, at, strict=True) if isinstance(v.type, AxisType)]
    return dim is None or (isinstance(dim, int) and strides[dim] != ONE)


def _terms_end(left: Value, right: Value) -> bool:
    """Whether the terms of a product of copied blocks end where a block is full, or where their memory ends. Rows that
    threads copy end where they should."""
    if not _is_copied(left) or (is_staged_gather(left.defining_op) and is_staged_gather(right.defining_op)):
        return True
    load, terms = (left.defining_op, 1) if _is_loaded(left) else (right.defining_op, 0)
    assert load is not None
    sizes = memref_type(load.operands[0]).dims
    moving = [(n, v) for n, v in zip(sizes, load.operands[1:], strict=True) if isinstance(v.type, AxisType)]
    size, axis = moving[terms]
    made = axis.defining_op
    if made is None or made.name != "tile.axis" or not isinstance(axis.type, AxisType):
        return False
    start, stop = made.operands
    return _is_multiple(start, axis.type.block) and _is_end(stop, size, axis.type.block)


def _is_end(value: Value, size: Dim, block: int) -> bool:
    made = value.defining_op
    if made is not None and made.name == "index.dim":
        return attr(made, "dim", Dim) == size or _is_multiple(value, block)
    if made is not None and made.name == "index.min":
        return all(_is_end(v, size, block) for v in made.operands)
    return _is_multiple(value, block)


def _is_multiple(value: Value, block: int) -> bool:
    """Whether a place is known to be a multiple of the size of blocks."""
    made = value.defining_op
    if made is None:
        return _is_loop_index(value, block)
    if made.name == "index.dim":
        constant = attr(made, "dim", Dim).constant
        return constant is not None and constant % block == 0
    if made.name == "index.mul":
        return any(_is_multiple(v, block) for v in made.operands)
    return made.name in ("index.add", "index.sub", "index.min", "index.max") and all(
        _is_multiple(v, block) for v in made.operands
    )


def _is_loop_index(value: Value, block: int) -> bool:
    owner = value.owner
    loop = None if isinstance(owner, Op) else owner.parent_op
    if loop is None or loop.name != "tile.for" or value is not loop.body.args[0]:
        return False
    return attr(loop, "step", int) % block == 0 and _is_multiple(loop.operands[0], block)


# Note [Ends of blocks]
# What lies behind the end of an axis is no term of a product. Copies by threads stop there and fill with zeros; tensor
# copies stop at the end of the memory only. So the terms of a product of two loaded blocks must end there, or where a
# block is full. A computed left operand has zeros behind the end of its axis. They meet what the memory has there,
# which is what the meaning multiplies by zeros as well: loops end with their dim, or where a mask does (masked_blocks).
# Where the meaning has zeros there too (`ends`), the warps that multiply write them into the last stage of a loop.
