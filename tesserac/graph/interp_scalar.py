"""The oracle's arithmetic: bodies of maps, evaluated at all points of the iteration space at once.

Enters: the block of a `form.map`, one array per argument, already laid out over the space. Leaves: the array of what
it yields. Elementary functions run as the programs of `numerics/`; a type narrower than f32 is computed wide and
rounded after each operation, which for one operation equals rounding once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.types import ScalarType
from tesserac.numerics.elementary import PROGRAMS, program, program_dtype
from tesserac.numerics.exact import Array, fused, maximum, minimum, shift_left, shift_right
from tesserac.numerics.narrow import convert, narrow_fma, storage
from tesserac.numerics.program import evaluate
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, F64, I64, TF32, U64, DType
from tesserac.types.policy import Policy


class InterpreterError(Exception):
    """The module asks for something that has no defined meaning here, or is called with wrong arguments."""


@dataclass(frozen=True)
class Space:
    """The iteration space of a map, and the sizes of all symbols."""

    shape: tuple[int, ...]
    sizes: Mapping[str, int]


def evaluate_body(block: Block, args: Sequence[Array], space: Space) -> Array:
    (result,) = evaluate_bodies(block, args, space)
    return result


def evaluate_bodies(block: Block, args: Sequence[Array], space: Space) -> list[Array]:
    """All that a body yields."""
    values: dict[Value, Array] = dict(zip(block.args, args, strict=True))
    with np.errstate(all="ignore"):
        for op in block.ops[:-1]:
            values[op.result] = _scalar_op(op, [values[v] for v in op.operands], space)
    return [values[result] for result in block.terminator.operands]


def _scalar_op(op: Op, args: list[Array], space: Space) -> Array:
    name = op.name.removeprefix("scalar.")
    if name in _SOURCES:
        return _SOURCES[name](op, space)
    if name in _CONVERSIONS:
        return _CONVERSIONS[name](op, args[0])
    dtype = _dtype(op.operands[-1])
    if name in PROGRAMS:
        wide = program_dtype(dtype)
        return convert(evaluate(program(name, wide), *(convert(a, wide) for a in args)), dtype)
    if name not in _ARITHMETIC:
        raise InterpreterError(f"{op.name} has no program")
    if dtype in _NATIVE:
        return np.asarray(_ARITHMETIC[name](*args))
    return _arithmetic_in_narrow(name, args, dtype, _dtype(op.result))


def _dtype(value: Value) -> DType:
    assert isinstance(value.type, ScalarType), f"expected a scalar, not {value.type}"
    return value.type.dtype


def _arithmetic_in_narrow(name: str, args: list[Array], dtype: DType, result: DType) -> Array:
    """f64 and i64 have room for every exact result of one operation on narrow operands, or for its double rounding to
    be harmless; only a fused sum can fall between."""
    if name == "fma":
        return narrow_fma(*args)
    wide = [convert(a, F64 if dtype.is_float or dtype.is_stored else I64) if a.dtype != np.bool_ else a for a in args]
    return convert(np.asarray(_ARITHMETIC[name](*wide)), result)


_NATIVE = (F32, F64, TF32, I64, U64)
_Evaluator: TypeAlias = Callable[..., Array]
_ARITHMETIC: dict[str, _Evaluator] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_div": np.floor_divide,
    "mod": np.remainder,
    "fma": fused,
    "neg": np.negative,
    "abs": np.abs,
    "min": minimum,
    "max": maximum,
    "rint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "sqrt": np.sqrt,
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "select": np.where,
    "shl": shift_left,
    "shr": shift_right,
}


def _constant(op: Op, space: Space) -> Array:
    value = op.attrs["value"]
    assert isinstance(value, bool | int | float)
    return _number(value, repr(value), _dtype(op.result))


@lru_cache(1 << 12)
def _number(value: bool | int | float, shown: str, dtype: DType) -> Array:
    """A constant of a body, which is evaluated in every iteration; `shown` tells 1 from 1.0 and 0.0 from -0.0."""
    found = np.array(convert(np.asarray(value), dtype))
    found.flags.writeable = False
    return found


def _index(op: Op, space: Space) -> Array:
    axis = attr(op, "axis", int)
    shape = [1] * len(space.shape)
    shape[axis] = space.shape[axis]
    return convert(np.arange(space.shape[axis], dtype=np.int64).reshape(shape), _dtype(op.result))


def _dim(op: Op, space: Space) -> Array:
    dim = attr(op, "dim", Dim)
    return convert(np.asarray(dim.evaluate(space.sizes), np.int64), _dtype(op.result))


def _cast(op: Op, x: Array) -> Array:
    return convert(x, _dtype(op.result))


def _bitcast(op: Op, x: Array) -> Array:
    target = _dtype(op.result)
    return np.asarray(convert(x, _dtype(op.operands[0])).view(storage(target)))


def _round(op: Op, x: Array) -> Array:
    dtype, policy = op.attrs["dtype"], op.attrs["policy"]
    assert isinstance(dtype, DType) and isinstance(policy, Policy)
    return convert(store(x, dtype, policy), _dtype(op.result))


def store(x: Array, dtype: DType, policy: Policy) -> Array:
    """A computed value as it is kept in memory: rounded once, under its policy."""
    if policy.stochastic_round or policy.scale_axis is not None:
        raise InterpreterError(f"{dtype}{policy} ends before the forms: it is operators of its own there")
    return convert(x, dtype, saturate=policy.saturate)


_SOURCES: dict[str, Callable[[Op, Space], Array]] = {"constant": _constant, "index": _index, "dim": _dim}
_CONVERSIONS: dict[str, Callable[[Op, Array], Array]] = {"cast": _cast, "bitcast": _bitcast, "round": _round}
