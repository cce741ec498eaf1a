"""Run-time integers: sizes, offsets, counters. One small dialect shared by all levels.

    %n = index.dim() {dim = `ceil_div(N, 64)`} : index      any dim expression; constants too
    %o = index.mul(%i, %n) : index
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value, define_op
from tesserac.ir.types import INDEX, IndexType
from tesserac.ir.verify import require
from tesserac.types.dims import Dim

BINARY = ("add", "sub", "mul", "floor_div", "ceil_div", "rem", "min", "max")


def _verify_dim(op: Op) -> None:
    require(isinstance(op.attrs.get("dim"), Dim), "needs a dim", op)
    require(len(op.operands) == 0 and op.result.type == INDEX, "takes nothing and gives an index", op)


def _verify_binary(op: Op) -> None:
    require(len(op.operands) == 2, "takes two operands", op)
    require(all(isinstance(v.type, IndexType) for v in (*op.operands, op.result)), "works on indices", op)


define_op("index.dim", pure=True, verify=_verify_dim)
for _name in BINARY:
    define_op(f"index.{_name}", pure=True, verify=_verify_binary)


def dim_value(builder: Builder, dim: Dim | int, hint: str = "") -> Value:
    """The run-time value of a dim expression."""
    expression = Dim.const(dim) if isinstance(dim, int) else dim
    return builder.value("index.dim", (), INDEX, {"dim": expression}, hint=hint)


def index_op(builder: Builder, name: str, left: Value, right: Value, hint: str = "") -> Value:
    return builder.value(f"index.{name}", (left, right), INDEX, hint=hint)


def constant_index(value: Value) -> int | None:
    """The number, if an index is one."""
    op = value.defining_op
    if op is None or op.name != "index.dim":
        return None
    dim = op.attrs["dim"]
    return dim.constant if isinstance(dim, Dim) else None
