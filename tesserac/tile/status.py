"""What kernels tell of indices that are out of range, and what the host must know to pass it on."""

from __future__ import annotations

from tesserac.ir.core import OPDEFS, Attr, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.indexed import gather_source, is_checked
from tesserac.ir.types import MemRefType
from tesserac.schedule.space import computing
from tesserac.types.dims import Dim
from tesserac.types.dtype import I64

INDEXED = ("form.gather", "form.scatter")
"""Forms that read or write at computed places."""


def checked_forms(launch: Op) -> list[Op]:
    """The forms of a launch that may find an index out of range."""
    return [op for op in computing(launch) if op.name in INDEXED and is_checked(op)]


def status_type(check: Op) -> MemRefType:
    """Where a form tells of bad indices: one word per index."""
    return MemRefType((Dim.const(gather_source(check).count(None)),), I64)


def add_status(host: Op, check: Op) -> Value:
    """Memory in which a kernel tells of bad indices, beside the other buffers of the host program."""
    before = [op for op in host.body.ops if op.name == "schedule.buffer" and op.attrs["role"] == "status"]
    attrs: dict[str, Attr] = {"role": "status", "slot": len(before)}
    buffer = Op(OPDEFS["schedule.buffer"], (), (status_type(check),), attrs, (), check.span, ("status",))
    first = (i for i, op in enumerate(host.body.ops) if op.name not in ("schedule.guard", "schedule.buffer"))
    return host.body.insert(next(first), buffer).result


def check_attrs(check: Op) -> dict[str, Attr]:
    """What the host must know to tell of a bad index: the operator, and the size that each index has to be below."""
    dims = tensor_type(check.operands[0]).dims
    sizes = tuple(dim for dim, place in zip(dims, gather_source(check), strict=True) if place is None)
    return {"operator": check.attrs["operator"], "sizes": sizes}
