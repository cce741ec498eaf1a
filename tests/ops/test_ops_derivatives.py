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
from tests.ops.test_graph_lower import parse_type
from tests.ops.test_ops_dtypes import resized
from tests.support.derivative_runs import Derivatives, agree, applied, like_differences, moved
from tests.support.sampling import of_each_operator

STEP = 1e-5
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow"}
"""Their operands are above 0."""
DECLARED = {"stop_gradient", "stochastic_round"}
"""Their derivative is what they are for, not the slope of their values."""
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


def smooth_cases() -> Iterator[tuple[Operator, list[TensorType], str]]:
    """Operators on floats and complex numbers, with the types of their cases and a name for each."""
    for name, cls in OPERATORS.items():
        for i, (operator, texts) in enumerate(cls.cases()):
            types = [parse_type(text) for text in texts]
            if any(map(is_smooth, types)) and is_smooth(operator.infer(types)):
                yield operator, types, f"{name}-{i}"


def cases() -> Iterator[object]:
    for operator, narrow, name in smooth_cases():
        operator, types = widened(operator), [wide(ty) for ty in narrow]
        shapes = [types, *(resized(operator, types, sizes) for sizes in EDGES)]
        distinct = [shape for at, shape in enumerate(shapes) if shape not in shapes[:at]]
        for at, shape in enumerate(distinct):
            if operator.name == "mean" and 0 in (dim.evaluate({}) for dim in shape[0].dims):
                continue  # it is NaN, and so is its derivative
            yield pytest.param(operator, shape, id=f"{name}-{at}")


def sample(ty: TensorType, rng: np.random.Generator, *, positive: bool = False) -> np.ndarray:
    shape = [dim.evaluate({}) for dim in ty.dims]
    if ty.dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if ty.dtype.is_integer:
        return rng.integers(1, 8, shape).astype(ty.dtype.numpy_name)
    values = rng.uniform(0.5, 2.0, shape)
    signed = values if positive else values * rng.choice([-1.0, 1.0], shape)
    return convert(signed + 1j * rng.uniform(-2.0, 2.0, shape) if ty.dtype.is_complex else signed, ty.dtype)


def inputs(operator: Operator, types: Sequence[TensorType], rng: np.random.Generator) -> list[np.ndarray]:
    args = [sample(ty, rng, positive=operator.name in POSITIVE) for ty in types]
    for position in operator.whole:
        args[position] = np.rint(args[position]) + args[position].dtype.type(4)
    return args


def derivatives(operator: Operator, types: Sequence[TensorType]) -> Derivatives:
    moving = [position for position in range(len(types)) if position not in operator.whole]
    return Derivatives(applied(operator, types), types, moving if operator.whole else None)


def transpose_bound(of: Derivatives) -> float:
    """What is rounded to a narrow type is as close as that."""
    return max(1e-12, 2.0 ** (2 - of.results[0].dtype.significand))


CASES = list(cases())


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("operator", "types"), of_each_operator(CASES, 2))
def test_forward_is_the_transpose_of_reverse_and_agrees_with_differences(
    operator: Operator, types: list[TensorType]
) -> None:
    of, rng = derivatives(operator, types), np.random.default_rng(0)
    x = inputs(operator, types, rng)
    w, v = ([sample(ty, rng) for ty in group] for group in (of.moving, of.results))
    jw, back = of.first(x, w, v)
    agree([(v, jw), (back, w)], transpose_bound(of))
    if operator.name not in DECLARED:
        like_differences(jw, (of.value(moved(of, x, w, STEP)), of.value(moved(of, x, w, -STEP))), STEP, 1e-7)


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("operator", "types"), of_each_operator(CASES, 1))
def test_second_derivatives_agree_in_three_ways_and_with_differences(
    operator: Operator, types: list[TensorType]
) -> None:
    of, rng = derivatives(operator, types), np.random.default_rng(1)
    x = inputs(operator, types, rng)
    w, u, v = ([sample(ty, rng) for ty in group] for group in (of.moving, of.moving, of.results))
    along, back, change = of.second(x, w, u, v)
    agree([(v, along), (back, u), (change, w)], transpose_bound(of))
    if operator.name not in DECLARED:
        ends = [of.first(moved(of, x, u, step), w, v)[0] for step in (STEP, -STEP)]
        like_differences(along, (ends[0], ends[1]), STEP, 1e-6)
