"""Every operator of the registry: lowered to forms, its bits from the oracle, compared with its NumPy reference."""


import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.ir.passes import run_passes
from tesserac.numerics.narrow import convert, storage
from tesserac.ops.contract import MatMul
from tesserac.ops.convert import Cast
from tesserac.ops.elementwise import Add, Where
from tesserac.ops.reduce import Mean
from tesserac.ops.registry import Operator
from tesserac.types.dims import Dim
from tesserac.types.dtype import BF16, BOOL, F32, F64
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import TensorType
from tests.support.folding import folded
from tests.support.registry_cases import module_of, parse_type, registry_cases, sample

CASES = [pytest.param(operator, types, id=name) for name, operator, types in registry_cases()]


@pytest.mark.one_in(16)
@folded(("operator", "types"), CASES)
def test_forms_agree_with_the_reference(operator: Operator, types: tuple[str, ...]) -> None:
    tensors = [parse_type(t) for t in types]
    args = [sample(ty, np.random.default_rng(0)) for ty in tensors]
    for position in operator.whole:
        args[position] = np.rint(args[position])
    result_type = operator.infer(tensors)
    expected = np.asarray(operator.reference(*args))
    plain = run_passes(module_of(operator, tensors), [generalize, split_complex], verify=True)
    (result,) = run_function(plain, "f", args)
    assert result.dtype == storage(result_type.dtype)
    assert result.shape == tuple(d.evaluate({}) for d in result_type.dims)
    wide = np.complex128 if result_type.dtype.is_complex else np.float64
    np.testing.assert_allclose(result.astype(wide), expected.astype(wide), rtol=1e-5, atol=1e-6)
    absorbed = run_passes(plain, [fold_views], verify=True)
    assert np.array_equal(run_function(absorbed, "f", args)[0], result)


HALF = Policy(accum=F32)


def run(operator: Operator, types: list[TensorType], args: list[np.ndarray]) -> np.ndarray:
    forms = run_passes(module_of(operator, types), [generalize, split_complex, fold_views], verify=True)
    return run_function(forms, "f", args)[0]


def tensor(*dims: int, policy: Policy = HALF) -> TensorType:
    return TensorType(tuple(map(Dim.const, dims)), BF16, policy)


def test_a_value_without_a_policy_takes_that_of_the_other() -> None:
    rng = np.random.default_rng(1)
    types = [tensor(3, 4), tensor(4, policy=NO_POLICY)]
    x, y = (convert(rng.normal(size=s), BF16) for s in ((3, 4), (4,)))
    expected = convert(x.astype(np.float32) + y.astype(np.float32), BF16)
    assert np.array_equal(run(Add(), types, [x, y]).view("u2"), expected.view("u2"))


def test_bf16_matmul_rounds_once() -> None:
    rng = np.random.default_rng(2)
    a, b = (convert(rng.normal(size=s), BF16) for s in ((5, 64), (64, 3)))
    result = run(MatMul(), [tensor(5, 64), tensor(64, 3, policy=NO_POLICY)], [a, b])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert result.dtype == storage(BF16)
    assert np.abs(result.astype(np.float64) - exact).max() <= np.abs(exact).max() * 2.0**-8


@pytest.mark.parametrize(
    ("left", "right"),
    [((2, 1, 3, 4), (1, 5, 4, 6)), ((1, 3, 4), (7, 4, 2)), ((1, 3, 4), (1, 4, 2)), ((6, 4), (4,)), ((4,), (2, 4, 3))],
)
def test_batched_matmul_broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    types = [TensorType(tuple(map(Dim.const, shape)), F32) for shape in (left, right)]
    x, y = (rng.normal(size=s).astype(np.float32) for s in (left, right))
    result = run(MatMul(), types, [x, y])
    np.testing.assert_allclose(result, np.matmul(x, y), rtol=1e-5, atol=1e-5)


def test_where_does_not_round_twice() -> None:
    types = [TensorType((Dim.const(2),), BOOL), tensor(2), tensor(2)]
    x, y = (convert(np.array(v), BF16) for v in ([1.0078125, 2.0], [3.0, 4.03125]))
    assert run(Where(), types, [np.array([True, False]), x, y]).astype(float).tolist() == [1.0078125, 4.03125]


def test_a_cast_past_the_accumulator_rounds_once() -> None:
    """f64 to bf16 that computes in f32: going through f32 first would land on a tie and lose the last bit."""
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    result = run(Cast(BF16, HALF), [TensorType((Dim.const(1),), F64)], [x])
    assert float(result[0]) == 1 + 2.0**-7


def test_mean_of_narrow_values_rounds_once() -> None:
    x = convert(np.array([1.0, 1.0078125, 1.0, 1.0]), BF16)
    exact = x.astype(np.float64).mean()
    result = run(Mean((0,)), [tensor(4)], [x])
    assert float(result) == float(convert(np.array(exact), BF16))
