"""Conversions between dtypes, and constants, as PTX-ready LLVM values: floats round to nearest even, floats to integers
saturate, integers wrap."""

from __future__ import annotations

from tesserac.numerics.narrow import code_of
from tesserac.target.cpu.elements.registers import wrap_nibble
from tesserac.target.cpu.elements.scalars import limit_nibble, top_bits
from tesserac.target.fp8 import narrow_fp8, widen_fp8
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32 as SINGLE
from tesserac.target.llvm_types import F64 as DOUBLE
from tesserac.target.llvm_types import I1, Value, const_float, const_int, integer
from tesserac.target.nvptx.context import register_type
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.types.dtype import BOOL, F32, F64, DType
from tesserac.types.policy import NO_POLICY, Policy


def constant(dtype: DType, value: float | int) -> Value:
    ty = register_type(dtype)
    if dtype.is_fp8 or dtype.is_stored:
        return const_int(ty, code_of(value, dtype))
    return const_float(ty, float(value)) if dtype.is_float else const_int(ty, int(value))


def convert(b: Builder, value: Value, source: DType, to: DType, policy: Policy = NO_POLICY) -> Value:
    """A value of one dtype as another: floats round to nearest even, floats to integers saturate, integers wrap."""
    if policy.stochastic_round or policy.scale_axis is not None:
        raise LoweringError(f"rounding{policy} on a GPU")
    if source == to:
        return value
    if source.is_fp8 or source.is_stored:
        return convert(b, widen_fp8(b, value, source), F32, to, policy)
    if to.is_stored:
        return narrow_fp8(b, _single_to_round(b, value, source), to)
    if source.is_float and to.is_float:
        return _float_to_float(b, value, source, to, policy)
    if source.is_float:
        return _float_to_integer(b, value, to)
    if to.is_float:
        return _integer_to_float(b, value, source, to)
    return _integer_to_integer(b, value, source, to)


def _single_to_round(b: Builder, value: Value, source: DType) -> Value:
    """A number of any kind as an f32 that rounds to fewer bits as the number itself does."""
    if source.is_float and source.bits <= 32:
        return convert(b, value, source, F32)
    if source.bits > 32 and source.is_integer:
        value = top_bits(b, value, source)
    return _to_odd_single(b, value if source == F64 else convert(b, value, source, F64))


def bitcast(b: Builder, value: Value, to: DType) -> Value:
    """The bits of a value read as another dtype; registers hold them as memory does."""
    ty = register_type(to)
    value = value if value.type == ty else b.cast("bitcast", value, ty)
    return wrap_nibble(b, value, to) if to.is_nibble else value


def _float_to_float(b: Builder, value: Value, source: DType, to: DType, policy: Policy) -> Value:
    if policy.saturate:
        top = constant(source, to.largest)
        value = b.select(b.fcmp("ogt", value, top), top, value)
        value = b.select(b.fcmp("olt", value, b.fneg(top)), b.fneg(top), value)
    ty = register_type(to)
    if source.bits == 64 and to.bits <= 16:
        value = _to_odd_single(b, value)
    elif source.bits == to.bits or to.is_fp8:
        value = b.cast("fpext", value, SINGLE)
    if to.is_fp8:
        return narrow_fp8(b, value, to)
    if value.type == ty:
        return value
    return b.cast("fpext" if ty.bits > value.type.bits else "fptrunc", value, ty)


def _to_odd_single(b: Builder, value: Value) -> Value:
    """f64 to f32 towards zero, with the last bit set where something was lost: rounding that again is rounding once."""
    cut = b.intrinsic("llvm.nvvm.d2f.rz", SINGLE, [value])
    lost = b.fcmp("une", b.cast("fpext", cut, value.type), value)
    word = integer(32)
    bits = b.binary("or", b.cast("bitcast", cut, word), b.cast("zext", lost, word))
    return b.cast("bitcast", bits, SINGLE)


def _integer_to_float(b: Builder, value: Value, source: DType, to: DType) -> Value:
    """Rounded once. The narrow floats go through f64, which holds every integer of up to 32 bits, and
    of a longer one as much as tells how it rounds."""
    instruction = "uitofp" if source.kind in "ub" else "sitofp"
    if to.bits > 16:
        return b.cast(instruction, value, register_type(to))
    if source.bits > 32:
        value = top_bits(b, value, source)
    return _float_to_float(b, b.cast(instruction, value, DOUBLE), F64, to, NO_POLICY)


def _float_to_integer(b: Builder, value: Value, to: DType) -> Value:
    if to == BOOL:
        return b.fcmp("une", value, const_float(value.type, 0.0))
    name = "llvm.fptoui.sat" if to.kind == "u" else "llvm.fptosi.sat"
    ty = register_type(to)
    whole = b.intrinsic(name, ty, [value], [ty, value.type])
    return limit_nibble(b, whole, to) if to.is_nibble else whole


def _integer_to_integer(b: Builder, value: Value, source: DType, to: DType) -> Value:
    ty = register_type(to)
    if to == BOOL:
        return b.icmp("ne", value, const_int(value.type, 0))
    if ty.bits <= value.type.bits and value.type != I1:
        value = b.cast("trunc", value, ty)
    else:
        value = b.cast("zext" if source.kind in "ub" else "sext", value, ty)
    return wrap_nibble(b, value, to) if to.is_nibble else value
