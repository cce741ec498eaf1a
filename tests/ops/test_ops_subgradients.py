"""Derivatives where there is a choice, as the operators document it: at ties, at zeros, at places that repeat. Then in
narrow types, whose gradients are those of f64 within what their policy allows, and compiled, with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations)
from docs.corners import TABLES, Row
from tesserac.graph.passes.fold_views import fold_views
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import run_passes
from tesserac.numerics.narrow import convert
from tesserac.ops.calculus import Writer, is_smooth
from tesserac.ops.convert import Cast
from tesserac.ops.elementary import Sin
from tesserac.ops.registry import OPERATORS, Operator
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.build import tile_pass
from tesserac.types.dtype import BF16, C64, F16, F32, FP8_E4M3, FP8_E5M2, DType
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import TensorType
from tests.ops.test_graph_lower import parse_type
from tests.ops.test_ops_derivatives import derivatives, inputs, sample, smooth_cases, wide, widened
from tests.support.cpu_kernels import HOST, same_bits
from tests.support.derivative_runs import Derivatives, agree, applied
from tests.support.sampling import of_each_operator
from tests.support.source_support import body_of, check_text, graph_of, library
from tests.tile.test_tile_cpu_random import run_native

Numbers = Sequence[object] | float


def gradients(name: str, args: Sequence[Numbers], weights: Numbers, **statics: object) -> list[list[float]]:
    """What reverse mode gives for floats among the arguments, with these weights of the result."""
    arrays = [np.asarray(arg) for arg in args]
    texts = [f"{'f64' if a.dtype.kind == 'f' else 'i64'}[{', '.join(map(str, a.shape))}]" for a in arrays]
    types = [parse_type(text) for text in texts]
    of = Derivatives(applied(OPERATORS[name](**statics), types), types)
    still = [np.zeros(a.shape) for a in arrays if a.dtype.kind == "f"]
    return [g.tolist() for g in of.first(arrays, still, [np.asarray(weights, np.float64)])[1]]


X = [3.0, 1.0, 3.0, 2.0]
ONES = [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "statics", "args", "weights", "expected"),
    [
        ("max", {"axes": (0,)}, [[]], 1.0, [[]]),
        ("maximum", {}, [[1.0, 3.0, np.inf], [2.0, 2.0, 2.0]], ONES[:3], [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
        ("minimum", {}, [[1.0, 3.0, np.inf], [2.0, 2.0, 2.0]], ONES[:3], [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]),
        ("abs", {}, [[-2.0, np.inf, -0.0, 3.0]], ONES, [[-1.0, 1.0, 0.0, 1.0]]),
        ("atan2", {}, [[0.0, 0.0, 1e300], [0.0, -2.0, 1e300]], ONES[:3], [[0.0, -0.5, 5e-301], [0.0, 0.0, -5e-301]]),
        ("pow", {}, [[2.0], [0.0]], [1.0], [[0.0], [np.log(2.0)]]),
        ("prod", {"axes": (0,)}, [[0.0, 0.0, 3.0]], 1.0, [[0.0, 0.0, 0.0]]),
        ("prod", {"axes": (0,)}, [[1e-200, 1e-200, 1e200]], 1.0, [[1.0, 1.0, 0.0]]),
        ("cumprod", {"axis": 0}, [[2.0, 0.0, 3.0]], ONES[:3], [[1.0, 8.0, 0.0]]),
        ("scatter", {"axes": (0,)}, [X, [5.0, 6.0, 7.0], [1, -3, 2]], ONES, [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
        ("gather", {"axis": 0}, [X, [1, -3, 2]], [1.0, 2.0, 3.0], [[0.0, 3.0, 3.0, 0.0]]),
        ("lookup", {"axes": (0,)}, [X, [1, -3, 2]], [1.0, 2.0, 3.0], [[0.0, 3.0, 3.0, 0.0]]),
        ("slice", {"size": parse_type("f32[2]").dims[0]}, [X, -3], [1.0, 2.0], [[0.0, 1.0, 2.0, 0.0]]),
        ("mul_at", {"axes": (0,), "kind": "prod"}, [X, [0.0, 5.0, 7.0], [1, -3, 2]], ONES,
         [[1.0, 0.0, 7.0, 1.0], [5.0, 0.0, 3.0]]),
        ("extreme_at", {"axes": (0,), "kind": "max"}, [X, [3.0, 1.0, 4.0], [0, 1, 1]], ONES,
         [[0.5, 0.0, 1.0, 1.0], [0.5, 0.0, 1.0]]),
    ],
)  # fmt: skip
def test_documented_choices(
    name: str, statics: dict[str, object], args: Sequence[Numbers], weights: Numbers, expected: list[list[float]]
) -> None:
    for got, wanted in zip(gradients(name, args, weights, **statics), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row.expression} {row.at}") for rows in TABLES.values() for row in rows]
)
def test_corners_of_the_page(row: Row) -> None:
    text = f"def f(x: Tensor[{len(row.at)}, f64]) -> Tensor[f64]:\n    return {row.expression}\n"
    function = graph_of(check_text(text, "m", library()))
    beside = [other for other in function.parent.ops if other is not function] if function.parent else []
    of = Derivatives(body_of(function), [tensor_type(v) for v in function.body.args], beside=beside, verify=False)
    x, one = [np.asarray(row.at)], [np.asarray(1.0)]
    [back] = of.first(x, [np.zeros(len(row.at))], one)[1]
    np.testing.assert_allclose(back, row.gradient, rtol=1e-14)
    for direction, wanted in zip(np.eye(len(row.at)), row.gradient, strict=True):
        [along] = of.first(x, [direction], one)[0]
        if np.isfinite(row.gradient).all():  # else 0 * inf along the others is NaN
            np.testing.assert_allclose(along, wanted, rtol=1e-14)


# ------------------------------------------------------------------------------------------------------ narrow types

BYTE = Policy(accum=F32, saturate=True)
NARROW = ((F32, NO_POLICY), (BF16, Policy(F32)), (F16, Policy(F32)), (FP8_E4M3, BYTE), (FP8_E5M2, BYTE))


def narrow_cases() -> Iterator[object]:
    """The first case of each operator that is of floats alone, in all narrow types; its first of complex numbers in
    c64, and where the type holds the results. What converts has a test of its own."""
    seen = set[tuple[str, bool]]()
    for operator, types, _ in smooth_cases():
        in_pairs = any(ty.dtype.is_complex for ty in (*types, operator.infer(types)))
        if widened(operator) != operator or operator.name == "stochastic_round" or (operator.name, in_pairs) in seen:
            continue
        seen.add((operator.name, in_pairs))
        for dtype, policy in NARROW[:1] if in_pairs else NARROW:
            if dtype.largest < 2.0**operator.lift:
                continue
            name = f"{operator.name}-{'c64' if in_pairs else dtype}"
            yield pytest.param(operator, types, dtype, policy, id=name)


def narrowed(ty: TensorType, dtype: DType, policy: Policy) -> TensorType:
    if not is_smooth(ty):
        return ty
    return TensorType(ty.dims, C64) if ty.dtype.is_complex else TensorType(ty.dims, dtype, policy)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("operator", "types", "dtype", "policy"), of_each_operator(narrow_cases(), 2))
def test_narrow_gradients_are_those_of_f64(
    operator: Operator, types: list[TensorType], dtype: DType, policy: Policy
) -> None:
    """Within 4 units in the last place of the largest: a rule is a few operators, and each of them rounds once."""
    narrow = [narrowed(ty, dtype, policy) for ty in types]
    of, exact = derivatives(operator, narrow), derivatives(operator, [wide(ty) for ty in types])
    rng = np.random.default_rng(0)
    x = inputs(operator, narrow, rng)
    w, v = ([sample(ty, rng) for ty in group] for group in (of.moving, of.results))
    found = of.first(x, w, v)
    wanted = exact.first(*([_widened(a) for a in group] for group in (x, w, v)))
    for got, right in zip((*found[0], *found[1]), (*wanted[0], *wanted[1]), strict=True):
        size = max(1.0, float(np.max(np.abs(right), initial=0.0)))
        np.testing.assert_allclose(_widened(got), right, rtol=0, atol=4 * size * 2.0**-dtype.significand)


def _widened(array: np.ndarray) -> np.ndarray:
    kinds = {"i": array.dtype, "u": array.dtype, "b": array.dtype, "c": np.complex128}
    return array.astype(kinds.get(array.dtype.kind, np.float64))


@pytest.mark.parametrize(("dtype", "policy"), NARROW[1:])
def test_what_converts_rounds_tangents_and_widens_cotangents(dtype: DType, policy: Policy) -> None:
    types = [parse_type("f32[3, 4]")]
    of, rng = Derivatives(applied(Cast(dtype, policy), types), types), np.random.default_rng(0)
    w, v = [sample(types[0], rng)], [sample(of.results[0], rng)]
    [along], [back] = of.first([sample(types[0], rng)], w, v)
    same_bits(along, convert(w[0], dtype))
    same_bits(back, v[0].astype(np.float32))


# ------------------------------------------------------------------------------------------------------ machine code

COMPILED = (
    *("add_at-1", "mul_at-0", "extreme_at-0", "gather-0", "lookup-2", "scatter-0", "slice-0", "take_along_axis-0"),
    *("cumprod-1", "max-1", "prod-1", "fft-2", "rfft-5", "windows-0", "windows-2", "matmul-2", "einsum-9"),
)
SAMPLE = {name: (operator, types) for operator, types, name in smooth_cases() if name in COMPILED}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", COMPILED)
def test_machine_code_gives_the_bits_of_the_interpreter(name: str) -> None:
    operator, types = SAMPLE[name]
    of, rng = derivatives(operator, types), np.random.default_rng(0)
    x = inputs(operator, types, rng)
    w, v = ([sample(ty, rng) for ty in group] for group in (of.moving, of.results))
    forward, back = of.first(x, w, v)
    passes = [fold_views, *schedule_passes(AARCH64), tile_pass(AARCH64)]
    got = run_native(run_passes(of.first_module, passes, verify=True), "f", [*x, *w, *v], HOST)
    for one, other in zip(got, (*forward, *back), strict=True):
        same_bits(one, other)


# --------------------------------------------------------------------------------------------------- tests of the test


def test_a_wrong_derivative_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.ops.test_ops_derivatives import (
        test_forward_is_the_transpose_of_reverse_and_agrees_with_differences as check,
    )

    monkeypatch.setattr(Sin, "differential", "cos(x) * 1.0001 * dx")
    with pytest.raises(AssertionError):
        check(Sin(), [parse_type("f64[3]")])


def test_a_wrong_transpose_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    gather = OPERATORS["gather"]
    right = gather.transpose

    def wrong(self: Operator, write: Writer, cotangent: object, operands: object, position: int) -> object:
        return write("neg", right(self, write, cotangent, operands, position))  # type: ignore[arg-type]

    monkeypatch.setattr(gather, "transpose", wrong)
    of = derivatives(gather(axis=0), [parse_type("f64[9]"), parse_type("i64[3]")])
    x, w, v = [np.arange(9.0), np.asarray([1, 2, 1])], [np.ones(9)], [np.ones(3)]
    jw, back = of.first(x, w, v)
    with pytest.raises(AssertionError):
        agree([(v, jw), (back, w)], 1e-12)
