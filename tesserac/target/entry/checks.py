"""Guards and size equations as code that never traps, whatever the sizes are: what could is tested before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tesserac.ir.forms import Guard
from tesserac.schedule.dialect import Predicate
from tesserac.target.dims import emit_dim
from tesserac.target.entry.fits import emit_all_fit, magnitude
from tesserac.target.flow import if_return
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F64, I1, Value, const_float, const_i64, const_int
from tesserac.target.magnitudes import LARGEST
from tesserac.target.sizes import Equation, implied_guards
from tesserac.types.dims import Dim
from tesserac.types.extents import can_be_negative

Symbols = Mapping[str, Value]


def emit_guard(b: Builder, guard: Guard, symbols: Symbols) -> tuple[Value, Value, Value]:
    """(whether it holds, left, right). The sizes in it must be known to have values."""
    left, right = emit_dim(b, guard.left, symbols), emit_dim(b, guard.right, symbols)
    if guard.kind == "equal":
        return b.icmp("eq", left, right), left, right
    if guard.kind == "at_least":
        return b.icmp("sge", left, right), left, right
    if guard.kind == "in_range":
        return b.icmp("ult", left, b.maximum_int(right, const_i64(0))), left, right
    if guard.kind == "divides":
        positive = b.icmp("sgt", left, const_i64(0))
        return b.binary("and", positive, divides(b, left, right)), left, right
    raise ValueError(f"a guard of kind {guard.kind} has no rule")


def emit_predicate(b: Builder, predicate: Predicate, symbols: Symbols, threads: Value) -> Value:
    """Whether the variant of a predicate is picked, where `threads` threads may run."""
    if predicate.kind == "each_thread":
        left, right = (emit_dim(b, dim, symbols) for dim in (predicate.left, predicate.right))
        return b.icmp("sge", left, b.mul(right, threads))
    holds, _, _ = emit_guard(b, Guard(predicate.kind, predicate.left, predicate.right, ""), symbols)
    return holds


def divides(b: Builder, divisor: Value, dividend: Value) -> Value:
    nonzero = b.icmp("ne", divisor, const_i64(0))
    safe = b.select(nonzero, divisor, const_i64(1))
    whole = b.icmp("eq", b.binary("srem", dividend, safe), const_i64(0))
    return b.binary("and", nonzero, whole)


def negated(b: Builder, bit: Value) -> Value:
    return b.binary("xor", bit, const_int(I1, 1))


def all_hold(b: Builder, conditions: Sequence[Value]) -> Value:
    held = const_int(I1, 1)
    for condition in conditions:
        held = condition if held.number == 1 else b.binary("and", held, condition)
    return held


def emit_values(b: Builder, dims: Sequence[Dim], symbols: Symbols, leave: Callable[[], None]) -> list[Value]:
    """The values of size expressions. Where one has none, or none in 64 bits, `leave` returns from the function."""
    if_return(b, negated(b, emit_all_fit(b, dims, symbols)), leave)
    for guard in implied_guards(dims):
        if_return(b, negated(b, emit_guard(b, guard, symbols)[0]), leave)
    return [emit_dim(b, dim, symbols) for dim in dims]


def emit_shape(b: Builder, dims: Sequence[Dim], symbols: Symbols, leave: Callable[[], None]) -> list[Value]:
    """As `emit_values`, and leaves too where a size would be negative."""
    values = emit_values(b, dims, symbols, leave)
    doubtful = [value for dim, value in zip(dims, values, strict=True) if can_be_negative(dim)]
    if doubtful:
        fine = all_hold(b, [b.icmp("sge", value, const_i64(0)) for value in doubtful])
        if_return(b, negated(b, fine), leave)
    return values


def solve(b: Builder, equation: Equation, extent: Value, symbols: Symbols, leave: Callable[[], None]) -> Value:
    """The value that an argument's extent gives to a symbol; where it gives none, `leave` returns."""
    sides = [equation.factor, equation.scale, equation.offset]
    factor, scale, offset = emit_values(b, sides, symbols, leave)
    if factor.number == scale.number == 1 and offset.number == 0:
        return extent
    most = b.fadd(b.fmul(magnitude(b, factor), magnitude(b, extent)), magnitude(b, offset))
    if_return(b, b.fcmp("uge", most, const_float(F64, LARGEST)), leave)
    scaled = b.sub(b.mul(factor, extent), offset)
    if_return(b, negated(b, divides(b, scale, scaled)), leave)
    value = b.binary("sdiv", scaled, scale)
    if_return(b, b.icmp("slt", value, const_i64(0)), leave)
    return value
