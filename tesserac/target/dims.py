"""Dim expressions as code. Enters: a `Dim` and the values of its symbols. Leaves: one i64 value.

All terms are brought to one denominator and divided once, so `N/2 + M/2` is right whenever the sum is whole. Nothing
here traps: memory is planned before any branch is taken, also for sizes that have a value only on one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import lcm

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, Value, const_i64
from tesserac.types.dims import Dim
from tesserac.types.polynomial import Atom, Function, Symbol


def emit_dim(b: Builder, dim: Dim, symbols: Mapping[str, Value]) -> Value:
    """The run-time value of a dim expression."""
    terms, below = _over_one_denominator(dim)
    total = const_i64(0)
    for term in terms:
        total = b.add(total, _product(b, term, symbols))
    divisor = _product(b, below, symbols)
    return total if divisor.number == 1 else _divide(b, total, divisor)


_Product = tuple[int, Sequence[tuple[Atom, int]]]
"""A number, times atoms to powers above 0."""


@lru_cache(1 << 14)
def _over_one_denominator(dim: Dim) -> tuple[Sequence[_Product], _Product]:
    """The terms of the numerator, and the denominator: a program asks for its sizes at each place that uses them."""
    denominator = lcm(*(coefficient.denominator for _, coefficient in dim.terms))
    below = _common_denominator(dim)
    terms = [
        ((coefficient * denominator).numerator, tuple(_times(dict(monomial), below).items()))
        for monomial, coefficient in dim.terms
    ]
    return terms, (denominator, tuple(below.items()))


def _common_denominator(dim: Dim) -> dict[Atom, int]:
    """Each atom to the highest power that stands below the line in some term."""
    below: dict[Atom, int] = {}
    for monomial, _ in dim.terms:
        for atom, exponent in monomial:
            if exponent < 0:
                below[atom] = max(below.get(atom, 0), -exponent)
    return below


def _times(monomial: dict[Atom, int], factor: Mapping[Atom, int]) -> dict[Atom, int]:
    return {a: monomial.get(a, 0) + factor.get(a, 0) for a in (*monomial, *(f for f in factor if f not in monomial))}


def _product(b: Builder, term: _Product, symbols: Mapping[str, Value]) -> Value:
    factor, powers = term
    product = const_i64(factor)
    for atom, exponent in powers:
        value = _atom(b, atom, symbols)
        for _ in range(exponent):
            product = b.mul(value, product)
    return product


def _atom(b: Builder, atom: Atom, symbols: Mapping[str, Value]) -> Value:
    if isinstance(atom, Symbol):
        return symbols[atom.name]
    first, *others = (emit_dim(b, arg, symbols) for arg in atom.args)
    for other in others:
        first = INDEX_FUNCTIONS[atom.function](b, first, other)
    return first


def _divide(b: Builder, left: Value, right: Value) -> Value:
    """The quotient, some number where the divisor is 0."""
    if right.number is None:
        right = b.select(b.icmp("eq", right, const_i64(0)), const_i64(1), right)
    return b.binary("sdiv", left, right)


def floor_div(b: Builder, left: Value, right: Value) -> Value:
    """Rounds down, also below zero."""
    if left.number is not None and right.number:
        return const_i64(left.number // right.number)
    shift = _power_of_two(right)
    if shift is not None:
        return b.binary("ashr", left, const_i64(shift)) if shift else left
    if right.number is not None and right.number > 0:
        return _floor_by_positive(b, left, right)
    quotient = _divide(b, left, right)
    rest = b.sub(left, b.mul(quotient, right))
    differs = b.icmp("ne", rest, const_i64(0))
    opposite = b.icmp("slt", b.binary("xor", rest, right), const_i64(0))
    return b.sub(quotient, b.cast("zext", b.binary("and", differs, opposite), I64))


def _floor_by_positive(b: Builder, left: Value, right: Value) -> Value:
    """Division rounds towards zero, so that a dividend below zero is first made less by all that may be cut off."""
    below = b.binary("ashr", left, const_i64(63))
    cut_off = b.binary("and", below, b.sub(right, const_i64(1)))
    return _divide(b, b.sub(left, cut_off), right)


def ceil_div(b: Builder, left: Value, right: Value) -> Value:
    """Rounds up; the divisor is positive."""
    dividend = b.add(left, b.sub(right, const_i64(1)))
    return floor_div(b, dividend, right) if right.number is not None else _floor_by_positive(b, dividend, right)


def modulo(b: Builder, left: Value, right: Value) -> Value:
    """The rest of floor_div."""
    if _power_of_two(right) is not None:
        return b.binary("and", left, b.sub(right, const_i64(1)))
    return b.sub(left, b.mul(floor_div(b, left, right), right))


def _power_of_two(value: Value) -> int | None:
    number = value.number
    if number is None or number <= 0 or number & (number - 1):
        return None
    return number.bit_length() - 1


INDEX_FUNCTIONS: dict[Function, Callable[[Builder, Value, Value], Value]] = {
    "quotient": _divide,
    "floor_div": floor_div,
    "ceil_div": ceil_div,
    "mod": modulo,
    "min": Builder.minimum_int,
    "max": Builder.maximum_int,
}


INDEX_OPS: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "add": Builder.add,
    "sub": Builder.sub,
    "mul": Builder.mul,
    "floor_div": floor_div,
    "ceil_div": ceil_div,
    "rem": modulo,
    "min": Builder.minimum_int,
    "max": Builder.maximum_int,
}
"""The arithmetic of indices, by the name of the operation."""
