"""Ranges hold: of every operator against the oracle, of the library, of loops; and they prove what they can."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tesserac.base.source import SourceFile
from tesserac.check.analysis.ranges import Ranges, extent_of, ranges_of
from tesserac.check.sizes.facts import Facts
from tesserac.commands.checking import list_promises
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.ir.passes import run_passes
from tesserac.numerics import interval
from tesserac.numerics.interval import INF, Interval, stored
from tesserac.numerics.narrow import convert
from tesserac.ops.registry import Operator
from tesserac.types.dtype import BF16, F16, F32, FP8_E4M3, DType
from tesserac.types.ty import TensorType
from tests.ops.test_graph_lower import CASES, module_of, parse_type
from tests.support.checking import check_text, library
from tests.support.folding import folded
from tests.support.sampling import examples

REAL = [case for case in CASES if not any(t[0] in "iuc" for t in case.values[1])]
"""Without places that would be out of range; of complex numbers nothing is said."""
ENDS = [(-3.0, 2.0), (0.0, 1.0), (-0.5, -0.25), (1e-30, 300.0), (-2e4, 2e4), (0.0, 0.0)]


def values_in(ty: TensorType, ends: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    shape = [dim.evaluate({}) for dim in ty.dims]
    inside = rng.uniform(*ends, shape)
    chosen = np.where(rng.uniform(size=shape) < 0.4, rng.choice(ends, shape), inside)
    return rng.integers(0, 2, shape).astype(bool) if ty.dtype.kind == "b" else convert(chosen, ty.dtype)


def range_of(ty: TensorType, array: np.ndarray) -> Interval:
    """The tightest range of an operand: what is then said of the result is hardest to keep."""
    if not array.size:
        return interval.ANYTHING
    values = array.astype(np.float64)
    return Interval(float(values.min()), float(values.max()), bool(np.isfinite(values).all()))


@pytest.mark.one_in(12)
@folded(("operator", "types"), REAL)
def test_results_are_within_the_bounds_of_the_operator(operator: Operator, types: tuple[str, ...]) -> None:
    tensors = [parse_type(t) for t in types]
    result = operator.infer(tensors)
    module = run_passes(module_of(operator, tensors), [generalize, split_complex], verify=True)
    rng = np.random.default_rng(1)
    for ends in ENDS:
        args = [values_in(ty, ends, rng) for ty in tensors]
        ranges = [range_of(ty, arg) for ty, arg in zip(tensors, args, strict=True)]
        if result.dtype.is_complex:
            assert operator.bounds(ranges, tensors, extent_of(Facts())) == interval.ANYTHING or operator.name == "cast"
            continue
        exact = operator.bounds(ranges, tensors, extent_of(Facts()))
        held = stored(exact, result.dtype, saturate=False)
        with np.errstate(all="ignore"):
            found = run_function(module, "f", args)[0].astype(np.float64)
        numbers = found[~np.isnan(found)]
        assert held.nan or not np.isnan(found).any()
        assert not held.finite or np.isfinite(numbers).all()
        assert ((held.low <= numbers) & (numbers <= held.high)).all(), (ends, held, numbers.min(), numbers.max())


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.data())
@examples(60)
def test_arithmetic_of_ranges(a: float, b: float, c: float, d: float, data: st.DataObject) -> None:
    x, y = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
    u, v = data.draw(st.floats(x.low, x.high)), data.draw(st.floats(y.low, y.high))
    assert interval.add(x, y).contains(u + v)
    assert interval.sub(x, y).contains(u - v)
    assert interval.mul(x, y).contains(u * v)
    assert interval.square(x).contains(u * u)
    assert interval.maximum(x, y).contains(max(u, v)) and interval.magnitude(x).contains(abs(u))
    quotient = interval.div(x, y)
    assert v == 0 or quotient.contains(u / v)


@pytest.mark.parametrize("dtype", [F32, BF16, F16, FP8_E4M3], ids=str)
def test_what_is_stored_is_within_the_stored_range(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    for scale in (-9, -6, -2, 0, 2, 4, 5):
        low, high = sorted(rng.normal(size=2) * 10.0**scale)
        held = stored(Interval(low, high), dtype, saturate=False)
        with np.errstate(all="ignore"):
            values = convert(np.array([low, high, (low + high) / 2]), dtype).astype(np.float64)
        assert all(held.contains(v) for v in values if not math.isnan(v)), (low, high, held, values)


@pytest.mark.one_in(4)
def test_exp_of_what_is_not_positive_is_at_most_one() -> None:
    m = tessera.compile("def f(x: Tensor[N, f32]) -> Tensor[N, f32]: return exp(x)")
    near = -np.arange(0, 2**22, dtype=np.uint32).view(np.float32)
    tiny = -(np.float32(2.0) ** np.linspace(-30, 6, 100_001).astype("f4"))
    assert m.f(np.concatenate([near, tiny])).max() == 1.0


def promised() -> list[tuple[str, tuple[float, float]]]:
    functions = [function for result in library() for function in result.module.functions]
    return [(function.name, function.within) for function in functions if function.within is not None]


@pytest.mark.one_in(2)
@folded(("name", "within"), promised)
def test_what_the_library_says_of_its_results(name: str, within: tuple[float, float]) -> None:
    m = tessera.compile(f"def f(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]: return {name}(x)")
    low, high = within
    rng = np.random.default_rng(0)
    for scale in (1e-30, 1.0, 1e3, 1e30):
        found = m.f((rng.normal(size=(64, 7)) * scale).astype("f4"))
        assert (low <= found).all() and (found <= high).all()


# -------------------------------------------------------------------------------------------------- functions


def result_range(text: str) -> Interval:
    checked = check_text(text)
    assert checked.diagnostics == ()
    function = checked.module.functions[-1]
    [found] = ranges_of(Ranges(checked.checker.known, extent_of(Facts())).function(function))
    return found


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [
        ("return tanh(x)", -1, 1),
        ("return softmax(x)", 0, 1),
        ("return sigmoid(x)", 0, 1),
        ("return relu(x)", 0, INF),
        ("return relu6(x)", 0, 6),
        ("return clamp(x, -2.0, 3.0)", -2, 3),
        ("return abs(tanh(x)) * 4.0 - 1.0", -1, 3),
        ("return x * x", 0, INF),
        ("y = x * 2.0\n    return y * y", 0, INF),
        ("return x ** 2", 0, INF),
        ("return exp(x - max(x, axis=-1, keep=True))", 0, 1),
        ("return sqrt(abs(sin(x)))", 0, 1.000001),
        ("return where(x > 0.0, 1.0, sin(x))", -1, 1),
        ("y = zeros_like(x)\n    for i in range(3):\n        y = tanh(x + y)\n    return y", -1, 1),
        ("y = ones_like(x)\n    for i in range(3):\n        y = y * 0.5\n    return y", -INF, 1),
        ("y = zeros_like(x)\n    for i in range(3):\n        y = y + 1.0\n    return y", 0, INF),
        ("y = x\n    if sum(x) > 0.0:\n        y = tanh(x)\n    else:\n        y = sin(x) * 2.0\n    return y", -2, 2),
    ],
)
def test_ranges_of_functions(body: str, low: float, high: float) -> None:
    found = result_range(f"def f(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:\n    {body}\n")
    if low > -INF:
        assert found.low >= low
    if high < INF:
        assert found.high <= high
    assert (found.low > -INF) >= (low > -INF)


def test_a_sum_is_bounded_by_what_the_program_says_of_its_size() -> None:
    fact = "half = f16 @accum(f32)\ndef f(x: Tensor[N, half]) -> Tensor[half] where N <= {}: return sum(sigmoid(x))\n"
    assert [d.code for d in check_text(fact.format(65536)).diagnostics] == ["W0404"]
    assert check_text(fact.format(65504)).diagnostics == ()


# ------------------------------------------------------------------------------------------ verify.numerics

PROMISES = """
@verify.numerics(bounded=[-1, 1])
def a(x: Tensor[N, f32]): return tanh(x)

