"""Every operator over every element type that its signature admits: machine code gives the oracle's bits, and both are
close to NumPy in float64; integers and bools are exact.

The cases are those of the operators' classes with other dtypes put in; pairs of operator and dtype take turns at the
policies, and at sizes that are odd, one, or nothing where an operator's own attributes do not fix them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import cycle

import numpy as np
import pytest

import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tesserac.graph.interp import run_function
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.ir.passes import run_passes
from tesserac.numerics.narrow import convert, storage
from tesserac.ops.convert import Bitcast
from tesserac.ops.elementwise import Power
from tesserac.ops.join import Pad
from tesserac.ops.reduce import Max, Min
from tesserac.ops.registry import OPERATORS, Array, Operator
from tesserac.ops.search import ArgExtreme
from tesserac.ops.unify import FIXED, KindMismatch, Mismatch, OtherBits, choose
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.build import tile_pass
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import ALL, F32, DType
from tesserac.types.policy import NO_POLICY, Policy, compute_dtype
from tesserac.types.ty import TensorType
from tests.ops.test_graph_lower import module_of, parse_type
from tests.support.cpu_kernels import HOST, same_bits
from tests.support.sampling import of_each_operator
from tests.tile.test_tile_cpu_random import run_native

REAL = [dtype for dtype in ALL if dtype.kind != "c"]
SIZES = cycle(({}, {3: 1, 4: 67}, {3: 5, 4: 1}, {3: 129, 4: 3}, {3: 2, 4: 0}))
"""What the sizes 3 and 4 of a case become."""
RESIZABLE = {"axes", "axis", "keep", "dtype", "policy", "exponent"}
"""Attributes that do not say sizes."""


def policies(dtype: DType) -> tuple[Policy, ...]:
    if dtype.is_fp8:
        return (Policy(F32, saturate=True), Policy(F32))
    narrow = dtype.is_float and dtype.bits < 32
    return (Policy(F32), NO_POLICY) if narrow else (NO_POLICY,)


def variables(operator: Operator, types: Sequence[TensorType]) -> list[str]:
    """The element variable of each operand."""
    signatures = [s.for_count(len(types)) for s in operator.parsed]
    signature = choose(signatures, tuple(ty.rank for ty in types))
    return [operand.pattern.element.variable for operand in signature.operands]


def with_dtype(
    operator: Operator, types: Sequence[TensorType], dtype: DType, policy: Policy
) -> list[TensorType] | None:
    """The operands with the first variable's dtype replaced; None where nothing is left to replace."""
    names = variables(operator, types)
    first = next((name for name in names if name not in FIXED), None)
    if first is None:
        return None
    replaced = [
        TensorType(ty.dims, dtype, policy) if name == first else ty for name, ty in zip(names, types, strict=True)
    ]
    try:
        result = operator.infer(replaced)
    except (KindMismatch, OtherBits):
        return None
    return replaced if result.dtype in REAL else None  # complex results are the business of tests of their own


def resized(operator: Operator, types: list[TensorType], sizes: dict[int, int]) -> list[TensorType]:
    if not {field.name for field in fields(operator)} <= RESIZABLE:
        return types
    changed = [
        TensorType(tuple(Dim.const(sizes.get(d.evaluate({}), d.evaluate({}))) for d in ty.dims), ty.dtype, ty.policy)
        for ty in types
    ]
    if isinstance(operator, ArgExtreme) and any(ZERO in ty.dims for ty in changed):
        return types  # a status error
    try:
        operator.infer(changed)
    except Mismatch:
        return types
    return changed


def fitting(operator: Operator, dtype: DType) -> Operator:
    """With attributes that the dtype holds: whole powers of integers are not negative, and a bool is no 7."""
    if isinstance(operator, Power) and not dtype.is_float:
        return Power(abs(operator.exponent))
    if isinstance(operator, Pad) and dtype.kind == "b":
        return replace(operator, value=0)
    return operator


def pairs() -> Iterator[object]:
    for name, cls in OPERATORS.items():
        cases = [(operator, [parse_type(t) for t in texts]) for operator, texts in cls.cases()]
        turns = cycle(cases)
        for dtype in REAL:
            for policy in policies(dtype):
                operator, types = next(turns)
                replaced = with_dtype(operator, types, dtype, policy)
                if replaced is not None:
                    operator, made = fitting(operator, dtype), resized(operator, replaced, next(SIZES))
                    yield pytest.param(operator, made, id=f"{name}-{dtype}{policy}".replace(" ", ""))


def sample(ty: TensorType, rng: np.random.Generator) -> Array:
    shape = [d.evaluate({}) for d in ty.dims]
    if ty.dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if ty.dtype.is_integer:
        return rng.integers(1, 8, shape).astype(storage(ty.dtype))
    return convert(rng.uniform(0.5, 3, shape), ty.dtype)


def wide(x: Array) -> Array:
    """The array in the type in which NumPy's answer is as good as exact."""
    if x.dtype.kind == "b":
        return x
    if re.fullmatch(r"u?int\d+", x.dtype.name):
        return x.astype(np.uint64 if x.dtype.name.startswith("u") else np.int64)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def bound(types: Sequence[TensorType], result: TensorType) -> float:
    """Relative: two units in the last place of the result, one of the computing type per term of the longest sum."""
    compute = compute_dtype(result.dtype, result.policy)
    terms = max([d.evaluate({}) for ty in types for d in ty.dims], default=1)
    return 2.0 ** (2 - result.dtype.significand) + terms * 2.0 ** (1 - compute.significand)


def close(got: Array, expected: Array, types: Sequence[TensorType], result: TensorType) -> None:
    if not result.dtype.is_float:
        assert np.array_equal(wide(got), wide(convert(np.asarray(expected), result.dtype)), equal_nan=True)
        return
    with np.errstate(over="ignore"):
        fitting = wide(convert(np.asarray(expected, np.float64), result.dtype, saturate=result.policy.saturate))
    rtol = bound(types, result)
    np.testing.assert_allclose(wide(got), fitting, rtol=rtol, atol=rtol)


@pytest.mark.one_in(48)
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize(("operator", "types"), of_each_operator(pairs(), 3))
def test_machine_code_and_oracle_and_numpy(operator: Operator, types: list[TensorType]) -> None:
    rng = np.random.default_rng(0)
    args = [sample(ty, rng) for ty in types]
    for position in operator.whole:
        args[position] = convert(np.rint(wide(args[position])), types[position].dtype)
    forms = run_passes(module_of(operator, types), [generalize, fold_views], verify=True)
    (expected,) = run_function(forms, "f", args)
    result = operator.infer(types)
    assert expected.dtype == storage(result.dtype)
    if not (isinstance(operator, Max | Min) and args[0].size == 0):  # of nothing NumPy knows no largest
        with np.errstate(all="ignore"):
            given = args if isinstance(operator, Bitcast) else list(map(wide, args))  # bits are those of the dtype
            close(expected, operator.reference(*given), types, result)
    lowered = run_passes(forms, [*schedule_passes(AARCH64), tile_pass(AARCH64)], verify=True)
    (got,) = run_native(lowered, "f", args, HOST)
    same_bits(got, expected)
