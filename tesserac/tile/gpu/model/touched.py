"""What operations of a kernel do to memory."""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.ir.types import MemRefType


def written_memory(op: Op) -> tuple[Value, ...]:
    """The memory that an operation writes, of that which stands in a block's arguments or is shared by its threads."""
    match op.name:
        case "gpu.store" | "gpu.scatter" | "gpu.publish":
            return (op.operands[1],)
        case "gpu.scan_rows" | "gpu.subtrees":
            return tuple(v for v in op.operands if isinstance(v.type, MemRefType))
        case "gpu.scan_once":
            *given, _, put = (v for v in op.operands if isinstance(v.type, MemRefType))
            return (*given, put)
        case "gpu.sort" | "gpu.digit_counts" | "gpu.digit_offsets" | "gpu.digit_places":
            return tuple(v for v in op.operands[1:] if isinstance(v.type, MemRefType))
    return ()


def viewed(value: Value) -> Value:
    """The memory that views are of."""
    made = value.defining_op
    return viewed(made.operands[0]) if made is not None and made.name == "gpu.view" else value
