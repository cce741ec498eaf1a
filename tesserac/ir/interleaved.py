"""Complex numbers at the edge of a function, where callers see them: in memory a number is its two parts in a row.

    form.parts(x : tensor<[N], c64>) : tensor<[N, 2], f32>
        The parts of an argument, real before imaginary. It reads the argument's own memory.
    form.complex(x : tensor<[N, 2], f32>) : tensor<[N], c64>
        What a function returns, from its parts. They are written to the memory of the result.

Nothing else knows of complex numbers after the Graph's `split_complex`.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.core import Block, Op, define_op
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.types.dims import Dim
from tesserac.types.dtype import component

TWO = Dim.const(2)


def part_type(ty: TensorType) -> TensorType:
    """The type of the real or the imaginary part of a tensor."""
    accum = ty.policy.accum
    policy = ty.policy if accum is None else replace(ty.policy, accum=component(accum))
    return TensorType(ty.dims, component(ty.dtype), policy)


def parts_type(ty: TensorType) -> TensorType:
    """The type of both parts side by side."""
    part = part_type(ty)
    return TensorType((*part.dims, TWO), part.dtype, part.policy)


def _verify_parts(op: Op) -> None:
    whole = tensor_type(op.operands[0])
    require(whole.dtype.is_complex and op.result.type == parts_type(whole), "gives the parts of its operand", op)
    require(isinstance(op.operands[0].owner, Block), "reads an argument of the function", op)


def _verify_complex(op: Op) -> None:
    whole = tensor_type(op.result)
    require(whole.dtype.is_complex and op.operands[0].type == parts_type(whole), "takes the parts of its result", op)
    require(all(user.opdef.terminator for user, _ in op.result.uses), "is what the function returns", op)


define_op("form.parts", pure=True, verify=_verify_parts)
define_op("form.complex", pure=True, verify=_verify_complex)
