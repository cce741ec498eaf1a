"""Memory that only kernels need, beside the buffers of a host program: what they tell of indices that are out of range,
with what the host must know to pass it on, and what one hands to the next."""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.ir.core import OPDEFS, Attr, Op, Value, attr
from tesserac.ir.forms import tensor_type
from tesserac.ir.indexed import gather_source, is_checked
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import launch_kind
from tesserac.schedule.model.space import computing
from tesserac.schedule.programs.grid import launched_kernel
from tesserac.types.dims import Dim
from tesserac.types.dtype import I64

INDEXED = ("form.gather", "form.scatter")
"""Forms that read or write at computed places."""


def checked_forms(launch: Op) -> list[Op]:
    """The forms of a launch, of a tile program those of its region, that may find an index out of range."""
    forms = launched_kernel(launch).walk() if launch_kind(launch) == "program" else computing(launch)
    return [op for op in forms if op.name in INDEXED and is_checked(op)]


def status_type(check: Op) -> MemRefType:
    """Where a form tells of bad indices: one word per index."""
    return MemRefType((Dim.const(gather_source(check).count(None)),), I64)


def add_status(host: Op, check: Op) -> Value:
    """Memory in which a kernel tells of bad indices, beside the other buffers of the host program."""
    return _add_buffer(host, status_type(check), "status", "status", check.span)


def add_workspace(host: Op, type_: MemRefType, name: str = "workspace") -> Value:
    """Memory that a kernel writes and the next one reads."""
    return _add_buffer(host, type_, "workspace", name, host.span)


def _add_buffer(host: Op, type_: MemRefType, role: str, name: str, span: Span) -> Value:
    """A buffer in a slot of its own."""
    taken = [attr(op, "slot", int) for op in host.body.ops if op.attrs.get("role") == role]
    attrs: dict[str, Attr] = {"role": role, "slot": 1 + max(taken, default=-1)}
    buffer = Op(OPDEFS["schedule.buffer"], (), (type_,), attrs, (), span, (name,))
    first = (i for i, op in enumerate(host.body.ops) if op.name not in ("schedule.guard", "schedule.buffer"))
    return host.body.insert(next(first), buffer).result


def check_attrs(check: Op) -> dict[str, Attr]:
    """What the host must know to tell of a bad index: the operator, and the size that each index has to be below."""
    dims = tensor_type(check.operands[0]).dims
    sizes = tuple(dim for dim, place in zip(dims, gather_source(check), strict=True) if place is None)
    return {"operator": check.attrs["operator"], "sizes": sizes}
