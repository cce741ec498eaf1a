"""What values and attributes of the GPU dialect are: each accessor says what it expects."""

from __future__ import annotations

from tesserac.ir.core import Op, Value, attr, attr_tuple
from tesserac.ir.forms import Guard
from tesserac.ir.types import AxisType, MemRefType, ScalarType
from tesserac.tile.gpu.model.matrix import MatrixUnit
from tesserac.tile.gpu.model.types import (
    FIRST,
    BarriersType,
    FragmentType,
    StagesType,
)
from tesserac.types.dims import Dim
from tesserac.types.policy import compute_dtype


def fragment(value: Value) -> FragmentType:
    assert isinstance(value.type, FragmentType), f"expected a fragment, not {value.type}"
    return value.type


def memory(value: Value) -> MemRefType:
    assert isinstance(value.type, MemRefType), f"expected memory, not {value.type}"
    return value.type


def stages(value: Value) -> StagesType:
    assert isinstance(value.type, StagesType), f"expected stages, not {value.type}"
    return value.type


def barriers(value: Value) -> BarriersType:
    assert isinstance(value.type, BarriersType), f"expected barriers, not {value.type}"
    return value.type


def axis_block(value: Value) -> int:
    assert isinstance(value.type, AxisType), f"expected an axis, not {value.type}"
    return value.type.block


def integer(op: Op, name: str) -> int:
    return attr(op, name, int)


def text(op: Op, name: str) -> str:
    return attr(op, name, str)


def matrix_unit_of(op: Op) -> MatrixUnit:
    return attr(op, "unit", MatrixUnit)


def first_column(op: Op) -> int:
    """Where what an operation takes of the columns of a block begins."""
    return integer(op, FIRST) if FIRST in op.attrs else 0


def constant_index(value: Value) -> int | None:
    """An index that is known while compiling."""
    made = value.defining_op
    dim = made.attrs.get("dim") if made is not None and made.name == "index.dim" else None
    return dim.constant if isinstance(dim, Dim) else None


def kernel_grid(kernel: Op) -> tuple[Dim, ...]:
    return attr_tuple(kernel, "grid", Dim)


def kernel_parameters(kernel: Op) -> list[Value]:
    """Memory and tensor maps, behind the program's position."""
    return kernel.body.args[len(kernel_grid(kernel)) :]


def kernel_conditions(kernel: Op) -> tuple[Guard, ...]:
    return attr_tuple(kernel, "when", Guard)


def is_persistent(kernel: Op) -> bool:
    """Whether a block of threads runs one program after the other."""
    return "persistent" in kernel.attrs


def kernel_threads(kernel: Op) -> int:
    return 32 * integer(kernel, "warps")


def scalar_of(ty: FragmentType) -> ScalarType:
    """The type in which elements of a fragment take part in computation."""
    return ScalarType(compute_dtype(ty.dtype, ty.policy))
