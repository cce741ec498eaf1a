"""The registry writes the tests of derivatives. For every operator and case, in f64 or c128: <v, Jw> = <J*v, w>, and Jw
agrees with central differences, and so do second derivatives, taken in three ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np
import pytest

from tesserac.numerics.narrow import convert
from tesserac.ops.calculus import is_smooth
from tesserac.ops.registry import OPERATORS, Operator
from tesserac.types.dtype import C128, F64, DType
from tesserac.types.ty import TensorType
from tests.derivative_runs import Arrays, Derivatives, paired
from tests.test_graph_lower import parse_type
from tests.test_ops_dtypes import resized

STEP = 1e-5
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow"}
"""Their operands are above 0."""
WHOLE_SECOND = {"ldexp", "exp_term", "sub_ln2", "add_ln2"}
"""Their second operand is a whole number that is held in a float, so it has no tangents."""
EDGES = ({3: 1, 4: 1}, {3: 2, 4: 0})
"""What the sizes 3 and 4 of a case become: one, and none."""


def wide(ty: TensorType) -> TensorType:
    return TensorType(ty.dims, _wide_dtype(ty.dtype)) if is_smooth(ty) else ty


def _wide_dtype(dtype: DType) -> DType:
    return C128 if dtype.is_complex else F64 if dtype.is_float else dtype


def widened(operator: Operator) -> Operator:
    """Results in f64 as well, but of rounding, which would have nothing to round."""
    if operator.name == "stochastic_round" or not any(field.name == "dtype" for field in fields(operator)):
        return operator
    return replace(operator, dtype=_wide_dtype(operator.dtype))


def cases() -> Iterator[object]:
    for name, cls in OPERATORS.items():
        for i, (operator, texts) in enumerate(cls.cases()):
            types = [wide(parse_type(text)) for text in texts]
            operator = widened(operator)
            if not (any(map(is_smooth, types)) and is_smooth(operator.infer(types))):
                continue
            shapes = [types, *(resized(operator, types, sizes) for sizes in EDGES)]
            distinct = [shape for at, shape in enumerate(shapes) if shape not in shapes[:at]]
            for at, shape in enumerate(distinct):
                if name == "mean" and 0 in (dim.evaluate({}) for dim in shape[0].dims):
                    continue  # it is NaN, and so is its derivative
                yield pytest.param(operator, shape, id=f"{name}-{i}-{at}")


def sample(ty: TensorType, rng: np.random.Generator, *, positive: bool = False) -> np.ndarray:
    shape = [dim.evaluate({}) for dim in ty.dims]
    if ty.dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if ty.dtype.is_integer:
        return rng.integers(1, 8, shape).astype(ty.dtype.numpy_name)
    if ty.dtype.bits < 32:
        return convert(rng.uniform(0.5, 2.0, shape), ty.dtype)
    values = rng.uniform(0.5, 2.0, shape)
    signed = values if positive else values * rng.choice([-1.0, 1.0], shape)
    return signed + 1j * rng.uniform(-2.0, 2.0, shape) if ty.dtype.is_complex else signed


def inputs(of: Derivatives, rng: np.random.Generator) -> list[np.ndarray]:
    args = [sample(ty, rng, positive=of.operator.name in POSITIVE) for ty in of.types]
    if of.operator.name in WHOLE_SECOND:
        args[1] = np.rint(args[1]) + 4.0
    return args


def derivatives(operator: Operator, types: Sequence[TensorType]) -> Derivatives:
    return Derivatives(operator, types, [0] if operator.name in WHOLE_SECOND else None)


def moved(of: Derivatives, x: Arrays, w: Arrays, step: float) -> list[np.ndarray]:
    args = list(x)
    for place, direction in zip(of.wrt, w, strict=True):
        args[place] = args[place] + step * direction
    return args


def close(of: Derivatives, left: float, right: float, scale: float) -> None:
    """To 1e-12; what is rounded to a narrow type is as close as that."""
    bound = max(1e-12, 2.0 ** (2 - of.result.dtype.significand))
    assert abs(left - right) <= bound * scale, (left, right, scale)


def differences(ends: Sequence[np.ndarray]) -> np.ndarray:
    """Central differences; equal infinities do not differ."""
    with np.errstate(invalid="ignore"):
        return np.where(ends[0] == ends[1], 0.0, (ends[0] - ends[1]) / (2 * STEP))


def scale(*groups: Arrays) -> float:
    """How large a pairing can be, for what its rounding is relative to."""
    sizes = [np.sqrt(sum(float(np.sum(np.abs(a) ** 2)) for a in group)) for group in groups]
    return float(np.prod(sizes))


CASES = list(cases())


@pytest.mark.parametrize(("operator", "types"), CASES)
def test_forward_is_the_transpose_of_reverse_and_agrees_with_differences(
    operator: Operator, types: list[TensorType]
) -> None:
    of, rng = derivatives(operator, types), np.random.default_rng(0)
    x = inputs(of, rng)
    w = [sample(ty, rng) for ty in of.moving]
    v = sample(of.result, rng)
    jw, back = of.first(x, w, v)
    close(of, paired([v], [jw]), paired(back, w), scale([v], [jw]) + scale(back, w))
    if operator.name in ("stop_gradient", "stochastic_round"):
        return  # what they are for is not the slope of their values
    ends = [of.value(moved(of, x, w, sign * STEP)) for sign in (1, -1)]
    np.testing.assert_allclose(jw, differences(ends), rtol=1e-7, atol=1e-7 * _largest(jw))


def _largest(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=1.0))


@pytest.mark.parametrize(("operator", "types"), CASES)
def test_second_derivatives_agree_in_three_ways_and_with_differences(
    operator: Operator, types: list[TensorType]
) -> None:
    of, rng = derivatives(operator, types), np.random.default_rng(1)
    x = inputs(of, rng)
    w, u = ([sample(ty, rng) for ty in of.moving] for _ in range(2))
    v = sample(of.result, rng)
    along, back, change = of.second(x, w, u, v)
    size = scale([v], [along]) + scale(back, u) + scale(change, w)
    close(of, paired([v], [along]), paired(back, u), size)
    close(of, paired([v], [along]), paired(change, w), size)
    if operator.name == "stochastic_round":
        return
    ends = [of.first(moved(of, x, u, sign * STEP), w, v)[0] for sign in (1, -1)]
    np.testing.assert_allclose(along, differences(ends), rtol=1e-6, atol=1e-6 * _largest(along))
