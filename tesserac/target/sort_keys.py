"""The order of elements as that of unsigned integers: what sorting compares on every target.

-0 equals +0, every NaN is the last whichever way the order runs, and false comes before true.
"""

from __future__ import annotations

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, Value, const_int, integer, zero
from tesserac.types.dtype import BOOL, DType


def sort_key(b: Builder, value: Value, dtype: DType, descending: bool) -> Value:
    """A key of 64 bits. `value` is an integer as memory holds it, or a float, a narrow one as f32."""
    if not dtype.is_float:
        sign = const_int(value.type, 1 << (value.type.bits - 1) if dtype.kind == "i" else 0)
        turned = const_int(value.type, -1 if descending and dtype != BOOL else int(descending))
        return b.cast("zext", b.binary("xor", b.binary("xor", value, sign), turned), I64)
    number = b.fadd(value, zero(value.type))  # -0 becomes +0
    bits = b.cast("bitcast", number, integer(number.type.bits))
    sign = const_int(bits.type, 1 << (bits.type.bits - 1))
    negative = b.binary("ashr", bits, const_int(bits.type, bits.type.bits - 1))
    key = b.binary("xor", bits, b.binary("or", negative, sign))
    if descending:
        key = b.binary("xor", key, const_int(key.type, -1))
    last = b.select(b.fcmp("uno", number, number), const_int(key.type, -1), key)
    return b.cast("zext", last, I64)