@verify.numerics(stable=True)
def b(x: Tensor[N, f32]): return exp(x)
"""


def promise(text: str) -> bool:
    [said] = check_text(text).module.functions[-1].promises
    return said.is_proven


@pytest.mark.parametrize(
    ("bounds", "body", "proven"),
    [
        ("bounded=[-1, 1]", "tanh(x)", True),
        ("bounded=[0, 1]", "softmax(x)", True),
        ("bounded=[0, 1]", "sigmoid(x)", True),
        ("bounded=[-1, 1]", "tanh(x) * sigmoid(x)", True),
        ("stable=True", "tanh(x)", True),
        ("stable=True", "relu(x)", True),
        ("bounded=[0, 0.5]", "softmax(x)", False),
        ("stable=True", "x * x", False),  # may overflow
        ("stable=True", "exp(x)", False),
        ("stable=True", "log(abs(x))", False),
        ("bounded=[0, 1]", "sqrt(tanh(x))", False),  # may be NaN
        ("bounded=[-100, 100]", "x", False),
    ],
)
def test_promises_are_proven_where_ranges_can(bounds: str, body: str, proven: bool) -> None:
    text = f"@verify.numerics({bounds})\ndef f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return {body}\n"
    assert promise(text) is proven


def test_a_proven_promise_is_not_checked_and_another_is() -> None:
    text = "@verify.numerics(bounded=[-1, 1])\ndef f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return {}\n"
    nan = np.array([np.nan], "f4")  # no finite argument: outside of what is proven
    assert np.isnan(tessera.compile(text.format("tanh(x)")).f(nan)).all()
    with pytest.raises(tessera.TesseraError, match="E0933"):
        tessera.compile(text.format("x + 0.0")).f(nan)


def test_the_list_of_guards_says_who_sees_to_a_promise() -> None:
    source = SourceFile("f.tess", PROMISES)
    listed = list_promises(Session().check(source))
    assert listed.splitlines() == [
        "  a: every element that `a` returns is in [-1, 1]  (proven)",
        "  b: every element that `b` returns is finite  (checked when a debug build runs)",
    ]


def test_a_program_cannot_say_what_is_believed() -> None:
    text = "@within(0, 1)\ndef f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x\n"
    assert [d.code for d in check_text(text).diagnostics] == ["E0508"]




@pytest.mark.parametrize(
    ("code", "steps", "body"),
    [
        (
            "W0404",
            ["`t` is in [-40, 40]: `s * 2.0`", "`s` is in [-20, 20]: `clamp(x, -20.0, 20.0)`"],
            "s = clamp(x, -20.0, 20.0)\n    t = s * 2.0\n    return exp(t)",
        ),
        ("W0404", ["`y` is in [0, 500]: `sigmoid(x) * 500.0`"], "y = sigmoid(x) * 500.0\n    return y * y"),
        ("W0404", ["`tanh(x) * 2e4` is in [-20000, 20000]"], "return tanh(x) * 2e4 * 9.0"),
        ("W0405", ["`n % 1000` is in [0, 1000]"], "return cast(n % 1000, bf16)"),
        ("W0404", [], "return exp(x)"),
    ],
)
def test_a_warning_says_where_its_bounds_are_from(code: str, steps: list[str], body: str) -> None:
    """The nearest first; of what nothing is known nothing is said."""
    found = check_text(f"def f(x: Tensor[N, f16], n: Tensor[N, i32]):\n    {body}\n").diagnostics
    assert [(d.code, [step.text for step in d.because]) for d in found if d.code == code] == [(code, steps)]


def test_a_bound_that_rounds_beyond_all_numbers_is_infinite() -> None:
    top = sys.float_info.max
    found = stored(Interval(-top, top), F32, saturate=False)
    assert (found.low, found.high) == (-INF, INF)


def nested(depth: int) -> str:
    """Loops in loops, each with a counter of its own that the one around it starts anew."""
    lines = ["def f(x: Tensor[N, f32]):", "    s = 0.0"]
    for level in range(depth):
        indent = "    " * (level + 1)
        lines += [f"{indent}a{level} = 0", f"{indent}while a{level} < 3:", f"{indent}    a{level} += 1"]
    return "\n".join([*lines, f"{'    ' * (depth + 1)}s = s + x[0] * 2.0", "    return s", ""])


def test_loops_in_loops_are_tried_as_often_as_they_are_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as often as the product of what each of them needs."""
    tried: list[object] = []
    iteration = Ranges._iteration
    monkeypatch.setattr(Ranges, "_iteration", lambda self, *args: tried.append(args) or iteration(self, *args))
    counts = []
    for depth in (4, 8):
        tried.clear()
        assert not check_text(nested(depth)).has_errors
        counts.append(len(tried))
    assert counts[1] < 4 * counts[0]
